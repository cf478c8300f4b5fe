"""The preloaded process that runs commands for others (``mnemosyne.handover``).

It has one thread and opens no resources: it forks a process for each command.
"""

import atexit
import fcntl
import gc
import io
import json
import os
import select
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from types import FrameType
from typing import Any, NoReturn

from mnemosyne import __file__ as package
from mnemosyne.handover import HANDED, READY, STREAMS

IDLE_SECONDS = 600.0
"""The process exits after this idle time; the next command starts another."""

LARGEST_REQUEST = 4 * 1024 * 1024
"""Bytes; larger than any command line and environment that a system accepts."""

PATIENCE_SECONDS = 5.0
"""The timeout for reading a request."""

READ_WITH = (
    *("mnemosyne.app.discovery", "mnemosyne.app.read_models", "mnemosyne.app.settings", "mnemosyne.app.storage"),
    *("mnemosyne.adapters.postgres.nodes", "mnemosyne.adapters.postgres.vacuum"),
    "rich.cells",
)
"""Modules that commands import when they run, in addition to the services."""


def prepare() -> None:
    """Import the modules that the commands need."""
    from mnemosyne import services
    from mnemosyne.cli import main

    for name in HANDED:
        main.get_command(None, name)
    for module in (*READ_WITH, *(each.name for each in iter_modules(services.__path__, f"{services.__name__}."))):
        import_module(module)
    gc.collect()
    gc.freeze()  # keep pages shared with forked processes


def take_commands(number: int) -> None:
    """Run the commands that arrive at a listening socket, until stdin closes, the idle time passes, or the code on disk
    changes.
    """
    prepare()
    read = dict(_times_of_code())
    signal.signal(signal.SIGCHLD, _reap)
    with socket.socket(fileno=number) as listener:
        while True:
            ready, _, _ = select.select([number, 0], [], [], IDLE_SECONDS)
            if ready != [number]:
                return
            connection, _ = listener.accept()
            with connection:
                if dict(_times_of_code()) != read:
                    return  # the caller runs the command itself
                if os.fork() == 0:
                    listener.close()
                    _be(connection)


def _times_of_code() -> Iterator[tuple[str, int]]:
    """The modification time in ns of each imported module of this package."""
    root = str(Path(package).parent)
    for module in list(sys.modules.values()):
        file = getattr(module, "__file__", None)
        if file is not None and file.startswith(root):
            try:
                yield file, os.stat(file).st_mtime_ns
            except OSError:
                yield file, 0


def _reap(number: int, frame: FrameType | None) -> None:
    try:
        while os.waitpid(-1, os.WNOHANG) != (0, 0):
            pass
    except ChildProcessError:
        pass


def _be(connection: socket.socket) -> NoReturn:
    """Run the command in this forked process, and exit."""
    code = 1
    try:
        code = _do(connection)
    finally:
        os._exit(code)


def _do(connection: socket.socket) -> int:
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    connection.settimeout(PATIENCE_SECONDS)
    connection.sendall(READY)
    request, streams = _receive(connection)
    name, arguments, environ, directory, mask, written = request
    if not arguments or arguments[0] not in HANDED:
        raise ValueError("not a command that can be handed over")
    _adopt(streams, written, environ, directory, mask)
    connection.sendall(READY)
    sys.argv = [name, *arguments]
    _end_with(connection)
    from mnemosyne.cli import main

    code = _run(lambda: main(args=arguments, prog_name=name))
    connection.sendall(bytes([code]))
    return code


def _receive(connection: socket.socket) -> tuple[list[Any], list[int]]:
    """The request, and the file descriptors of stdin, stdout and stderr. Raises OSError, ValueError."""
    message, streams, _, _ = socket.recv_fds(connection, 64 * 1024, len(STREAMS))
    while not message.endswith(b"\n"):
        more = connection.recv(64 * 1024)
        if not more or len(message) > LARGEST_REQUEST:
            raise ValueError("no request")
        message += more
    return json.loads(message), streams


def _adopt(
    streams: list[int], written: list[tuple[str, str]], environ: Mapping[str, str], directory: str, mask: int
) -> None:
    """Take over the streams, environment, directory and umask of the caller."""
    for wanted, handed in zip(STREAMS, streams, strict=True):
        os.dup2(handed, wanted)
        os.close(handed)
    opened = [
        io.TextIOWrapper(
            open(number, mode, closefd=False),  # noqa: SIM115 - open until the process exits
            encoding=encoding,
            errors=errors,
            line_buffering=number == 2 or os.isatty(number),  # as Python does
        )
        for number, mode, (encoding, errors) in zip(STREAMS, ("rb", "wb", "wb"), written, strict=True)
    ]
    sys.stdin, sys.stdout, sys.stderr = sys.__stdin__, sys.__stdout__, sys.__stderr__ = opened  # type: ignore[misc]
    os.chdir(directory)
    os.umask(mask)
    os.environ.clear()
    os.environ.update(environ)
    time.tzset()


def _end_with(connection: socket.socket) -> None:
    """Interrupt this process, as Ctrl-C does, when the caller disconnects."""

    def end(number: int, frame: FrameType | None) -> None:
        try:
            gone = not connection.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
        except BlockingIOError:
            gone = False  # the signal has another cause
        if gone:
            os.kill(os.getpid(), signal.SIGINT)

    signal.signal(signal.SIGIO, end)
    fcntl.fcntl(connection, fcntl.F_SETOWN, os.getpid())
    fcntl.fcntl(connection, fcntl.F_SETFL, fcntl.fcntl(connection, fcntl.F_GETFL) | os.O_ASYNC)


def _run(command: Callable[[], object]) -> int:
    """Run the command as the interpreter would. Returns its exit code."""
    code: object = None
    try:
        command()
    except SystemExit as end:
        code = end.code
    except BaseException:
        sys.excepthook(*sys.exc_info())
        code = 1
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):
            code = code or 120  # as the interpreter does
    if code is None:
        return 0
    if isinstance(code, int):
        return code & 0xFF
    sys.stderr.write(f"{code}\n")
    return 1


if __name__ == "__main__":
    take_commands(int(sys.argv[1]))
