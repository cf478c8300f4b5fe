"""Hand a command over to a running server's helper process, which has already imported the modules that commands need.

The process forks, and the child gets the command's own arguments, environment, working directory and streams, so the
output is the same. The server's settings do not matter, only that it runs as the same user, with the same code.
"""

import os
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from mnemosyne import __version__
from mnemosyne.places import default_data_dir

if TYPE_CHECKING:
    import socket

HANDED = frozenset(
    (
        *("sessions", "branches", "context", "diff", "timeline", "usage", "savings", "report"),
        *("objects", "object", "explain", "search", "du", "nodes"),
    )
)
"""The commands that are handed over: they read the log, and are asked for over and over."""

READY = b"+"
"""What the process says when it can be told what to do, and given the streams: one that had them and stood still would
keep waiting whoever reads what is printed. It says so again when it is where the command is, and begins.
"""

PATIENCE_SECONDS = 0.3
"""How long a command waits until it does its work itself: longer than a fork takes, shorter than its imports."""

STREAMS = (0, 1, 2)


def socket_path(data_dir: str) -> str:
    """Where a server of this data directory takes commands that have its code, read by Python from the same places."""
    from zlib import crc32

    python = sorted(item for item in os.environ.items() if item[0].startswith("PYTHON"))
    code = (__version__, __file__, sys.prefix, sys.version, python, _namespaces())
    return os.path.join(data_dir, f"commands-{crc32(repr(code).encode('utf-8', 'surrogateescape')):08x}.socket")


def _namespaces() -> list[str]:
    """What of the system can be seen from here: a service or a container may see other files than who types."""
    try:
        return [os.readlink(f"/proc/self/ns/{each}") for each in ("mnt", "net", "pid", "user")]
    except OSError:
        return []  # no Linux


def hand_over(name: str, arguments: Sequence[str], environ: Mapping[str, str]) -> int | None:
    """Have a command done, whose program is called ``name``; its exit code. None if it is to be done here: no server of
    this user is there, or none that is ready soon.
    """
    if not all((sys.stdin, sys.stdout, sys.stderr)):
        return None  # closed: there is nothing to hand over
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
    told = [name, list(arguments), dict(environ), os.getcwd(), mask, written]
    # A name of a file need not be UTF-8: JSON's escapes keep what Python made of it.
    message = json.dumps(told).encode("ascii") + b"\n"
    sent = socket.send_fds(connection, [message], STREAMS)
    connection.sendall(message[sent:])


def _wait(connection: "socket.socket") -> int:
    """Its exit code. Ctrl-C is passed on, and the command ends as it does elsewhere; a second one waits for nothing."""
    import socket

    try:
        code = connection.recv(1)
    except KeyboardInterrupt:
        connection.shutdown(socket.SHUT_WR)
        code = connection.recv(1)
    if not code:
        sys.stderr.write("Error: The command was ended before it was done.\n")
        return 1
    return code[0]
