"""A client under our care: find the server or start one, run the client against it, and stay out of its way.

The client keeps our place at the terminal: it stays in our process group, so the keys that send signals reach it
directly; what others send to us alone is passed on; when it stops, we stop, and when it ends, we end the same way.
"""

import math
import os
import resource
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from urllib.parse import urlsplit

import attrs

from mnemosyne.backoff import backoff
from mnemosyne.config import CONFIG_VARIABLE, SETTINGS, Config, render
from mnemosyne.data_dir import LOG_FILE, open_server_log, prepare_data_dir
from mnemosyne.errors import ServerDidNotStart
from mnemosyne.setting_values import is_loopback

START_SECONDS = 120.0
"""How long a server may take to start; the first one makes a database."""

FIRST_PAUSE, LONGEST_PAUSE = 0.5, 30.0
"""Seconds until a server that ended under its client is started again."""

STEADY_SECONDS = 30.0
"""A server that lived so long is started again soon; one that keeps ending waits, up to LONGEST_PAUSE."""

POLL_SECONDS = 0.05

STOP_SECONDS = 10.0
"""How long a server may take to stop once its client has ended; then it is told again, and then killed."""

PASSED_ON = (signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)
TYPED = (signal.SIGINT, signal.SIGQUIT, signal.SIGTSTP)
"""What the terminal sends to its whole foreground group, the client included, when a key is pressed."""


@attrs.define
class StartedServer:
    """A server that runs for one client. ``log`` is where its stderr goes, from ``log_start`` on."""

    config: Config
    environ: Mapping[str, str]
    process: "subprocess.Popen[bytes]"
    log: Path
    log_start: int
    url: str = ""

    def start_again(self) -> None:
        """Another process in place of one that ended, at the same address."""
        _close_pipes(self.process)
        with open_server_log(self.config.data_dir) as log:
            self.process = _spawn_server(self.config, self.environ, log.fileno(), urlsplit(self.url).port or 0)
            self.log_start = log.tell()

    def last_words(self) -> str:
        """Why it ended, as far as its log tells."""
        with suppress(OSError), self.log.open("rb") as file:
            file.seek(self.log_start)
            lines = [line for line in file.read().decode(errors="replace").splitlines() if line.strip()]
            if lines:
                return lines[-1].strip().removeprefix("Error: ")
        return "It left no word why."


@contextmanager
def start_server(config: Config, environ: Mapping[str, str]) -> Iterator[StartedServer]:
    """A server on a free port, with the settings in force; it is stopped at the end."""
    prepare_data_dir(config.data_dir)
    with open_server_log(config.data_dir) as log:
        process = _spawn_server(config, environ, log.fileno(), 0)
        server = StartedServer(config, environ, process, config.data_dir / LOG_FILE, log.tell())
    try:
        server.url = _await_url(server)
        yield server
    finally:
        _stop(server.process)


def _spawn_server(config: Config, environ: Mapping[str, str], log: int, port: int) -> "subprocess.Popen[bytes]":
    host = config.host if is_loopback(config.host) else "127.0.0.1"
    return subprocess.Popen(
        # -P: an agent works in directories that nobody vouches for, and Python would import from them.
        [sys.executable, "-P", "-m", "mnemosyne", "serve", "--host", host, "--port", str(port), "--until-stdin-ends"],
        stdin=subprocess.PIPE,  # ends when we do, however we do
        stdout=subprocess.PIPE,
        stderr=log,
        start_new_session=True,  # Ctrl-C is for the client
        env={**environ, **as_variables(config)},
    )


def as_variables(config: Config) -> dict[str, str]:
    """What our command line said, for a server that does not see it. Not as options: a DSN may hold a password."""
    variables = {
        setting.variable: render(getattr(config, setting.name))
        for setting in SETTINGS
        if config.sources[setting.name].startswith("option")
    }
    if config.file is not None:
        variables[CONFIG_VARIABLE] = str(config.file)
    return variables


def _await_url(server: StartedServer) -> str:
    output = server.process.stdout
    assert output is not None
    ready, _, _ = select.select([output], [], [], START_SECONDS)
    if not ready:
        raise ServerDidNotStart(f"The server has not started within {START_SECONDS:g} s. Its log: {server.log}")
    words = output.readline().decode().split()
    if words[:3] != ["mnemosyne", "listening", "on"]:
        with suppress(subprocess.TimeoutExpired):
            server.process.wait(STOP_SECONDS)
        raise ServerDidNotStart(f"The server did not start: {server.last_words()} (log: {server.log})")
    return words[3]


