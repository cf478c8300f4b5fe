"""``mnemosyne savings``: how much managing saved or cost, on a real database."""

import time
from datetime import UTC, datetime
from pathlib import Path

import click
import pytest

from mnemosyne.cli.log_access import start_of
from tests.cli.running import run, run_json


@pytest.mark.usefixtures("managed")
def test_savings_are_the_difference_to_the_unmanaged_session_with_the_assumptions() -> None:
    lines = run("savings").stdout.splitlines()
    assert lines[0].split() == ["SESSION", "TURNS", "MANAGED", "SENT", "UNMANAGED", "COST", "UNMANAGED", "$", "SAVED"]
    assert "a session\N{REPLACEMENT CHARACTER}" in lines[1]
    assert lines[1].endswith("$0.44  $0.97        $0.53 (55%) saved")
    assert "It would have compacted 1 time; to what size is assumed, from recorded sessions." in lines
    sentence = "Of 1 turn the provider did not report what was used, or what of it came from its cache, or nothing "
    assert f"{sentence}credible: that is assumed, too." in lines


@pytest.mark.usefixtures("managed")
def test_json_total_is_the_sum_of_the_sessions() -> None:
    savings = run_json("savings")
    (row,) = savings["sessions"]
    assert {name: row[name] for name in savings["total"]} == savings["total"]
    assert row["dollars_saved"] == pytest.approx(row["dollars_unmanaged"] - row["dollars"])
    assert (row["turns"], row["managed_turns"], row["tokens_sent"]) == (3, 3, 70_000)
    assert run_json("savings", "--since", "1h")["sessions"] == []
    assert run("savings", "--since", "2030-01-01").stderr == "The ledger has no turns since 2030-01-01.\n"
    assert "is not a time" in run("savings", "--since", "7", code=2).stderr


def test_missing_log_has_no_savings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MNEMOSYNE_DATA_DIR", str(tmp_path))
    assert f"Nothing has been recorded in {tmp_path} yet." in run("savings").stderr
    assert run_json("savings") == {"sessions": [], "total": None, "quota": []}


DAY = 24 * 3600 * 10**6


def test_start_is_a_date_a_duration_or_the_beginning() -> None:
    assert start_of(None) == 0
    assert start_of("2026-11-21T00:00:00+00:00") == int(datetime(2026, 11, 21, tzinfo=UTC).timestamp()) * 10**6
    for text, ago in (("12h", DAY // 2), ("7d", 7 * DAY), ("2w", 14 * DAY)):
        assert abs(time.time_ns() // 1000 - ago - start_of(text)) < DAY // 24


@pytest.mark.parametrize("text", ["yesterday", "7", "7y", "2026-13-01"])
def test_invalid_time_is_refused(text: str) -> None:
    with pytest.raises(click.BadParameter, match="is not a time; give a date such as 2026-11-21, or 12h, 7d, 2w"):
        start_of(text)
