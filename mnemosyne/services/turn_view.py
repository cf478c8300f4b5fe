"""The view of one turn: its exact request as blocks, each with its object, reason, cache state and the client's
original; and the reply.
"""

from collections.abc import Mapping, Sequence
from itertools import accumulate
from uuid import UUID

import attrs

from mnemosyne.bounded import Lru
from mnemosyne.domain.cost.prices import window_of
from mnemosyne.domain.history import context_view, time_travel
from mnemosyne.domain.history.context_view import ContextBlock, KnownBlocks, View
from mnemosyne.domain.history.memory_travel import Moved
from mnemosyne.domain.history.time_travel import Attempt, History, TurnPlace
from mnemosyne.domain.objects.aggregate import MemoryObject, evolve, make_object
from mnemosyne.domain.objects.events import ObjectCreated, ObjectEvent, TurnAssessed
from mnemosyne.domain.objects.fidelity import Fidelity
from mnemosyne.domain.objects.followed_plan import find_followed_plan
from mnemosyne.domain.objects.protection import Now, Resident, is_kept
from mnemosyne.domain.ports import Recorded
from mnemosyne.domain.session.events import Event
from mnemosyne.domain.session.round_events import EpochBegan
from mnemosyne.domain.wire.json_spans import Range
from mnemosyne.errors import NotFound
from mnemosyne.services import contexts
from mnemosyne.services.context_map import Span, read_map
from mnemosyne.services.contexts import SessionContext
from mnemosyne.services.read_models import ReadModels
from mnemosyne.services.sessions import Archive


@attrs.frozen(kw_only=True)
class TurnObject:
    """An object in a turn: its ``fidelity`` then, and the turn and cause of that; None for both if it was in full from
    the start. ``kept`` is the reason if it had to stay.
    """

    id: str
    kind: str
    source: str
    turn: int
    tokens: int
    fidelity: Fidelity
    since: int | None
    cause: str | None
    kept: str | None


@attrs.frozen(kw_only=True)
class TurnBlock:
    """A block of the request. ``number`` counts from 0 over the request; ``cached`` says whether it was in the
    provider's cache, None if unknown. ``object`` is the object that it shows or replaces.
    """

    number: int
    block: ContextBlock
    cached: bool | None
    object: TurnObject | None

    @property
    def replaced(self) -> bool:
        """Whether it replaces a block of the client's."""
        return self.block.stands_for is not None


@attrs.frozen(kw_only=True)
class Changed:
    """The difference between the upstream request and the client's, in blocks: of the client's, ``left_out`` are
    missing; ``put_in`` were added; and ``same`` are equal.
    """

    left_out: int
    put_in: int
    same: int


@attrs.frozen(kw_only=True)
class TurnView:
    """A turn. ``rounds`` is the number of its upstream requests; ``round`` is the shown one, None for the client's own.
    ``changed`` is the difference between the client's request and the upstream one, None if they are equal. ``absent``
    are the objects not shown in full. ``epoch`` is the reason for a rewrite before it.
    """

    stream: UUID
    context: SessionContext
    rounds: int
    round: int | None
    blocks: Sequence[TurnBlock]
    changed: Changed | None
    absent: Sequence[TurnObject]
    epoch: str | None

    @property
    def attempt(self) -> Attempt:
        """The recorded attempt."""
        return self.context.rebuilt.attempt

    @property
    def tokens(self) -> int:
        """The estimated tokens of the request."""
        return sum(each.block.tokens or 0 for each in self.blocks)


_HISTORIES = 16
"""Maximum number of cached histories."""

_BODY_BYTES = 32 * 1024 * 1024


