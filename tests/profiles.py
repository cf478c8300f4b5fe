r"""The number of examples of a property: few during development, more in CI, many in a long campaign.

CI uses the same examples each time, so that it shows what a change broke. New examples are left to the campaign.

The environment variable HYPOTHESIS_PROFILE names the profile: ``dev``, which is the default, ``ci`` or ``soak``.
"""

import os

from hypothesis import HealthCheck, settings

_EXAMPLES = {"dev": 20, "ci": 25, "soak": 2_000}


def load_profile() -> None:
    """Load the profile that the environment names, for all properties defined from now on."""
    for name, count in _EXAMPLES.items():
        # A shared machine may be slow: only wrong answers fail a property, never slow ones.
        settings.register_profile(
            name,
            max_examples=count,
            deadline=None,
            derandomize=name == "ci",
            suppress_health_check=[HealthCheck.too_slow],
        )
    settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "dev"))


def examples(percent: int) -> settings:
    """Decorates a property that gets this many examples where any other gets a hundred."""
    return settings(max_examples=max(1, percent * settings().max_examples // 100))
