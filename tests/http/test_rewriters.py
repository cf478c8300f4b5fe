"""Laws of a managed reply in each dialect, streamed and whole: without memory calls it passes byte for byte, any other
reaches the client as one reply without them, whatever the network's cuts.
"""

import itertools
import json
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mnemosyne.domain.tools.cleanup_tags import CLOSING, OPENING
from mnemosyne.domain.tools.memory_tools import NAMES, QUERY
from mnemosyne.domain.wire.message_bytes import NO_CONTENT
from mnemosyne.http.rewriters import Rewriter, make_rewriter
from mnemosyne.http.splicing import EndOfReply, FailedBeforeOutput, Next, Output
from mnemosyne.http.sse import FrameReader, event_of
from tests.domain.wire.dialects import WRITTEN, Call, ModelReply, Written
from tests.http.rounds import play
from tests.http.streams import cut

RUN, RUN_TOO = Call("call_run", "bash", {"command": "ls"}), Call("call_too", "bash", {"command": "pwd"})
ASK = Call("call_ask", QUERY, {"question": "what?"})

PLAIN = [ModelReply("I look there.", "Hm, let me see.", [RUN, RUN_TOO])]
HIDDEN = [ModelReply("Let me recall. ", "What was it?", [ASK]), ModelReply("Now I know.", "", [RUN, ASK, RUN_TOO])]
TAGGED = [ModelReply(f"Done.\n{OPENING}\ndrop: #abc2345\n{CLOSING}\nAnd more.", "", [RUN])]
ALONE = [ModelReply("", "", [ASK])]

EACH_WAY = pytest.mark.parametrize(
    ("written", "streamed"),
    [
        pytest.param(written, streamed, id=f"{written.dialect.name}, {'streamed' if streamed else 'whole'}")
        for written, streamed in itertools.product(WRITTEN, (True, False))
    ],
)
STREAMS = pytest.mark.parametrize("written", WRITTEN, ids=lambda written: written.dialect.name)
PLACES = st.lists(st.integers(0, 2_000), max_size=20)


def rewriter_of(written: Written, streamed: bool) -> Rewriter:
    return make_rewriter(written.dialect, NAMES, streamed=streamed, itemized=False)


def bytes_of(written: Written, streamed: bool, rounds: Sequence[ModelReply]) -> list[bytes]:
    return [written.stream(said) if streamed else json.dumps(written.whole(said)).encode() for said in rounds]


def joined(outputs: Sequence[Output]) -> bytes:
    return b"".join(output.raw for output in outputs)


def blocks_read(written: Written, streamed: bool, raw: bytes) -> list[dict[str, Any]]:
    if not streamed:
        return list(written.dialect.reply_content(json.loads(raw)))
    reader = written.dialect.reader()
    for event in map(event_of, FrameReader().feed(raw)):
        if event is not None:
            reader.take(event)
    return list(written.dialect.reply_content(reader.message()))


def texts_in(blocks: Sequence[dict[str, Any]]) -> str:
    return "".join(block["text"] for block in blocks if block["type"] == "text")


def calls_in(blocks: Sequence[dict[str, Any]]) -> list[str]:
    return [block["id"] for block in blocks if block["type"] == "tool_use"]


@EACH_WAY
@given(places=PLACES)
def test_reply_without_memory_calls_passes_byte_for_byte_at_every_cut(
    written: Written, streamed: bool, places: list[int]
) -> None:
    [raw] = bytes_of(written, streamed, PLAIN)
    played = play(rewriter_of(written, streamed), [raw], lambda whole: cut(whole, places))
    assert played.raw == raw
    assert isinstance(played.outputs[-1], EndOfReply)


@EACH_WAY
@given(chunks=st.lists(st.binary(min_size=1)))
def test_bytes_that_are_no_reply_pass_unchanged(written: Written, streamed: bool, chunks: list[bytes]) -> None:
    rewriter = rewriter_of(written, streamed)
    outputs = [output for chunk in chunks for output in rewriter.feed(chunk)]
    assert joined([*outputs, *rewriter.close()]) == b"".join(chunks)


@EACH_WAY
@given(place=st.integers(0, 2_000))
def test_reply_that_breaks_off_passes_up_to_its_last_byte_and_is_incomplete(
    written: Written, streamed: bool, place: int
) -> None:
    [raw] = bytes_of(written, streamed, PLAIN)
    begun = raw[: place % len(raw)]
    rewriter = rewriter_of(written, streamed)
    assert rewriter.ping() == b""
    assert joined([*rewriter.feed(begun), *rewriter.cut()]) == begun
    assert streamed or not rewriter.visible().complete