@attrs.frozen
class KnownTurns:
    """Cached parts of turns that never change. ``blocks`` as in ``context_view.view``; ``histories`` are sessions up to
    their last event, ``bodies`` requests by session and version, each with the places of its blocks.
    """

    blocks: KnownBlocks = attrs.field(factory=context_view.no_blocks)
    histories: Lru[UUID, History] = attrs.field(factory=lambda: Lru(_HISTORIES))
    bodies: Lru[tuple[UUID, int], tuple[bytes, Sequence[Range]]] = attrs.field(
        factory=lambda: Lru(_BODY_BYTES, lambda held: len(held[0]))
    )

    async def read(self, archive: Archive, stream: UUID) -> tuple[Sequence[Recorded[Event]], History]:
        """The events of a session and its history. Raises LogFailed."""
        events = await archive.events.read(stream)
        found = self.histories.get(stream)
        if found is None or not events or found.version != events[-1].version:
            found = self.histories.put(stream, time_travel.history_of(str(stream), events))
        return events, found


async def read_turn_view(
    archive: Archive, models: ReadModels, stream: UUID, branch: str, place: TurnPlace, known: KnownTurns | None = None
) -> TurnView:
    """The view of a turn, by default the last. Raises NotFound, ContentForgotten, LogFailed."""
    known = known or KnownTurns()
    events, history = await known.read(archive, stream)
    attempt = history.at(branch, place)
    found = await contexts.context_of(archive, stream, history, attempt, known.blocks)
    known.bodies.put((stream, attempt.body_version), (found.rebuilt.body, [each.span for each in found.view.blocks]))
    standing = (await read_map(models, stream, branch)).standing_at(attempt.began.turn)
    objects = _objects(events, attempt, history, standing)
    return TurnView(
        stream=stream,
        context=found,
        rounds=len(attempt.rounds),
        round=None if attempt.round is None else attempt.round.began.round,
        blocks=_blocks(found, found.client or found.view, history.list_places(branch), objects),
        changed=None if found.client is None else _compare(found.client, found.view),
        absent=[each for each in objects.values() if each.fidelity is not Fidelity.FULL],
        epoch=_epoch(events, attempt),
    )


async def read_block(
    archive: Archive,
    stream: UUID,
    branch: str,
    place: TurnPlace,
    number: int,
    known: KnownTurns,
) -> bytes:
    """The JSON of a block of a turn's request. Raises what ``read_turn_view`` raises."""
    _, history = await known.read(archive, stream)
    attempt = history.at(branch, place)
    held = known.bodies.get((stream, attempt.body_version)) if attempt.body_version > history.forgotten else None
    if held is None:
        body = (await contexts.rebuild(archive, stream, history, attempt)).body
        blocks = context_view.view(body, (), history.dialect_of(branch), known.blocks).blocks
        held = known.bodies.put((stream, attempt.body_version), (body, [each.span for each in blocks]))
    body, spans = held
    if not 0 <= number < len(spans):
        raise NotFound(f"The request has {len(spans)} blocks, and not number {number}.")
    return body[slice(*spans[number])]


async def read_reply_block(
    archive: Archive,
    stream: UUID,
    branch: str,
    place: TurnPlace,
    number: int,
    known: KnownTurns,
) -> bytes:
    """The same for the reply to a turn."""
    _, history = await known.read(archive, stream)
    reply = await contexts.read_reply(archive, stream, history.at(branch, place)) or b""
    blocks = context_view.reply_blocks(reply, history.dialect_of(branch))
    if not 0 <= number < len(blocks):
        raise NotFound(f"The reply has {len(blocks)} blocks, and not number {number}.")
    return reply[slice(*blocks[number].span)]


def _compare(client: View, sent: View) -> Changed:
    """Compare blocks by content, regardless of position."""
    theirs, ours = ({(each.section, each.digest) for each in view.blocks} for view in (client, sent))
    return Changed(
        left_out=sum((each.section, each.digest) not in ours for each in client.blocks),
        put_in=sum((each.section, each.digest) not in theirs for each in sent.blocks),
        same=sum((each.section, each.digest) in theirs for each in sent.blocks),
    )


