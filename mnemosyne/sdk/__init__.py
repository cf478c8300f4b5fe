"""Mnemosyne inside an agent's own process: no proxy, the same actors, log and planner.

The agent is the client, and brings the provider's replies itself. ``Session`` is for trio, ``SyncSession`` for any
other thread. What docs/library.md tells of this package follows semantic versioning, and no other code of Mnemosyne's.
"""

from mnemosyne.errors import BadTurn, BudgetTooSmall, MnemosyneError, NotFound
from mnemosyne.sdk.blocking import SyncSession
from mnemosyne.sdk.conversation import SdkMessage
from mnemosyne.sdk.session import AgentSession as Session
from mnemosyne.sdk.session import CitedPassage, Context, Restored

__all__ = [
    "BadTurn",
    "BudgetTooSmall",
    "CitedPassage",
    "Context",
    "MnemosyneError",
    "NotFound",
    "Restored",
    "SdkMessage",
    "Session",
    "SyncSession",
]
