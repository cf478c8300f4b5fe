"""A file is read completely, or refused with its invalid line."""

import json
from contextlib import suppress
from pathlib import Path

import pytest

from mnemosyne.errors import BadOption
from mnemosyne.services import conversation_files
from mnemosyne.services.conversation_files import ConversationLine, SearchQuery, read_lines, read_queries
from tests.damaged import chances, damage_lines


def test_messages_and_queries_are_read_with_optional_fields(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"id": 1, "role": "Ada", "text": "a\u2028b", "time": null}\n\n{"id": "2", "text": ""}\n', "utf-8")
    assert read_lines(path) == [ConversationLine(1, "Ada", "a\u2028b", ""), ConversationLine("2", "", "", "")]
    assert read_queries(path) == [SearchQuery(1, "a\u2028b"), SearchQuery("2", "")]


@pytest.mark.parametrize("odd", ["\u2028", "\u2029", "\x85"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_only_a_line_feed_ends_a_line(odd: str, end: str, tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(f'{{"id": 1,\r"text": "a{odd}b"}}{end}{{"id": 2, "text": ""}}{end}'.encode())
    assert [(line.id, line.text) for line in read_lines(path)] == [(1, f"a{odd}b"), (2, "")]


@pytest.mark.parametrize(
    ("second", "said"),
    [
        ("{", "line 2: it is not JSON"),
        ("[]", "line 2: it is not a JSON object"),
        ('{"text": ""}', "id must be"),
        ('{"id": 2}', "it has no text"),
        ('{"id": 2, "text": "", "role": 7}', "its role is no text"),
        ('{"id": 1, "text": ""}', "line 1 has the same id, 1"),
    ],
)
def test_an_invalid_line_is_refused(tmp_path: Path, second: str, said: str) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text(f'{{"id": 1, "text": ""}}\n{second}\n', "utf-8")
    with pytest.raises(BadOption) as refused:
        read_lines(path)
    assert said in str(refused.value)


def test_queries_may_share_an_id_and_a_missing_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"id": 1, "text": "a"}\n' * 2, "utf-8")
    assert len(read_queries(path)) == 2
    with pytest.raises(BadOption, match="nosuch cannot be read: No such file"):
        read_queries(tmp_path / "nosuch")


def test_any_file_is_read_or_refused(tmp_path: Path) -> None:
    lines = [json.dumps({"id": each, "role": "Ada", "text": f"Text {each}.", "time": ""}).encode() for each in range(4)]
    for chance in chances(400):
        path = tmp_path / "a.jsonl"
        path.write_bytes(damage_lines([line + b"\n" for line in lines], chance))
        for read in (read_lines, read_queries):
            with suppress(BadOption):
                read(path)


def test_a_file_without_an_end_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conversation_files, "LARGEST", 1_000)
    with pytest.raises(BadOption, match=r"/dev/zero cannot be read: it has more than 1,000 bytes\."):
        read_lines(Path("/dev/zero"))
    assert read_lines(Path("/dev/null")) == []
