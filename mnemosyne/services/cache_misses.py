"""The cache misses of recorded sessions: the tokens that a request did not read from the provider's cache, by cause,
with their cost.

Only the requests whose counts show a miss are rebuilt, each with the one before it. So a session without misses costs
no more than reading its events.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any
from uuid import UUID

import attrs

from mnemosyne.bounded import Lru
from mnemosyne.domain.cost.cache_misses import (
    CacheReading,
    ColdTokens,
    Culprit,
    MissCause,
    Origin,
    Proxy,
    SentPrompt,
    Unread,
    begin_reading,
    count_entries,
    explain_reading,
    holds_last_message,
)
from mnemosyne.domain.cost.catalogue import cost, find_tariff_name, model_of, tariff_of
from mnemosyne.domain.cost.prices import Terms, Tokens, window_of
from mnemosyne.domain.cost.prompt_cache import Cache, CacheRules, rules_of
from mnemosyne.domain.cost.prompt_changes import Change, ChangedPart
from mnemosyne.domain.cost.prompt_layout import lay_out
from mnemosyne.domain.cost.tokens import apportion
from mnemosyne.domain.history.time_travel import Attempt, History, history_of
from mnemosyne.domain.ports import Recorded
from mnemosyne.domain.session import ledger
from mnemosyne.domain.session.address import Address
from mnemosyne.domain.session.events import (
    BranchKind,
    BranchOpened,
    Event,
    SessionForgotten,
    TurnFinished,
    TurnInterrupted,
    TurnRelation,
)
from mnemosyne.domain.session.input_events import SettingsTaken
from mnemosyne.domain.session.ledger import Ledger
from mnemosyne.domain.session.ledger_events import TurnAccounted
from mnemosyne.domain.session.round_events import EpochBegan, RoundFinished
from mnemosyne.domain.tools import memory_tools
from mnemosyne.domain.wire import transcript
from mnemosyne.domain.wire.identity import ClientHeaders
from mnemosyne.errors import ContentForgotten, LogDamaged, LogFailed, UnknownEvent
from mnemosyne.figures import count_text, dollars, dollars_text, printable
from mnemosyne.services import contexts
from mnemosyne.services.billed_replies import terms_of_end
from mnemosyne.services.sessions import Archive
from mnemosyne.services.unstructuring import members

STARTS = frozenset({MissCause.START, MissCause.COMPACTION})
"""Causes that begin a new prompt: its tokens were never in the cache, and nothing was missed."""


@attrs.frozen(kw_only=True)
class PricedCold:
    """Cold tokens of one cause, and what they cost more than reads; None if the model has no known price."""

    cold: ColdTokens
    nanodollars: int | None

    @property
    def is_miss(self) -> bool:
        return self.cold.cause not in STARTS


@attrs.frozen(kw_only=True)
class RequestReading:
    """What one request read from the cache. ``round`` counts from 1 in a managed turn; None for the client's own
    request. ``pause`` is the time since the branch's previous request, in µs; None without one.
    """

    address: Address
    round: int | None
    at: int
    model: str | None
    reading: CacheReading
    causes: Sequence[PricedCold]
    pause: int | None


@attrs.frozen(kw_only=True)
class PromptRequest:
    """A request that went upstream, and the facts about it that need no body. ``cache`` is the session's simulated
    cache before it. ``rewrote``: the proxy sent it, and changed the history itself.
    """

    attempt: Attempt
    opened: BranchOpened
    usage: Tokens | None
    terms: Terms
    answered: int | None
    speaker: ClientHeaders | None
    cache: Cache
    tariff: str | None
    rewrote: bool

    @property
    def version(self) -> int:
        return self.attempt.body_version

    @property
    def at(self) -> int:
        return self.attempt.sent.at

    @property
    def rules(self) -> CacheRules:
        credential = self.speaker.credential if self.speaker is not None else None
        model = self.attempt.began.model
        return rules_of(tariff_of(self.tariff or find_tariff_name(credential, hour=False, host="", model=model)))


_End = TurnFinished | TurnInterrupted | RoundFinished


KnownReadings = Lru[tuple[UUID, int], RequestReading]
"""A cache of the readings of requests, by session and version. They never change."""


def no_readings() -> KnownReadings:
    return Lru(_KNOWN)


_KNOWN = 20_000


async def read_misses(
    archive: Archive,
    stream: UUID,
    events: Sequence[Recorded[Event]],
    history: History,
    *,
    only: Address | None = None,
    since: int = 0,
    known: KnownReadings | None = None,
) -> list[RequestReading]:
    """The reads of a session's requests since a time, in order, or of the requests of ``only`` one attempt. Requests
    that the provider did not count, or whose content cannot be read, are omitted.
    """
    found = []
    known = known if known is not None else no_readings()
    reader = PromptReader(archive, stream, history)
    for request, before in select_requests(events, history, only=only, since=since):
        reading = known.get((stream, request.version)) if only is None else None
        if reading is None:
            explained = await reader.read(request, before, whole=only is not None)
            if explained is None:
                continue
            reading = known.put((stream, request.version), _price(request, before, explained))
        found.append(reading)
    return found


def list_requests(events: Sequence[Recorded[Event]], history: History) -> Iterator[PromptRequest]:
    """The requests that went upstream, in the order in which they were sent."""
    sent = {version: attempt for each in history.attempts for version, attempt in _list_sent(each)}
    epochs: set[tuple[str, int]] = set()
    speakers: dict[str, ClientHeaders] = {}
    accounts, tariff = Ledger(), None
    for recorded in events:
        event = recorded.envelope.event
        match event:
            case TurnAccounted():
                accounts = ledger.after(accounts, event)
            case EpochBegan():
                epochs.add((event.branch, event.turn))
            case SettingsTaken():
                tariff = event.tariff
            case _:
                pass
        if recorded.version not in sent:
            continue
        attempt, ended = sent[recorded.version]
        began = attempt.began
        if began.speaker is not None:
            speakers[began.branch] = began.speaker
        usage = window_of(ended.usage) if ended is not None else None
        first_byte = None if ended is None or isinstance(ended, RoundFinished) else ended.first_byte
        continued = attempt.round is not None and began.relation is TurnRelation.CONTINUES
        yield PromptRequest(
            attempt=attempt,
            opened=history.line(began.branch).opened,
            usage=usage if usage is not None and usage.prompt else None,
            terms=terms_of_end(ended) if ended is not None else Terms(),
            answered=None if first_byte is None else began.at + first_byte,
            speaker=speakers.get(began.branch),
            cache=accounts.wire,
            tariff=tariff,
            rewrote=continued or (attempt.round is not None and (began.branch, began.turn) in epochs),
        )


def _list_sent(attempt: Attempt) -> Iterator[tuple[int, tuple[Attempt, _End | None]]]:
    """The requests of an attempt that went upstream, by the version of the event that recorded each, with their end.
    The last round of a turn may end with the turn itself.
    """
    if not attempt.rounds:
        yield attempt.version, (attempt, attempt.ended)
    for each in attempt.rounds:
        ended = each.ended or (attempt.ended if each is attempt.rounds[-1] else None)
        yield each.version, (attrs.evolve(attempt, round=each), ended)


def select_requests(
    events: Sequence[Recorded[Event]], history: History, *, only: Address | None, since: int
) -> Iterator[tuple[PromptRequest, PromptRequest | None]]:
    """The requests since a time, or those of ``only`` one attempt, each with the one before it (``pair_requests``)."""
    for request, before in pair_requests(list_requests(events, history)):
        if request.at >= since and only in (None, request.attempt.address):
            yield request, before


def pair_requests(requests: Iterator[PromptRequest]) -> Iterator[tuple[PromptRequest, PromptRequest | None]]:
    """Each request with the last one before it that the provider counted: of its branch; for a new branch, of its
    agent's conversation, or else of the parent from which it diverged.
    """
    by_branch: dict[str, PromptRequest] = {}
    by_agent: dict[tuple[str, str | None], PromptRequest] = {}
    for request in requests:
        opened = request.opened
        agent = opened.lane, opened.agent_id
        before = by_agent.get(agent) or (by_branch.get(opened.parent or "") if _is_continuation(opened) else None)
        yield request, by_branch.get(opened.branch) or before
        if request.usage is not None:
            by_branch[opened.branch] = by_agent[agent] = request


def _is_continuation(opened: BranchOpened) -> bool:
    return opened.inherits or opened.kept > 0 or opened.kind is BranchKind.SUCCESSOR


class PromptReader:
    """Reads the requests of one session in order; consecutive ones share most of their bytes."""

    def __init__(self, archive: Archive, stream: UUID, history: History) -> None:
        self._archive, self._stream, self._history = archive, stream, history
        self._held: Lru[int, SentPrompt] = Lru(2)
        self._contents: dict[bytes, bytes] = {}

    async def read(self, request: PromptRequest, before: PromptRequest | None, *, whole: bool) -> CacheReading | None:
        """The reading of a request; None if it is unknown. ``whole`` also looks for a change that caused nothing."""
        used = request.usage
        if used is None:
            return None
        if before is None or before.usage is None:
            return begin_reading(used, request.opened.kind.value)
        is_new = before.opened.branch != request.opened.branch and not _is_continuation(request.opened)
        entries = count_entries(before.usage, request.rules)
        if entries <= used.read and not whole and not is_new:
            expected = min(entries, used.prompt)
            return CacheReading(prompt=used.prompt, expected=expected, read=used.read, causes=(), change=None)
        try:
            last = await self.rebuild(before)
            sent = await self.rebuild(request)
        except (ContentForgotten, LogFailed):
            return None
        if sent is None or last is None:
            return None
        if is_new and not holds_last_message(last, sent):
            return begin_reading(used, request.opened.kind.value)
        return explain_reading(
            sent,
            last,
            request.cache,
            rules=request.rules,
            minimum=model_of(request.attempt.began.model).cache_minimum,
            origin=_origin(request, before),
            proxy=Proxy(rewrote=request.rewrote, tools=memory_tools.NAMES),
        )

    async def rebuild(self, request: PromptRequest) -> SentPrompt | None:
        """The request as it was sent; None if it is not a conversation."""
        held = self._held.get(request.version)
        if held is not None:
            return held
        rebuilt = await contexts.rebuild(self._archive, self._stream, self._history, request.attempt, self._contents)
        near = next((each.layout for each in reversed(self._held.values())), None)
        lane = request.opened.lane
        before = near.read if near is not None and near.read.conversation == lane else None
        read = transcript.read(rebuilt.body, before, conversation=lane, most=transcript.ANY_NUMBER).transcript
        layout = lay_out(read, near if before is not None else None)
        if layout is None:
            return None
        speaker = request.speaker
        credential = speaker.credential if speaker is not None else None
        return self._held.put(
            request.version,
            SentPrompt(
                at=request.at,
                layout=layout,
                usage=request.usage,
                answered=request.answered,
                route=dict(read.cache_route) | ({} if credential is None else {"credential": credential}),
                betas=frozenset(speaker.betas) if speaker is not None and speaker.betas is not None else None,
            ),
        )


def _origin(request: PromptRequest, before: PromptRequest) -> Origin:
    if before.opened.branch == request.opened.branch:
        return Origin.CONTINUES
    return Origin.COMPACTED if request.opened.kind is BranchKind.SUCCESSOR else Origin.DIVERGED


def _price(request: PromptRequest, before: PromptRequest | None, reading: CacheReading) -> RequestReading:
    assert request.usage is not None
    model = request.attempt.began.model
    return RequestReading(
        address=request.attempt.address,
        round=None if request.attempt.round is None else request.attempt.round.began.round,
        at=request.at,
        model=model,
        reading=reading,
        causes=price_causes(reading, request.usage, model, request.terms),
        pause=None if before is None else request.at - before.at,
    )


def price_causes(reading: CacheReading, usage: Tokens, model: str | None, terms: Terms) -> list[PricedCold]:
    """The causes of a reading with what each cost more than reads, by the request's usage and its terms."""
    billed, without = (
        cost(attrs.evolve(each, output=0), model, prompt=usage.prompt, terms=attrs.evolve(terms, searches=0))
        for each in (usage, _as_reads(usage, reading.cold))
    )
    sizes = [each.tokens for each in reading.causes]
    amounts: Sequence[int | None] = [None] * len(sizes)
    if billed is not None and without is not None and sizes:
        amounts = apportion(billed - without, sizes)
    return [PricedCold(cold=cold, nanodollars=amount) for cold, amount in zip(reading.causes, amounts, strict=True)]


