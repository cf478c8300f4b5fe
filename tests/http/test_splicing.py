"""Every mixture of hidden calls and visible content becomes one legal reply, the same whether streamed or not."""

import json
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mnemosyne.domain.cost.prices import Tokens, window_of
from mnemosyne.domain.tools.cleanup_tags import CLOSING, OPENING, visible_blocks
from mnemosyne.domain.wire.message_bytes import NO_CONTENT
from mnemosyne.http.messages_splicing import RULES, splice_usage
from mnemosyne.http.splicing import EndOfReply, Next
from mnemosyne.http.stream_rewriter import StreamRewriter
from mnemosyne.http.whole_reply import WholeReply
from tests.http.rounds import (
    HIDDEN,
    READ,
    RECALL,
    RESTORE,
    Json,
    Played,
    Round,
    call,
    events_of,
    play,
    read_message,
    text,
    thinking,
)

LOOK, FOUND = text("Let me look."), text("It is in login.py.")
GLOB = call("Glob", 4, pattern="*")
SERVER = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "x"}}
UNKNOWN = {"type": "hologram", "depth": 3}
TAG = f"{OPENING}\ndrop: #abc2345\n{CLOSING}\n"


@attrs.frozen
class Case:
    rounds: list[Round]
    shown: list[Json]
    stop_reason: str
    called: list[list[Json]]
    """The calls handed out at the end of each round."""


CASES = {
    "memory tool alone": Case([Round([RECALL], "tool_use"), Round([FOUND])], [FOUND], "end_turn", [[RECALL], []]),
    "beside a client tool": Case([Round([LOOK, RECALL, READ], "tool_use")], [LOOK, READ], "tool_use", [[RECALL]]),
    "several beside several": Case(
        [Round([READ, RECALL, GLOB, RESTORE], "tool_use")], [READ, GLOB], "tool_use", [[RECALL, RESTORE]]
    ),
    "after thinking": Case(
        [Round([thinking("Hm."), RECALL], "tool_use"), Round([thinking(""), FOUND])],
        [thinking("Hm."), thinking(""), FOUND],
        "end_turn",
        [[RECALL], []],
    ),
    "between text": Case(
        [Round([LOOK, RECALL, text("And:"), RESTORE], "tool_use"), Round([FOUND])],
        [LOOK, text("And:"), FOUND],
        "end_turn",
        [[RECALL, RESTORE], []],
    ),
    "called, but the reason says end_turn": Case(
        [Round([RECALL], "end_turn"), Round([FOUND])], [FOUND], "end_turn", [[RECALL], []]
    ),
    "truncated": Case([Round([LOOK, RECALL], "max_tokens")], [LOOK], "max_tokens", [[]]),
    "truncated with nothing to show": Case([Round([RECALL], "max_tokens")], [text(NO_CONTENT)], "max_tokens", [[]]),
    "truncated in a later round": Case(
        [Round([RECALL], "tool_use"), Round([RESTORE], "model_context_window_exceeded")],
        [text(NO_CONTENT)],
        "model_context_window_exceeded",
        [[RECALL], []],
    ),
    "refused": Case([Round([LOOK, RECALL], "refusal")], [LOOK], "refusal", [[]]),
    "refused with nothing to show": Case([Round([RECALL], "refusal")], [], "refusal", [[]]),
    "paused": Case([Round([SERVER, RECALL], "pause_turn")], [SERVER], "pause_turn", [[]]),
    "paused with nothing to show": Case([Round([RECALL], "pause_turn")], [text(NO_CONTENT)], "end_turn", [[]]),
    "nothing to add": Case([Round([RECALL], "tool_use"), Round([])], [text(NO_CONTENT)], "end_turn", [[RECALL], []]),
    "a cleanup block": Case([Round([text(f"On.\n{TAG}")])], [text("On.\n")], "end_turn", [[]]),
    "a cleanup block alone": Case([Round([text(TAG)])], [text(NO_CONTENT)], "end_turn", [[]]),
    "a cleanup block beside calls": Case(
        [Round([text(TAG), RECALL, READ], "tool_use")], [READ], "tool_use", [[RECALL]]
    ),
    "a cleanup block that was cut short": Case(
        [Round([text(TAG[:-9])], "max_tokens")], [text(NO_CONTENT)], "max_tokens", [[]]
    ),
    "a cleanup block and a refusal": Case([Round([text(TAG)], "refusal")], [], "refusal", [[]]),
    "a reason that promises a call, and none": Case(
        [Round([RECALL], "tool_use"), Round([FOUND], "tool_use")], [FOUND], "end_turn", [[RECALL], []]
    ),
    "beside blocks that nobody knows": Case(
        [Round([UNKNOWN, RECALL], "tool_use"), Round([UNKNOWN, FOUND])],
        [UNKNOWN, UNKNOWN, FOUND],
        "end_turn",
        [[RECALL], []],
    ),
}


