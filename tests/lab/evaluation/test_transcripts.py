"""A transcript is a conversation: what its lines tell together, each reply counted once."""

import json
from pathlib import Path

import pytest

from mnemosyne.domain.cost.prices import Tokens
from mnemosyne_lab.evaluation.reading import recording
from mnemosyne_lab.evaluation.transcripts import TranscriptConversation, TranscriptLine, conversations_of, lines_of
from tests.lab.evaluation.transcripts_made import Transcript

TEXT = {"type": "text", "text": "Done."}


def read(*transcripts: Transcript) -> list[TranscriptConversation]:
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


@pytest.mark.parametrize("between", ["", " ", "\0\0\0\0", "\r", '{"type": "user", "message": {"role": "us'])
def test_a_record_is_read_wherever_on_its_line_it_begins(between: str, tmp_path: Path) -> None:
    made = Transcript().work(1)
    lines = [json.dumps(line | {"sessionId": "s"}) for line in made]
    path = tmp_path / "t.jsonl"
    path.write_text(f"{lines[0]}\n{between.join(lines[1:])}\n", "utf-8", newline="")
    records = list(lines_of(path))
    lost = [each for each in records if isinstance(each, str)]
    assert set(lost) == ({f"{path}, line 2: it is no JSON."} if "type" in between else set())
    (found,) = conversations_of("t", [each for each in records if isinstance(each, TranscriptLine)], set())
    assert found.session["messages"] == read(made)[0].session["messages"]


@pytest.mark.parametrize("odd", ["\u2028", "\u2029", "\x85", "\x1c", "\ud83d"])
@pytest.mark.parametrize("end", ["\n", "\r\n", "\0\n"])
def test_only_a_line_feed_ends_a_line(odd: str, end: str, tmp_path: Path) -> None:
    made = Transcript()
    made.user(f"one {odd} two")
    made.reply(TEXT)
    path = tmp_path / "t.jsonl"
    lines = [json.dumps(line, ensure_ascii=odd == "\ud83d") + end for line in made]
    path.write_bytes("".join(lines).encode())
    records = [each for each in lines_of(path) if isinstance(each, TranscriptLine)]
    assert [record.value for record in records] == list(made)


def with_ids(made: Transcript, message: str | None, requests: list[str | None]) -> Transcript:
    """The replies under this id of a message, and under these of their requests."""
    given = iter(requests)
    for line in made:
        if line["type"] == "assistant":
            line["message"]["id"], line["requestId"] = message, next(given)
    return made


@pytest.mark.parametrize(
    ("message", "requests", "count"),
    [
        ("msg_same", ["r1", "r2", "r3", "r4"], 4),
        ("msg_same", ["r1", "r1", "r2", "r2"], 2),
        ("", ["r1", "r2", "r2", "r1"], 2),
        (None, [None] * 4, 4),
        ("msg_same", [None] * 4, 1),
    ],
)
def test_replies_of_one_id_are_told_apart_by_their_requests(
    message: str | None, requests: list[str | None], count: int
) -> None:
    made = Transcript()
    for _ in requests:
        made.user("Again.")
        made.reply(TEXT)
    (found,) = read(with_ids(made, message, requests))
    assert len(found.replies) == len(found.session["turns"]) == count


@pytest.mark.parametrize("records", [1, 2, 5])
@pytest.mark.parametrize("asked", [True, False])
def test_a_record_of_progress_is_no_place_to_go_back_to(records: int, asked: bool) -> None:
    made = Transcript().work(1)
    call = next(line["uuid"] for line in made if line["type"] == "assistant")
    for number in range(records):
        call = made.put(type="progress", uuid=f"p{number}", parentUuid=call, data={"type": "bash_progress"})
    made.lines[2:2] = [made.lines.pop() for _ in range(records)][::-1]
    if asked:
        made.user("And the lexer?", parentUuid=call)
    made.reply(TEXT)
    (found,) = read(made)
    assert len(found.session["turns"]) == len(found.replies) == 3


@pytest.mark.parametrize(
    "usage", [{"input_tokens": 1000.0, "output_tokens": 100.0}, {"input_tokens": "9"}, {}, None, 7]
)
def test_replies_without_whole_numbers_of_tokens_are_uncounted(usage: object) -> None:
    made = Transcript()
    made.user("Go.")
    made.reply(TEXT, TEXT)
    made.user("On.")
    at = made.lines[-1]["timestamp"]
    made.reply(TEXT)
    again = Transcript(lines=list(made))
    made.lines[-1]["message"]["usage"] = usage
    first, *rest = read(made, again)
    assert (len(first.replies), first.uncounted, rest) == (1, [at], [])


def test_a_reply_is_counted_that_has_its_tokens_in_a_later_line() -> None:
    made = Transcript()
    made.user("Go.")
    made.reply(TEXT, TEXT)
    del made.lines[1]["message"]["usage"]
    (found,) = read(made)
    assert (len(found.replies), found.uncounted) == (1, [])
