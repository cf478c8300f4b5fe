"""A transcript is read as a conversation from all of its lines, with each reply counted once."""

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


def test_lines_of_a_reply_are_one_message_with_its_usage_counted_once() -> None:
    (found,) = read(Transcript().work(2))
    assert [message["role"] for message in found.session["messages"]] == ["user", "assistant"] * 3
    assert [len(message["content"]) for message in found.session["messages"]] == [1, 2, 1, 2, 1, 1]
    assert [reply.used.output for reply in found.replies] == [100, 100, 100], "the last line of a reply is complete"
    assert found.replies[1].used == Tokens(read=16_000, write_5m=1_000, output=100)
    assert [turn["msg"] for turn in found.session["turns"]] == [1, 3, 5]
    assert found.session["turns"][1]["ts"] == "2026-11-01T09:00:20.000Z", "when its newest input was there"
    assert found.thinking_removed == 2
    assert recording("here", found.session).requests[-1].prompt == 18_000


def test_parallel_results_stay_together_with_different_parents() -> None:
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


def test_resumed_session_counts_only_its_new_part() -> None:
    first = Transcript().work(2)
    again = Transcript(lines=list(first), number=3, prompt=first.prompt, seconds=first.seconds)
    again.user("And the lexer?")
    again.reply(TEXT)
    old, new = read(first, again)
    assert [len(old.replies), len(new.replies)] == [3, 1]
    assert [turn["msg"] for turn in new.session["turns"]] == [7], "what was before is its history all the same"


def test_compaction_is_a_reset_with_the_clients_summary() -> None:
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


def test_rewound_part_was_paid_for_and_is_not_sent_again() -> None:
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


def test_each_sub_agent_has_its_own_conversation_in_any_line_order() -> None:
    main, agent = Transcript().work(1), Transcript(sidechain="a7", prefix="agent").work(1)
    (one, other) = read(Transcript(lines=[*main, *agent]))
    assert [(each.name, each.is_sidechain, len(each.replies)) for each in (one, other)] == [
        ("t0", False, 2),
        ("t0 agent a7", True, 2),
    ]


def test_client_messages_and_unknown_lines_are_skipped() -> None:
    made = Transcript().work(1)
    made.put(type="assistant", message={"role": "assistant", "id": "x", "model": "<synthetic>", "content": [TEXT]})
    made.put(type="summary", summary="A parser.")
    made.put(type="file-history-snapshot", snapshot={"message": 7})
    made.put(type="user", message="not a message")
    made.put(type="assistant", message={"content": 7, "usage": "much"})
    (found,) = read(made)
    assert len(found.replies) == 2
    assert len(found.session["messages"]) == 4


def test_invalid_line_is_named_and_the_rest_is_read(tmp_path: Path) -> None:
    path = Transcript().work(1).write(tmp_path / "t.jsonl", ['{"type": "user", "mess', "7", ""])
    found = list(lines_of(path))
    count = sum(isinstance(each, TranscriptLine) for each in found)
    assert [each for each in found if isinstance(each, str)] == [
        f"{path}, line {count + 1}: it is no JSON.",
        f"{path}, line {count + 2}: it is no JSON object.",
    ]


def test_one_hour_cache_is_distinguished_from_five_minutes() -> None:
    made = Transcript()
    made.user("Go.")
    made.reply(TEXT, hour=True)
    (found,) = read(made)
    assert found.replies[0].used.write_1h == 16_000
    assert found.replies[0].nanodollars == pytest.approx(16_000 * 8_000 + 100 * 20_000)


@pytest.mark.parametrize("between", ["", " ", "\0\0\0\0", "\r", '{"type": "user", "message": {"role": "us'])
def test_record_may_start_anywhere_on_its_line(between: str, tmp_path: Path) -> None:
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
    """The replies with this message id and these request ids."""
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
def test_replies_of_one_id_are_distinguished_by_their_requests(
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
def test_progress_record_is_no_rewind_target(records: int, asked: bool) -> None:
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
def test_replies_without_whole_token_counts_are_uncounted(usage: object) -> None:
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


def test_reply_with_tokens_in_a_later_line_is_counted() -> None:
    made = Transcript()
    made.user("Go.")
    made.reply(TEXT, TEXT)
    del made.lines[1]["message"]["usage"]
    (found,) = read(made)
    assert (len(found.replies), found.uncounted) == (1, [])
