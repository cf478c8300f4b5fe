"""Mnemosyne as a library inside an agent's process: no proxy, the same actors, log and planner.

The agent sends each request itself and passes the provider's reply to the session. ``Session`` is for trio,
``SyncSession`` for any other thread. Semantic versioning covers the interface that docs/api.md describes, and no
other code of Mnemosyne.
"""

from mnemosyne.domain.recall.citations import Citations
from mnemosyne.errors import BadTurn, BudgetTooSmall, MnemosyneError, NotFound
from mnemosyne.sdk.blocking import SyncSession
from mnemosyne.sdk.conversation import SdkMessage
from mnemosyne.sdk.session import AgentSession as Session
from mnemosyne.sdk.session import CitedPassage, Context, Pressure, Restored

__all__ = [
    "BadTurn",
    "BudgetTooSmall",
    "Citations",
    "CitedPassage",
    "Context",
    "MnemosyneError",
    "NotFound",
    "Pressure",
    "Restored",
    "SdkMessage",
    "Session",
    "SyncSession",
]
