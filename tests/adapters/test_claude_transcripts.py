"""A message is found in a transcript with any other lines."""

import json
from pathlib import Path

import pytest

from mnemosyne.adapters.claude_transcripts import list_folders, split_records, was_typed, write_fork
from mnemosyne.errors import NotFound


def transcript(folder: Path, session: str, *lines: object) -> None:
    file = folder / "-home-ada-app" / f"{session}.jsonl"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("".join((each if isinstance(each, str) else json.dumps(each)) + "\n" for each in lines))


def make_entry(uuid: str, message_id: str, kind: str = "assistant") -> dict[str, object]:
    return {"type": kind, "uuid": uuid, "message": {"id": message_id, "content": []}}


def forked(folder: Path, message_id: str) -> tuple[list[str], set[str | None]]:
    """The entries of a fork of the session ``s``, and the sessions that they say they are of."""
    name = write_fork([folder], "s", message_id)
    entries = []
    for line in (folder / "-home-ada-app" / f"{name}.jsonl").read_text().splitlines():
        try:
            entries.append(json.loads(line))
        except ValueError:
            continue
    session_ids = {each["sessionId"] for each in entries if isinstance(each, dict) and "sessionId" in each}
    assert session_ids <= {name}
    return [each["uuid"] for each in entries if isinstance(each, dict) and "uuid" in each], session_ids


def test_a_fork_ends_with_the_message_and_has_its_own_session_id(tmp_path: Path) -> None:
    entries = [make_entry("a", "msg_1"), make_entry("b", "msg_2"), make_entry("c", "msg_2"), make_entry("d", "msg_3")]
    transcript(tmp_path, "s", *(each | {"sessionId": "s"} for each in entries))
    found, session_ids = forked(tmp_path, "msg_2")
    assert (found, len(session_ids)) == (["a", "b", "c"], 1)
    assert "msg_3" in (tmp_path / "-home-ada-app/s.jsonl").read_text()


def test_a_fork_behind_calls_ends_with_their_last_result(tmp_path: Path) -> None:
    def answer(uuid: str, call: str) -> dict[str, object]:
        content = [{"type": "tool_result", "tool_use_id": call, "content": "x"}]
        return {"type": "user", "uuid": uuid, "message": {"content": content}}

    entries = [make_entry("a", "msg_1"), answer("b", "call_1"), make_entry("c", "msg_1"), answer("d", "call_2")]
    transcript(tmp_path, "s", *entries, {"type": "user", "uuid": "e", "message": {"content": "Stop."}})
    name = write_fork([tmp_path], "s", "msg_1", ("call_1", "call_2"))
    lines = (tmp_path / "-home-ada-app" / f"{name}.jsonl").read_text().splitlines()
    assert [json.loads(line)["uuid"] for line in lines] == ["a", "b", "c", "d"]
    with pytest.raises(NotFound, match="and the results of its calls"):
        write_fork([tmp_path], "s", "msg_1", ("call_1", "call_3"))


def test_truncated_and_other_lines_are_skipped(tmp_path: Path) -> None:
    odd = [
        '{"type": "assistant", "message": {"id": "msg_1"',
        '["msg_1"]',
        make_entry("u", "msg_1", "user"),
        {"type": "msg_1"},
    ]
    transcript(tmp_path, "s", *odd, make_entry("a", "msg_1"))
    assert forked(tmp_path, "msg_1")[0][-1] == "a"


@pytest.mark.parametrize("odd", ["\u2028", "\u2029", "\x85", "\x0b", "\x1c", "\ud83d"])
@pytest.mark.parametrize("escaped", [True, False])
def test_only_a_line_feed_ends_an_entry(odd: str, escaped: bool, tmp_path: Path) -> None:
    user = make_entry("u", "m", "user") | {"sessionId": "s", "text": f"one {odd} two"}
    line = json.dumps(user, ensure_ascii=escaped or odd == "\ud83d")
    transcript(tmp_path, "s", line, make_entry("a", "msg_1") | {"sessionId": "s"})
    name = write_fork([tmp_path], "s", "msg_1")
    lines = (tmp_path / "-home-ada-app" / f"{name}.jsonl").read_bytes().split(b"\n")
    first, second = map(json.loads, lines[:-1])
    assert (first["text"], second["uuid"]) == (user["text"], "a")


