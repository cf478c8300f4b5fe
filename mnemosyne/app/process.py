"""Process-wide functions: the clock, ids and salts."""

import os
import secrets
import select
import signal
import threading
import time

END_SECONDS = 10.0
"""How long a process whose server has ended may take to stop before it is killed."""


def now() -> int:
    """Return the time in µs of UTC."""
    return time.time_ns() // 1000


def new_salt() -> bytes:
    """Return a random salt for a new session."""
    return secrets.token_bytes(16)


def new_id() -> str:
    """Return a new correlation id for a request or task."""
    return secrets.token_hex(8)


def end_with_server() -> None:
    """End this process when stdin closes, which means that its server has ended. A thread watches stdin, independent of
    the event loop.
    """

    def watch() -> None:
        poll = select.poll()
        poll.register(0, 0)  # detects only the hangup; others read the data
        poll.poll()
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(END_SECONDS)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