def _as_reads(usage: Tokens, cold: int) -> Tokens:
    """The usage, had the ``cold`` tokens after the cached ones been read too. One-hour writes come first."""
    hour = min(cold, usage.write_1h)
    minutes = min(cold - hour, usage.write_5m)
    plain = min(cold - hour - minutes, usage.input)
    return attrs.evolve(
        usage,
        read=usage.read + hour + minutes + plain,
        write_1h=usage.write_1h - hour,
        write_5m=usage.write_5m - minutes,
        input=usage.input - plain,
    )


# Several sessions


@attrs.frozen(kw_only=True)
class MissGroup:
    """The cold tokens of one cause in some sessions: its ``text``, the number of requests, and what they cost more than
    reads; ``unpriced`` counts the requests of models without a known price. ``worst`` is the dearest one, with the name
    of its session.
    """

    text: str
    is_miss: bool
    requests: int
    tokens: int
    nanodollars: int
    unpriced: int
    worst: tuple[str, Address]


async def read_session_misses(archive: Archive, streams: Iterable[UUID], since: int = 0) -> list[RequestReading]:
    """The reads of some sessions' requests since a time (µs of UTC). Damaged and forgotten sessions are omitted."""
    found: list[RequestReading] = []
    for stream in streams:
        try:
            events = await archive.events.read(stream)
            readings = await read_misses(archive, stream, events, history_of(str(stream), events), since=since)
        except (LogDamaged, UnknownEvent):
            continue
        if not any(isinstance(each.envelope.event, SessionForgotten) for each in events):
            found += readings
    return found


