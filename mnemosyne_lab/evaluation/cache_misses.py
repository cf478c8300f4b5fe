"""The cache misses in recorded sessions, by cause, as far as a record without system prompt and tools allows.

Each request is laid out with a filler of the unrecorded size in front, and markers as Claude Code sets them, then
compared with the one before it by ``domain/cost/cache_misses.py``. Replies add two facts: whether thinking was on,
and, if a request reads an entry that the previous one missed, that the provider held it all along.
"""

import json
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, Literal

import attrs

from mnemosyne.domain.cost.cache_misses import (
    CacheReading,
    MissCause,
    Origin,
    SentPrompt,
    Unread,
    begin_reading,
    count_entries,
    explain_reading,
)
from mnemosyne.domain.cost.catalogue import find_tariff_name, model_of, tariff_of
from mnemosyne.domain.cost.prices import Terms, Tokens
from mnemosyne.domain.cost.prompt_cache import Cache, CacheRules, rules_of
from mnemosyne.domain.cost.prompt_layout import PromptLayout, lay_out
from mnemosyne.domain.cost.tariffs import LIFETIME
from mnemosyne.domain.cost.tokens import Estimator, features_of_message, features_of_text
from mnemosyne.domain.session.address import Address
from mnemosyne.domain.wire import transcript
from mnemosyne.domain.wire.blocks import is_result
from mnemosyne.domain.wire.model_names import bare_name
from mnemosyne.domain.wire.normal_form import THINKING, content_blocks
from mnemosyne.services.cache_misses import MissGroup, PricedCold, group_misses, price_causes
from mnemosyne_lab.evaluation.reading import times_of

_FILLER = "word "
_UNNAMED = "claude"

_THINKING = {"claude-opus-4-6": 17}
"""Tokens that thinking adds to the head of a model's prompt: in all six public sessions that switched it."""

_NEAR = 20
"""Heads of one session differ by at most 1/20 of the largest."""


@attrs.frozen(kw_only=True)
class RecordedRequest:
    """One request of a recorded session: its messages, after the client's own compactions, and the provider's counts.
    ``origin`` is how its history relates to the request before it, ``lacks`` as in ``SentPrompt``. ``thought`` is
    whether the reply holds thinking.
    """

    turn: int
    at: int
    model: str
    messages: Sequence[Mapping[str, Any]] = attrs.field(repr=False)
    usage: Tokens
    terms: Terms
    origin: Origin
    lacks: Literal["times", "head"] | None
    thought: bool


@attrs.frozen(kw_only=True)
class RecordedReading:
    turn: int
    reading: CacheReading
    causes: Sequence[PricedCold]


def read_recorded(requests: Sequence[RecordedRequest], kind: str | None = None) -> Iterator[RecordedReading]:
    """The reads of a session's requests. ``kind`` names the first one: a session's or an agent's."""
    if not requests:
        return
    reader = _Reader(requests)
    for number, request in enumerate(requests):
        reading = reader.read(number) if number else begin_reading(request.usage, kind)
        causes = price_causes(reading, request.usage, request.model, request.terms)
        yield RecordedReading(turn=request.turn, reading=reading, causes=causes)


def sum_recorded(sessions: Mapping[str, Sequence[RecordedReading]]) -> list[MissGroup]:
    """The cold tokens of several sessions by cause, the dearest first."""
    return group_misses(
        (name, Address("main", each.turn, 1), cause)
        for name, readings in sessions.items()
        for each in readings
        for cause in each.causes
    )


