"""The view of one turn: its exact request as blocks, each with its object and cache state; the reply; and the price."""

from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import Any
from uuid import UUID

import attrs

from mnemosyne.bounded import Lru
from mnemosyne.domain.history import context_view, time_travel
from mnemosyne.domain.history.context_view import ContextBlock, KnownBlocks, View
from mnemosyne.domain.history.time_travel import Attempt, History, TurnPlace
from mnemosyne.domain.objects.events import ObjectCreated
from mnemosyne.domain.objects.fidelity import Fidelity
from mnemosyne.domain.ports import Recorded
from mnemosyne.domain.session.events import Event
from mnemosyne.domain.session.ledger_events import TurnAccounted
from mnemosyne.domain.session.round_events import EpochBegan
from mnemosyne.domain.wire.json_spans import Range
from mnemosyne.errors import NotFound
from mnemosyne.services import contexts
from mnemosyne.services.cache_misses import KnownReadings, no_readings, read_misses, reading_as_json
from mnemosyne.services.cache_verdicts import read_verdicts
from mnemosyne.services.citations import citations_text, read_citations
from mnemosyne.services.context_map import Span, read_map
from mnemosyne.services.contexts import SessionContext
from mnemosyne.services.quota import QuotaUse, ask_limits, uses_of
from mnemosyne.services.read_models import ReadModels
from mnemosyne.services.sessions import Archive
from mnemosyne.services.turn_prices import TurnPrice, read_prices


@attrs.frozen(kw_only=True)
class TurnBlock:
    """A block of the request. ``number`` counts from 0 over the request; ``cached`` says whether it was in the
    provider's cache, None if unknown. ``object`` is the object that it shows or replaces, as the turn showed it.
    """

    number: int
    block: ContextBlock
    cached: bool | None
    object: Span | None

    @property
    def replaced(self) -> bool:
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
    are the objects not shown in full, ``sources`` the sources of objects by id. ``epoch`` is the reason for a rewrite
    before it. ``price`` and ``account`` are None if its usage is not known. ``pause`` is the time since the branch's
    previous request, in µs. ``cache`` are the readings of the shown requests from the provider's cache, as JSON.
    """

    stream: UUID
    context: SessionContext
    rounds: int
    round: int | None
    blocks: Sequence[TurnBlock]
    changed: Changed | None
    absent: Sequence[Span]
    sources: Mapping[str, str]
    epoch: str | None
    price: TurnPrice | None
    account: TurnAccounted | None
    quota: Sequence[QuotaUse]
    pause: int | None
    cache: Sequence[Mapping[str, Any]] = ()
    citations: str | None = None
    """A sentence about the citations of the reply, if the model was asked for any."""
    verdicts: Sequence[str] = ()
    """Sentences about the provider's own verdicts on its cache."""

    @property
    def attempt(self) -> Attempt:
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
    readings: KnownReadings = attrs.field(factory=no_readings)

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
    began = attempt.began
    standing = (await read_map(models, stream, branch)).standing_at(began.turn)
    objects = {span.object.id: span for span in standing}
    before = history.turn(branch, began.turn - 1)[-1].began if began.turn > 1 else None
    (limits,) = await models.answers(ask_limits(stream))
    shown_round = None if attempt.round is None else attempt.round.began.round
    readings = await read_misses(archive, stream, events, history, only=attempt.address)
    judged = await read_verdicts(archive, stream, events, history, only=attempt.address)
    cited = await read_citations(archive, stream, events, history, attempt)
    return TurnView(
        stream=stream,
        context=found,
        rounds=len(attempt.rounds),
        round=shown_round,
        blocks=_blocks(found, found.client or found.view, history.list_places(branch), objects),
        changed=None if found.client is None else _compare(found.client, found.view),
        absent=[span for span in standing if span.fidelity is not Fidelity.FULL],
        sources={name: _source(history.objects[name]) for name in objects if name in history.objects},
        epoch=_epoch(events, attempt),
        price=(await read_prices(models, stream)).get(attrs.astuple(attempt.address)),
        account=_account(events, attempt),
        quota=uses_of(limits, lambda key: key == (stream, *attrs.astuple(attempt.address))),
        pause=None if before is None else began.at - before.at,
        citations=None if cited is None else citations_text(cited),
        cache=[reading_as_json(each) for each in readings if shown_round in (None, each.round)],
        verdicts=[each.sentence for each in judged if shown_round in (None, each.round)],
    )


async def read_block(
    archive: Archive, stream: UUID, branch: str, place: TurnPlace, part: str, number: int, known: KnownTurns
) -> bytes:
    """The JSON of a block of a turn's request, or of its reply if ``part`` is ``reply``. Raises what ``read_turn_view``
    raises.
    """
    _, history = await known.read(archive, stream)
    attempt = history.at(branch, place)
    if part == "reply":
        body = await contexts.read_reply(archive, stream, attempt) or b""
        found: Sequence[Range] = [each.span for each in context_view.reply_blocks(body, history.dialect_of(branch))]
    else:
        body, found = await _read_request(archive, stream, history, attempt, known)
    if not 0 <= number < len(found):
        whole = "reply" if part == "reply" else "request"
        raise NotFound(f"The {whole} has no block {number}: it has {len(found)} blocks, counted from 0.")
    return body[slice(*found[number])]


async def _read_request(
    archive: Archive, stream: UUID, history: History, attempt: Attempt, known: KnownTurns
) -> tuple[bytes, Sequence[Range]]:
    """A request, and the places of its blocks."""
    held = known.bodies.get((stream, attempt.body_version)) if attempt.body_version > history.forgotten else None
    if held is None:
        body = (await contexts.rebuild(archive, stream, history, attempt)).body
        blocks = context_view.view(body, (), history.dialect_of(attempt.began.branch), known.blocks).blocks
        held = known.bodies.put((stream, attempt.body_version), (body, [each.span for each in blocks]))
    return held


def _compare(client: View, sent: View) -> Changed:
    """Compare blocks by content, regardless of position."""
    theirs, ours = ({(each.section, each.digest) for each in view.blocks} for view in (client, sent))
    return Changed(
        left_out=sum((each.section, each.digest) not in ours for each in client.blocks),
        put_in=sum((each.section, each.digest) not in theirs for each in sent.blocks),
        same=sum((each.section, each.digest) in theirs for each in sent.blocks),
    )


def _source(made: ObjectCreated) -> str:
    return " ".join((made.source_key or made.stub).split())


def _blocks(
    found: SessionContext, client: View, places: Mapping[tuple[int, int], str], known: Mapping[str, Span]
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
    used = found.rebuilt.attempt.used
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


def _account(events: Sequence[Recorded[Event]], attempt: Attempt) -> TurnAccounted | None:
    accounts = (each.envelope.event for each in events if isinstance(each.envelope.event, TurnAccounted))
    address = attrs.astuple(attempt.address)
    return next((each for each in accounts if (each.branch, each.turn, each.attempt) == address), None)
