"""A time is said as a date, or as so long ago."""

import time
from datetime import UTC, datetime

import click
import pytest

from mnemosyne.cli.since import start_of

DAY = 24 * 3600 * 10**6


def test_a_time_is_a_date_or_so_long_ago_and_none_is_for_ever() -> None:
    assert start_of(None) == 0
    assert start_of("2026-11-21T00:00:00+00:00") == int(datetime(2026, 11, 21, tzinfo=UTC).timestamp()) * 10**6
    for text, ago in (("12h", DAY // 2), ("7d", 7 * DAY), ("2w", 14 * DAY)):
        assert abs(time.time_ns() // 1000 - ago - start_of(text)) < DAY // 24


@pytest.mark.parametrize("text", ["yesterday", "7", "7y", "2026-13-01"])
def test_what_is_no_time_is_refused(text: str) -> None:
    with pytest.raises(click.BadParameter, match="is not a time; give a date such as 2026-11-21, or 12h, 7d, 2w"):
        start_of(text)