async def read_all_misses(archive: Archive, streams: Iterable[UUID], since: int = 0) -> list[MissGroup]:
    """The cold tokens of some sessions' requests by cause, the dearest first; as ``read_session_misses``."""
    found = [(str(stream), each) for stream in streams for each in await read_session_misses(archive, [stream], since)]
    return group_misses((name, each.address, cause) for name, each in found for cause in each.causes)


def group_misses(missed: Iterable[tuple[str, Address, PricedCold]]) -> list[MissGroup]:
    """Cold tokens of requests of named sessions by cause, the dearest first."""
    rows: dict[tuple[str, bool], list[tuple[str, Address, PricedCold]]] = {}
    for row in missed:
        rows.setdefault((cause_text(row[2].cold), row[2].is_miss), []).append(row)
    groups = [
        MissGroup(
            text=text,
            is_miss=is_miss,
            requests=len(causes),
            tokens=sum(cause.cold.tokens for *_, cause in causes),
            nanodollars=sum(cause.nanodollars or 0 for *_, cause in causes),
            unpriced=sum(cause.nanodollars is None for *_, cause in causes),
            worst=max(causes, key=lambda row: (row[2].nanodollars or 0, row[2].cold.tokens))[:2],
        )
        for (text, is_miss), causes in rows.items()
    ]
    return sorted(groups, key=lambda group: (not group.is_miss, -group.nanodollars, -group.tokens))


