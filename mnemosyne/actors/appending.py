"""How the parts of a session's actor have it record what happened."""

from collections.abc import Awaitable, Callable

from mnemosyne.domain.ports import Ticket
from mnemosyne.domain.session.events import Event

Contents = tuple[tuple[bytes, bytes], ...]
"""Contents to be stored: (digest, data)."""

Append = Callable[[tuple[Event, ...], str, str, Contents], Awaitable[Ticket]]
"""Queues events under the name of the command that led to them and a correlation id, with the contents they name."""
