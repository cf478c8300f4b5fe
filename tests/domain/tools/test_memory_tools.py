"""The definitions take few tokens and never change; any input is parsed as a call or refused with instructions."""

import json
from hashlib import sha256
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mnemosyne.domain.cost.tokens import Estimator, features_of_tools
from mnemosyne.domain.objects.fidelity import Fidelity
from mnemosyne.domain.objects.ids import ID_LENGTH, ID_LETTERS
from mnemosyne.domain.objects.kinds import ObjectKind
from mnemosyne.domain.tools.memory_tools import (
    LONGEST_QUESTION,
    LONGEST_REASON,
    MOST_ANSWER,
    MOST_HITS,
    MOST_RELEASED,
    NAMES,
    TOOL_JSON,
    TOOLS,
    MemoryQuery,
    MemoryRelease,
    MemoryRestore,
    MemorySearch,
    MemoryTool,
    RefusedCall,
    collides,
    parse,
    tools_json,
)
from mnemosyne.domain.wire.messages import MESSAGES

OLD_MODEL = "claude-sonnet-4-5"


def call(name: str, **given: Any) -> object:
    return parse(name, json.dumps(given))


def refusal(name: str, text: str) -> str:
    refused = parse(name, text)
    assert isinstance(refused, RefusedCall), refused
    return refused.text


# Definitions


def test_the_four_definitions_weigh_less_than_300_tokens_together() -> None:
    features = attrs.evolve(
        features_of_tools(list(TOOLS), OLD_MODEL), fixed=0
    )  # without the fixed cost of having any tool
    assert 0 < Estimator.of(OLD_MODEL).tokens(features) < 300


def test_the_definitions_are_the_bytes_that_logged_sessions_were_sent() -> None:
    """A changed byte would cost every running session its cached and signed prefix."""
    assert (
        sha256(b",".join(tools_json(MESSAGES))).hexdigest()
        == "a31ed1258a8eb28aa852847b5471c341cb46448c678761a2ef09199145fa02b4"
    )
    assert tuple(json.loads(definition) for definition in tools_json(MESSAGES)) == TOOLS
    assert sha256(TOOL_JSON).hexdigest() == "1dbcaa57b8102732588af1e7620b170ce9a6e4c98cdee6c138d0f2d0e748bf60"


def test_only_a_client_tool_with_a_memory_tools_name_collides() -> None:
    assert not collides(["Read", "mcp__memory_query", "memory", "MEMORY_QUERY"])
    for name in NAMES:
        assert collides(["Read", name])


# Accepted calls


@pytest.mark.parametrize(
    "written", ["abc1234", "#abc1234", " #abc1234 ", "[#abc1234 L3]", "[#abc1234]", "#abc1234 L4", "`#abc1234`"]
)
def test_an_id_is_parsed_however_the_model_copies_it(written: str) -> None:
    assert call("memory_restore", object_id=written) == MemoryRestore("abc1234", Fidelity.FULL, "")
    assert call("memory_release", object_ids=[written]) == MemoryRelease(("abc1234",), "")


@pytest.mark.parametrize("written", ["#abc1234.12", "abc1234.12", " [#abc1234.12] "])
def test_an_id_with_a_number_selects_an_attachment_to_restore_and_is_invalid_to_release(written: str) -> None:
    one = call("memory_restore", object_id=written, target="L2")
    assert one == MemoryRestore("abc1234", Fidelity.FULL, "", part=12)
    assert isinstance(call("memory_release", object_ids=[written]), RefusedCall)


@given(st.text(ID_LETTERS, min_size=ID_LENGTH, max_size=ID_LENGTH), st.sampled_from(Fidelity))
def test_every_mark_in_a_context_is_parsed_as_its_object(object_id: str, fidelity: Fidelity) -> None:
    mark = f"[#{object_id} {fidelity.label}]"
    assert call("memory_restore", object_id=mark) == MemoryRestore(object_id, Fidelity.FULL, "")


@pytest.mark.parametrize(
    ("written", "target"),
    [
        ({}, Fidelity.FULL),
        *[(target, Fidelity.FULL) for target in ("L0", "full", "Full ", 0, None, "")],
        *[(target, Fidelity.DETAILED) for target in ("L1", "l1", "detailed", 1)],
        *[(target, Fidelity.COMPACT) for target in ("L2", "compact", 2)],
    ],
)
def test_a_target_is_parsed_by_level_or_by_name(written: object, target: Fidelity) -> None:
    assert call("memory_restore", object_id="a", target=written, reason="r") == MemoryRestore("a", target, "r")


def test_ids_in_one_string_are_a_list_without_repetitions() -> None:
    for ids in ("#a, #b", "a b", ["#a", "b", "a"], "[#a L3] [#b L1]"):
        assert call("memory_release", object_ids=ids, reason="done") == MemoryRelease(("a", "b"), "done")


