"""Parse the start of a period as people write it."""

import re
import time
from datetime import datetime

import click

_HOUR = 3600 * 10**6
_UNITS = {"h": _HOUR, "d": 24 * _HOUR, "w": 7 * 24 * _HOUR}
"""In µs."""


def start_of(text: str | None) -> int:
    """A start time in µs of UTC; 0 for None. Raises BadParameter."""
    if text is None:
        return 0
    if ago := re.fullmatch(r"(\d{1,5})([hdw])", text):
        return time.time_ns() // 1000 - int(ago[1]) * _UNITS[ago[2]]
    try:
        return int(datetime.fromisoformat(text).timestamp() * 1e6)
    except (ValueError, OverflowError, OSError):
        raise click.BadParameter(
            f"{text!r} is not a time; give a date such as 2026-11-21, or 12h, 7d, 2w.", param_hint="--since"
        ) from None