def _stop(process: "subprocess.Popen[bytes]") -> None:
    for stop in (process.terminate, process.terminate, process.kill):
        if process.poll() is not None:
            break
        stop()
        with suppress(subprocess.TimeoutExpired):
            process.wait(STOP_SECONDS)
    _close_pipes(process)


def _close_pipes(process: "subprocess.Popen[bytes]") -> None:
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            pipe.close()


def run_client(
    command: Sequence[str], environ: Mapping[str, str], server: StartedServer | None, say: Callable[[str], None]
) -> int:
    """Run the client in our place. Returns its exit code, or minus the signal that ended it.

    Raises OSError if it cannot be started. ``say`` gets a sentence if the server ends before the client.
    """
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # our caller may ignore it, and then nobody could be waited for
    with _signals() as passing:
        pid = os.posix_spawnp(
            command[0],
            list(command),
            dict(environ),
            # Python ignores these two, and an ignored signal would stay ignored in the client.
            setsigdef=[signal.SIGPIPE, signal.SIGXFSZ],
        )
        passing.to(pid)
        try:
            return _await_client(pid, server, say)
        finally:
            passing.to(None)


def _await_client(pid: int, server: StartedServer | None, say: Callable[[str], None]) -> int:
    """Wait for the client, and start its server again whenever that ends."""
    pauses, began, start_at = backoff(FIRST_PAUSE, LONGEST_PAUSE), time.monotonic(), math.inf
    while True:
        # Between two servers it is polled, so that neither the client's end nor the next start is missed.
        ended, status = os.waitpid(-1, os.WUNTRACED | (os.WNOHANG if start_at < math.inf else 0))
        if ended == 0:
            time.sleep(POLL_SECONDS)
        elif os.WIFSTOPPED(status):
            if ended == pid:
                os.kill(os.getpid(), signal.SIGSTOP)  # so that the shell notices; we go on here after `fg`
                os.kill(pid, signal.SIGCONT)
        elif ended == pid:
            return os.waitstatus_to_exitcode(status)
        elif server is not None and ended == server.process.pid:
            server.process.returncode = os.waitstatus_to_exitcode(status)
            if time.monotonic() - began > STEADY_SECONDS:
                pauses = backoff(FIRST_PAUSE, LONGEST_PAUSE)
            pause = next(pauses)
            start_at = time.monotonic() + pause
            code = server.process.returncode
            words = f"{server.last_words()} " if code >= 0 else ""  # a signal leaves no time for any
            say(
                f"the server ended while its client was running ({_how(code)}) and is started again in {pause:g} s. "
                f"{words}(log: {server.log})"
            )
        if server is not None and time.monotonic() >= start_at:
            began, start_at = time.monotonic(), math.inf
            server.start_again()


def _how(code: int) -> str:
    return f"exit code {code}" if code >= 0 else signal.Signals(-code).name


class _Passing:
    """Passes signals on to a process; those that come before there is one wait for it."""

    def __init__(self) -> None:
        self._pid: int | None = None
        self._waiting: list[int] = []

    def to(self, pid: int | None) -> None:
        self._pid = pid
        while pid is not None and self._waiting:
            os.kill(pid, self._waiting.pop(0))

    def take(self, number: int, _frame: FrameType | None) -> None:
        if number in TYPED and _at_terminal():
            return
        if self._pid is None:
            self._waiting.append(number)
        else:
            os.kill(self._pid, number)


@contextmanager
def _signals() -> Iterator[_Passing]:
    """Handlers, not SIG_IGN: what is ignored here would stay ignored in the client. And so, what is stays so."""
    passing = _Passing()
    numbers = [number for number in PASSED_ON + TYPED if signal.getsignal(number) is not signal.SIG_IGN]
    before = {number: signal.signal(number, passing.take) for number in numbers}
    try:
        yield passing
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _at_terminal() -> bool:
    """Whether we are the foreground group of our terminal, so that a signal may have been typed."""
    try:
        terminal = os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY)
    except OSError:
        return False
    try:
        return os.tcgetpgrp(terminal) == os.getpgrp()
    except OSError:
        return False
    finally:
        os.close(terminal)


def end_like(code: int) -> int:
    """The exit code for a client's ``code``; a signal that ended the client ends us too, so that our caller sees it."""
    if code >= 0:
        return code
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # one core file is enough
    with suppress(OSError, ValueError):  # SIGKILL has no handler to reset
        signal.signal(-code, signal.SIG_DFL)
    os.kill(os.getpid(), -code)
    return 128 - code