def requests_of(
    session: Mapping[str, Any], counts: Mapping[str, tuple[str, Tokens, Terms]] | None = None
) -> list[RecordedRequest]:
    """The requests of a session as ``reading.recording`` takes it, without those whose counts are unknown. ``counts``
    are the model, the whole usage and the terms of a turn by its ``reply``.
    """
    turns, messages, found = session["turns"], session["messages"], []
    times = times_of([turn.get("ts") for turn in turns])
    resets = list(session.get("resets") or ())
    history: list[Mapping[str, Any]] = []
    taken, named = 0, str(session.get("model") or _UNNAMED)
    is_whole = any(isinstance(each, dict) and each.get("system") for each in (session, session.get("head")))
    for number, (turn, at) in enumerate(zip(turns, times, strict=True), 1):
        origin = Origin.CONTINUES
        while resets and _first_after(resets[0], messages) <= turn["msg"]:
            reset = resets.pop(0)
            history += messages[taken : reset["before_msg"]]
            taken = max(taken, reset["before_msg"])
            if reset.get("summary"):
                history, origin = [{"role": "user", "content": reset["summary"]}], Origin.COMPACTED
            else:
                history = _clear_results(history)
        history = [*history, *messages[taken : turn["msg"]]]
        taken = max(taken, turn["msg"])
        own = (counts or {}).get(str(turn.get("reply")))
        model, usage, terms = own or (named, _tokens_of(turn.get("usage")), Terms())
        if usage is not None and usage.prompt:
            reply = [block for each in messages[turn["msg"] :][:1] for block in content_blocks(each["content"])]
            found.append(
                RecordedRequest(
                    turn=number,
                    at=at,
                    model=model,
                    messages=tuple(history),
                    usage=usage,
                    terms=terms,
                    origin=origin,
                    lacks="head" if not is_whole else "times" if turn.get("ts") is None else None,
                    thought=any(block.get("type") in THINKING for block in reply),
                )
            )
    return found


def _first_after(reset: Mapping[str, Any], messages: Sequence[Mapping[str, Any]]) -> int:
    """The fewest messages of a request after a reset. If a reply is next, the summary was the whole request."""
    place: int = reset["before_msg"]
    return place + (place >= len(messages) or messages[place]["role"] == "user")


