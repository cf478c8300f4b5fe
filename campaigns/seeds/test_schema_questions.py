"""The questions of the schema, in SQL over the views, about a session that was played.

The views have no texts and no vectors: a text is asked for with `mnemosyne object`, and nearness with `mnemosyne
search`.
"""

import json
from typing import Any

import pytest
import trio

from campaigns.seeds.auth_work import ANSWER, EXPIRED, MIDDLEWARE, MIGRATION, QUESTION, SESSION, SUMMARY, TESTS, Seen

Rows = list[dict[str, Any]]

OF_SESSION = f"session_id = (select id from sessions where external_id = '{SESSION}')"


def ask(seen: Seen, query: str) -> Rows:
    return trio.run(seen.place.rows, query)


def command(seen: Seen, *arguments: str) -> Any:
    return trio.run(lambda: seen.place.command(*arguments))


def ids(rows: Rows) -> set[str]:
    return {each["id"] for each in rows}


def test_sessions_count_their_turns_objects_and_faults(seen: Seen) -> None:
    (row,) = ask(
        seen,
        "select model, total_turns, total_objects, total_faults, total_micro_faults,"
        f" last_active_at > created_at as moved from sessions where external_id = '{SESSION}'",
    )
    assert row == {
        "model": "claude-opus-5-5",
        "total_turns": len(seen.place.clients[0].bodies),
        "total_objects": len(seen.objects["ended"]),
        "total_faults": 3,  # restored once, and two files were read again
        "total_micro_faults": 1,
        "moved": True,
    }


def test_context_assembly_lists_what_is_shown_the_fullest_and_latest_first(seen: Seen) -> None:
    """The text of each row at its fidelity is what `mnemosyne object` shows."""
    rows = ask(
        seen,
        "select id, object_type, current_fidelity, pinned, losses_l1, losses_l2, can_answer_l1, can_answer_l2,"
        " fault_when_l1, tokens_l0, tokens_l1, tokens_l2, tokens_l3, key_entities, tags from semantic_objects"
        f" where {OF_SESSION} and current_fidelity < 4 order by pinned desc, current_fidelity, last_used_turn desc",
    )
    shown = [each for each in seen.objects["ended"].values() if each["current_fidelity"] < 4]
    assert ids(rows) == ids(shown)
    levels = [each["current_fidelity"] for each in rows]
    assert levels == sorted(levels)
    assert levels[-1] == 1
    told = command(seen, "object", rows[-1]["id"], "--full")
    assert SUMMARY in told["texts"]["L1"]


def test_context_of_the_last_turn_is_assembled_from_the_record(seen: Seen) -> None:
    last = ("--turn", f"{len(seen.place.clients[0].bodies)}/1")
    assert command(seen, "context", SESSION, *last)["ok"], "its bytes have the hash of what was sent"
    assert json.loads(trio.run(seen.place.told, "context", SESSION, *last, "--raw")) == seen.sent["ended"]


def test_semantic_search_finds_evicted_objects_with_their_full_text(seen: Seen) -> None:
    """Of both versions of the file: the one that was evicted is found too, and tells of the newer."""
    found = command(seen, "search", QUESTION)["results"]
    versions = [each for each in found if each["source_key"] == MIDDLEWARE and each["source_tool"] == "Read"]
    assert any(EXPIRED in each["quote"]["text"] for each in versions)
    evicted = next(each for each in seen.objects["asked"].values() if each["source_key"] == MIDDLEWARE)
    assert EXPIRED in command(seen, "object", evicted["id"], "--full")["texts"]["L0"]


def test_hybrid_search_ranks_by_a_combined_score(seen: Seen) -> None:
    found = command(seen, "search", f"{SESSION} middleware TOKEN_EXPIRED")["results"]
    scores = [each["score"] for each in found]
    assert scores == sorted(scores, reverse=True)
    assert "TOKEN_EXPIRED" in found[0]["quote"]["text"]


def test_typed_search_filters_by_kind_tag_and_entity(seen: Seen) -> None:
    rows = ask(
        seen,
        f"select stub from semantic_objects where {OF_SESSION} and object_type = 'error_context'"
        f" and 'error' = any(tags) and '{TESTS}' = any(key_entities) order by created_at desc limit 3",
    )
    assert [each["stub"].split(" (")[0] for each in rows] == ["Bash npm test failed"]


def test_pressure_is_the_sum_of_the_tokens_at_each_fidelity(seen: Seen) -> None:
    counts = ", ".join(f"count(*) filter (where current_fidelity = {level}) as l{level}" for level in range(5))
    (row,) = ask(
        seen,
        "select sum(case current_fidelity when 0 then tokens_l0 when 1 then coalesce(tokens_l1, 0)"
        " when 2 then coalesce(tokens_l2, 0) when 3 then tokens_l3 else 0 end) as total,"
        f" {counts}, count(*) filter (where pinned) as pinned from semantic_objects where {OF_SESSION}",
    )
    every = seen.objects["ended"].values()
    sizes = [each[f"tokens_l{each['current_fidelity']}"] for each in every if each["current_fidelity"] < 4]
    assert row["total"] == sum(sizes)
    assert [row[f"l{level}"] for level in range(5)] == [
        sum(each["current_fidelity"] == level for each in every) for level in range(5)
    ]