def test_numbers_are_clamped_and_invalid_numbers_become_defaults() -> None:
    for written, tokens in (
        (120, 120),
        ("120", 120),
        (1e9, MOST_ANSWER),
        (-5, 50),
        ("many", None),
        (True, None),
    ):
        assert call("memory_query", question="q", max_tokens=written) == MemoryQuery("q", None, tokens)
    assert call("memory_search", query="q", limit=10**30) == MemorySearch("q", None, MOST_HITS)


def test_a_search_may_be_limited_to_a_kind_and_a_definition_is_requested_by_name() -> None:
    assert parse("memory_tool", '{"name": " mcp__atlas__turn_page "}') == MemoryTool("mcp__atlas__turn_page")
    assert call("memory_search", query="q", kind="File context") == MemorySearch("q", ObjectKind.FILE_CONTEXT, 5)
    assert call("memory_search", query=" q ", kind=None, limit=2) == MemorySearch("q", None, 2)


def test_half_a_surrogate_pair_in_a_question_is_not_recorded() -> None:
    query = parse("memory_query", '{"question": "why \\ud800?"}')
    assert query == MemoryQuery("why ??", None, None)


def test_a_reason_becomes_one_short_line_without_object_ids() -> None:
    restore = call("memory_restore", object_id="a", reason="x\n[#zzz9999 L3] " + "y" * 500)
    assert isinstance(restore, MemoryRestore)
    assert len(restore.reason) <= LONGEST_REASON
    assert "\n" not in restore.reason
    assert "#zzz" not in restore.reason


# Refused calls

_LONG = "x" * 100_000


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("memory_query", "", "question is empty"),
        ("memory_query", '{"question": "  "}', "question is empty"),
        ("memory_query", '{"question": ["a"]}', "question is empty"),
        ("memory_query", '{"question": "what is', "not whole JSON"),
        ("memory_query", "[" * 100_000, "not whole JSON"),
        ("memory_query", '["question"]', "not a JSON object"),
        ("memory_query", json.dumps({"question": _LONG}), f"at most {LONGEST_QUESTION:,}"),
        ("memory_query", json.dumps({"question": "q", "scope": _LONG}), "scope has 100,000 characters"),
        ("memory_search", json.dumps({"query": _LONG}), "query has 100,000 characters"),
        ("memory_search", '{"query": "q", "kind": "tool"}', "kind is one of conversation_phase"),
        ("memory_restore", "{}", "Ids look like #abc1234"),
        ("memory_restore", '{"object_id": 7}', "Ids look like #abc1234"),
        ("memory_restore", '{"object_id": "the config file"}', "Ids look like #abc1234"),
        ("memory_restore", '{"object_id": "#\u0430bc1234"}', "Ids look like #abc1234"),  # a Cyrillic a
        ("memory_restore", json.dumps({"object_id": _LONG}), "Ids look like #abc1234"),
        ("memory_restore", '{"object_id": "a", "target": "L3"}', "target is L0"),
        ("memory_restore", '{"object_id": "a", "target": true}', "target is L0"),
        ("memory_release", '{"object_ids": []}', "names no object"),
        ("memory_release", '{"object_ids": ["a", "b c d"]}', "Ids look like #abc1234"),
        ("memory_release", json.dumps({"object_ids": ["a"] * 1_000}), f"at most {MOST_RELEASED} at once"),
        ("memory_tool", "{}", 'name is empty. Call it again with {"name": "…"}'),
        ("memory_tool", json.dumps({"name": _LONG}), "name has 100,000 characters"),
        ("memory_forget", "{}", "There are memory_query, memory_release, memory_restore, memory_search"),
    ],
)  # fmt: skip
def test_an_unusable_call_is_refused_with_short_instructions(name: str, text: str, expected: str) -> None:
    text_of_refusal = refusal(name, text)
    assert expected in text_of_refusal
    assert len(text_of_refusal) < 300


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=5,
)
ARGUMENTS = ("question", "scope", "max_tokens", "object_id", "target", "reason", "object_ids", "query", "kind", "limit")
INPUTS = st.text(max_size=60) | st.dictionaries(st.sampled_from(ARGUMENTS), JSON).map(json.dumps)


@given(st.sampled_from(sorted(NAMES)) | st.text(max_size=20), INPUTS)
def test_any_input_is_a_call_within_bounds_or_a_short_refusal(name: str, text: str) -> None:
    match parse(name, text):
        case RefusedCall(refused):
            assert 0 < len(refused) < 400
            refused.encode()
        case MemoryQuery(question, scope, tokens):
            assert question
            assert tokens is None or 50 <= tokens <= MOST_ANSWER
            (question + (scope or "")).encode()
        case MemoryRestore(object_id, target, reason):
            assert object_id.isascii()
            assert target <= Fidelity.COMPACT
            assert len(reason) <= LONGEST_REASON
        case MemoryRelease(object_ids, _):
            assert 0 < len(object_ids) <= MOST_RELEASED
            assert len(set(object_ids)) == len(object_ids)
        case MemorySearch(query, _, limit):
            assert query.encode()
            assert 1 <= limit <= MOST_HITS
