"""``mnemosyne usage``: tokens and money by session, day and model, on a real database."""

import json
import time
from pathlib import Path

import pytest

from tests.cli.running import SESSION, run, words


@pytest.mark.usefixtures("golden")
def test_usage_adds_up_by_day_by_default() -> None:
    found = words(run("usage").stdout)
    assert found[0] == ["DAY", "REPLIES", "IN", "READ", "WRITE", "OUT", "COST"]
    assert found[1] == ["1970-01-01", "13", "91", "0", "0", "26", "$0.0008+"]
    assert run("usage").stdout.splitlines()[-1] == (
        "No price is known for gpt: 1 reply is counted but not priced. Set it, in dollars: mnemosyne config price gpt "
        "INPUT OUTPUT CACHE-READ"
    )


@pytest.mark.usefixtures("golden")
def test_usage_by_model_says_which_have_no_price() -> None:
    assert words(run("usage", "--by", "model").stdout)[1:4] == [
        ["claude-opus-5-5", "12", "84", "0", "0", "24", "$0.0008"],
        ["gpt", "1", "7", "0", "0", "2", "?"],
        ["total", "13", "91", "0", "0", "26", "$0.0008+"],
    ]
    priced, unpriced = json.loads(run("usage", "--by", "model", "--json").stdout)
    assert (priced["model"], priced["dollars"], priced["unpriced_replies"]) == (
        "claude-opus-5-5",
        pytest.approx(12 * (7 * 4 + 2 * 20) / 1e6),
        0,
    )
    assert (unpriced["model"], unpriced["dollars"], unpriced["unpriced_models"]) == ("gpt", None, ["gpt"])


@pytest.mark.usefixtures("golden")
def test_usage_by_session_names_the_client_s_session() -> None:
    assert "2510e41f a client's session" in run("usage", "--by", "session").stdout
    (row,) = json.loads(run("usage", "--by", "session", "--json").stdout)
    assert (row["session"], row["external_id"], row["output_tokens"]) == (SESSION, "a client's session", 26)


@pytest.mark.usefixtures("golden")
def test_days_are_local_in_the_table_and_utc_in_json(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "America/New_York")
    time.tzset()
    try:
        assert words(run("usage").stdout)[1][0] == "1969-12-31"
        assert json.loads(run("usage", "--json").stdout)[0]["day"] == "1970-01-01"
    finally:
        monkeypatch.setenv("TZ", "UTC")
        time.tzset()


@pytest.mark.parametrize(("arguments", "output"), [([], ""), (["--json"], "[]\n")])
def test_usage_before_anything_was_recorded_is_nothing(arguments: list[str], output: str, tmp_path: Path) -> None:
    assert run("usage", "--data-dir", str(tmp_path / "none"), *arguments).stdout == output
