"""Items sent upstream: verbatim with the results of hidden calls, or changed within the item's own form."""

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


def text_item(text: str) -> Json:
    part = {"type": "output_text", "text": text, "annotations": []}
    return {"type": "message", "id": f"msg_{text}", "status": "completed", "role": "assistant", "content": [part]}


def reasoning_item(sealed: str) -> Json:
    return {"type": "reasoning", "id": f"rs_{sealed}", "summary": [], "encrypted_content": sealed}


def call(name: str, number: int) -> Json:
    return {"type": "function_call", "id": f"fc_{number}", "call_id": f"call_{number}", "name": name, "arguments": "{}"}


RECALL, RESTORE, RUN = call("memory_query", 1), call("memory_restore", 2), call("exec_command", 3)
ANSWERED, ALL = write_result("call_1", "teal"), write_result("call_2", "all of it")


def replied(*items: Json, **results: bytes) -> Round:
    native = {"output": list(items)}
    return Round(tuple(RESPONSES.reply_content(native)), results, native)


ROUNDS = [
    replied(reasoning_item("a"), RECALL, call_1=ANSWERED),
    replied(reasoning_item("b"), text_item("I know."), RESTORE, RUN, call_2=ALL),
]
SEEN = [reasoning_item("a"), reasoning_item("b"), text_item("I know."), RUN]


def flat(groups: list[list[bytes]]) -> list[Json]:
    return [json.loads(item) for group in groups for item in group]


def follow_items(rounds: list[Round], echo: list[Json]) -> list[list[bytes]]:
    return follow(rounds, list(map(as_json, echo)), NAMES, visible_blocks)[1]


def test_a_completely_shown_reply_is_sent_verbatim_with_the_results_of_its_hidden_calls() -> None:
    groups = follow_items(ROUNDS, SEEN)
    assert len(groups) == len(SEEN)
    assert flat(groups) == [
        *(reasoning_item("a"), RECALL, json.loads(ANSWERED)),
        *(reasoning_item("b"), text_item("I know."), RESTORE, json.loads(ALL), RUN),
    ]


def test_a_followed_reply_begins_with_the_items_sent_after_its_first_round() -> None:
    sent = write_round(ROUNDS[0], NAMES)
    assert [item for group in follow_items(ROUNDS, SEEN) for item in group][: len(sent)] == sent


@given(st.integers(1, len(SEEN)))
def test_a_cut_history_has_a_result_for_every_hidden_call(kept: int) -> None:
    items = flat(follow_items(ROUNDS, SEEN)[:kept])
    hidden = [item["call_id"] for item in items if item.get("name") in NAMES]
    assert hidden == [item["call_id"] for item in items if item["type"] == "function_call_output"]


def test_reasoning_that_a_client_omits_is_sent_if_a_hidden_call_followed_it() -> None:
    assert flat(follow_items(ROUNDS, [text_item("I know."), RUN])) == flat(follow_items(ROUNDS, SEEN))


def test_a_reply_without_hidden_calls_is_sent_byte_for_byte_as_the_client_shows_it() -> None:
    echo = b'{ "type":"message", "role":"assistant", "content":[{"type":"output_text","text":"I know."}] }'
    assert follow([replied(reasoning_item("b"), text_item("I know."))], [echo], NAMES, visible_blocks) == (1, [[echo]])


def test_the_reasoning_of_an_incompletely_shown_round_is_not_sent() -> None:
    """It may have led to a call that the client does not know."""
    assert flat(follow_items(ROUNDS, [reasoning_item("a"), text_item("I kn")])) == [
        reasoning_item("a"),
        RECALL,
        json.loads(ANSWERED),
        text_item("I kn"),
    ]
    assert flat(follow_items(ROUNDS[1:], [reasoning_item("b"), text_item("Other.")])) == [text_item("Other.")]


def test_no_items_are_sent_for_a_reply_that_the_client_dropped() -> None:
    assert follow_items(ROUNDS, []) == []


def test_hidden_calls_at_the_end_follow_the_last_shown_item() -> None:
    (group,) = follow_items([replied(RUN, RECALL)], [RUN])
    assert flat([group]) == [RUN, RECALL, json.loads(write_result("call_1", NOT_RUN))]


def test_calls_are_recognized_by_id_and_items_run_by_the_provider_may_be_omitted() -> None:
    searched = {"type": "web_search_call", "id": "ws_1", "status": "completed"}
    rewritten = {**RUN, "arguments": '{"cmd": "ls"}'}
    groups = follow_items([replied(searched, RUN, RECALL, call_1=ANSWERED)], [rewritten])
    assert flat(groups) == [searched, RUN, RECALL, json.loads(ANSWERED)]


def test_a_text_with_a_cleanup_block_is_sent_back_verbatim() -> None:
    written = text_item(f"{OPENING}\ndrop: #abc1234\n{CLOSING}\nDone.")
    alone = text_item(f"{OPENING}\ndrop: #abc1234\n{CLOSING}\n")
    assert flat(follow_items([replied(written, RUN)], [text_item("Done."), RUN])) == [written, RUN]
    assert flat(follow_items([replied(alone, RUN)], [RUN])) == [alone, RUN]
    assert flat(follow_items([replied(alone, RUN)], [{**alone, "content": []}, RUN])) == [alone, RUN]


def test_a_prefetched_text_follows_the_users_message() -> None:
    part, more = ({"type": "input_text", "text": text} for text in ("Why?", "Because."))
    for content in ("Why?", [part]):
        message = {"type": "message", "role": "user", "content": content}
        assert json.loads(add_text(as_json(message), "Because."))["content"] == [part, more]


def test_a_clients_items_are_sent_verbatim_except_unknown_reasoning() -> None:
    unknown = b'{"type":"unheard_of" , "x":1}'
    assert of_client(unknown) == (unknown,)
    assert of_client(as_json(reasoning_item("a"))) == ()


# What is rendered

STUB = "[#abc1234 left] Bash ls (4 KB)"


def changed(native: Json, *content: Json) -> list[Json]:
    message = {**read_message(native), "content": list(content)}
    return write_message(message, [native])


@pytest.mark.parametrize("kind", ["function_call_output", "custom_tool_call_output", "local_shell_call_output"])
def test_a_stub_replaces_a_result_within_the_items_own_type(kind: str) -> None:
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
def test_a_call_is_shortened_in_the_member_with_its_input(native: Json, given: object, held: Json) -> None:
    (block,) = read_message(native)["content"]
    (made,) = changed(native, {**block, "input": given})
    assert made == {key: value for key, value in {**native, **held}.items() if key != "id"}


def test_unchanged_parts_of_a_message_keep_their_form() -> None:
    image = {"type": "input_image", "image_url": "data:image/png;base64,AAAA", "detail": "high"}
    native = {"type": "message", "id": "m", "role": "user", "content": [{"type": "input_text", "text": "Look."}, image]}
    read = read_message(native)["content"]
    assert changed(native, {"type": "text", "text": STUB}, read[1]) == [
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": STUB}, image]}
    ]


def test_rendered_messages_keep_the_part_type_and_role_of_their_author() -> None:
    assert changed(text_item("long"), {"type": "text", "text": "l"})[0]["content"] == [
        {"type": "output_text", "text": "l"}
    ]
    developer = {"type": "message", "role": "developer", "content": "Be brief."}
    assert changed(developer, {"type": "text", "text": "x"})[0]["role"] == "developer"
