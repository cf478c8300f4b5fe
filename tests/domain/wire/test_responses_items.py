"""What goes upstream of items: as they came, each hidden call with its result; what changed, in its item's own form."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mnemosyne.domain.tools.cleanup_tags import CLOSING, OPENING, visible_blocks
from mnemosyne.domain.tools.memory_tools import NAMES
from mnemosyne.domain.wire.history import NOT_RUN, Round
from mnemosyne.domain.wire.reply import as_json
from mnemosyne.domain.wire.responses import RESPONSES, read_message
from mnemosyne.domain.wire.responses_items import add_text, follow, of_client, write_message, write_result, write_round

Json = dict[str, Any]


def said(text: str) -> Json:
    part = {"type": "output_text", "text": text, "annotations": []}
    return {"type": "message", "id": f"msg_{text}", "status": "completed", "role": "assistant", "content": [part]}


def thought(sealed: str) -> Json:
    return {"type": "reasoning", "id": f"rs_{sealed}", "summary": [], "encrypted_content": sealed}


def call(name: str, number: int) -> Json:
    return {"type": "function_call", "id": f"fc_{number}", "call_id": f"call_{number}", "name": name, "arguments": "{}"}


RECALL, RESTORE, RUN = call("memory_query", 1), call("memory_restore", 2), call("exec_command", 3)
ANSWERED, ALL = write_result("call_1", "teal"), write_result("call_2", "all of it")


def replied(*items: Json, **results: bytes) -> Round:
    native = {"output": list(items)}
    return Round(tuple(RESPONSES.reply_content(native)), results, native)


ROUNDS = [
    replied(thought("a"), RECALL, call_1=ANSWERED),
    replied(thought("b"), said("I know."), RESTORE, RUN, call_2=ALL),
]
SEEN = [thought("a"), thought("b"), said("I know."), RUN]


def flat(groups: list[list[bytes]]) -> list[Json]:
    return [json.loads(item) for group in groups for item in group]


def follow_items(rounds: list[Round], echo: list[Json]) -> list[list[bytes]]:
    return follow(rounds, list(map(as_json, echo)), NAMES, visible_blocks)[1]


def test_a_reply_that_is_shown_whole_goes_as_it_came_with_the_results_of_its_hidden_calls() -> None:
    groups = follow_items(ROUNDS, SEEN)
    assert len(groups) == len(SEEN)
    assert flat(groups) == [
        *(thought("a"), RECALL, json.loads(ANSWERED)),
        *(thought("b"), said("I know."), RESTORE, json.loads(ALL), RUN),
    ]


def test_it_begins_with_what_was_sent_for_the_round_after_its_first() -> None:
    sent = write_round(ROUNDS[0], NAMES)
    assert [item for group in follow_items(ROUNDS, SEEN) for item in group][: len(sent)] == sent


@given(st.integers(1, len(SEEN)))
def test_wherever_a_history_is_cut_no_call_of_ours_is_without_its_result(kept: int) -> None:
    items = flat(follow_items(ROUNDS, SEEN)[:kept])
    hidden = [item["call_id"] for item in items if item.get("name") in NAMES]
    assert hidden == [item["call_id"] for item in items if item["type"] == "function_call_output"]


def test_reasoning_that_a_client_leaves_out_is_sent_where_a_hidden_call_followed_it() -> None:
    assert flat(follow_items(ROUNDS, [said("I know."), RUN])) == flat(follow_items(ROUNDS, SEEN))


def test_a_reply_without_hidden_calls_goes_to_the_byte_as_its_client_says_it() -> None:
    echo = b'{ "type":"message", "role":"assistant", "content":[{"type":"output_text","text":"I know."}] }'
    assert follow([replied(thought("b"), said("I know."))], [echo], NAMES, visible_blocks) == (1, [[echo]])


def test_of_a_round_that_is_not_shown_whole_no_reasoning_goes() -> None:
    """It may have led to a call that the client does not know of."""
    assert flat(follow_items(ROUNDS, [thought("a"), said("I kn")])) == [
        thought("a"),
        RECALL,
        json.loads(ANSWERED),
        said("I kn"),
    ]
    assert flat(follow_items(ROUNDS[1:], [thought("b"), said("Other.")])) == [said("Other.")]


def test_a_client_that_drops_a_reply_shows_nothing_of_it() -> None:
    assert follow_items(ROUNDS, []) == []


def test_hidden_calls_at_the_end_stand_behind_what_is_shown_last() -> None:
    (group,) = follow_items([replied(RUN, RECALL)], [RUN])
    assert flat([group]) == [RUN, RECALL, json.loads(write_result("call_1", NOT_RUN))]


def test_calls_are_known_by_their_ids_and_what_the_provider_did_itself_may_be_left_out() -> None:
    searched = {"type": "web_search_call", "id": "ws_1", "status": "completed"}
    rewritten = {**RUN, "arguments": '{"cmd": "ls"}'}
    groups = follow_items([replied(searched, RUN, RECALL, call_1=ANSWERED)], [rewritten])
    assert flat(groups) == [searched, RUN, RECALL, json.loads(ANSWERED)]


def test_a_text_with_a_cleanup_block_goes_back_as_the_model_wrote_it() -> None:
    written = said(f"{OPENING}\ndrop: #abc1234\n{CLOSING}\nDone.")
    alone = said(f"{OPENING}\ndrop: #abc1234\n{CLOSING}\n")
    assert flat(follow_items([replied(written, RUN)], [said("Done."), RUN])) == [written, RUN]
    assert flat(follow_items([replied(alone, RUN)], [RUN])) == [alone, RUN]
    assert flat(follow_items([replied(alone, RUN)], [{**alone, "content": []}, RUN])) == [alone, RUN]


def test_what_is_brought_stands_behind_what_the_user_said() -> None:
    part, more = ({"type": "input_text", "text": each} for each in ("Why?", "Because."))
    for content in ("Why?", [part]):
        message = {"type": "message", "role": "user", "content": content}
        assert json.loads(add_text(as_json(message), "Because."))["content"] == [part, more]


def test_a_clients_items_go_as_they_came_but_for_reasoning_that_nothing_is_known_of() -> None:
    unknown = b'{"type":"unheard_of" , "x":1}'
    assert of_client(unknown) == (unknown,)
    assert of_client(as_json(thought("a"))) == ()


# What is rendered

STUB = "[#abc1234 left] Bash ls (4 KB)"


def changed(native: Json, *content: Json) -> list[Json]:
    message = {**read_message(native), "content": list(content)}
    return write_message(message, [native])


@pytest.mark.parametrize("kind", ["function_call_output", "custom_tool_call_output", "local_shell_call_output"])
def test_a_stub_stands_for_a_result_in_the_items_own_kind(kind: str) -> None:
    native: Json = {"type": kind, "id": "fco_1", "call_id": "call_3", "output": "a\nb"}
    (result,) = read_message(native)["content"]
    note = {"type": "text", "text": "[Memory] Next, out of context:"}
    assert changed(native, {**result, "content": STUB}, note) == [
        {"type": kind, "call_id": "call_3", "output": STUB},
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": note["text"]}]},
    ]
    assert changed(native, result, note)[0] == native


@pytest.mark.parametrize(
    ("native", "given", "held"),
    [
        ({**RUN, "arguments": '{"cmd": "ls"}'}, {"cmd": "l […]"}, {"arguments": '{"cmd": "l […]"}'}),
        ({"type": "custom_tool_call", "call_id": "c", "name": "apply_patch", "input": "***"}, "*", {"input": "*"}),
        ({"type": "local_shell_call", "call_id": "c", "action": {"x": "y"}}, {"x": ""}, {"action": {"x": ""}}),
        ({**RUN, "arguments": "{not JSON"}, "{not", {"arguments": "{not"}),
    ],
)
def test_a_call_is_shortened_where_it_holds_its_input(native: Json, given: object, held: Json) -> None:
    (block,) = read_message(native)["content"]
    (made,) = changed(native, {**block, "input": given})
    assert made == {key: value for key, value in {**native, **held}.items() if key != "id"}


def test_parts_of_a_message_that_stay_keep_their_form() -> None:
    image = {"type": "input_image", "image_url": "data:image/png;base64,AAAA", "detail": "high"}
    native = {"type": "message", "id": "m", "role": "user", "content": [{"type": "input_text", "text": "Look."}, image]}
    read = read_message(native)["content"]
    assert changed(native, {"type": "text", "text": STUB}, read[1]) == [
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": STUB}, image]}
    ]


def test_what_the_model_said_stays_its_own_and_what_the_operator_said_keeps_the_role() -> None:
    assert changed(said("long"), {"type": "text", "text": "l"})[0]["content"] == [{"type": "output_text", "text": "l"}]
    developer = {"type": "message", "role": "developer", "content": "Be brief."}
    assert changed(developer, {"type": "text", "text": "x"})[0]["role"] == "developer"