@pytest.mark.parametrize(
    "before",
    ["{}", '{"type":"user","message":{"role":"user","c', "\0" * 4096, '{"type":"user","message":{"role":"u"},'],
)
def test_two_entries_on_one_line_are_separated(before: str, tmp_path: Path) -> None:
    user, reply = (each | {"sessionId": "s"} for each in (make_entry("u", "m", "user"), make_entry("a", "msg_1")))
    first = json.dumps(user) if before == "{}" else before
    transcript(tmp_path, "s", first + json.dumps(reply) + "\r")
    assert forked(tmp_path, "msg_1")[0][-1] == "a"
    assert (forked(tmp_path, "msg_1")[0][0] == "u") is (before == "{}")


def test_a_missing_transcript_or_message_is_reported(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="no transcript of session s"):
        write_fork([tmp_path], "s", "msg_1")
    transcript(tmp_path, "s", make_entry("a", "msg_1"))
    with pytest.raises(NotFound, match="does not contain that reply"):
        write_fork([tmp_path], "s", "msg_9")


def test_the_folder_follows_the_client_s_variables(tmp_path: Path) -> None:
    assert list_folders({"CLAUDE_CONFIG_DIR": "/etc/claude"}) == (Path("/etc/claude/projects"),)
    assert list_folders({"HOME": str(tmp_path)}) == (tmp_path / ".claude" / "projects",)


@pytest.mark.parametrize("session", ["../../evil/s", "*", "[a-z]", "?", "**/s", "p/s", "..", ".", "", "s\0", "/s"])
def test_a_session_id_is_not_a_path_or_a_pattern(session: str, tmp_path: Path) -> None:
    entry = {"type": "assistant", "uuid": "u", "sessionId": "s", "message": {"id": "msg_1", "content": []}}
    for folder in (tmp_path / "projects/p", tmp_path / "evil"):
        folder.mkdir(parents=True)
        (folder / "s.jsonl").write_text(json.dumps(entry) + "\n")
    with pytest.raises(NotFound, match="has no transcript"):
        write_fork([tmp_path / "projects"], session, "msg_1")
    assert [each.name for each in (tmp_path / "evil").iterdir()] == ["s.jsonl"]
    assert write_fork([tmp_path / "projects"], "s", "msg_1")


@pytest.mark.parametrize(
    ("line", "records"),
    [
        ("\r\n", []),
        ("\0\0\0\0", []),
        ('{"a": 1}\0\0\r\n', ['{"a": 1}']),
        ('{"a": 1}{"b": "x\u2028{\\"c\\": 2}"} \0 {"d": 3}', ['{"a": 1}', '{"b": "x\u2028{\\"c\\": 2}"}', '{"d": 3}']),
        ('{"a": 1}{"b": {"c": 2}, "d', ['{"a": 1}', '{"b": {"c": 2}, "d']),
        (
            '{"a": {"b": 1}, "c{"type": "user", "sessionId": "s"}',
            ['{"a": {"b": 1}, "c', '{"type": "user", "sessionId": "s"}'],
        ),
    ],
)
def test_a_line_is_split_into_records_and_truncated_parts(line: str, records: list[str]) -> None:
    assert split_records(line.encode()) == [record.encode() for record in records]


def test_a_prompt_was_typed_only_if_the_transcript_says_so(tmp_path: Path) -> None:
    typed = {"type": "user", "promptSource": "typed", "turnOrigin": "human", "message": {"content": "Use pnpm"}}
    transcript(tmp_path, "s", typed | {"message": {"content": [{"type": "text", "text": "Use tabs\n"}, 5]}}, typed, "{")
    assert was_typed([tmp_path], "s", "Use pnpm\n")
    assert was_typed([tmp_path], "s", "Use tabs")
    assert not was_typed([tmp_path], "s", "Use npm")
    assert not was_typed([tmp_path], "../s", "Use pnpm")
    for change in ({"turnOrigin": "scheduled"}, {"promptSource": "system"}, {"textNotTyped": True}, {"message": None}):
        transcript(tmp_path, "other", typed | change)
        assert not was_typed([tmp_path], "other", "Use pnpm")
