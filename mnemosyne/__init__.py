"""Mnemosyne: a transparent proxy that manages a coding agent's context window as an operating system manages memory.

``Session`` and ``SyncSession`` are the same without a proxy, inside an agent's own process (docs/api.md).
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mnemosyne.sdk import Context as Context
    from mnemosyne.sdk import Session as Session
    from mnemosyne.sdk import SyncSession as SyncSession

__version__ = "0.1.0"

_FACES = frozenset({"Context", "Session", "SyncSession"})


def __getattr__(name: str) -> Any:
    """Import the library on first access, because commands do not need it."""
    if name in _FACES:
        return getattr(import_module("mnemosyne.sdk"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
