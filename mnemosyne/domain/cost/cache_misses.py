"""Why a prompt was not read from the provider's cache: every cold token gets one cause.

The *expected* reads are the entries that the branch's previous request wrote or renewed. Each rule lowers the limit of
the reads that are still possible, in this order: an entry expires; the prompt changes; no lookup reaches the entry. A
rule causes the tokens by which it lowers the limit, and the provider causes those between the lowest limit and the
actual reads; so the parts add up. A rule takes the tokens of later ones too: after an hour's pause a changed tool costs
nothing more. Only a replaced history (a compaction, a rewind) comes before expiry, since no entry held its text.

A transcript lacks parts of each request, so the provider is named as the cause only if a later request read the missed
entry. Otherwise the result names the place where the reads ended.

Positions in a prompt are estimates, scaled to the previous request's count. The two counts that matter most, the size
of the earlier entries and the actual reads, are the provider's own.
"""

from collections.abc import Iterable, Iterator, Mapping
from enum import Enum
from typing import Literal

import attrs

from mnemosyne.domain.cost import prompt_cache
from mnemosyne.domain.cost.prices import Tokens
from mnemosyne.domain.cost.prompt import Prompt
from mnemosyne.domain.cost.prompt_cache import MARKED, Cache, CacheRules
from mnemosyne.domain.cost.prompt_changes import Change, ChangedPart, find_change
from mnemosyne.domain.cost.prompt_layout import PromptLayout

_SURE = 20
"""A difference of at most 1/20 of the prompt is an estimation error, not a position."""


class MissCause(Enum):
    """Why tokens were cold. The values are stored."""

    START = "start"
    """The first request of a conversation: there was nothing to read."""
    COMPACTION = "compaction"
    REWIND = "rewind"
    """The history diverged from an earlier one: a rewind or a fork."""
    MODEL = "model"
    SETTING = "setting"
    TOOLS = "tools"
    SYSTEM = "system"
    MESSAGES = "messages"
    REWRITE = "rewrite"
    """The proxy rewrote the history, or showed an object again in it."""
    OWN_TOOLS = "own tools"
    """The proxy added, removed or changed its tools."""
    EXPIRY = "expiry"
    SLOT = "slot"
    """Another prompt took the only slot of a local server."""
    MARKER = "marker"
    """No marker of the request reached the cached part."""
    LOOKBACK = "lookback"
    """The cached part ends too many blocks before the next marker."""
    PARALLEL = "parallel"
    """The request was sent before the previous reply had begun."""
    ROUTE = "route"
    """Something other than the prompt selects another cache: a beta header, a cache key, a credential."""
    CLOCK = "clock"
    """The server's clock was set back, so that the age of the entry is unknown."""
    PROVIDER = "provider"
    """The same bytes, in time: the provider did not read them."""
    UNRECORDED = "unrecorded"
    """The recorded parts were equal, but the record is incomplete. The name is a value of ``Unread``."""


class Unread(Enum):
    """The part of a prompt that was not read, if the record does not show why."""

    ALL = "all"
    """Not even the tools were read."""
    PREFIX = "prefix"
    """The reads ended in front of the recorded messages: in the tools, the system prompt or the first reminders."""
    HEAD = "head"
    """Tools and system prompt were read, so they did not change; no recorded message was."""
    OTHER_HEAD = "other head"
    """The same, but they differ from those of the previous request."""
    MESSAGES = "messages"
    """The reads ended between the recorded messages."""
    UNTIMED = "untimed"
    """The record has no times, so that the entry may have expired."""


class Culprit(Enum):
    """Who caused it. The values are stored."""

    CLIENT = "client"
    HOOK = "hook"
    """A hook or reminder of the client, which inserts text in messages."""
    MCP = "mcp"
    USER = "user"
    TIME = "time"
    PROXY = "proxy"
    PROVIDER = "provider"


class Origin(Enum):
    """How a request relates to the one before it."""

    CONTINUES = "continues"
    COMPACTED = "compacted"
    """It begins with the client's summary of the earlier history."""
    DIVERGED = "diverged"
    """The user went back, or an agent was forked."""


@attrs.frozen(kw_only=True)
class SentPrompt:
    """A request as it was sent upstream, ``at`` µs, and its ``usage``; None if the provider reported none.

    ``answered`` is when its reply began, None if that is not known. ``route`` maps the names of further properties that
    select a cache (a key, a credential) to their values. ``betas`` are the client's beta headers, None if not known.
    ``lacks`` names what the record lacks: the ``times``, or the ``head`` (tools, system prompt, reminders, settings).
    """

    at: int
    layout: PromptLayout
    usage: Tokens | None
    answered: int | None = None
    route: Mapping[str, str] = attrs.field(factory=dict)
    betas: frozenset[str] | None = None
    lacks: Literal["times", "head"] | None = None


