"""Real processes on loopback: commands, and a provider that answers every request."""

import http.server
import os
import select
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from click.testing import CliRunner, Result

from mnemosyne.cli import main
from tests.waiting import DEADLINE, PATIENT

MNEMOSYNE = [sys.executable, "-P", "-m", "mnemosyne"]
"""-P: like the installed program, do not import from the working directory."""


class Provider(http.server.ThreadingHTTPServer):
    """Answers every request with its ``status`` and an empty object, and records the requests."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Answering)
        self.asked: list[str] = []
        self.status = 200
        self.url = f"http://127.0.0.1:{self.server_port}"


class _Answering(http.server.BaseHTTPRequestHandler):
    server: Provider

    def do_GET(self) -> None:
        self.server.asked.append(f"{self.command} {self.path}")
        self.send_response(self.server.status)
        self.send_header("Content-Length", "2")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(b"{}")

    def do_HEAD(self) -> None:
        self.do_GET()

    def log_message(self, format: str, *args: object) -> None:
        pass


@contextmanager
def provider() -> Iterator[Provider]:
    with Provider() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


def environ_for(home: Path, **variables: str) -> dict[str, str]:
    """An environment without the developer's own settings."""
    kept = {
        name: os.environ[name]
        for name in ("PATH", "LANG", "PYTHONPATH", "COVERAGE_PROCESS_START")
        if name in os.environ
    }
    own = {"DATA_DIR": str(home / "data"), "PORT": "0", "SEMANTIC_SEARCH": "false"}
    return kept | {"HOME": str(home)} | {f"MNEMOSYNE_{name}": value for name, value in own.items()} | variables


def mnemosyne(*arguments: str, environ: dict[str, str], cwd: Path | None = None) -> "subprocess.CompletedProcess[str]":
    """Run a command to its end."""
    return subprocess.run(
        [*MNEMOSYNE, *arguments],
        env=environ,
        cwd=cwd,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=DEADLINE,
    )


def invoked(*arguments: str, environ: dict[str, str], given: str | None = None) -> Result:
    """The same in this process; ``given`` is the standard input. An unexpected error is raised."""
    cleared: dict[str, str | None] = dict.fromkeys(os.environ)
    return CliRunner().invoke(main, arguments, input=given, env=cleared | environ, catch_exceptions=False)


@contextmanager
def started(*arguments: str, environ: dict[str, str]) -> Iterator["subprocess.Popen[str]"]:
    """Run a command in the background; it is killed at the end."""
    with subprocess.Popen(
        [*MNEMOSYNE, *arguments],
        env=environ,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,  # without the terminal of the test run
    ) as process:
        try:
            yield process
        finally:
            process.send_signal(signal.SIGCONT)
            process.kill()


def line(stream: IO[str] | None) -> str:
    """The next line, before the deadline."""
    assert stream is not None
    ready, _, _ = select.select([stream], [], [], DEADLINE)
    assert ready, "no line before the deadline"
    return stream.readline().rstrip("\n")


@contextmanager
def serving(*arguments: str, environ: dict[str, str]) -> Iterator[str]:
    """Run a server; returns its URL."""
    with started("serve", "--port", "0", *arguments, environ=PATIENT | environ) as process:
        yield line(process.stdout).removeprefix("mnemosyne listening on ")
        process.terminate()
        process.communicate(timeout=DEADLINE)


def ended(pid: int) -> bool:
    """Whether a process, not necessarily a child, ends before the deadline."""
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([handle], [], [], DEADLINE)[0])
    finally:
        os.close(handle)


def children(pid: int) -> dict[int, str]:
    """The children of a process, with their command lines."""
    # Listed under the thread that started each.
    pids = [child for task in Path(f"/proc/{pid}/task").glob("*/children") for child in task.read_text().split()]
    return {int(child): Path(f"/proc/{child}/cmdline").read_text().replace("\0", " ") for child in pids}


def server_of(process: "subprocess.Popen[str]") -> int:
    """The server that a `mnemosyne run` started."""
    (pid,) = (pid for pid, command in children(process.pid).items() if " serve " in command)
    return pid
