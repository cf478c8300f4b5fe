"""Run a client with a server: start a server, run the client against it, and behave like the client.

The client stays in this process group, so signals typed at the terminal reach it directly. Signals sent only to this
process are forwarded. When the client stops, this process stops, and it ends the same way as the client.
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
from mnemosyne.config import CONFIG_VARIABLE, OPTIONS_VARIABLE, SETTINGS, Config, render
from mnemosyne.data_dir import LOG_FILE, open_server_log, prepare_data_dir
from mnemosyne.errors import ServerDidNotStart
from mnemosyne.setting_values import is_loopback

START_SECONDS = 120.0
"""Time limit for a server to start; the first one creates a database."""

FIRST_PAUSE, LONGEST_PAUSE = 0.5, 30.0
"""Seconds before a server that ended while its client is running is restarted."""

STEADY_SECONDS = 30.0
"""A server that ran this long is restarted after FIRST_PAUSE; repeated failures back off up to LONGEST_PAUSE."""

POLL_SECONDS = 0.05

STOP_SECONDS = 10.0
"""How long a server may take to stop after its client ended, before a second SIGTERM and then SIGKILL."""

PASSED_ON = (signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)
TYPED = (signal.SIGINT, signal.SIGQUIT, signal.SIGTSTP)
"""Signals that the terminal sends to its whole foreground group, including the client."""


@attrs.define
class StartedServer:
    """A server that runs for one client. Its stderr goes to ``log``, from position ``log_start``."""

    config: Config
    environ: Mapping[str, str]
    process: "subprocess.Popen[bytes]"
    log: Path
    log_start: int
    url: str = ""

    def start_again(self) -> None:
        """Start a new process at the same address after the old one ended."""
        _close_pipes(self.process)
        with open_server_log(self.config.data_dir) as log:
            self.process = _spawn_server(self.config, self.environ, log.fileno(), urlsplit(self.url).port or 0)
            self.log_start = log.tell()

    def last_words(self) -> str:
        """Return the last line of its log, usually the reason of its end."""
        with suppress(OSError), self.log.open("rb") as file:
            file.seek(self.log_start)
            lines = [line for line in file.read().decode(errors="replace").splitlines() if line.strip()]
            if lines:
                return lines[-1].strip().removeprefix("Error: ")
        return "The log has no reason."


@contextmanager
def start_server(config: Config, environ: Mapping[str, str]) -> Iterator[StartedServer]:
    """Start a server on a free port with the settings in force; stop it at the end."""
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
        # -P: do not import modules from the working directory, which is untrusted.
        [sys.executable, "-P", "-m", "mnemosyne", "serve", "--host", host, "--port", str(port), "--until-stdin-ends"],
        stdin=subprocess.PIPE,  # closes when this process ends, for whatever reason
        stdout=subprocess.PIPE,
        stderr=log,
        start_new_session=True,  # Ctrl-C is for the client
        env={**environ, **as_variables(config)},
    )


def as_variables(config: Config) -> dict[str, str]:
    """Return the command line's options as variables for the server. A DSN may hold a password, so they are not passed
    as options.
    """
    given = [setting for setting in SETTINGS if config.sources[setting.name].startswith("option")]
    variables = {setting.variable: render(getattr(config, setting.name)) for setting in given}
    variables[OPTIONS_VARIABLE] = ",".join(setting.name for setting in given)
    if config.file is not None:
        variables[CONFIG_VARIABLE] = str(config.file)
    return variables


def _await_url(server: StartedServer) -> str:
    output = server.process.stdout
    assert output is not None
    ready, _, _ = select.select([output], [], [], START_SECONDS)
    if not ready:
        raise ServerDidNotStart(f"The server did not start within {START_SECONDS:g} s. See its log: {server.log}")
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
    """Run the client. Returns its exit code, or minus the signal that ended it.

    Raises OSError if it cannot be started. ``say`` gets a message if the server ends before the client.
    """
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # if the caller ignores it, waitpid does not work
    with _signals() as passing:
        pid = os.posix_spawnp(
            command[0],
            list(command),
            dict(environ),
            # Python ignores these two, and the client would inherit that.
            setsigdef=[signal.SIGPIPE, signal.SIGXFSZ],
        )
        passing.to(pid)
        try:
            return _await_client(pid, server, say)
        finally:
            passing.to(None)


def _await_client(pid: int, server: StartedServer | None, say: Callable[[str], None]) -> int:
    """Wait for the client and restart its server whenever that ends."""
    pauses, began, start_at = backoff(FIRST_PAUSE, LONGEST_PAUSE), time.monotonic(), math.inf
    while True:
        # While no server runs, poll, so that neither the client's end nor the next start is missed.
        ended, status = os.waitpid(-1, os.WUNTRACED | (os.WNOHANG if start_at < math.inf else 0))
        if ended == 0:
            time.sleep(POLL_SECONDS)
        elif os.WIFSTOPPED(status):
            if ended == pid:
                os.kill(os.getpid(), signal.SIGSTOP)  # so that the shell notices; `fg` resumes here
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
            words = f"{server.last_words()} " if code >= 0 else ""  # a signal leaves no time to log a reason
            say(
                f"the server ended while its client was running ({_how(code)}) and is restarted in {pause:g} s. "
                f"{words}(log: {server.log})"
            )
        if server is not None and time.monotonic() >= start_at:
            began, start_at = time.monotonic(), math.inf
            server.start_again()


def _how(code: int) -> str:
    return f"exit code {code}" if code >= 0 else signal.Signals(-code).name


class _Passing:
    """Forwards signals to a process; keeps signals that arrive before the process is started."""

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
    """Install handlers that forward signals, instead of SIG_IGN, which the client would inherit. Ignored signals stay
    ignored.
    """
    passing = _Passing()
    numbers = [number for number in PASSED_ON + TYPED if signal.getsignal(number) is not signal.SIG_IGN]
    before = {number: signal.signal(number, passing.take) for number in numbers}
    try:
        yield passing
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _at_terminal() -> bool:
    """Whether this is the terminal's foreground group, so that a signal may have been typed."""
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
    """Return the exit code for a client's ``code``; if a signal ended the client, end by the same signal."""
    if code >= 0:
        return code
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # one core file is enough
    with suppress(OSError, ValueError):  # SIGKILL has no handler to reset
        signal.signal(-code, signal.SIG_DFL)
    os.kill(os.getpid(), -code)
    return 128 - code
