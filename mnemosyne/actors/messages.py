"""What is said to a session's actor, and what it answers."""

from uuid import UUID

import attrs

from mnemosyne.domain.ports import Ticket
from mnemosyne.domain.reply import Reply
from mnemosyne.domain.session import Address, Gap


@attrs.frozen(kw_only=True)
class Identity:
    """Which session an actor is for."""

    stream: UUID
    tenant: str
    external_id: str


@attrs.frozen(kw_only=True)
class Begin:
    """A request arrived: its raw body and headers; ``gap`` tells of turns that were not recorded before it."""

    at: int
    headers: tuple[tuple[str, str], ...] = attrs.field(repr=False)
    raw: bytes = attrs.field(repr=False)
    correlation_id: str
    gap: Gap | None = None


@attrs.frozen(kw_only=True)
class Finish:
    """The reply to a turn came whole."""

    at: int
    address: Address
    status: int
    reply: Reply = attrs.field(repr=False)
    correlation_id: str


@attrs.frozen(kw_only=True)
class Interrupt:
    """The reply to a turn did not come whole, or not at all."""

    at: int
    address: Address
    status: int | None
    reply: Reply | None = attrs.field(repr=False)
    reason: str
    correlation_id: str


Message = Begin | Finish | Interrupt


@attrs.frozen
class Begun:
    """Where a turn was put, and the promise that it becomes durable."""

    address: Address
    ticket: Ticket


Answer = Begun | Ticket | None
"""To Begin, where the turn was put; to the others the promise of durability, None if there was nothing to record."""
