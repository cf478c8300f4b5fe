"""The definitions are few tokens and never change; whatever the model writes is a call or words that it can act on."""

import json
from hashlib import sha256
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mnemosyne.domain.cost.tokens import Estimator, features_of_tools
from mnemosyne.domain.objects.fidelity import Fidelity
from mnemosyne.domain.objects.kinds import ObjectKind
from mnemosyne.domain.segmentation.ingest import ID_LENGTH, ID_LETTERS
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
    features = attrs.evolve(features_of_tools(list(TOOLS), OLD_MODEL), fixed=0)  # what any tool at all costs, is paid
    assert 0 < Estimator.of(OLD_MODEL).tokens(features) < 300


def test_the_definitions_are_the_bytes_that_sessions_in_the_log_were_sent() -> None:
    """Another byte would cost every running session its cached and signed prefix."""
    assert (
        sha256(b",".join(tools_json(MESSAGES))).hexdigest()
        == "a31ed1258a8eb28aa852847b5471c341cb46448c678761a2ef09199145fa02b4"
    )
    assert tuple(json.loads(each) for each in tools_json(MESSAGES)) == TOOLS
    assert sha256(TOOL_JSON).hexdigest() == "1dbcaa57b8102732588af1e7620b170ce9a6e4c98cdee6c138d0f2d0e748bf60"


def test_every_definition_names_its_arguments_and_requires_only_those() -> None:
    definitions = [*TOOLS, json.loads(TOOL_JSON)]
    assert {tool["name"] for tool in definitions} == NAMES
    for tool in definitions:
        assert set(tool["input_schema"]["required"]) <= set(tool["input_schema"]["properties"])


def test_a_client_with_a_tool_of_one_of_our_names_collides_and_others_do_not() -> None:
    assert not collides(["Read", "mcp__memory_query", "memory", "MEMORY_QUERY"])
    for name in NAMES:
        assert collides(["Read", name])


# What is understood


@pytest.mark.parametrize(
    "written", ["abc1234", "#abc1234", " #abc1234 ", "[#abc1234 L3]", "[#abc1234]", "#abc1234 L4", "`#abc1234`"]
)
def test_an_id_is_understood_however_the_model_copies_it(written: str) -> None:
    assert call("memory_restore", object_id=written) == MemoryRestore("abc1234", Fidelity.FULL, "")
    assert call("memory_release", object_ids=[written]) == MemoryRelease(("abc1234",), "")


@pytest.mark.parametrize("written", ["#abc1234.12", "abc1234.12", " [#abc1234.12] "])
def test_an_id_with_a_number_is_one_image_or_document_in_full_to_a_restore_and_no_id_to_a_release(written: str) -> None:
    one = call("memory_restore", object_id=written, target="L2")
    assert one == MemoryRestore("abc1234", Fidelity.FULL, "", part=12)
    assert isinstance(call("memory_release", object_ids=[written]), RefusedCall)


@given(st.text(ID_LETTERS, min_size=ID_LENGTH, max_size=ID_LENGTH), st.sampled_from(Fidelity))
def test_every_mark_in_a_context_leads_to_its_object(object_id: str, fidelity: Fidelity) -> None:
    mark = f"[#{object_id} {fidelity.label}]"
    assert call("memory_restore", object_id=mark) == MemoryRestore(object_id, Fidelity.FULL, "")


@pytest.mark.parametrize(
    ("written", "target"),
    [
        ({}, Fidelity.FULL),
        *[(each, Fidelity.FULL) for each in ("L0", "full", "Full ", 0, None, "")],
        *[(each, Fidelity.DETAILED) for each in ("L1", "l1", "detailed", 1)],
        *[(each, Fidelity.COMPACT) for each in ("L2", "compact", 2)],
    ],
)
def test_a_target_is_understood_by_level_or_by_name(written: object, target: Fidelity) -> None:
    assert call("memory_restore", object_id="a", target=written, reason="r") == MemoryRestore("a", target, "r")


def test_ids_in_one_string_are_a_list_and_one_named_twice_counts_once() -> None:
    for ids in ("#a, #b", "a b", ["#a", "b", "a"], "[#a L3] [#b L1]"):
        assert call("memory_release", object_ids=ids, reason="done") == MemoryRelease(("a", "b"), "done")


def test_numbers_are_brought_into_their_bounds_and_defaults_stand_for_what_is_no_number() -> None:
    for written, tokens in ((120, 120), ("120", 120), (1e9, MOST_ANSWER), (-5, 50), ("many", 200), (True, 200)):
        assert call("memory_query", question="q", max_tokens=written) == MemoryQuery("q", None, tokens)
    assert call("memory_search", query="q", limit=10**30) == MemorySearch("q", None, MOST_HITS)


def test_a_search_is_for_a_kind_or_for_any() -> None:
    assert call("memory_search", query="q", kind="File context") == MemorySearch("q", ObjectKind.FILE_CONTEXT, 5)
    assert call("memory_search", query=" q ", kind=None, limit=2) == MemorySearch("q", None, 2)


def test_a_definition_is_asked_for_by_the_name_of_the_tool() -> None:
    assert parse("memory_tool", '{"name": " mcp__atlas__turn_page "}') == MemoryTool("mcp__atlas__turn_page")


def test_half_a_character_in_a_question_does_not_reach_what_is_recorded() -> None:
    found = parse("memory_query", '{"question": "why \\ud800?"}')
    assert found == MemoryQuery("why ??", None, 200)


def test_a_reason_is_one_short_line_that_names_no_object() -> None:
    found = call("memory_restore", object_id="a", reason="x\n[#zzz9999 L3] " + "y" * 500)
    assert isinstance(found, MemoryRestore)
    assert len(found.reason) <= LONGEST_REASON
    assert "\n" not in found.reason
    assert "#zzz" not in found.reason


# What is refused, in words to act on

_LONG = "x" * 100_000


@pytest.mark.parametrize(
    ("name", "text", "said"),
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
def test_what_cannot_be_used_is_refused_with_what_to_do_in_few_words(name: str, text: str, said: str) -> None:
    told = refusal(name, text)
    assert said in told
    assert len(told) < 300


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=5,
)
ARGUMENTS = ("question", "scope", "max_tokens", "object_id", "target", "reason", "object_ids", "query", "kind", "limit")
INPUTS = st.text(max_size=60) | st.dictionaries(st.sampled_from(ARGUMENTS), JSON).map(json.dumps)


@given(st.sampled_from(sorted(NAMES)) | st.text(max_size=20), INPUTS)
def test_whatever_is_written_is_a_call_within_its_bounds_or_a_short_refusal(name: str, text: str) -> None:
    match parse(name, text):
        case RefusedCall(told):
            assert 0 < len(told) < 400
            told.encode()
        case MemoryQuery(question, scope, tokens):
            assert question
            assert 50 <= tokens <= MOST_ANSWER
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
