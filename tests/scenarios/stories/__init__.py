"""The scenarios: short stories of what real clients, models and providers do, each a function that the judge watches.

A story says what happens and how it must end. That nothing is broken on the way it need not say: the judge looks at
every request (``judge``).
"""

from tests.scenarios.stories import besides, clients, content, faults, hidden_calls, loops
from tests.scenarios.telling import STORIES

__all__ = ["STORIES", "besides", "clients", "content", "faults", "hidden_calls", "loops"]
