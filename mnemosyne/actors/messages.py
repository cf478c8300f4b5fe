"""What is said to a session's actor, and what it answers."""

from collections.abc import Sequence, Set
from uuid import UUID

import attrs

from mnemosyne.actors.round_messages import AnswerCalls, Offer, RoundEnd, Strip, Upstream
from mnemosyne.domain.objects.work import Summarize, Summarized, Target
from mnemosyne.domain.ports import Ticket
from mnemosyne.domain.session.decide import Gap
from mnemosyne.domain.session.state import Address
from mnemosyne.domain.wire.reply import Reply


@attrs.frozen(kw_only=True)
class Identity:
    """Which session an actor is for."""

    stream: UUID
    tenant: str
    external_id: str


@attrs.frozen(kw_only=True)
class Begin:
    """A request arrived: its raw body and headers; ``gap`` tells of turns that were not recorded before it. With an
    ``offer`` the actor says what goes upstream.
    """

    at: int
    headers: tuple[tuple[str, str], ...] = attrs.field(repr=False)
    raw: bytes = attrs.field(repr=False)
    correlation_id: str
    gap: Gap | None = None
    offer: Offer | None = None


@attrs.frozen(kw_only=True)
class Preview:
    """What would go upstream if this request were a turn? Nothing changes by the question."""

    request: Begin


@attrs.frozen(kw_only=True)
class Finish:
    """The reply to a turn came whole. ``last`` is the last round of a managed turn, whose ``reply`` is what the client
    saw.
    """

    at: int
    address: Address
    status: int
    reply: Reply = attrs.field(repr=False)
    correlation_id: str
    last: RoundEnd | None = None


@attrs.frozen(kw_only=True)
class Interrupt:
    """The reply to a turn did not come whole, or not at all."""

    at: int
    address: Address
    status: int | None
    reply: Reply | None = attrs.field(repr=False)
    reason: str
    correlation_id: str


@attrs.frozen(kw_only=True)
class Owed:
    """The curator asks what is owed: at most ``limit`` summaries, and none that was ``given_up``."""

    limit: int
    given_up: Set[Target]


@attrs.frozen(kw_only=True)
class Summary:
    """The curator made a rendition; ``data`` are its bytes."""

    command: Summarized
    data: bytes = attrs.field(repr=False)
    correlation_id: str


Message = Begin | Preview | Finish | Interrupt | AnswerCalls | Strip | Owed | Summary


@attrs.frozen
class Begun:
    """Where a turn was put, and the promise that it becomes durable. ``upstream`` answers an offer."""

    address: Address
    ticket: Ticket
    upstream: Upstream | None = None


@attrs.frozen
class Due:
    """What is owed, and the promise that all it is made of becomes durable; None if it is."""

    summaries: Sequence[Summarize]
    ticket: Ticket | None


Answer = Begun | Upstream | Due | Ticket | None
"""To Begin, where the turn was put; to Preview, what would go upstream; to Owed, what is owed; to the others the
promise of durability, None if there was nothing to record.
"""