@EACH_WAY
@pytest.mark.parametrize("rounds", [HIDDEN, TAGGED], ids=["hidden calls", "a cleanup block"])
@given(places=PLACES)
def test_rewritten_reply_does_not_depend_on_the_cuts(
    written: Written, streamed: bool, rounds: list[ModelReply], places: list[int]
) -> None:
    raws = bytes_of(written, streamed, rounds)
    in_pieces = play(rewriter_of(written, streamed), raws, lambda raw: cut(raw, places))
    at_once = play(rewriter_of(written, streamed), raws)
    assert (in_pieces.raw, in_pieces.ends) == (at_once.raw, at_once.ends)


@EACH_WAY
def test_several_rounds_are_one_reply_without_memory_calls(written: Written, streamed: bool) -> None:
    rewriter = rewriter_of(written, streamed)
    played = play(rewriter, bytes_of(written, streamed, HIDDEN))
    assert b"memory_" not in played.raw
    blocks = blocks_read(written, streamed, played.raw)
    assert texts_in(blocks) == "Let me recall. Now I know."
    assert calls_in(blocks) == ["call_run", "call_too"]
    assert [(end.next, [call.id for call in end.calls]) for end in played.ends] == [
        (Next.CONTINUE, ["call_ask"]),
        (Next.END, ["call_ask"]),
    ]
    assert json.loads(played.ends[0].calls[0].input_json) == {"question": "what?"}
    assert rewriter.visible().complete
    assert [used.prompt for used in rewriter.list_hidden_usage()] == [112]


@EACH_WAY
def test_cleanup_block_is_removed_from_a_text(written: Written, streamed: bool) -> None:
    played = play(rewriter_of(written, streamed), bytes_of(written, streamed, TAGGED))
    blocks = blocks_read(written, streamed, played.raw)
    assert (texts_in(blocks), calls_in(blocks)) == ("Done.\nAnd more.", ["call_run"])
    assert b"abc2345" not in played.raw


@EACH_WAY
def test_reply_of_hidden_calls_alone_says_so_when_it_is_ended(written: Written, streamed: bool) -> None:
    rewriter = rewriter_of(written, streamed)
    played = play(rewriter, bytes_of(written, streamed, ALONE))
    raw = played.raw + joined(rewriter.end_now())
    assert texts_in(blocks_read(written, streamed, raw)) == NO_CONTENT
    assert rewriter.visible().complete


@EACH_WAY
def test_later_round_that_fails_before_any_output_is_a_plain_error(written: Written, streamed: bool) -> None:
    error = b'{"type":"error","error":{"message":"busy","type":"overloaded_error"}}'
    rewriter = rewriter_of(written, streamed)
    play(rewriter, bytes_of(written, streamed, ALONE))
    rewriter.next_round()
    [failed] = rewriter.fail(error)
    assert isinstance(failed, FailedBeforeOutput)
    assert failed.error == error
    assert rewriter.failed is streamed


@STREAMS
@pytest.mark.parametrize("make", [lambda raw: b"", lambda raw: b"<html>Bad gateway</html>", lambda raw: raw[:-9]])
def test_later_round_that_is_no_whole_reply_is_an_error_in_the_providers_format(
    written: Written, make: Callable[[bytes], bytes]
) -> None:
    [asks], [done] = bytes_of(written, False, ALONE), bytes_of(written, False, [ModelReply("cut")])
    [_, failed] = play(rewriter_of(written, False), [asks, make(done)]).outputs
    assert isinstance(failed, FailedBeforeOutput)
    assert json.loads(failed.error)["error"]["type"]
    assert b"cut" not in failed.error


@STREAMS
def test_visible_part_of_a_stream_never_names_a_memory_tool(written: Written) -> None:
    rewriter = rewriter_of(written, True)
    for number, raw in enumerate(bytes_of(written, True, HIDDEN)):
        if number:
            rewriter.next_round()
        for piece in cut(raw, list(range(0, len(raw), 50))):
            rewriter.feed(piece)
            assert b"memory_" not in rewriter.visible().body
        rewriter.close()
    assert rewriter.visible().complete