@attrs.frozen(kw_only=True)
class Proxy:
    """The proxy's own changes to a request: whether it ``rewrote`` the history, and the names of its ``tools``."""

    rewrote: bool = False
    tools: frozenset[str] = frozenset()


@attrs.frozen(kw_only=True)
class ColdTokens:
    """Tokens that one cause kept out of the cache. ``name`` is the lifetime, the tool, the parameter or the header;
    ``server`` the MCP server of a tool.
    """

    cause: MissCause
    culprit: Culprit
    tokens: int
    change: Change | None = None
    name: str | None = None
    server: str | None = None


@attrs.frozen(kw_only=True)
class CacheReading:
    """The reads of a request from the cache, in tokens. ``expected`` is the size of the entries of the previous request
    (0 at the start of a conversation), ``new`` the size of the request's addition. ``change`` is the first difference
    from the previous request, whether or not it caused anything.
    """

    prompt: int
    expected: int
    read: int
    causes: tuple[ColdTokens, ...]
    change: Change | None

    @property
    def cold(self) -> int:
        """The tokens beyond the new ones that were not read."""
        return sum(each.tokens for each in self.causes)

    @property
    def new(self) -> int:
        return self.prompt - self.read - self.cold


def explain_reading(
    sent: SentPrompt,
    before: SentPrompt | None,
    cache: Cache,
    *,
    rules: CacheRules = MARKED,
    minimum: int = 0,
    origin: Origin = Origin.CONTINUES,
    proxy: Proxy = Proxy(),  # frozen
    held: bool = False,
) -> CacheReading | None:
    """Explain the reads of a request from the cache, and why there were no more; None if the provider reported none.

    ``before`` is the branch's previous request as it was sent: at the start of a branch that of its parent, None if
    there is none. ``cache`` are the entries of the whole session before the request, ``minimum`` the model's minimum.
    ``held``: a later request read the entry that this one missed, or that the one before it missed.
    """
    if sent.usage is None:
        return None
    prompt, read = sent.usage.prompt, sent.usage.read
    if before is None:
        return begin_reading(sent.usage)
    reading = _Reading(sent, before, cache, rules, minimum, origin, proxy)
    expected = reading.expected
    causes, limit = [], expected
    for lower, cold in reading.limits():
        lower = max(read, min(limit, lower))
        causes.append(attrs.evolve(cold, tokens=limit - lower))
        limit = lower
    causes.append(attrs.evolve(reading.name_rest(held), tokens=max(0, limit - read)))
    return CacheReading(prompt=prompt, expected=expected, read=read, causes=_positive(causes), change=reading.change)


def begin_reading(usage: Tokens, name: str | None = None) -> CacheReading:
    """Return the reading of the first request of a conversation; ``name`` is the kind of its branch."""
    start = ColdTokens(cause=MissCause.START, culprit=Culprit.CLIENT, tokens=usage.prompt - usage.read, name=name)
    return CacheReading(prompt=usage.prompt, expected=0, read=usage.read, causes=_positive([start]), change=None)


def holds_last_message(before: SentPrompt, sent: SentPrompt) -> bool:
    """Return whether a request holds the last message of an earlier one, wherever."""
    last = before.layout.read.messages[-1].digest
    return any(message.digest == last for message in sent.layout.read.messages)


def count_entries(usage: Tokens, rules: CacheRules) -> int:
    """Return how much of a request the provider holds in its cache afterwards, by its usage."""
    if not rules.automatic:
        return usage.prompt - usage.input
    return usage.prompt // rules.unit * rules.unit if usage.prompt >= rules.least else 0


def _positive(causes: list[ColdTokens]) -> tuple[ColdTokens, ...]:
    return tuple(each for each in causes if each.tokens > 0)