def _objects(
    events: Sequence[Recorded[Event]], attempt: Attempt, history: History, standing: Sequence[Span]
) -> Mapping[str, TurnObject]:
    """The objects that had entered by the turn, as it showed them."""
    turn, branch = attempt.began.turn, attempt.began.branch
    moves = _moves(events, turn)
    own = _fold_own(events, branch, turn)
    plan = find_followed_plan(own[span.object.id] for span in standing if span.object.id in own)
    now = _now(events, attempt, plan)
    found = {}
    for span in standing:
        each = own.get(span.object.id)
        if each is not None:
            moved = moves.get((each.id, span.first))
            found[each.id] = TurnObject(
                id=each.id,
                kind=each.kind.value,
                source=" ".join((each.source_key or each.stub).split()),
                turn=each.last_turn,
                tokens=history.tokens_of(each.id),
                fidelity=span.fidelity,
                since=None if moved is None else moved.turn,
                cause=None if moved is None else moved.cause.value,
                kept=None if now is None else is_kept(Resident(each, span.fidelity), now),
            )
    return found


def _fold_own(events: Sequence[Recorded[Event]], branch: str, turn: int) -> Mapping[str, MemoryObject]:
    """Each object from its own events, up to the assessment of the turn after ``turn``; objects made only then were
    already in the window.
    """
    found: dict[str, MemoryObject] = {}
    for each in events:
        event = each.envelope.event
        if isinstance(event, ObjectCreated):
            found[event.object] = make_object(event)
        elif isinstance(event, ObjectEvent) and event.object in found:
            found[event.object] = evolve(found[event.object], event)
        elif isinstance(event, TurnAssessed) and event.branch == branch and event.turn > turn:
            break
    return found


def _now(events: Sequence[Recorded[Event]], attempt: Attempt, plan: frozenset[str]) -> Now | None:
    """The conversation's position when the turn was assessed, and the plan followed; None if it was not assessed."""
    began = attempt.began
    for each in events:
        event = each.envelope.event
        if isinstance(event, TurnAssessed) and (event.branch, event.turn) == (began.branch, began.turn):
            return Now(
                turn=began.turn,
                message_count=attempt.messages,
                exchange_first_message=event.typed[-1] if event.typed else 0,
                last_user_messages=event.typed,
                plan=plan,
            )
    return None


def _moves(events: Sequence[Recorded[Event]], turn: int) -> Mapping[tuple[str, int], Moved]:
    """The changes of objects up to and including a turn, by object and the turn from which they apply."""
    moved = (each.envelope.event for each in events if isinstance(each.envelope.event, Moved))
    return {(event.object, event.turn): event for event in moved if event.turn <= turn}


def _blocks(
    found: SessionContext, client: View, places: Mapping[tuple[int, int], str], known: Mapping[str, TurnObject]
) -> list[TurnBlock]:
    objects = context_view.objects_of(client, places)
    cached = _count_cached(found)
    return [
        TurnBlock(
            number=number,
            block=block,
            cached=None if cached is None else number < cached,
            object=known.get(block.stands_for or objects.get(block.same, "")) if block.message is not None else None,
        )
        for number, block in enumerate(found.view.blocks)
    ]


def _count_cached(found: SessionContext) -> int | None:
    """The number of the request's first blocks that came from the provider's cache, estimated from its token count."""
    ended = found.rebuilt.attempt.reply_event
    used = None if ended is None else window_of(ended.usage)
    sizes = list(accumulate(block.tokens or 0 for block in found.view.blocks))
    if used is None or not used.prompt or not sizes or not sizes[-1]:
        return None
    read = used.read / used.prompt * sizes[-1]
    return sum(size <= read * (1 + _ESTIMATED) for size in sizes)


_ESTIMATED = 0.02
"""Tolerance of the estimate."""


def _epoch(events: Sequence[Recorded[Event]], attempt: Attempt) -> str | None:
    began = attempt.began
    for each in events:
        event = each.envelope.event
        if isinstance(event, EpochBegan) and (event.branch, event.turn) == (began.branch, began.turn):
            return event.reason
    return None
