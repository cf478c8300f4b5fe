"""Splicing several rounds in the Responses API: items, usage, errors, and no memory tools."""

import json

import pytest

from mnemosyne.domain.tools.memory_tools import NAMES
from mnemosyne.domain.wire.responses import RESPONSES
from mnemosyne.http import responses_splicing as splicing
from mnemosyne.http.splicing import Next, end_of_round, splice_usage
from tests.http.responses import OFFERED, OURS, Json


def test_single_round_keeps_its_usage_and_several_use_the_last_input() -> None:
    first = {
        "input_tokens": 10,
        "output_tokens": 3,
        "output_tokens_details": {"reasoning_tokens": 2},
        "total_tokens": 13,
    }
    last = {
        "input_tokens": 20,
        "output_tokens": 4,
        "output_tokens_details": {"reasoning_tokens": 1},
        "total_tokens": 24,
    }
    assert splice_usage([first], *splicing.COUNTS) == first
    assert splice_usage([first, last], *splicing.COUNTS) == {
        "input_tokens": 20,
        "output_tokens": 7,
        "output_tokens_details": {"reasoning_tokens": 3},
        "total_tokens": 27,
    }
    assert splice_usage([None, None], *splicing.COUNTS) is None
    assert splice_usage([first, None], *splicing.COUNTS) is None


@pytest.mark.parametrize(
    "offered", [[OFFERED, *OURS], [*OURS, OFFERED], [OURS[0], OFFERED, *OURS[1:]], OURS, [OFFERED], []]
)
def test_memory_tools_are_cut_out_of_the_bytes_as_out_of_the_response(offered: list[Json]) -> None:
    response = {"id": "resp_1", "tools": offered, "output": []}
    for raw in (json.dumps(response).encode(), json.dumps(response, indent=1).encode()):
        assert json.loads(splicing.cut_tools(raw, 0, NAMES)) == splicing.without_tools(response, NAMES)
        if not set(NAMES) & {tool["name"] for tool in offered}:
            assert splicing.cut_tools(raw, 0, NAMES) == raw


def test_memory_tools_are_cut_out_with_any_spacing() -> None:
    first, second, own = (json.dumps(each).encode() for each in (OURS[0], OURS[1], OFFERED))
    spaced = b'{"tools": [' + first + b"  ,\n    " + second + b"," + own + b" ,  " + first + b' ], "output": []}'
    assert splicing.cut_tools(spaced, 0, NAMES) == b'{"tools": [' + own + b' ], "output": []}'


def test_no_round_follows_a_call_that_the_client_must_answer() -> None:
    hidden = {"type": "function_call", "call_id": "c1", "name": "memory_query", "arguments": "{}"}
    shell = {"type": "shell_call", "call_id": "c2", "action": {"commands": ["ls"]}}
    searched = {"type": "web_search_call", "id": "ws_1"}
    numbered = [{"type": "function_call", "call_id": call, "name": "look", "arguments": "{}"} for call in (7, 0, 1.5)]
    mixed = [([hidden, each], Next.END) for each in (shell, *numbered)]
    for items, follows in (([hidden], Next.CONTINUE), ([hidden, searched], Next.CONTINUE), *mixed):
        response: Json = {"status": "completed", "output": items}
        reply = RESPONSES.read_reply(json.dumps(response).encode())
        end = end_of_round(reply, response, splicing.RULES, NAMES)
        assert end.next is follows
        assert [call.id for call in end.calls] == ["c1"]