class _Reading:
    """One request against the one before it. Blocks are numbers in a prompt; -1 is before the first."""

    def __init__(
        self,
        sent: SentPrompt,
        before: SentPrompt,
        cache: Cache,
        rules: CacheRules,
        minimum: int,
        origin: Origin,
        proxy: Proxy,
    ) -> None:
        assert sent.usage is not None
        self._counted, self._read = sent.usage.prompt, sent.usage.read
        self._sent, self._before, self._rules, self._minimum = sent, before, rules, minimum
        self._origin, self._proxy, self._cache = origin, proxy, cache
        self.change = find_change(before.layout, sent.layout)
        self._old, self._new = before.layout.prompt, sent.layout.prompt
        self._shared = len(self._old) if self.change is None else self.change.shared
        self._marked = prompt_cache.automatic_ends(self._old) if rules.automatic else before.layout.markers
        self._last = max(self._marked, default=-1)
        self._extent = self._count_cached(before.usage)
        estimated = self._old[self._last].tokens if self._last >= 0 else 0
        self._scale = self._extent / estimated if self._extent else self._counted / max(1, self._new.tokens)
        large = [each for each in self._marked if each == self._last or self._old[each].tokens >= rules.least]
        self._alive = {number for number in large if self._lives(number)}
        shared: Iterable[int] = range(min(self._shared, len(self._new)))
        if rules.whole:
            shared = filter(sent.layout.ends_part, shared)
        self._entries = [number for number in shared if number in self._alive or self._is_entry(self._new, number)]

    def _count_cached(self, used: Tokens | None) -> int:
        """The size of the previous request's entries, by the provider's count, or else by an estimate."""
        if self._last < 0:
            return 0
        if used is None:
            return self._old[self._last].tokens * self._counted // max(1, self._new.tokens)
        return count_entries(used, self._rules)

    @property
    def expected(self) -> int:
        """The size of the previous request's entries; in a changed prompt at most that of all but the new tail."""
        if self._shared > self._last:
            return min(self._extent, self._counted)
        return max(0, min(self._extent, self._counted - round(self._count_tail() * self._scale)))

    def _count_tail(self) -> int:
        """The estimated size of the new tail: the last reply and everything after it."""
        layout, messages = self._sent.layout, self._sent.layout.read.messages
        number = len(messages)
        while number and messages[number - 1].role != "assistant":
            number -= 1
        while number and messages[number - 1].role == "assistant":
            number -= 1
        start = max(layout.up_to(number), self._shared) if number else len(self._new)
        return self._new.tokens - (self._new[start - 1].tokens if start else 0)

    def limits(self) -> Iterator[tuple[int, ColdTokens]]:
        """Yield the limit of the possible reads after each rule, and the rule's cause."""
        rules = [self._expiry, self._changes]
        for rule in reversed(rules) if self._is_replaced() else rules:
            yield from rule()
        yield from self._lookup()

    def _is_replaced(self) -> bool:
        """Whether the history was replaced. One that still holds the last message was only edited."""
        if self.change is None or self._origin is Origin.CONTINUES:
            return False
        return not holds_last_message(self._before, self._sent)

    # Expiry

    def _expiry(self) -> Iterator[tuple[int, ColdTokens]]:
        last = max([*self._alive, *self._entries], default=-1)
        if last < self._last:
            by_slot = MissCause.SLOT, Culprit.CLIENT
            cause, culprit = by_slot if self._rules.one_slot else (MissCause.EXPIRY, Culprit.TIME)
            name = None if self._rules.automatic else self._marked[self._last]
            yield self._size(last), ColdTokens(cause=cause, culprit=culprit, tokens=0, name=name)

    def _lives(self, number: int) -> bool:
        """Whether the entry that the previous request wrote or renewed at a block still exists."""
        if self._rules.one_slot:
            return self._is_entry(self._old, number)
        return self._sent.at - self._before.at < self._rules.life[self._marked[number]]

    def _is_entry(self, prompt: Prompt, number: int) -> bool:
        entry = self._cache.entries.get(prompt[number].digest)
        return entry is not None and entry.expires > self._sent.at

    # Changes

    def _changes(self) -> Iterator[tuple[int, ColdTokens]]:
        if self.change is not None and self._shared <= self._last:
            yield self._size(max(self._entries, default=-1)), self._blame(self.change)

    def _blame(self, change: Change) -> ColdTokens:
        match change.part:
            case ChangedPart.MODEL:
                return _cold(MissCause.MODEL, Culprit.USER, change)
            case ChangedPart.SETTING:
                return _cold(MissCause.SETTING, Culprit.CLIENT, change)
            case ChangedPart.TOOLS if change.name in self._proxy.tools:
                return _cold(MissCause.OWN_TOOLS, Culprit.PROXY, change)
            case ChangedPart.TOOLS:
                server = server_of(change.name)
                return _cold(MissCause.TOOLS, Culprit.CLIENT if server is None else Culprit.MCP, change, server)
            case ChangedPart.SYSTEM:
                return _cold(MissCause.SYSTEM, Culprit.CLIENT, change)
            case _ if self._proxy.rewrote:
                return _cold(MissCause.REWRITE, Culprit.PROXY, change)
            case _ if self._is_replaced() and self._origin is Origin.COMPACTED:
                return _cold(MissCause.COMPACTION, Culprit.CLIENT, change)
            case _ if self._is_replaced():
                return _cold(MissCause.REWIND, Culprit.USER, change)
            case _:
                culprit = Culprit.CLIENT if change.inserted is None else Culprit.HOOK
                return _cold(MissCause.MESSAGES, culprit, change)

    # Lookups

    def _lookup(self) -> Iterator[tuple[int, ColdTokens]]:
        name = self._find_other_route()
        if name is not None:
            yield 0, ColdTokens(cause=MissCause.ROUTE, culprit=Culprit.CLIENT, tokens=0, name=name)
        if self._sent.at < self._before.at:
            yield 0, ColdTokens(cause=MissCause.CLOCK, culprit=Culprit.TIME, tokens=0)
        if self._before.answered is not None and self._sent.at < self._before.answered:
            yield 0, ColdTokens(cause=MissCause.PARALLEL, culprit=Culprit.CLIENT, tokens=0)
        if self._rules.automatic or not self._entries:
            return
        markers = self._sent.layout.markers if self._counted >= self._minimum else ()  # or too short to be cached
        reached = max(
            (entry for entry in self._entries if any(self._reaches(each, entry) for each in markers)), default=-1
        )
        if reached < self._entries[-1]:
            is_behind = any(each >= self._entries[-1] for each in markers)
            cause = MissCause.LOOKBACK if is_behind else MissCause.MARKER
            culprit = Culprit.PROXY if self._proxy.rewrote else Culprit.CLIENT
            yield self._size(reached), ColdTokens(cause=cause, culprit=culprit, tokens=0)

    def _reaches(self, marker: int, entry: int) -> bool:
        """Whether a lookup that starts at a marker reaches an entry."""
        return marker - entry >= 0 and self._new[marker].position - self._new[entry].position < self._rules.lookback

    def _find_other_route(self) -> str | None:
        before, sent = self._before, self._sent
        if before.betas is not None and sent.betas is not None and before.betas != sent.betas:
            return f"the beta {min(before.betas ^ sent.betas)}"
        old, new = before.route, sent.route
        return next((name for name in sorted({*old, *new}) if old.get(name) != new.get(name)), None)

    # The rest

    def name_rest(self, held: bool) -> ColdTokens:
        """The cause of the tokens that no rule explains."""
        before, sent = self._before, self._sent
        if sent.lacks is None or held or (sent.lacks == "times" and self._read):  # an expired entry is not read in part
            return ColdTokens(cause=MissCause.PROVIDER, culprit=Culprit.PROVIDER, tokens=0)
        is_same_model = before.layout.read.fields.model == sent.layout.read.fields.model
        if is_same_model and before.usage is not None and self._counted < before.usage.prompt:
            # The request lacks something that the previous one had.
            return ColdTokens(cause=MissCause.MESSAGES, culprit=Culprit.CLIENT, tokens=0)
        head = sent.layout.head
        ends_in_messages = head and self._read > self._new[head - 1].tokens * self._scale + self._counted // _SURE
        place = Unread.MESSAGES if ends_in_messages else Unread.PREFIX if self._read else Unread.ALL
        place = Unread.UNTIMED if sent.lacks == "times" else place
        return ColdTokens(cause=MissCause.UNRECORDED, culprit=Culprit.CLIENT, tokens=0, name=place.value)

    # Positions

    def _size(self, number: int) -> int:
        """The size of the earlier prompt up to and including a block. Only entries can be read: unless the actual reads
        are clearly nearer to another entry's size, beyond the estimation error, it is the actual reads.
        """
        if number >= self._last:
            return self._extent
        size, error = self._estimate(number), self._counted // _SURE
        distance = abs(size - self._read)
        others = (0, *map(self._estimate, self._entries))
        is_nearest = self._read > 0 and all(distance <= abs(other - self._read) + error for other in others)
        return self._read if distance <= error or is_nearest else size

    def _estimate(self, number: int) -> int:
        return round(self._old[number].tokens * self._scale) if number >= 0 else 0


def _cold(cause: MissCause, culprit: Culprit, change: Change, server: str | None = None) -> ColdTokens:
    return ColdTokens(cause=cause, culprit=culprit, tokens=0, change=change, name=change.name, server=server)


def server_of(tool: str | None) -> str | None:
    """Return the MCP server of a tool, which clients write as ``mcp__SERVER__TOOL``; None for another tool."""
    parts = (tool or "").split("__")
    return parts[1] if parts[0] == "mcp" and len(parts) > 1 and parts[1] else None
