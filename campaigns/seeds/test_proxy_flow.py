"""The proxy's flow: content leaves a full context and can be asked for, restored and released, while the client notices
nothing.
"""

import json

from campaigns.seeds.auth_work import ANSWER, EXPIRED, LOSSES, MIDDLEWARE, MIGRATION, QUESTION, SESSION, SUMMARY, Seen
from tests.cli.support import mnemosyne
from tests.scripted_helper import SentTask, read_sent


def asked(seen: Seen, task: str) -> list[SentTask]:
    """The helper's prompts for a task."""
    sent = [read_sent(body) for _, _, body in seen.place.endpoint.requests]
    return [each for each in sent if each.task == task]


def shown(seen: Seen, step: str) -> str:
    return json.dumps(seen.sent[step]["messages"])


def test_content_leaves_a_full_context_and_stays_on_record(seen: Seen) -> None:
    assert json.dumps(EXPIRED)[1:-1] in shown(seen, "full") + shown(seen, "read")
    assert json.dumps(EXPIRED)[1:-1] not in shown(seen, "shortened")
    assert seen.find("shortened", source_key=MIDDLEWARE)["current_fidelity"] == 4


def test_old_reply_is_shown_as_the_summary_of_the_helper_with_its_declared_losses(seen: Seen) -> None:
    explained = seen.find("shortened", current_fidelity=1)
    assert explained["helper_l1"] == "openai:scripted"
    assert set(LOSSES["dropped"]) <= set(explained["losses_l1"])
    assert (explained["can_answer_l1"], explained["fault_when_l1"]) == (LOSSES["can_answer"], LOSSES["fault_when"])
    assert explained["tokens_l1"] < 0.4 * explained["tokens_l0"]
    assert json.dumps(SUMMARY)[1:-1] in shown(seen, "shortened")
    assert f"#{explained['id']} in part" in shown(seen, "shortened")
    assert any(SUMMARY in each.text for each in asked(seen, "summarize"))


def test_question_is_answered_by_the_helper_from_the_evicted_full_text(seen: Seen) -> None:
    (question,) = asked(seen, "answer")
    assert QUESTION in question.text
    assert EXPIRED in question.text, "the helper reads the full text, not a summary"
    assert ANSWER in seen.result("asked")
    assert EXPIRED in seen.result("asked"), "the words that the sentence rests on"


def test_answer_is_the_result_of_a_call_that_the_client_never_sees(seen: Seen) -> None:
    *_, called, answered = seen.sent["asked"]["messages"]
    (call,) = (each for each in called["content"] if each["type"] == "tool_use")
    assert (call["name"], call["input"]["question"]) == ("memory_query", QUESTION)
    assert answered["content"][-1]["tool_use_id"] == call["id"]
    (client,) = seen.place.clients
    assert "TOKEN_EXPIRED." in json.dumps(client.history)
    assert ANSWER not in json.dumps(client.history)


def test_question_changes_no_fidelity_and_saves_nearly_all_of_a_restore(seen: Seen) -> None:
    before, after = (
        {key: each["current_fidelity"] for key, each in seen.objects[step].items()} for step in ("shortened", "asked")
    )
    assert before.items() <= after.items()
    evicted = seen.find("asked", source_key=MIDDLEWARE)
    assert evicted["micro_fault_count"] == 1
    saved = 1 - len(seen.result("asked")) / len("\n".join(each.text for each in asked(seen, "answer")))
    assert saved > 0.9


def test_search_for_a_kind_lists_evicted_objects_without_their_content(seen: Seen) -> None:
    failed = seen.find("searched", object_type="error_context")
    result = seen.result("searched")
    assert f"#{failed['id']} L4, error_context" in result
    assert failed["stub"] in result
    assert "TypeError" not in result


def test_restored_object_stands_in_full_at_the_end(seen: Seen) -> None:
    last = [body["messages"][-1]["content"] for body in seen.place.sent]
    (result,) = (each for each in map(json.dumps, last) if "is restored here at L0" in each)
    assert json.dumps(EXPIRED)[1:-1] in result
    [old] = [
        each for each in seen.objects["restored"].values() if each["source_key"] == MIDDLEWARE and each["fault_count"]
    ]
    assert (old["current_fidelity"], old["stale"]) == (0, True), "restored, and read again after the edit"


def test_released_object_leaves_with_the_next_compaction(seen: Seen) -> None:
    """The document wants it to leave at once, which would break the provider's cache at its place."""
    released = seen.find("released", source_key=MIGRATION)
    assert released["released"]
    assert released["current_fidelity"] < 4
    assert seen.objects["ended"][released["id"]]["current_fidelity"] == 4


def test_session_is_one_record_that_verifies(seen: Seen) -> None:
    told = mnemosyne("verify", SESSION, environ=seen.place.home.environ)
    assert told.returncode == 0, told.stdout + told.stderr