# Sentences


def cause_text(cold: ColdTokens) -> str:
    """What happened, and who did it: ``the MCP server github changed its tools``."""
    name, server = printable(cold.name or ""), printable(cold.server or "")
    match cold.cause:
        case MissCause.START:
            return f"a conversation began ({name.replace('_', ' ')})" if cold.name else "a conversation began"
        case MissCause.SETTING | MissCause.ROUTE:
            return f"the client changed {name}"
        case MissCause.TOOLS:
            return f"the MCP server {server} changed its tools" if cold.server else "the client changed its tools"
        case MissCause.MESSAGES if cold.change is not None and cold.change.thinking:
            return "earlier thinking left the prompt"
        case MissCause.MESSAGES if cold.culprit is Culprit.HOOK:
            return "a hook or reminder of the client changed an earlier message"
        case MissCause.UNRECORDED:
            return _UNREAD[Unread(cold.name)]
        case MissCause.EXPIRY if cold.name is not None:
            return f"the cache expired after {_LIVES[cold.name]}"
        case _:
            return _TEXTS[cold.cause]


_UNREAD = {
    Unread.ALL: "unrecorded: nothing was read, not even the tools",
    Unread.PREFIX: "unrecorded: reads ended before the recorded messages",
    Unread.HEAD: "unrecorded: tools and system prompt were read, but no message",
    Unread.OTHER_HEAD: "the client changed its tools, system prompt or settings",
    Unread.MESSAGES: "unrecorded: reads ended between two messages",
    Unread.UNTIMED: "the entry expired or the provider lost it: the record has no times",
}