def streamed(rounds: list[Round], *, itemized: bool = False) -> tuple[Played, StreamRewriter]:
    rewriter = StreamRewriter(HIDDEN, itemized=itemized)
    return play(rewriter, [round_.stream() for round_ in rounds]), rewriter


def whole(rounds: list[Round], *, itemized: bool = False) -> tuple[Played, WholeReply]:
    rewriter = WholeReply(RULES, HIDDEN, itemized=itemized)
    return play(rewriter, [round_.whole() for round_ in rounds]), rewriter


@pytest.mark.parametrize("way", [streamed, whole])
@pytest.mark.parametrize("name", CASES)
def test_every_mixture_is_one_reply_without_hidden_content(name: str, way: Any) -> None:
    case = CASES[name]
    played, rewriter = way(case.rounds)
    got = read_message(played.raw, streamed=way is streamed)
    assert (got["content"], got["stop_reason"], got["id"]) == (case.shown, case.stop_reason, "msg_1")
    shown = rewriter.visible()
    assert json.loads(shown.body)["content"] == case.shown
    assert (shown.stop_reason, shown.complete) == (case.stop_reason, True)
    assert [[(c.id, c.name, json.loads(c.input_json)) for c in end.calls] for end in played.ends] == [
        [(c["id"], c["name"], c["input"]) for c in calls] for calls in case.called
    ]
    assert isinstance(played.outputs[-1], EndOfReply)
    assert [type(output) for output in played.outputs].count(EndOfReply) == 1


@pytest.mark.parametrize("way", [streamed, whole])
def test_visible_usage_has_the_window_of_the_last_round_and_the_output_of_all(way: Any) -> None:
    first = {"input_tokens": 3, "cache_creation_input_tokens": 500, "cache_read_input_tokens": 0, "output_tokens": 40}
    last = {"input_tokens": 9, "cache_creation_input_tokens": 60, "cache_read_input_tokens": 500, "output_tokens": 2}
    played, rewriter = way([Round([RECALL], "tool_use", first), Round([FOUND], usage=last)])
    got = read_message(played.raw, streamed=way is streamed)["usage"]
    assert {key: got[key] for key in last} == {**last, "output_tokens": 42}
    assert rewriter.visible().usage == {**last, "output_tokens": 42}


@pytest.mark.parametrize("way", [streamed, whole])
def test_usage_of_a_round_with_a_client_call_is_the_providers_own(way: Any) -> None:
    usage = {"input_tokens": 3, "output_tokens": 40, "iterations": [{"type": "message", "input_tokens": 3}]}
    played, rewriter = way([Round([RECALL, READ], "tool_use", usage)])
    assert rewriter.visible().usage == played.ends[0].reply.usage == usage


def test_iterations_are_shown_in_order_if_the_last_round_has_them() -> None:
    one, two = {"input_tokens": 1}, {"input_tokens": 2}
    assert splice_usage([{"iterations": [one]}, {"iterations": [two]}]) == {"iterations": [one, two]}
    assert splice_usage([{}, {"iterations": [two]}]) == {"iterations": [two]}
    assert splice_usage([{"iterations": [one]}, {"input_tokens": 2}]) == {"input_tokens": 2}


def test_output_is_summed_over_all_rounds_field_by_field() -> None:
    first = {
        "output_tokens": 5,
        "server_tool_use": {"web_search_requests": 2},
        "output_tokens_details": {"thinking": 3},
    }
    last = {"output_tokens": 1, "server_tool_use": {"web_fetch_requests": 1}, "service_tier": "standard"}
    assert splice_usage([first, last]) == {
        "output_tokens": 6,
        "server_tool_use": {"web_search_requests": 2, "web_fetch_requests": 1},
        "output_tokens_details": {"thinking": 3},
        "service_tier": "standard",
    }
    assert splice_usage([{"output_tokens": 5}, {"output_tokens": None}]) == {"output_tokens": 5}


