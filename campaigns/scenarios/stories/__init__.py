r"""The scenarios: short stories of real clients, models and providers, each a function that the judge watches.

A story defines the events and the required end. It need not check for violations on the way: the judge checks every
request (``judge``).
"""

from campaigns.scenarios.stories import clients, content, faults, hidden_calls, loops, other
from campaigns.scenarios.story_table import STORIES

__all__ = ["STORIES", "clients", "content", "faults", "hidden_calls", "loops", "other"]
