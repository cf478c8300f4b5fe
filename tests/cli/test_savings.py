"""``mnemosyne savings``: what managing saved or cost, on a real database."""

import json
from pathlib import Path

import pytest

from tests.cli.running import run


@pytest.mark.usefixtures("managed")
def test_savings_are_the_difference_to_the_unmanaged_session_with_what_was_assumed() -> None:
    output = run("savings").stdout
    lines = output.splitlines()
    assert lines[0].split() == ["SESSION", "TURNS", "MANAGED", "SENT", "UNMANAGED", "COST", "UNMANAGED", "$", "SAVED"]
    assert "a session\N{REPLACEMENT CHARACTER}" in lines[1]
    assert lines[1].endswith("$0.4376  $0.9688      $0.5312 (55%) saved")
    assert "It would have compacted 1 time; to what size is assumed, from recorded sessions." in lines
    sentence = "Of 1 turn the provider did not report what was used, or what of it came from its cache, or nothing "
    assert f"{sentence}credible: that is assumed, too." in lines


@pytest.mark.usefixtures("managed")
def test_savings_are_also_json_and_the_total_is_the_sum() -> None:
    found = json.loads(run("savings", "--json").stdout)
    (row,) = found["sessions"]
    assert {name: row[name] for name in found["total"]} == found["total"]
    assert row["dollars_saved"] == pytest.approx(row["dollars_unmanaged"] - row["dollars"])
    assert (row["turns"], row["managed_turns"], row["tokens_sent"]) == (3, 3, 70_000)
    assert json.loads(run("savings", "--since", "1h", "--json").stdout)["sessions"] == []


@pytest.mark.usefixtures("observed")
def test_where_a_session_was_only_observed_nothing_was_saved_and_that_is_said() -> None:
    output = run("savings").stdout
    assert output.splitlines()[1].endswith("nothing")
    assert "nothing was saved and nothing lost" in output
    assert json.loads(run("savings", "--json").stdout)["total"]["dollars_saved"] == 0


@pytest.mark.usefixtures("managed")
@pytest.mark.parametrize("when", ["yesterday", "7", "2026-13-01", "-3d"])
def test_a_time_that_is_none_is_refused_with_what_would_be(when: str) -> None:
    assert "give a date such as 2026-11-21, or 12h, 7d, 2w" in run("savings", "--since", when, code=2).stderr


@pytest.mark.usefixtures("managed")
def test_that_no_turn_is_so_young_is_not_said_as_if_there_were_none() -> None:
    assert run("savings", "--since", "2030-01-01").stderr == "The ledger has no turns since 2030-01-01.\n"


def test_without_a_log_there_is_nothing_to_tell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MNEMOSYNE_DATA_DIR", str(tmp_path))
    assert f"Nothing has been recorded in {tmp_path} yet." in run("savings").stderr
    assert json.loads(run("savings", "--json").stdout) == {"sessions": [], "total": None, "quota": []}
    assert "Nothing has been recorded" in run("report", "x", code=1).stderr