FIRST: dict[str, Any] = {"input_tokens": 3, "cache_creation_input_tokens": 500, "output_tokens": 40}
LAST: dict[str, Any] = {
    "input_tokens": 9,
    "cache_creation_input_tokens": 60,
    "cache_read_input_tokens": 500,
    "cache_creation": {"ephemeral_5m_input_tokens": 0, "ephemeral_1h_input_tokens": 60},
    "output_tokens": 2,
    "service_tier": "standard",
}
WINDOW = Tokens(input=9, output=42, read=500, write_1h=60)
"""After both: the last round's input, and all that was produced."""


@pytest.mark.parametrize("way", [streamed, whole])
def test_client_that_reads_iterations_gets_the_sum_and_its_window_as_last_entry(
    way: Any,
) -> None:
    played, rewriter = way([Round([RECALL], "tool_use", FIRST), Round([FOUND], usage=LAST)], itemized=True)
    got = read_message(played.raw, streamed=way is streamed)["usage"]
    summed = {"input_tokens": 12, "cache_creation_input_tokens": 560, "cache_read_input_tokens": 500}
    assert {key: got[key] for key in (*summed, "output_tokens")} == {**summed, "output_tokens": 42}
    shown = rewriter.visible().usage
    assert [shown[key] for key in summed] == list(summed.values())
    assert shown["iterations"] == [
        {"type": "message", "cache_read_input_tokens": 0, **FIRST},
        {"type": "message", **{key: value for key, value in LAST.items() if key != "service_tier"}},
    ]
    assert window_of(shown) == WINDOW
    assert rewriter.list_hidden_usage() == []


@pytest.mark.parametrize("way", [streamed, whole])
@pytest.mark.parametrize("itemized", [True, False])
def test_usage_of_a_single_round_keeps_its_bytes(way: Any, itemized: bool) -> None:
    alone = Round([LOOK, READ], "tool_use", LAST)
    played, rewriter = way([alone], itemized=itemized)
    assert played.raw == (alone.stream() if way is streamed else alone.whole())
    assert rewriter.visible().usage == LAST
    _, rewriter = way([Round([LOOK, RECALL, READ], "tool_use", LAST)], itemized=itemized)
    assert rewriter.visible().usage == LAST
    assert rewriter.list_hidden_usage() == []


@pytest.mark.parametrize("way", [streamed, whole])
def test_hidden_usage_of_other_clients_is_the_input_of_all_rounds_but_the_last(way: Any) -> None:
    middle = {**FIRST, "input_tokens": 4}
    rounds = [Round([RECALL], "tool_use", FIRST), Round([RECALL], "tool_use", middle), Round([FOUND], usage=LAST)]
    _, rewriter = way(rounds)
    assert "iterations" not in rewriter.visible().usage
    assert rewriter.list_hidden_usage() == [Tokens(input=3, write_5m=500), Tokens(input=4, write_5m=500)]


def test_provider_iterations_stay_among_added_ones() -> None:
    own = [{"type": "compaction", "input_tokens": 9}, {"type": "message", "input_tokens": 1, "output_tokens": 1}]
    shown = splice_usage([{**FIRST, "iterations": own}, LAST], itemized=True)
    assert shown["iterations"][:2] == own
    assert window_of(shown) == WINDOW


@pytest.mark.parametrize("odd", [{}, {"output_tokens": 3}, {"input_tokens": 0, "output_tokens": 3}])
@pytest.mark.parametrize("place", [0, 1])
def test_nothing_is_summed_if_a_round_does_not_report_its_input(odd: Any, place: int) -> None:
    rounds = [LAST, LAST]
    rounds[place] = odd
    assert splice_usage(rounds, itemized=True) == splice_usage(rounds)


@pytest.mark.parametrize("itemized", [True, False])
def test_usage_of_a_broken_reply_reports_its_window(itemized: bool) -> None:
    rewriter = StreamRewriter(HIDDEN, itemized=itemized)
    play(rewriter, [Round([RECALL], "tool_use", FIRST).stream()])
    rewriter.next_round()
    cut = Round([FOUND], usage=LAST).stream()
    rewriter.feed(cut[: cut.index(b"event: message_delta")])
    assert window_of(rewriter.visible().usage) == attrs.evolve(WINDOW, output=41)


