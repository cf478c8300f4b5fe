"""A turn, its rounds and its appends are one trace, with their times and without content."""

from uuid import UUID

from mnemosyne.domain.ports import Append, Envelope
from mnemosyne.domain.session.events import TurnBegan, TurnFinished
from mnemosyne.services.spans import SpanMaker, TraceSpan
from tests.domain import session_events as events

STREAM = UUID(int=1)
USAGE = {"input_tokens": 10, "cache_read_input_tokens": 5, "output_tokens": 7}


def began(at: int) -> TurnBegan:
    return events.began(3, "claude-opus-5-5", at=at, body=b"said")


def finished(at: int, status: int = 200, error: str | None = None) -> TurnFinished:
    reply = {"status": status, "reply": b"said", "error_type": error}
    return events.finished(3, "claude-opus-5-5-20260101", USAGE, at=at, **reply)


def spans(maker: SpanMaker, *happened: object, request: str = "r", expected: int = 0) -> list[TraceSpan]:
    append = Append(STREAM, expected, tuple(Envelope(event, request) for event in happened))
    return list(maker.spans_of(append, 42, 900, 1000))


def test_a_turn_and_its_rounds_and_appends_are_one_trace() -> None:
    maker = SpanMaker()
    (first,) = spans(maker, began(10), events.round_began(1, at=20, turn=3, epoch=2, body=b"said"))
    ended = events.round_finished(1, USAGE, at=30, turn=3, reply=b"said")
    round_, second = spans(maker, ended, expected=2)
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
    cut = events.interrupted({}, at=3, turn=3, reason="what was said")
    broken, _ = spans(maker, began(1), cut, request="s")
    assert (refused.error, broken.error) == ("overloaded_error", "interrupted")
    assert refused.trace != broken.trace
    (append,) = spans(SpanMaker(), object())
    assert append.parent is None
