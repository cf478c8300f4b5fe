"""Retries of hidden rounds: the client itself could only restart the whole turn."""

import re

from mnemosyne.domain.wire.exchange import Headers

PAUSES = (1.0, 2.0, 4.0, 8.0, 16.0)
"""Seconds before each retry within one reply, unless the provider names a delay: 31 s in total, within which most
overloads end.
"""

MOST_PAUSED = 60.0
"""Maximum total delay in one reply. A provider that asks for more (`retry-after`) has a limit that waiting does not
lift, so the client must get the error.
"""


class TryAgain(Exception):
    """A round failed and is retried after ``pause`` seconds."""

    def __init__(self, why: str, pause: float) -> None:
        super().__init__(why)
        self.pause = pause


class Pauses:
    """The retry budget of one reply."""

    def __init__(self) -> None:
        self._tries = 0
        self._left = MOST_PAUSED

    def after(self, why: str, headers: Headers = ()) -> TryAgain | None:
        """Return the next retry after a failure; None if the budget is used up or the provider's ``headers`` rule it
        out.
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
    """Whether an error of this HTTP status may be temporary."""
    return status == 429 or status >= 500


def _value_of(name: bytes, headers: Headers) -> bytes:
    return next((value.strip().lower() for key, value in headers if key.lower() == name), b"")
