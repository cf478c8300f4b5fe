"""A whole reply with a memory call is rebuilt; any other passes unchanged."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mnemosyne.http.messages_splicing import RULES
from mnemosyne.http.splicing import EndOfReply, EndOfRound, Next
from mnemosyne.http.whole_reply import WholeReply
from tests.http.rounds import HIDDEN, READ, RECALL, Round, play, text, thinking


@pytest.mark.parametrize(
    "body",
    [
        Round([thinking("Hm."), text("Zwölf."), READ], "tool_use").whole(),
        b'{"content": 5, "usage" : []}',
        b'{"content" : ["text"]}',
    ],
)
def test_body_without_a_hidden_call_keeps_its_bytes(body: bytes) -> None:
    assert play(WholeReply(RULES, HIDDEN), [body]).outputs[-1] == EndOfReply(body)


def test_unknown_fields_are_kept_and_those_of_the_last_round_win() -> None:
    first = json.dumps({**Round([RECALL], "tool_use").message(), "container": "c1", "new": 1}).encode()
    last = json.dumps({**Round([text("It is.")], id="msg_2").message(), "new": 2, "newer": 3}).encode()
    shown = json.loads(play(WholeReply(RULES, HIDDEN), [first, last]).raw)
    assert {key: shown[key] for key in ("id", "container", "new", "newer")} == {
        "id": "msg_1",
        "container": "c1",
        "new": 2,
        "newer": 3,
    }


def test_nothing_is_output_between_rounds_and_the_call_keeps_its_numbers() -> None:
    reading = WholeReply(RULES, HIDDEN)
    [end] = play(reading, [Round([RECALL], "tool_use").whole()]).outputs
    assert isinstance(end, EndOfRound)
    assert (end.next, end.raw) == (Next.CONTINUE, b"")
    assert end.calls[0].input_json == '{"text":"login","limit":60000.0}'
    assert not reading.visible().complete


@given(st.data())
def test_rest_of_a_broken_body_names_no_memory_tool(data: st.DataObject) -> None:
    said = [text("I look."), data.draw(st.sampled_from([READ, RECALL]))]
    body = Round(said, "tool_use").whole()
    reading, reach = WholeReply(RULES, HIDDEN), data.draw(st.integers(1, len(body) - 1))
    reading.feed(body[:reach])
    left = b"".join(output.raw for output in reading.cut())
    assert left == (b"" if any(name.encode() in body[:reach] for name in HIDDEN) else body[:reach])
