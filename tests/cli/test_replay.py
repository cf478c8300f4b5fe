"""The replay command plays recordings into a log, and reports invalid input."""

import json
from pathlib import Path

import pytest

from tests.cli.running import run
from tests.replay.recordings import session, write_lines


def test_two_replays_write_the_same_log_and_invalid_input_is_reported(tmp_path: Path) -> None:
    lines = write_lines(tmp_path / "sessions.jsonl", session("one"), session("two", turns=5))
    logs = [tmp_path / "1.jsonl", tmp_path / "2.jsonl"]
    for log in logs:
        run("replay", str(lines), "--log", str(log))
    assert logs[0].read_bytes() == logs[1].read_bytes() != b""
    (tmp_path / "bad.jsonl").write_text("{}\n")
    found = json.loads(run("replay", str(lines), str(tmp_path / "bad.jsonl"), "--json", code=1).stdout)
    assert [each["external_id"] for each in found["sessions"]] == ["one", "two"]
    assert found["problems"] == [
        f"{tmp_path}/bad.jsonl, line 1: it is no recorded session: a JSON object with a name, messages and turns."
    ]
    assert not found["ok"]


@pytest.mark.parametrize("options", [["--window", "9", "a.jsonl"], ["--manage", "--from-log", "a"], ["--window", "9"]])
def test_options_of_the_other_kind_of_replay_are_refused(options: list[str]) -> None:
    run("replay", *options, code=2)