_LIVES = {"5m": "5 minutes", "1h": "an hour"}

_TEXTS = {
    MissCause.COMPACTION: "the client compacted its history",
    MissCause.REWIND: "the history went back, or an agent was forked",
    MissCause.MODEL: "the model was switched",
    MissCause.SYSTEM: "the client changed its system prompt",
    MissCause.MESSAGES: "the client changed an earlier message",
    MissCause.REWRITE: "Mnemosyne rewrote the history",
    MissCause.OWN_TOOLS: "Mnemosyne changed its tools",
    MissCause.EXPIRY: "the cache expired",
    MissCause.SLOT: "another prompt took the server's only slot",
    MissCause.MARKER: "the request had no cache marker behind the cached part",
    MissCause.LOOKBACK: "the next cache marker was too many blocks away",
    MissCause.PARALLEL: "the request was sent before the previous reply began",
    MissCause.CLOCK: "the server's clock was set back",
    MissCause.PROVIDER: "the provider did not read the same bytes again",
}


def change_text(change: Change) -> str:
    """What differs, and where: ``mcp__github__merge added, byte 2,451``."""
    what = {
        ChangedPart.TOOLS: printable(change.name or "a tool"),
        ChangedPart.SYSTEM: "system prompt",
        ChangedPart.MESSAGES: f"block {change.block} of message {change.message}",
    }.get(change.part, printable(change.name or ""))
    return f"{what} {change.how.value}, byte {change.offset:,}"


def describe_reading(found: RequestReading) -> Iterator[str]:
    """Sentences about what one request read from the cache."""
    reading = found.reading
    if reading.read and not reading.expected:
        yield f"It read {count_text(reading.read)} tokens from a prefix in the cache that another conversation wrote."
    elif reading.expected or not found.causes:
        yield f"It read {count_text(reading.read)} of {count_text(reading.expected)} expected tokens from the cache."
    for each in found.causes:
        where = f" ({change_text(each.cold.change)})" if each.cold.change is not None else ""
        price = f", {dollars_text(each.nanodollars)} more" if each.is_miss and each.nanodollars is not None else ""
        yield f"{count_text(each.cold.tokens)} tokens were not cached{price}: {cause_text(each.cold)}{where}."
    if reading.change is not None and all(each.cold.change is None for each in found.causes):
        yield f"The prompt also changed: {change_text(reading.change)}."


def describe_misses(found: Sequence[RequestReading]) -> str | None:
    """A sentence about the dearest misses among some requests; None without any."""
    missed = [(each, cause) for each in found for cause in each.causes if cause.is_miss]
    if not missed:
        return None
    missed.sort(key=lambda pair: -(pair[1].nanodollars or 0))
    known = [cause.nanodollars for _, cause in missed if cause.nanodollars is not None]
    price = f" cost {dollars_text(sum(known), partial=len(known) < len(missed))}" if known else ""
    named = [f"{cause_text(cause.cold)} at {_place_text(each.address)}" for each, cause in missed[:NAMED]]
    more = f"; and {len(missed) - NAMED} more" if len(missed) > NAMED else ""
    count = len({each.address for each, _ in missed})
    return f"{count} cache miss{'' if count == 1 else 'es'}{price}: {'; '.join(named)}{more}"


NAMED = 2


def _place_text(address: Address) -> str:
    branch = "" if address.branch == BranchKind.MAIN.value else f" of {printable(address.branch)}"
    return f"turn {address.turn}{branch}"


def reading_as_json(found: RequestReading) -> dict[str, Any]:
    """What one request read from the cache, as JSON."""
    return {
        **members(found, "round model", branch="address.branch", turn="address.turn", attempt="address.attempt"),
        **members(found.reading, prompt_tokens="prompt", expected_tokens="expected", read_tokens="read"),
        **members(found.reading, cold_tokens="cold", new_tokens="new"),
        "causes": [
            {
                **members(each.cold, "cause culprit tokens name server"),
                "dollars": dollars(each.nanodollars),
                "text": cause_text(each.cold),
                "change": _change_as_json(each.cold.change),
            }
            for each in found.causes
        ],
        "change": _change_as_json(found.reading.change),
        "sentences": list(describe_reading(found)),
    }


def _change_as_json(change: Change | None) -> dict[str, Any] | None:
    return None if change is None else members(change, "part how name message block offset inserted")
