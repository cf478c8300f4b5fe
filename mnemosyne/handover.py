"""Hand a command over to a running server's helper process, which has already imported the modules that commands need.

The process forks, and the child gets the command's own arguments, environment, working directory and streams, so the
output is the same. The server's settings do not matter, only that it runs as the same user, with the same code.
"""

import os
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from mnemosyne import __version__
from mnemosyne.default_paths import default_data_dir

if TYPE_CHECKING:
    import socket

HANDED = frozenset(
    (
        *("sessions", "branches", "context", "diff", "timeline", "usage", "savings", "report"),
        *("objects", "object", "explain", "search", "du", "nodes"),
    )
)
"""The commands that are handed over: they read the log, and users call them often."""

READY = b"+"
"""The process sends this when it can take a request with the streams (a hanging process that has them would block their
readers), and again when it begins the command.
"""

PATIENCE_SECONDS = 0.3
"""The timeout after which a command runs itself: longer than a fork, shorter than its imports."""

STREAMS = (0, 1, 2)


def socket_path(data_dir: str) -> str:
    """The socket of this data directory for commands with the same code and the same Python."""
    from zlib import crc32

    python = sorted(item for item in os.environ.items() if item[0].startswith("PYTHON"))
    code = (__version__, __file__, sys.prefix, sys.version, python, _namespaces())
    return os.path.join(data_dir, f"commands-{crc32(repr(code).encode('utf-8', 'surrogateescape')):08x}.socket")


def _namespaces() -> list[str]:
    """The namespaces of this process: a service or a container may see other files."""
    try:
        return [os.readlink(f"/proc/self/ns/{name}") for name in ("mnt", "net", "pid", "user")]
    except OSError:
        return []  # no Linux


def hand_over(name: str, arguments: Sequence[str], environ: Mapping[str, str]) -> int | None:
    """Run a command in the server's process; returns its exit code. None if it must run here, because no server of this
    user is ready.
    """
    if not all((sys.stdin, sys.stdout, sys.stderr)):
        return None  # a closed stream cannot be handed over
    path = socket_path(environ.get("MNEMOSYNE_DATA_DIR") or default_data_dir(environ))
    try:
        if os.stat(path).st_uid != os.geteuid():
            return None
    except OSError:
        return None
    import socket

    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(PATIENCE_SECONDS)
        try:
            connection.connect(path)
            if connection.recv(1) != READY:
                return None
            connection.settimeout(None)
            _send(connection, name, arguments, environ)
            if connection.recv(1) != READY:
                return None
        except OSError:
            return None
        return _wait(connection)


def _send(connection: "socket.socket", name: str, arguments: Sequence[str], environ: Mapping[str, str]) -> None:
    """Send the command's arguments, environment, working directory and streams."""
    import json
    import socket

    mask = os.umask(0o077)
    os.umask(mask)
    written = [[stream.encoding, stream.errors] for stream in (sys.stdin, sys.stdout, sys.stderr)]
    request = [name, list(arguments), dict(environ), os.getcwd(), mask, written]
    # File names need not be UTF-8: JSON's escapes keep Python's surrogates.
    message = json.dumps(request).encode("ascii") + b"\n"
    sent = socket.send_fds(connection, [message], STREAMS)
    connection.sendall(message[sent:])


def _wait(connection: "socket.socket") -> int:
    """Wait for the exit code. The first Ctrl-C is passed on; a second one ends the wait."""
    import socket

    try:
        code = connection.recv(1)
    except KeyboardInterrupt:
        connection.shutdown(socket.SHUT_WR)
        code = connection.recv(1)
    if not code:
        sys.stderr.write("Error: The command was stopped before it finished.\n")
        return 1
    return code[0]
