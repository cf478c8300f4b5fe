"""Commands that a process of a running server runs behave like others."""

import json
import os
import socket
import sys
from collections.abc import AsyncIterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from pathlib import Path

import attrs
import pytest
import trio

from mnemosyne import handover
from mnemosyne.app.on_demand import open_commands
from mnemosyne.cli import handed
from mnemosyne.handover import HANDED, hand_over
from tests.cli.support import children
from tests.cli.test_imports import loaded
from tests.waiting import DEADLINE

PROGRAM = [sys.executable, "-X", "importtime", "-P", "-m", "mnemosyne"]
"""Shows on stderr what it imports: a command that is handed over does not import click."""


@attrs.frozen
class Done:
    """An ended command: its exit code with its output, and whether it was handed over."""

    result: tuple[int, str, str]
    is_handed: bool

    @classmethod
    def of(cls, code: int, out: str, err: str) -> "Done":
        lines = err.splitlines(keepends=True)
        errors = "".join(line for line in lines if not line.startswith("import time:"))
        return cls((code, out, errors), not any(line.rpartition("|")[2].strip() == "click" for line in lines))


async def do(*arguments: str, environ: Mapping[str, str], cwd: Path | None = None) -> Done:
    with trio.fail_after(DEADLINE):
        done = await trio.run_process(
            [*PROGRAM, *arguments], env=environ, cwd=cwd, capture_stdout=True, capture_stderr=True, check=False
        )
    return Done.of(done.returncode, done.stdout.decode(), done.stderr.decode())


@asynccontextmanager
async def taking(folder: Path, environ: Mapping[str, str]) -> AsyncIterator[dict[str, str]]:
    """The environment of commands that are handed over to a running process."""
    async with trio.open_nursery() as nursery:
        async with open_commands(folder, environ, nursery):
            client = {**environ, "MNEMOSYNE_DATA_DIR": str(folder)}
            await hand("sessions", "--help", environ=client)
            yield client
        nursery.cancel_scope.cancel()


async def hand(*arguments: str, environ: Mapping[str, str], cwd: Path | None = None) -> Done:
    """Run a command until it is handed over: it is not while the process starts, or on a busy machine."""
    with trio.fail_after(DEADLINE):
        while not (done := await do(*arguments, environ=environ, cwd=cwd)).is_handed:
            pass
    return done


def forkers() -> list[int]:
    return [pid for pid, command in children(os.getpid()).items() if handed.__name__ in command]


async def test_command_that_is_handed_over_has_the_same_output(conversation: str, tmp_path: Path) -> None:
    (tmp_path / "here").mkdir()
    commands = [
        ("context", conversation, "--json"),
        ("report", conversation, "--html", "report.html"),
        ("context", "nobody"),
    ]
    alone = {**os.environ, "MNEMOSYNE_DATA_DIR": str(tmp_path / "alone"), "TZ": "Asia/Tokyo", "COLUMNS": "90"}
    async with taking(tmp_path, {**os.environ, "TZ": "UTC"}) as environ:
        other = {**environ, "TZ": "Asia/Tokyo", "COLUMNS": "90"}
        for command in commands:
            done = await do(*command, environ=alone, cwd=tmp_path / "here")
            assert not done.is_handed
            assert (await hand(*command, environ=other, cwd=tmp_path / "here")).result == done.result
        assert len(forkers()) == 1
    assert (tmp_path / "here/report.html").stat().st_mode & 0o077 == 0
    assert [name for name in os.listdir(tmp_path) if ".socket" in name] == []


def test_process_of_another_container_or_user_takes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ours = handover.socket_path("/data")
    assert handover.socket_path("/data") == ours
    with monkeypatch.context() as patched:
        patched.setattr(os, "readlink", lambda path: "mnt:[4711]")
        assert handover.socket_path("/data") != ours
    (tmp_path / Path(handover.socket_path("")).name).touch()
    monkeypatch.setattr(os, "geteuid", lambda: 4711)
    assert hand_over("mnemosyne", ["sessions"], {"MNEMOSYNE_DATA_DIR": str(tmp_path)}) is None


def test_caller_runs_the_command_if_the_process_fails(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listener, ThreadPoolExecutor(1) as threads:
        listener.bind(handover.socket_path(str(tmp_path)))
        listener.listen()

        def fail() -> int:
            connection, _ = listener.accept()
            with connection:
                connection.sendall(handover.READY)
                message, streams, _, _ = socket.recv_fds(connection, 1 << 20, 3)
                for stream in streams:
                    os.close(stream)
                return len(message)

        failing = threads.submit(fail)
        assert hand_over("mnemosyne", ["sessions"], {"MNEMOSYNE_DATA_DIR": str(tmp_path)}) is None
        assert failing.result(DEADLINE) > 0


def test_process_has_imported_everything_that_its_commands_need(conversation: str) -> None:
    program = f"""
import sys
from click.testing import CliRunner
from mnemosyne.cli import handed, main
handed.prepare()
before = set(sys.modules)
for name in {sorted(HANDED)!r}:
    session = ["{conversation}"] if name in ("branches", "context", "timeline", "report", "objects", "explain") else []
    written = ["--html", "/dev/null"] if name == "report" else []
    done = CliRunner().invoke(main, [name, *session, *written], catch_exceptions=False)
    assert done.exit_code in (0, 2) or name == "explain", (name, done.output)
sys.stderr.write("\\n".join(sorted(set(sys.modules) - before)))
"""
    slow = ("mnemosyne", "trio", "psycopg", "rich.console", "cattrs", "attr")
    assert {name for name in loaded(program) if name.startswith(slow)} == set()


@pytest.mark.parametrize("arguments", [["forget", "s", "--yes"], []])
def test_process_refuses_other_commands(arguments: list[str]) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs, open(os.devnull, "r+b") as stream:
        request = ["mnemosyne", arguments, {}, "/", 0o077, [["utf-8", "strict"]] * 3]
        socket.send_fds(theirs, [json.dumps(request).encode() + b"\n"], [stream.fileno()] * 3)
        with pytest.raises(ValueError, match="not a command that can be handed over"):
            handed._do(ours)
        assert theirs.recv(9) == handover.READY
