r"""The number of examples of a property: few during development, more in CI, many in a long campaign.

CI uses the same examples each time, so that a failure is caused by the change; the campaign tries new ones. The
environment variable HYPOTHESIS_PROFILE selects the profile: ``dev`` (the default), ``ci`` or ``soak``.
"""

import os

from hypothesis import HealthCheck, settings

_EXAMPLES = {"dev": 20, "ci": 25, "soak": 2_000}


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
    settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "dev"))


def examples(percent: int) -> settings:
    """Give a property this percentage of the usual number of examples."""
    return settings(max_examples=max(1, percent * settings().max_examples // 100))
