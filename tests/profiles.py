r"""How much of a test is run: the number of examples of a property, few during development, more in CI, many in a long
campaign; and which of its cases `make test` runs.

CI uses the same examples each time, so that a failure is caused by the change; the campaign tries new ones. The
environment variable HYPOTHESIS_PROFILE selects the profile: ``dev`` (the default), ``ci`` or ``soak``.
"""

import itertools
import os
from collections.abc import Iterable, Mapping
from typing import Any

import pytest
from _pytest.mark import ParameterSet
from hypothesis import HealthCheck, settings
from hypothesis.internal.conjecture import providers

_EXAMPLES = {"dev": 10, "ci": 15, "soak": 2_000}


def load_profile() -> None:
    """Load the selected profile, for all properties defined afterwards."""
    for name, count in _EXAMPLES.items():
        # A shared machine may be slow: only wrong answers fail a property, never slow ones.
        settings.register_profile(
            name,
            max_examples=count,
            deadline=None,
            derandomize=name == "ci",
            suppress_health_check=[HealthCheck.too_slow],
        )
    profile = os.environ.get("HYPOTHESIS_PROFILE", "dev")
    settings.load_profile(profile)
    if profile == "ci":
        # Hypothesis also draws constants from the product's source: each worker would parse all of it, and each change
        # of a constant would change the examples.
        pytest.MonkeyPatch().setattr(providers, "_get_local_constants", lambda: providers.GLOBAL_CONSTANTS)


def examples(percent: int) -> settings:
    """Give a property this percentage of the usual number of examples."""
    return settings(max_examples=max(1, percent * settings().max_examples // 100))


def rarely(cases: Iterable[Any]) -> list[ParameterSet]:
    """Cases that `make ci` runs, and `make test` does not. A tuple is a case of several values."""
    values = (case if isinstance(case, tuple) else (case,) for case in cases)
    return [pytest.param(*each, marks=pytest.mark.release) for each in values]


def cover(*axes: Mapping[str, Any]) -> list[ParameterSet]:
    """All combinations of named values. `make test` runs those few that use each value once; `make ci` runs all."""
    often = {tuple(number % len(axis) for axis in axes) for number in range(max(map(len, axes)))}
    return [
        pytest.param(
            *(value for _, (_, value) in chosen),
            id="-".join(name for _, (name, _) in chosen),
            marks=[] if tuple(place for place, _ in chosen) in often else pytest.mark.release,
        )
        for chosen in itertools.product(*(enumerate(axis.items()) for axis in axes))
    ]
