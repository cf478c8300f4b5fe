"""SIGHUP reloads the settings; a closed terminal ends the server."""

import json
import os
import pty
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import attrs
import pytest

from mnemosyne.actors.spending_guard import SpendingGuard
from mnemosyne.app.reloading import Reloader
from mnemosyne.config import Config, list_settings, load
from mnemosyne.domain.cost.catalogue import in_force, price_of, use
from mnemosyne.domain.cost.prices import NANODOLLARS
from mnemosyne.domain.session.budget import SpendingLimits
from mnemosyne.domain.session.round_events import BranchModeSet, Mode
from mnemosyne.http.gateway import Gateway
from tests.adapters.log_support import until
from tests.app.home import at_home
from tests.http.managing import Client, text
from tests.waiting import DEADLINE

MODEL = "[prices.our-model]\ninput = 1\noutput = 2\nread = 0.5\n"


@pytest.fixture(autouse=True)
def _models() -> Iterator[None]:
    before = in_force()
    yield
    use(before)


@attrs.define
class Changed:
    """The parts of a gateway and of a guard that a reload changes."""

    mode: Mode = Mode.OBSERVE
    limits: SpendingLimits = attrs.field(factory=SpendingLimits)


@attrs.define
class Running:
    """A reloader, its settings file, and its effects."""

    folder: Path
    gateway: Changed = attrs.field(factory=Changed)
    guard: Changed = attrs.field(factory=Changed)
    restarts: int = 0

    @property
    def file(self) -> Path:
        return self.folder / "config.toml"

    def load(self) -> Config:
        return load({"data_dir": str(self.folder)}, {})

    def restart(self) -> None:
        self.restarts += 1

    def reloader(self) -> Reloader:
        config = self.load()
        gateway = cast("Gateway", self.gateway)
        guard = cast("SpendingGuard", self.guard)
        return Reloader(config, self.load, gateway, guard, list_settings(config), self.restart)


def test_a_reload_applies_changes_and_restarts_the_worker(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    running = Running(tmp_path)
    reloader = running.reloader()
    running.file.write_text('mode = "manage"\nlog_level = "debug"\nday_budget_dollars = 2\n')
    (tmp_path / "models.toml").write_text(MODEL)
    reloader.reload()
    assert (running.gateway.mode, reloader.shown["mode"]) == (Mode.MANAGE, "manage")
    assert price_of("our-model") is not None
    assert running.restarts == 1
    assert running.guard.limits == SpendingLimits(day=2 * NANODOLLARS)
    assert "changed: mode, log_level, day_budget_dollars, prices and models" in caplog.text
    (tmp_path / "models.toml").unlink()
    running.file.unlink()
    reloader.reload()
    assert price_of("our-model") is None
    assert (running.gateway.mode, reloader.shown["mode"]) == (Mode.OBSERVE, "observe")


def test_a_reload_reports_settings_that_need_a_restart(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    running = Running(tmp_path)
    reloader = running.reloader()
    running.file.write_text('port = 9000\ntenant = "other"\nmode = "manage"\n')
    reloader.reload()
    assert "Restart the server to apply the other changes: port, tenant." in caplog.text
    assert (reloader.config.port, reloader.shown["tenant"], running.gateway.mode) == (8787, "local", Mode.MANAGE)
    assert running.restarts == 0  # the worker reads the file, too


def test_a_reload_reports_removed_settings_and_applies_the_others(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mnemosyne.config.REMOVED_SETTINGS", {"goal_size": None})
    running = Running(tmp_path)
    reloader = running.reloader()
    running.file.write_text('goal_size = 3\nmode = "manage"\n')
    reloader.reload()
    assert caplog.text.count("goal_size (no longer needed)") == 1
    assert running.gateway.mode == Mode.MANAGE


@pytest.mark.parametrize(
    ("settings", "models", "why"),
    [
        ('mode = "manag"', "", "mode = 'manag'"),
        ('mode = "manage"', "[prices.x]", "input is missing"),
        ("mode = ", "", "is not TOML"),
    ],
)
def test_invalid_settings_change_nothing(
    settings: str, models: str, why: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    running = Running(tmp_path)
    reloader = running.reloader()
    before = in_force()
    running.file.write_text(settings)
    (tmp_path / "models.toml").write_text(models)
    reloader.reload()
    assert why in caplog.text
    assert (running.gateway.mode, in_force().digest, running.restarts) == (Mode.OBSERVE, before.digest, 0)


@pytest.mark.release
async def test_sighup_reloads_the_file_and_new_conversations_are_managed(tmp_path: Path, dsn: str) -> None:
    file, log = tmp_path / "settings.toml", tmp_path / "served.log"
    file.write_text('mode = "observe"\n')
    options = ("--config", str(file), "--log-file", str(log), "--log-format", "json")
    async with at_home(tmp_path, dsn) as home:
        async with home.served(None, *options) as served:
            file.write_text('mode = "manage"\n')
            served.process.send_signal(signal.SIGHUP)
            await until(lambda: any("changed: mode" in entry["message"] for entry in _entries(log)))
            client = Client(served.url, session="s")
            for _ in range(2):
                assert (await client.work("Where is it?"))["content"][-1] == text("It is there.")
        home.assert_lawful()
        modes = [event.mode for event in await home.events("s") if isinstance(event, BranchModeSet)]
    assert modes == [Mode.MANAGE]
    turns = [entry for entry in _entries(log) if "input_tokens" in entry]
    assert {entry["mode"] for entry in turns} == {"manage"}
    assert len({entry["session"] for entry in turns}) == 1


def _entries(log: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in log.read_text().splitlines()]


WAITING = """
import fcntl, os, sys, termios, trio
from mnemosyne.app.reloading import reload_on_hangup
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
async def main():
    async with trio.open_nursery() as nursery:
        nursery.start_soon(reload_on_hangup, lambda: os.write(int(sys.argv[1]), b"reloaded "))
        await trio.testing.wait_all_tasks_blocked()
        os.write(int(sys.argv[1]), b"ready ")
import trio.testing
trio.run(main)
"""


@contextmanager
def at_terminal(*, ignoring: bool) -> Iterator[tuple["subprocess.Popen[bytes]", int, Callable[[], bytes]]]:
    """A process with its own terminal; yields it, the terminal's other end, and a function that reads its output."""
    ours, theirs = pty.openpty()
    reading, writing = os.pipe()
    process = subprocess.Popen(
        [sys.executable, "-c", WAITING, str(writing)],
        stdin=theirs,
        pass_fds=(writing,),
        start_new_session=True,
        preexec_fn=(lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN) and None) if ignoring else None,
    )
    os.close(theirs)
    os.close(writing)
    try:
        yield process, ours, lambda: os.read(reading, 100)
    finally:
        process.kill()
        process.wait()
        os.close(reading)


@pytest.mark.release
def test_a_closed_terminal_ends_the_server_and_other_sighups_reload() -> None:
    with at_terminal(ignoring=False) as (process, terminal, next_words):
        assert next_words() == b"ready "
        process.send_signal(signal.SIGHUP)
        assert next_words() == b"reloaded "
        os.close(terminal)
        assert process.wait(DEADLINE) == -signal.SIGTERM


@pytest.mark.release
def test_under_nohup_a_closed_terminal_ends_nothing() -> None:
    with at_terminal(ignoring=True) as (process, terminal, next_words):
        assert next_words() == b"ready "
        os.close(terminal)
        assert next_words() == b"reloaded "
        assert process.poll() is None