def _clear_results(history: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The history after the client cleared old results: which ones is not on record, so the first ones are assumed."""
    for number, message in enumerate(history):
        content = message["content"]
        if isinstance(content, list) and any(is_result(block) and block.get("content") for block in content):
            cleared = [{**block, "content": ""} if is_result(block) else block for block in content]
            return [*history[:number], {**message, "content": cleared}, *history[number + 1 :]]
    return list(history)


def _tokens_of(usage: object) -> Tokens | None:
    """The counts. A provider that reports no writes includes the reads in its input count."""
    if not isinstance(usage, dict):
        return None
    counts = {name: usage.get(name) or 0 for name in ("input", "cache_write", "cache_read")}
    if not all(type(count) is int and count >= 0 for count in counts.values()):
        return None
    read = counts["cache_read"]
    plain = counts["input"] - (read if usage.get("cache_write") is None else 0)
    return Tokens(input=plain, read=read, write_5m=counts["cache_write"]) if plain >= 0 else None


class _Reader:
    def __init__(self, requests: Sequence[RecordedRequest]) -> None:
        self._requests = requests
        self._ttl = "1h" if _lives_an_hour(requests) else "5m"
        self._heads = _find_heads(requests)
        runs = _list_runs(requests, self._heads)
        self._thinking = _find_thinking(runs, self._heads)
        self._head_of = {each.turn: run[0].usage.read for run in runs for each in run}
        first = requests[0]
        estimator = Estimator.of(first.model)
        messages = sum(estimator.tokens(features_of_message(message)) for message in first.messages)
        filler = estimator.tokens(features_of_text(_FILLER * 1_000)) / 1_000
        self._filler = _FILLER * max(1, round((first.usage.prompt - messages) / filler))
        self._held: tuple[int, PromptLayout] | None = None

    def read(self, number: int) -> CacheReading:
        request, before = self._requests[number], self._requests[number - 1]
        entries, used = _entries(before), request.usage
        if entries <= used.read:
            expected = min(entries, used.prompt)
            return CacheReading(prompt=used.prompt, expected=expected, read=used.read, causes=(), change=None)
        last, sent = (
            SentPrompt(at=each.at, layout=self._lay_out(each), usage=each.usage, lacks=each.lacks)
            for each in (before, request)
        )
        found = explain_reading(
            sent,
            last,
            Cache(),
            rules=rules_for(request.model),
            minimum=model_of(request.model).cache_minimum,
            origin=request.origin,
            held=self._was_apart(number) or self._was_apart(number - 1),
        )
        assert found is not None
        if used.read not in self._heads:
            return found
        # The reads end where tools and system prompt do, which narrows the place.
        prefix = MissCause.UNRECORDED, Unread.PREFIX.value
        is_same = self._head_of[before.turn] in (0, used.read)
        place = Unread.HEAD if is_same else Unread.OTHER_HEAD
        named = (
            attrs.evolve(each, name=place.value) if (each.cause, each.name) == prefix else each for each in found.causes
        )
        return attrs.evolve(found, causes=tuple(named))

    def _was_apart(self, number: int) -> bool:
        """Whether a request read only the head, and the next one exactly the entry that this one missed. Then the
        provider held the entry, and the tools, the system prompt and the model did not change.
        """
        if not 0 < number < len(self._requests) - 1:
            return False
        last, now, later = self._requests[number - 1 : number + 2]
        return 0 < now.usage.read < _entries(last) == later.usage.read

    def _lay_out(self, request: RecordedRequest) -> PromptLayout:
        """The layout of a request, based on the last one: they share most of their bytes."""
        turn, near = self._held or (0, None)
        if near is not None and turn == request.turn:
            return near
        marker = {"type": "ephemeral", "ttl": self._ttl}
        *earlier, last = request.messages
        *blocks, end = content_blocks(last["content"])
        marked = {**last, "content": [*blocks, {**end, "cache_control": marker}]}
        body = {
            "model": request.model,
            "thinking": self._thinking[request.turn],
            "system": [{"type": "text", "text": self._filler, "cache_control": marker}],
            "messages": [*earlier, marked],
        }
        before = None if near is None else near.read
        read = transcript.read(json.dumps(body).encode(), before, most=transcript.ANY_NUMBER).transcript
        layout = lay_out(read, near)
        assert layout is not None, read.opaque
        self._held = request.turn, layout
        return layout


def _find_heads(requests: Sequence[RecordedRequest]) -> set[int]:
    """The sizes of tools and system prompt: the reads of requests with a single message, and those that several misses
    have in common, although the messages have grown between them.
    """
    missed = Counter(now.usage.read for last, now in pairwise(requests) if now.usage.read < _entries(last))
    first = {each.usage.read for each in requests if len(each.messages) == 1}
    return (first | {read for read, times in missed.items() if times > 1}) - {0}


def _list_runs(requests: Sequence[RecordedRequest], heads: Collection[int]) -> list[list[RecordedRequest]]:
    """The requests in runs with the same tools, system prompt and settings: a request that reads more than a head has
    those of the one whose entry it reads.
    """
    runs: list[list[RecordedRequest]] = []
    by_entry: dict[int, list[RecordedRequest]] = {}
    largest = max(heads, default=None)
    for last, now in zip((None, *requests), requests, strict=False):
        read = now.usage.read
        missed = last is not None and now.origin is Origin.CONTINUES and read < _entries(last)
        if not runs or (missed and (largest is None or read <= largest + largest // _NEAR)):
            own: list[RecordedRequest] = []
            runs.append(own)
        elif missed:
            own = by_entry.get(read, own)
        own.append(now)
        by_entry[_entries(now)] = own
    return runs


def _find_thinking(runs: Sequence[Sequence[RecordedRequest]], heads: Collection[int]) -> Mapping[int, bool]:
    """Whether thinking was on for the request of each turn: for a whole run if one of its replies thinks, or if
    thinking's own text makes the head that it reads longer than another one of the session.
    """

    def thinks(run: Sequence[RecordedRequest]) -> bool:
        shorter = run[0].usage.read - _THINKING.get(bare_name(run[0].model), 0)
        return any(each.thought for each in run) or (0 < shorter < run[0].usage.read and shorter in heads)

    return {each.turn: on for run in runs for on in (thinks(run),) for each in run}


def _entries(request: RecordedRequest) -> int:
    return count_entries(request.usage, rules_for(request.model))


def rules_for(model: str) -> CacheRules:
    """The rules of the cache of a model's provider. Others than Anthropic cache without markers."""
    name = find_tariff_name(None, hour=False, host="", model=model)
    return rules_of(tariff_of(name if model.startswith(_UNNAMED) else "openai-before-5.6"))


def _lives_an_hour(requests: Sequence[RecordedRequest]) -> bool:
    """Whether entries live for an hour: the writes say so, or after most pauses between five minutes and an hour, two
    thirds of the entry were read. A single read may be due to an unrecorded request that renewed the entry.
    """
    if any(each.usage.write_1h for each in requests):
        return True
    pauses = [
        3 * now.usage.read > 2 * _entries(last)
        for last, now in pairwise(requests)
        if LIFETIME["5m"] < now.at - last.at < LIFETIME["1h"] and _entries(last)
    ]
    return 2 * sum(pauses) > len(pauses)
