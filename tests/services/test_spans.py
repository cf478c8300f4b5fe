"""A turn, its rounds and its appends are one trace, with their times and without content."""

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from mnemosyne.domain.ports import Append, Envelope
from mnemosyne.domain.session.events import TurnBegan, TurnFinished, TurnInterrupted, TurnRelation
from mnemosyne.domain.session.round_events import RoundBegan, RoundFinished
from mnemosyne.services.spans import SpanMaker, TraceSpan

STREAM = UUID(int=1)
WHERE: Mapping[str, Any] = {"branch": "main", "turn": 3, "attempt": 1}
BODY: Mapping[str, Any] = {"base": 0, "body": b"said", "size": 4, "sha256": b"", "stored_sha256": None, "kept": 0}
USAGE = {"input_tokens": 10, "cache_read_input_tokens": 5, "output_tokens": 7}


def began(at: int) -> TurnBegan:
    rest: Mapping[str, Any] = {"echo": None, "echoed_attempt": None, "opaque": None, "chains": (), "stream": True}
    return TurnBegan(at=at, **WHERE, **BODY, **rest, relation=TurnRelation.CONTINUES, model="claude-opus-5-5")


def finished(at: int, status: int = 200, error: str | None = None) -> TurnFinished:
    rest: Mapping[str, Any] = {"message_id": None, "stop_reason": None, "model": "claude-opus-5-5-20260101"}
    return TurnFinished(at=at, **WHERE, **rest, status=status, reply=b"said", error_type=error, usage=USAGE)


def spans(maker: SpanMaker, *events: object, request: str = "r", expected: int = 0) -> list[TraceSpan]:
    append = Append(STREAM, expected, tuple(Envelope(event, request) for event in events))
    return list(maker.spans_of(append, 42, 900, 1000))


def test_a_turn_and_its_rounds_and_appends_are_one_trace() -> None:
    maker = SpanMaker()
    begin = RoundBegan(at=20, **WHERE, **BODY, round=1, epoch=2, ends=())
    end: Mapping[str, Any] = {"model": None, "stop_reason": None, "answers": (), "faults": 0, "tokens": 0}
    (first,) = spans(maker, began(10), begin)
    round_, second = spans(maker, RoundFinished(at=30, **WHERE, **end, round=1, reply=b"said", usage=USAGE), expected=2)
    turn, third = spans(maker, finished(40), expected=3)
    assert {each.trace for each in (first, round_, second, turn, third)} == {turn.trace}
    assert {each.parent for each in (first, round_, second, third)} == {turn.id}
    assert turn.parent is None
    assert len({each.id for each in (first, round_, second, turn, third)}) == 5
    assert [(each.name, each.kind, each.began, each.ended) for each in (turn, round_, first)] == [
        ("chat claude-opus-5-5", "server", 10, 40),
        ("round 1", "client", 20, 30),
        ("append", "internal", 900, 1000),
    ]
    assert turn.attributes["gen_ai.usage.input_tokens"] == 15
    assert turn.attributes["gen_ai.conversation.id"] == str(STREAM)
    assert (round_.attributes["mnemosyne.epoch"], first.attributes["mnemosyne.bytes"]) == (2, 42)
    assert "said" not in str([each.attributes for each in (first, round_, second, turn, third)])


def test_a_refused_turn_has_the_provider_s_error_and_an_interrupted_one_its_own() -> None:
    maker = SpanMaker()
    refused, _ = spans(maker, began(1), finished(2, 529, "overloaded_error"))
    cut = TurnInterrupted(at=3, **WHERE, status=None, reply=None, reason="what was said", usage={})
    broken, _ = spans(maker, began(1), cut, request="s")
    assert (refused.error, broken.error) == ("overloaded_error", "interrupted")
    assert refused.trace != broken.trace
    (append,) = spans(SpanMaker(), object())
    assert append.parent is None
