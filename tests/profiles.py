"""How many examples a property is tried with: few while developing, more in CI, many in a long campaign.

CI tries the same examples each time: it says what a change broke. What nobody has tried yet is the campaign's to find.

The environment variable HYPOTHESIS_PROFILE names the profile: ``dev``, which is the default, ``ci`` or ``soak``.
"""

import os

from hypothesis import HealthCheck, settings

_EXAMPLES = {"dev": 20, "ci": 25, "soak": 2_000}


def load_profile() -> None:
    """The profile that the environment names, for all properties that are defined from now on."""
    for name, count in _EXAMPLES.items():
        # A shared machine may take its time: only wrong answers fail a property, never slow ones.
        settings.register_profile(
            name,
            max_examples=count,
            deadline=None,
            derandomize=name == "ci",
            suppress_health_check=[HealthCheck.too_slow],
        )
    settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "dev"))


def examples(percent: int) -> settings:
    """Decorates a property that is tried with so many examples where any other is tried with a hundred."""
    return settings(max_examples=max(1, percent * settings().max_examples // 100))