@pytest.mark.parametrize("way", [streamed, whole])
def test_turn_at_its_round_limit_ends_legally_without_added_text(way: Any) -> None:
    played, rewriter = way([Round([LOOK, RECALL], "tool_use")])
    assert played.ends[-1].next is Next.CONTINUE
    ended = Played([*played.outputs, *rewriter.end_now()])
    got = read_message(ended.raw, streamed=way is streamed)
    assert (got["content"], got["stop_reason"]) == ([LOOK], "end_turn")
    assert isinstance(ended.outputs[-1], EndOfReply)
    assert json.loads(rewriter.visible().body)["content"] == [LOOK]


WORDS = st.text(st.characters(codec="utf-8", exclude_characters="\x00"), min_size=1, max_size=12)
VISIBLE = st.one_of(
    WORDS.map(text),
    WORDS.map(lambda words: text(f"{words}\n{TAG}")),
    st.just(text(TAG)),
    WORDS.map(thinking),
    st.just(UNKNOWN),
    st.just(SERVER),
)
NUMBER = st.integers(0, 10**6)
SECRET = st.builds(lambda name, number: call(name, number, at=number), st.sampled_from(sorted(HIDDEN)), NUMBER)
CLIENT = st.builds(lambda name, number, at: call(name, number, at=at), st.sampled_from(["Read", "Bash"]), NUMBER, WORDS)
USAGE = st.fixed_dictionaries({"input_tokens": NUMBER, "cache_read_input_tokens": NUMBER, "output_tokens": NUMBER})


@st.composite
def turns(draw: st.DrawFn) -> list[Round]:
    """Rounds with hidden calls among other content, then a final round with any content."""
    blocks = st.lists(VISIBLE | SECRET, max_size=4)
    asking = [[*draw(blocks), draw(SECRET)] for _ in range(draw(st.integers(0, 2)))]
    rounds = [Round(content, "tool_use", draw(USAGE), f"msg_{n}") for n, content in enumerate(asking, start=1)]
    content = draw(st.lists(VISIBLE | SECRET | CLIENT, max_size=5))
    cut_short = draw(st.sampled_from(["max_tokens", "refusal", "pause_turn", "stop_sequence", "unheard_of"]))
    last = "end_turn" if not any(map(called, content)) else draw(st.sampled_from(["tool_use", cut_short]))
    if last == "tool_use" and not any(block["name"] not in HIDDEN for block in content if called(block)):
        content = [*content, READ]
    return [*rounds, Round(content, last, draw(USAGE), f"msg_{len(rounds) + 1}")]


def called(block: Json) -> bool:
    return bool(block["type"] == "tool_use")


@given(turns())
def test_stream_is_well_formed_and_leaks_nothing_for_any_rounds(rounds: list[Round]) -> None:
    played, rewriter = streamed(rounds)
    events = events_of(played.raw)
    assert_well_formed(events)
    assert_no_secret(played.raw)
    shown = visible_blocks(block for round_ in rounds for block in round_.content if block.get("name") not in HIDDEN)
    final = events[-2]["delta"]["stop_reason"]
    if rounds[-1].stop_reason == "tool_use":
        assert (final == "tool_use") == any(map(called, shown))
    assert [json.loads(end.reply.body) for end in played.ends] == [round_.message() for round_ in rounds]
    content = json.loads(rewriter.visible().body)["content"]
    is_announcement = all(block["type"] == "thinking" for block in shown)
    assert content == shown or (is_announcement and content == [*shown, text(NO_CONTENT)])


def assert_no_secret(raw: bytes) -> None:
    assert not any(name.encode() in raw for name in (*HIDDEN, "memory_cleanup"))


def assert_well_formed(events: list[Json]) -> None:
    """One start, blocks in sequence numbered from 0, one end."""
    kinds = [event["type"] for event in events if event["type"] != "ping"]
    assert kinds[0] == "message_start"
    assert kinds[-2:] == ["message_delta", "message_stop"]
    assert [kinds.count(kind) for kind in ("message_start", "message_delta", "message_stop")] == [1, 1, 1]
    open_block, number = False, 0
    for event in events:
        match event["type"]:
            case "content_block_start":
                assert not open_block
                assert event["index"] == number
                open_block = True
            case "content_block_delta":
                assert open_block
                assert event["index"] == number
            case "content_block_stop":
                assert open_block
                assert event["index"] == number
                open_block, number = False, number + 1
    assert not open_block
