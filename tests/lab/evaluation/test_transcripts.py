"""A transcript is a conversation: what its lines tell together, each reply counted once."""

from pathlib import Path

import pytest

from mnemosyne.domain.cost.prices import Tokens
from mnemosyne.lab.evaluation.reading import recording
from mnemosyne.lab.evaluation.transcripts import ToldConversation, TranscriptLine, conversations_of, lines_of
from tests.lab.evaluation.transcripts_made import Transcript

TEXT = {"type": "text", "text": "Done."}


def read(*transcripts: Transcript) -> list[ToldConversation]:
    seen: set[str] = set()
    found = []
    for number, each in enumerate(transcripts):
        found += conversations_of(f"t{number}", [TranscriptLine("here", line) for line in each], seen)
    return found


def test_the_lines_of_a_reply_are_one_message_and_what_it_used_counts_once() -> None:
    (found,) = read(Transcript().work(2))
    assert [message["role"] for message in found.session["messages"]] == ["user", "assistant"] * 3
    assert [len(message["content"]) for message in found.session["messages"]] == [1, 2, 1, 2, 1, 1]
    assert [reply.used.output for reply in found.replies] == [100, 100, 100], "the last line of a reply is complete"
    assert found.replies[1].used == Tokens(read=16_000, write_5m=1_000, output=100)
    assert [turn["msg"] for turn in found.session["turns"]] == [1, 3, 5]
    assert found.session["turns"][1]["ts"] == "2026-11-01T09:00:20.000Z", "when its newest input was there"
    assert found.thinking_removed == 2
    assert recording("here", found.session).requests[-1].prompt == 18_000


def test_results_of_calls_side_by_side_stay_together_though_each_has_a_parent_of_its_own() -> None:
    made = Transcript()
    made.user("Look at both.")
    calls = [{"type": "tool_use", "id": f"c{number}", "name": "Read", "input": {}} for number in (1, 2)]
    made.reply(*calls)
    for number in (1, 2):
        result = {"type": "tool_result", "tool_use_id": f"c{number}", "content": "x"}
        made.user([result], parentUuid=f"u{number}")
    made.reply(TEXT)
    (found,) = read(made)
    assert [len(message["content"]) for message in found.session["messages"]] == [1, 2, 2, 1]


def test_a_resumed_session_that_repeats_an_older_one_counts_only_what_is_new() -> None:
    first = Transcript().work(2)
    again = Transcript(lines=list(first), number=3, prompt=first.prompt, seconds=first.seconds)
    again.user("And the lexer?")
    again.reply(TEXT)
    old, new = read(first, again)
    assert [len(old.replies), len(new.replies)] == [3, 1]
    assert [turn["msg"] for turn in new.session["turns"]] == [7], "what was before is its history all the same"


def test_a_compaction_is_a_reset_with_the_summary_that_the_client_went_on_with() -> None:
    made = Transcript().work(2)
    made.put(type="system", subtype="compact_boundary", compactMetadata={"trigger": "auto", "preTokens": 18_000})
    made.user("This session is being continued.\nThe parser is mended.", isCompactSummary=True)
    made.user("And the lexer?")
    made.reply(TEXT)
    (found,) = read(made)
    (reset,) = found.session["resets"]
    assert (reset["before_msg"], reset["trigger"]) == (6, "auto")
    assert reset["summary"].endswith("The parser is mended.")
    assert [reset.turn for reset in recording("here", found.session).resets] == [4]


def test_what_the_user_went_back_behind_was_paid_for_and_is_not_sent_any_more() -> None:
    made = Transcript()
    made.user("Where is the bug?")
    back = made.reply(TEXT)
    made.user("Mend it.")
    made.reply(TEXT)
    made.user("No: explain it first.", parentUuid=back)
    made.reply(TEXT)
    (found,) = read(made)
    assert len(found.replies) == 3
    assert [turn["msg"] for turn in found.session["turns"]] == [1, 3]
    assert "explain" in str(found.session["messages"])
    assert "Mend" not in str(found.session["messages"])


def test_each_sub_agent_has_a_conversation_of_its_own_wherever_its_lines_stand() -> None:
    main, agent = Transcript().work(1), Transcript(sidechain="a7", prefix="agent").work(1)
    (one, other) = read(Transcript(lines=[*main, *agent]))
    assert [(each.name, each.is_sidechain, len(each.replies)) for each in (one, other)] == [
        ("t0", False, 2),
        ("t0 agent a7", True, 2),
    ]


def test_what_the_client_says_itself_and_lines_of_other_kinds_are_passed_over() -> None:
    made = Transcript().work(1)
    made.put(type="assistant", message={"role": "assistant", "id": "x", "model": "<synthetic>", "content": [TEXT]})
    made.put(type="summary", summary="A parser.")
    made.put(type="file-history-snapshot", snapshot={"message": 7})
    made.put(type="user", message="not a message")
    made.put(type="assistant", message={"content": 7, "usage": "much"})
    (found,) = read(made)
    assert len(found.replies) == 2
    assert len(found.session["messages"]) == 4


def test_a_line_that_is_none_is_named_and_the_rest_is_read(tmp_path: Path) -> None:
    path = Transcript().work(1).write(tmp_path / "t.jsonl", ['{"type": "user", "mess', "7", ""])
    found = list(lines_of(path))
    count = sum(isinstance(each, TranscriptLine) for each in found)
    assert [each for each in found if isinstance(each, str)] == [
        f"{path}, line {count + 1}: it is no JSON.",
        f"{path}, line {count + 2}: it is no JSON object.",
    ]


def test_an_hour_is_told_from_five_minutes() -> None:
    made = Transcript()
    made.user("Go.")
    made.reply(TEXT, hour=True)
    (found,) = read(made)
    assert found.replies[0].used.write_1h == 16_000
    assert found.replies[0].nanodollars == pytest.approx(16_000 * 8_000 + 100 * 20_000)