def test_earlier_read_of_a_file_is_found_by_its_path(seen: Seen) -> None:
    (row,) = ask(
        seen,
        f"select id, current_fidelity, stale from semantic_objects where {OF_SESSION}"
        f" and source_key = '{MIGRATION}' and object_type = 'file_context' order by created_at desc limit 1",
    )
    assert row == {"id": seen.find("ended", source_key=MIGRATION)["id"], "current_fidelity": 4, "stale": False}


def test_file_that_is_read_again_supersedes_its_earlier_object(seen: Seen) -> None:
    rows = ask(
        seen,
        "select later.source_key, later.source_tool, later.stale as outdated, earlier.stale, earlier.current_fidelity"
        f" from object_relationships r join semantic_objects later on later.id = r.source_id"
        f" join semantic_objects earlier on earlier.id = r.target_id where r.{OF_SESSION}"
        f" and r.relationship = 'supersedes' and later.source_key = '{MIGRATION}'",
    )
    was_read = {"source_key": MIGRATION, "source_tool": "Read"}
    assert rows == [{**was_read, "outdated": False, "stale": True, "current_fidelity": 4}]


def test_related_objects_are_found_within_two_steps(seen: Seen) -> None:
    """From the failed test to the file in which it failed."""
    failed = seen.find("shortened", object_type="error_context")["id"]
    rows = ask(
        seen,
        "with recursive related as (select target_id as id, relationship, 1 as depth from object_relationships"
        f" where {OF_SESSION} and source_id = '{failed}' and relationship in ('depends_on', 'references', 'caused_by')"
        " union all select r.target_id, r.relationship, rel.depth + 1 from object_relationships r"
        f" join related rel on r.source_id = rel.id where r.{OF_SESSION} and rel.depth < 2)"
        " select distinct o.source_key, r.depth from related r join semantic_objects o on o.id = r.id",
    )
    assert rows == [{"source_key": MIDDLEWARE, "depth": 1}]


def test_model_reads_a_file_and_the_object_has_its_source_and_score(seen: Seen) -> None:
    rows = ask(
        seen,
        "select o.object_type, o.source_tool, o.stub, o.tokens_l0 > 1000 as is_counted, a.admitted,"
        " a.score_total >= 0.4 as is_enough from semantic_objects o"
        " join admission_scores a on a.session_id = o.session_id and a.object_id = o.id"
        f" where o.{OF_SESSION} and o.source_key = '{MIDDLEWARE}' and o.source_tool = 'Read'"
        " order by o.created_at limit 1",
    )
    stub = f"Read {MIDDLEWARE} lines 1-120 (120 lines)"
    scored = {"is_counted": True, "admitted": True, "is_enough": True}
    assert rows == [{"object_type": "file_context", "source_tool": "Read", "stub": stub, **scored}]


def test_candidates_for_degradation_are_full_and_unused_for_three_turns(seen: Seen) -> None:
    rows = ask(
        seen,
        f"select id from semantic_objects where {OF_SESSION} and current_fidelity = 0"
        " and last_used_turn < (select max(turn_number) from turns where branch = 'main') - 3 order by last_used_turn",
    )
    last = len(seen.place.clients[0].bodies)
    expected = {
        key
        for key, each in seen.objects["ended"].items()
        if each["current_fidelity"] == 0 and each["last_used_turn"] < last - 3
    }
    assert ids(rows) == expected != set()


def test_transitions_have_their_trigger_and_the_pressure_before_them(seen: Seen) -> None:
    rows = ask(
        seen,
        "select o.source_key, t.from_fidelity, t.to_fidelity, t.trigger, t.pressure_zone, t.token_count > 20000 as full"
        f" from fidelity_transitions t join semantic_objects o on o.id = t.object_id where t.{OF_SESSION}"
        f" and o.source_key = '{MIDDLEWARE}' order by t.turn_number limit 2",
    )
    assert [(each["from_fidelity"], each["to_fidelity"], each["trigger"]) for each in rows] == [
        (0, 4, "pressure"),
        (4, 0, "fault"),
    ]
    assert (rows[0]["pressure_zone"], rows[0]["full"]) == ("emergency", True)


def test_micro_fault_is_recorded_with_question_answer_and_avoided_tokens(seen: Seen) -> None:
    (row,) = ask(seen, f"select * from fault_history where {OF_SESSION} and fault_type = 'micro_fault'")
    assert (row["question"], row["answer"]) == (QUESTION, ANSWER)
    assert row["object_id"] == seen.find("asked", source_key=MIDDLEWARE)["id"]
    assert row["answer_tokens"] < 200
    assert row["avoided_tokens"] > 0.95 * seen.objects["asked"][row["object_id"]]["tokens_l0"]
    assert row["latency_ms"] > 0


@pytest.mark.parametrize("kind", ["full_restore", "implicit"])
def test_other_faults_name_their_object_and_turn(seen: Seen, kind: str) -> None:
    rows = ask(
        seen,
        "select distinct o.source_tool, f.turn_number > o.source_turn_end as is_later from fault_history f"
        f" join semantic_objects o on o.id = f.object_id where f.{OF_SESSION} and f.fault_type = '{kind}'",
    )
    assert rows == [{"source_tool": "Read", "is_later": True}]
