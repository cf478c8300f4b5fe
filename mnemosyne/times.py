"""Times of events as dates. An event's time is in µs of UTC since 1970, and no date is beyond the year 9999."""

import re
from datetime import UTC, datetime, timedelta

from mnemosyne.errors import BadOption

FIRST, LAST = 0, 253_370_764_799_000_000
"""The range of valid times: from 1970 to the end of 9998, so that each has a date in every time zone."""


def is_time(at: int) -> bool:
    """Whether a number is a time that has a date."""
    return FIRST <= at <= LAST


def utc(at: int) -> datetime:
    """The date of a time; an invalid time gets the nearest valid date, so that one event cannot break a list."""
    return datetime.fromtimestamp(min(max(at, FIRST), LAST) / 1e6, tz=UTC)


_HOUR = 3600 * 10**6
_UNITS = {"h": _HOUR, "d": 24 * _HOUR, "w": 7 * 24 * _HOUR}
"""In µs."""


def parse_time(text: str, now: int, *, is_end: bool = False) -> int:
    """A time such as ``2026-11-21``, ``2026-11-21T14:00`` (local unless it has an offset) or ``12h``, ``7d``, ``2w``
    before ``now``. A day is its first moment, or with ``is_end`` its last. Of a date that no event can have,
    the nearest valid time. Raises BadOption.
    """
    if ago := re.fullmatch(r"(\d{1,5})([hdw])", text):
        return now - int(ago[1]) * _UNITS[ago[2]]
    try:
        found = datetime.fromisoformat(text)
        if is_end and len(text) <= len("2026-11-21"):
            found += timedelta(days=1, microseconds=-1)
        return min(max(int(found.timestamp() * 1e6), FIRST), LAST)
    except (ValueError, OverflowError, OSError):
        raise BadOption(f"{text!r} is not a time; give a date such as 2026-11-21, or 12h, 7d, 2w.") from None


def parse_day(day: str) -> int:
    """The end of a day of UTC, such as ``2026-11-21``. Raises BadOption."""
    try:
        beyond = datetime.fromisoformat(day).replace(tzinfo=UTC) + timedelta(days=1)
    except (ValueError, OverflowError):
        raise BadOption(f"{day!r} is not a date such as 2026-11-21.") from None
    return min(max(int(beyond.timestamp() * 1e6) - 1, FIRST), LAST)


def render_day(at: int) -> str:
    """The day of a time, in UTC: ``2026-11-21``."""
    return utc(at).date().isoformat()
