"""Log entries: masked credentials, JSON lines, and log rotation."""

import json
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import UUID

import attrs
import pytest

from mnemosyne.app.logs import log_turns, start_logging
from mnemosyne.domain.session.input_events import HelperWorked
from mnemosyne.domain.session.round_events import EpochBegan
from mnemosyne.errors import BadConfiguration, LogUnavailable
from tests.domain.remembered import faulted
from tests.domain.session_events import interrupted
from tests.services.test_tally import accounted, append

KEY = "sk-ant-api03-abcdefghijklmnopqrst"
LOG = logging.getLogger("mnemosyne.test")


@contextmanager
def logging_as(form: str, file: Path | None = None) -> Iterator[None]:
    root = logging.getLogger()
    before, root.handlers = root.handlers, []
    try:
        start_logging("info", form, file)
        yield
    finally:
        for handler in root.handlers:
            handler.close() if file else None
        root.handlers = before
        logging.getLogger("mnemosyne").setLevel(logging.NOTSET)


def entries(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


@pytest.mark.parametrize("form", ["text", "json"])
def test_a_key_in_an_entry_or_in_an_error_is_masked(form: str, capsys: pytest.CaptureFixture[str]) -> None:
    with logging_as(form):
        try:
            raise ValueError(f"Authorization: Bearer {KEY}")
        except ValueError:
            LOG.exception("of session %s", KEY)
    said = capsys.readouterr().err
    assert KEY not in said
    assert f"of session {'*' * len(KEY)}" in said
    assert f"ValueError: Authorization: Bearer {'*' * len(KEY)}" in said


def test_an_entry_in_json_is_one_line_with_time_level_and_the_session_that_it_names(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with logging_as("json"):
        try:
            raise ValueError("two\nlines\x1b[31m")
        except ValueError:
            LOG.exception("a turn of session %s\nfailed", UUID(int=7))
        LOG.info("no session")
    said = capsys.readouterr().err
    assert "\x1b" not in said
    failed, plain = entries(said)
    assert failed["level"] == "error"
    assert failed["session"] == str(UUID(int=7))
    assert failed["message"] == f"a turn of session {UUID(int=7)}\nfailed"
    assert "ValueError: two" in failed["traceback"]
    assert failed["time"].endswith("+00:00")
    assert set(plain) == {"time", "level", "logger", "message"}


def test_a_recorded_turn_is_logged_with_its_usage(capsys: pytest.CaptureFixture[str]) -> None:
    with logging_as("json"):
        log_turns(append(accounted("claude-opus-4-5", actual=10, shadow=30, rounds=2)), None)
        log_turns(append(interrupted({})), None)
        log_turns(append(accounted("claude-opus-4-5", actual=10, shadow=30)), LogUnavailable("away"))
    accounted_for, broken_off = entries(capsys.readouterr().err)
    told = {"session": str(UUID(int=1)), "branch": "main", "turn": 1, "attempt": 1}
    used = {"input_tokens": 10, "output_tokens": 0, "cache_read_tokens": 0, "cache_write_tokens": 0}
    about = {"mode": "manage", "model": "claude-opus-4-5", "rounds": 2}
    assert (told | used | about).items() <= accounted_for.items()
    assert not any("dollars" in name for name in accounted_for), "a price depends on more than an account says"
    assert told.items() <= broken_off.items()


def test_each_memory_step_is_logged_by_name_without_quoted_content(
    capsys: pytest.CaptureFixture[str],
) -> None:
    quoting: dict[str, Any] = {"record": "secret", "dropped": ("secret",), "prompt": b"", "key": b"", "cached": False}
    quoting |= {"at": 1, "version": 1, "branch": "main", "turn": 1, "read": 1, "written": 1, "nanodollars": 1}
    done = HelperWorked(task="facts", helper="haiku", subject="secret", rejected=(), **quoting)
    epoch: dict[str, Any] = {"payback": 1, "hour": False, "price": 1, "messages": 3, "freed": 900, "epoch": 2}
    place: dict[str, Any] = {"at": 1, "branch": "main", "turn": 1}
    with logging_as("json"):
        log_turns(append(EpochBegan(reason="the window overflows", **place, **epoch)), None)
        log_turns(append(attrs.evolve(faulted("abc2345", 1), reason="secret")), None)
        log_turns(append(done), None)
        log_turns(append(attrs.evolve(done, rejected=("secret",))), None)
        log_turns(append(done), LogUnavailable("away"))
    logged = capsys.readouterr().err
    assert "secret" not in logged
    session = f"session {UUID(int=1)}"
    assert [(each["step"], each["message"]) for each in entries(logged)] == [
        ("EpochBegan", f"{session}: turn 1 begins compaction 2, which frees 900 tokens: the window overflows"),
        ("ObjectFaulted", f"{session}: turn 1 needs object abc2345 again (explicit), 1 tokens"),
        ("HelperWorked", f"{session}: facts by haiku: done, 1 filtered"),
        ("HelperWorked", f"{session}: facts by haiku: skipped for 1 reason, 1 filtered"),
    ]


def test_a_file_is_private_and_one_that_is_moved_away_is_followed_by_a_new_one(tmp_path: Path) -> None:
    file = tmp_path / "server.log"
    with logging_as("text", file):
        LOG.info("one")
        file.rename(tmp_path / "server.log.1")
        LOG.info("two")
    assert [path.read_text().split(": ")[1] for path in (tmp_path / "server.log.1", file)] == ["one\n", "two\n"]
    assert file.stat().st_mode & 0o777 == 0o600


def test_an_entry_that_cannot_be_written_breaks_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "logs"
    folder.mkdir()
    with logging_as("text", folder / "server.log"):
        (folder / "server.log").unlink()
        folder.rmdir()
        LOG.info("one")
    assert "FileNotFoundError" in capsys.readouterr().err


def test_an_unwritable_log_file_is_reported_at_once(tmp_path: Path) -> None:
    with pytest.raises(BadConfiguration, match=r"log_file = .* cannot be written: No such file or directory"):
        start_logging("info", "text", tmp_path / "nowhere" / "server.log")
