"""A whole response without memory calls passes byte for byte; several rounds become one response."""

import json

from hypothesis import given
from hypothesis import strategies as st

from mnemosyne.domain.tools.memory_tools import NAMES
from mnemosyne.http.responses_splicing import RULES
from mnemosyne.http.splicing import FailedBeforeOutput, Next
from mnemosyne.http.whole_reply import WholeReply
from tests.http.responses import OFFERED, OURS, RECALL, RUN, Round, text, thinking
from tests.http.rounds import play
from tests.http.streams import cut

OFFERS = (OURS[0], OFFERED, *OURS[1:])
PLAIN = Round([thinking("Hm."), text("I look."), RUN]).whole()


@given(st.lists(st.integers(0, len(PLAIN))))
def test_response_without_memory_calls_passes_byte_for_byte(places: list[int]) -> None:
    assert play(WholeReply(RULES, NAMES), [PLAIN], lambda raw: cut(raw, places)).raw == PLAIN


@given(st.binary())
def test_bytes_that_are_no_response_pass_unchanged(garbage: bytes) -> None:
    assert play(WholeReply(RULES, NAMES), [garbage]).raw == garbage


def test_single_round_changes_only_by_removing_memory_tools() -> None:
    content = [text("Hello.")]
    played = play(WholeReply(RULES, NAMES), [Round(content, 1, OFFERS).whole()])
    assert json.loads(played.raw) == json.loads(Round(content).whole())
    assert b'"tools": [\n    {\n      "type": "function",\n      "name": "exec_command"' in played.raw
    only_ours = play(WholeReply(RULES, NAMES), [Round(content, 1, tuple(OURS)).whole()])
    assert json.loads(only_ours.raw)["tools"] == []


def test_several_rounds_are_one_response() -> None:
    rewriter = WholeReply(RULES, NAMES)
    rounds = [Round([text("Wait."), RECALL], 1, OFFERS), Round([text("Now I know."), RUN, RECALL], 2, OFFERS)]
    played = play(rewriter, [each.whole() for each in rounds])
    response = json.loads(played.raw)
    assert [item["type"] for item in response["output"]] == ["message", "message", "function_call"]
    assert response["id"] == f"resp_{1:024d}"
    assert b"memory_" not in played.raw
    assert [end.next for end in played.ends] == [Next.CONTINUE, Next.END]
    assert rewriter.visible().complete
    assert [used.prompt for used in rewriter.list_hidden_usage()] == [100]


def test_later_round_that_is_no_response_is_a_plain_error() -> None:
    for body, kind in (
        (b'{"error":{"type":"rate_limit_exceeded"}}', "rate_limit_exceeded"),
        (b"<html>", "server_error"),
    ):
        rewriter = WholeReply(RULES, NAMES)
        play(rewriter, [Round([RECALL], 1, OFFERS).whole()])
        rewriter.next_round()
        (failure,) = [*rewriter.feed(body), *rewriter.close()]
        assert isinstance(failure, FailedBeforeOutput)
        assert json.loads(failure.error)["error"]["type"] == kind
