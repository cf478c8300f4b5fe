"""Trace spans of turns, rounds and appends, made of durable events.

Names follow OpenTelemetry's conventions for generative AI where these exist. Spans contain no content.
"""

from collections.abc import Iterator, Mapping
from hashlib import sha256
from uuid import UUID

import attrs

from mnemosyne.bounded import Lru
from mnemosyne.domain.cost.prices import tokens_of
from mnemosyne.domain.ports import Append, Envelope
from mnemosyne.domain.session.events import TurnBegan, TurnFinished, TurnInterrupted
from mnemosyne.domain.session.round_events import RoundBegan, RoundFinished

MOST_OPEN = 10_000
"""Maximum number of open turns and rounds. The oldest makes room for a new one."""

Attributes = Mapping[str, str | int]


@attrs.frozen(kw_only=True)
class TraceSpan:
    """A piece of work. ``trace`` (16 bytes) identifies one client request, ``id`` and ``parent`` have 8 bytes; times
    are µs of UTC. ``kind`` is ``server`` (a client calls the proxy), ``client`` (the proxy calls the provider) or
    ``internal``. ``error`` is the kind of failure, if any.
    """

    trace: bytes
    id: bytes
    parent: bytes | None
    name: str
    kind: str
    began: int
    ended: int
    attributes: Attributes
    error: str | None = None


@attrs.frozen
class _Begun:
    """The beginning of a turn or a round that has not ended."""

    at: int
    model: str | None
    attributes: Attributes


class SpanMaker:
    """Makes the spans of a process's own appends."""

    def __init__(self) -> None:
        self._turns: Lru[str, _Begun] = Lru(MOST_OPEN)
        self._rounds: Lru[tuple[str, int], _Begun] = Lru(MOST_OPEN)

    def spans_of(self, append: Append, size: int, began: int, ended: int) -> Iterator[TraceSpan]:
        """The span of a durable append of ``size`` bytes, and of each turn and round that ends in it."""
        first = append.envelopes[0].correlation_id
        for envelope in append.envelopes:
            yield from self._note(append.stream, envelope)
        yield TraceSpan(
            trace=_trace(first),
            id=_id(first, "append", append.stream.hex, str(append.expected)),
            parent=_id(first, "turn") if self._turns.get(first) else None,
            name="append",
            kind="internal",
            began=began,
            ended=ended,
            attributes={
                "db.system.name": "postgresql",
                "gen_ai.conversation.id": str(append.stream),
                "mnemosyne.events": len(append.envelopes),
                "mnemosyne.bytes": size,
            },
        )

    def _note(self, stream: UUID, envelope: Envelope[object]) -> Iterator[TraceSpan]:
        request = envelope.correlation_id
        match envelope.event:
            case TurnBegan() as event:
                self._turns.put(request, _Begun(event.at, event.model, _name(stream, event)))
            case RoundBegan() as event:
                about = {**_name(stream, event), "mnemosyne.round": event.round, "mnemosyne.epoch": event.epoch}
                self._rounds.put((request, event.round), _Begun(event.at, None, about))
            case RoundFinished() as event:
                begun = self._rounds.pop((request, event.round))
                if begun is not None:
                    yield _round(request, begun, event)
            case TurnFinished() | TurnInterrupted() as event:
                begun = self._turns.get(request)
                if begun is not None:
                    yield _turn(request, begun, event)
            case _:
                pass


def _turn(request: str, begun: _Begun, ended: TurnFinished | TurnInterrupted) -> TraceSpan:
    model = None if isinstance(ended, TurnInterrupted) else ended.model
    attributes = {
        "gen_ai.request.model": begun.model,
        "gen_ai.response.model": model,
        "http.response.status_code": ended.status,
    }
    return TraceSpan(
        trace=_trace(request),
        id=_id(request, "turn"),
        parent=None,
        name=f"chat {begun.model or model or 'unknown'}",
        kind="server",
        began=begun.at,
        ended=ended.at,
        attributes={**begun.attributes, **_without_unknown(attributes), **_tokens(ended)},
        error=_error(ended),
    )


def _round(request: str, begun: _Begun, ended: RoundFinished) -> TraceSpan:
    return TraceSpan(
        trace=_trace(request),
        id=_id(request, "round", str(ended.round)),
        parent=_id(request, "turn"),
        name=f"round {ended.round}",
        kind="client",
        began=begun.at,
        ended=ended.at,
        attributes={**begun.attributes, **_without_unknown({"gen_ai.response.model": ended.model}), **_tokens(ended)},
    )


def _name(stream: UUID, began: TurnBegan | RoundBegan) -> Attributes:
    return {
        "gen_ai.operation.name": "chat",
        "gen_ai.conversation.id": str(stream),
        "mnemosyne.branch": began.branch,
        "mnemosyne.turn": began.turn,
        "mnemosyne.attempt": began.attempt,
    }


def _tokens(ended: TurnFinished | TurnInterrupted | RoundFinished) -> Attributes:
    used = tokens_of(ended.usage)
    if used is None:
        return {}
    return {"gen_ai.usage.input_tokens": used.prompt, "gen_ai.usage.output_tokens": used.output}


def _without_unknown(attributes: Mapping[str, str | int | None]) -> Attributes:
    return {name: value for name, value in attributes.items() if value is not None}


def _error(ended: TurnFinished | TurnInterrupted) -> str | None:
    """The kind of failure; an interrupted turn's reason is omitted because it may quote content."""
    if isinstance(ended, TurnInterrupted):
        return "interrupted"
    return (ended.error_type or str(ended.status)) if ended.status >= 400 else None


def _trace(request: str) -> bytes:
    return sha256(request.encode()).digest()[:16]


def _id(*parts: str) -> bytes:
    return sha256("\0".join(parts).encode()).digest()[16:24]
