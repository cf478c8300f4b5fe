"""``mnemosyne usage``: tokens and cost by session, day and model, on a real database."""

import time
from pathlib import Path

import pytest

from tests.cli.running import SESSION, run, run_json, words


@pytest.mark.usefixtures("golden")
def test_usage_is_grouped_by_local_day_in_the_table_and_by_utc_day_in_json(monkeypatch: pytest.MonkeyPatch) -> None:
    output = run("usage").stdout
    assert words(output)[0] == ["DAY", "REPLIES", "IN", "READ", "WRITE", "OUT", "COST"]
    assert words(output)[1] == ["1970-01-01", "13", "91", "0", "0", "26", "$0.00082+"]
    assert output.splitlines()[-1] == (
        "No price is known for gpt: 1 reply is counted but not priced. Set it, in dollars: mnemosyne config price gpt "
        "INPUT OUTPUT CACHE-READ"
    )
    monkeypatch.setenv("TZ", "America/New_York")
    time.tzset()
    try:
        assert words(run("usage").stdout)[1][0] == "1969-12-31"
        assert run_json("usage")[0]["day"] == "1970-01-01"
    finally:
        monkeypatch.setenv("TZ", "UTC")
        time.tzset()


@pytest.mark.usefixtures("golden")
def test_usage_by_model_names_those_without_a_price() -> None:
    assert words(run("usage", "--by", "model").stdout)[1:4] == [
        ["claude-opus-5-5", "12", "84", "0", "0", "24", "$0.00082"],
        ["gpt", "1", "7", "0", "0", "2", "?"],
        ["total", "13", "91", "0", "0", "26", "$0.00082+"],
    ]
    priced, unpriced = run_json("usage", "--by", "model")
    assert (priced["model"], priced["unpriced_replies"]) == ("claude-opus-5-5", 0)
    assert priced["dollars"] == pytest.approx(12 * (7 * 4 + 2 * 20) / 1e6)
    assert (unpriced["model"], unpriced["dollars"], unpriced["unpriced_models"]) == ("gpt", None, ["gpt"])


@pytest.mark.usefixtures("golden")
def test_usage_by_session_names_the_client_s_session() -> None:
    assert "2510e41f a client's session" in run("usage", "--by", "session").stdout
    (row,) = run_json("usage", "--by", "session")
    assert (row["session"], row["external_id"], row["output_tokens"]) == (SESSION, "a client's session", 26)


@pytest.mark.parametrize(("arguments", "output"), [([], ""), (["--json"], "[]\n")])
def test_missing_log_has_no_usage(arguments: list[str], output: str, tmp_path: Path) -> None:
    assert run("usage", "--data-dir", str(tmp_path / "none"), *arguments).stdout == output
