"""What a process of ours brings along: the clock, names, secrets."""

import os
import secrets
import select
import signal
import threading
import time

END_SECONDS = 10.0
"""How long a process whose server is gone may take to end by itself."""


def now() -> int:
    """µs of UTC."""
    return time.time_ns() // 1000


def new_salt() -> bytes:
    """For a new session."""
    return secrets.token_bytes(16)


def new_id() -> str:
    """A name for what one request, or one piece of work, sets off."""
    return secrets.token_hex(8)


def end_with_server() -> None:
    """End when the server at the other end of our stdin does, however it does. A thread sees that it hangs up, whatever
    our loop does.
    """

    def watch() -> None:
        poll = select.poll()
        poll.register(0, 0)  # what it says is for others to read
        poll.poll()
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(END_SECONDS)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
