"""When a round that the client does not see is sent again: the client could only begin its whole turn anew."""

import re

from mnemosyne.domain.wire.exchange import Headers

PAUSES = (1.0, 2.0, 4.0, 8.0, 16.0)
"""Seconds before each further try in one reply, where the provider does not say how many: half a minute together, in
which most overloads pass.
"""

MOST_PAUSED = 60.0
"""Seconds of pauses in one reply. Whoever asks for more (`retry-after`) has a limit that does not pass by waiting; then
the client is to know of it.
"""


class TryAgain(Exception):
    """A round failed, which may pass: it is sent again after a ``pause``, in seconds."""

    def __init__(self, why: str, pause: float) -> None:
        super().__init__(why)
        self.pause = pause


class Pauses:
    """What is left of the patience of one reply."""

    def __init__(self) -> None:
        self._tries = 0
        self._left = MOST_PAUSED

    def after(self, why: str, headers: Headers = ()) -> TryAgain | None:
        """Another try after a failure; None if there were too many, or the provider (``headers``) says that waiting
        does not help, or only too long.
        """
        if self._tries == len(PAUSES) or _value_of(b"x-should-retry", headers) == b"false":
            return None
        asked = _value_of(b"retry-after", headers)
        pause = float(asked) if re.fullmatch(rb"\d{1,9}(\.\d+)?", asked) else PAUSES[self._tries]
        if pause > self._left:
            return None
        self._tries += 1
        self._left -= pause
        return TryAgain(f"{why}; try {self._tries} of {len(PAUSES)} in {pause:g} s", pause)


def may_pass(status: int) -> bool:
    """Whether an error of this HTTP status is one of the moment."""
    return status == 429 or status >= 500


def _value_of(name: bytes, headers: Headers) -> bytes:
    return next((value.strip().lower() for key, value in headers if key.lower() == name), b"")
