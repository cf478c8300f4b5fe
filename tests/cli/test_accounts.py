"""``mnemosyne usage`` and ``savings``; sentences about the cost of a turn and about a subscription's limits."""

import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import UUID

import attrs
import click
import pytest

from mnemosyne.cli.accounts import account_of, quota_as_json, quota_lines
from mnemosyne.cli.cache_misses import misses_as_json, print_misses
from mnemosyne.cli.log_access import time_of
from mnemosyne.domain.cost.prices import Tokens
from mnemosyne.domain.session.address import Address
from mnemosyne.domain.session.round_events import Mode
from mnemosyne.services.cache_misses import MissGroup
from mnemosyne.services.quota import QuotaWindow
from tests.cli.running import SESSION, run, run_json, words
from tests.domain.session_events import accounted


@pytest.mark.parametrize(
    ("event", "sentence"),
    [
        (
            accounted(1, 100, 300),
            "Without the proxy it would have used 300 written to the cache, 1 of output: it cost 250 tokens less",
        ),
        (accounted(1, 300, 100), "it cost 250 tokens more, at the price of uncached input."),
        (accounted(1, 100, 300, Mode.OBSERVE), "nothing was saved or lost."),
        (accounted(1, 100, 300, assumed=True), "because the provider reported no complete usage."),
        (accounted(1, 100, 300, rounds=3), "in 3 rounds, as billed."),
        (accounted(1, 100, 300, compacted=True), "the client would have compacted its history here."),
        (accounted(1, 100, 300, deviates=True), "billed considerably more"),
        (attrs.evolve(accounted(1, 100, 300), actual=Tokens(read=20_000)), "It used 20.0k read from the cache"),
    ],
)
def test_account_of_a_turn_names_its_tokens_and_the_difference(event: Any, sentence: str) -> None:
    assert sentence in " ".join(account_of(event))


def test_limit_of_a_subscription_is_shown_with_the_sessions_that_used_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    one, other = UUID(int=1), UUID(int=2)
    taken = {one: 0.01, other: 0.125}
    stated: dict[str, Any] = {"at": 0, "used": 0.42, "reset": 3_600_000_000, "status": "allowed"}
    window = QuotaWindow(span="5h", account=None, taken=taken, **stated)
    assert quota_lines([window], {other: "mine"}) == [
        "Subscription, five hours: 42.0 % used (allowed), resets 1970-01-01 01:00:00",
        "  12.5 % by 00000000 mine",
        "  1.0 % by 00000000",
    ]
    (row,) = quota_as_json([window])
    assert (row["window"], row["used"], row["taken"]) == ("5h", 0.42, {str(one): 0.01, str(other): 0.125})


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


@pytest.mark.usefixtures("conversation")
def test_misses_are_listed_by_cause_and_those_at_the_start_of_a_conversation_cost_nothing_more() -> None:
    lines = run("usage", "--misses").stdout.splitlines()
    assert [line.split()[-4] for line in lines if "a conversation began" in line] == ["-"] * 3
    rows = run_json("usage", "--misses")
    assert [row["is_miss"] for row in rows] == [True, True, False, False, False]
    cost = sum(row["dollars"] for row in rows if row["is_miss"])
    assert lines[-1] == f"The cache misses cost ${cost:.4f} more than reads from the cache."
    assert run_json("usage", "--misses", "--since", "1h") == []
    assert run("usage", "--misses", "--since", "1h").stderr == "No reply has reported its usage in this time.\n"
    assert run("usage", "--verdicts").stdout == "No request has a conclusive verdict of its provider yet.\n"
    assert run_json("usage", "--verdicts") == {"agreed": 0, "inconclusive": {}, "differing": []}
    assert "--since needs" in run("usage", "--since", "1h", code=2).stderr


def test_the_cost_of_a_miss_is_shown_with_its_dearest_request(capsys: pytest.CaptureFixture[str]) -> None:
    worst = SESSION, Address("main", 14, 1)
    group = MissGroup(
        text="the MCP server x changed its tools",
        is_miss=True,
        requests=2,
        tokens=50_000,
        nanodollars=310_000_000,
        unpriced=0,
        worst=worst,
    )
    print_misses([group])
    shown = capsys.readouterr().out
    assert words(shown)[1][-6:] == ["2", "50.0k", "$0.31", SESSION[:8], "main", "14"]
    assert shown.endswith("The cache misses cost $0.31 more than reads from the cache.\n")
    print_misses([group, attrs.evolve(group, unpriced=1)])
    assert " cost $0.62+ more " in capsys.readouterr().out
    (row,) = misses_as_json([group, attrs.evolve(group, unpriced=2)])[1:]
    assert row["dollars"] is None


@pytest.mark.parametrize(("arguments", "output"), [([], ""), (["--json"], "[]\n")])
def test_missing_log_has_no_usage(arguments: list[str], output: str, tmp_path: Path) -> None:
    assert run("usage", "--data-dir", str(tmp_path / "none"), *arguments).stdout == output


@pytest.mark.usefixtures("managed")
def test_savings_are_the_difference_to_the_unmanaged_session_with_the_assumptions() -> None:
    lines = run("savings").stdout.splitlines()
    assert " ".join(lines[0].split()) == "SESSION TURNS MANAGED SENT SENT WITHOUT COST COST WITHOUT SAVED"
    assert "a session\N{REPLACEMENT CHARACTER}" in lines[1]
    assert lines[1].endswith("$0.44         $0.84  $0.41 (48 %) saved")
    assert "It would have compacted 1 time; the size afterwards is assumed, from recorded sessions." in lines
    assert "For 1 turn the provider reported no complete usage; both sides count only what it reported." in lines


@pytest.mark.usefixtures("managed")
def test_json_total_is_the_sum_of_the_sessions() -> None:
    savings = run_json("savings")
    (row,) = savings["sessions"]
    assert {name: row[name] for name in savings["total"]} == savings["total"]
    assert row["dollars_saved"] == pytest.approx(row["dollars_unmanaged"] - row["dollars"])
    assert (row["turns"], row["managed_turns"], row["tokens_sent"]) == (3, 3, 70_000)
    assert (row["assumed_turns"], row["far_turns"]) == (1, 0)
    one = run_json("savings", row["session"])
    assert (one["total"], one["prediction"]["turns"] + one["prediction"]["left_out"]) == (savings["total"], 3)
    assert any(
        line.startswith("Predicted before each of") for line in run("savings", row["session"]).stdout.split("\n")
    )
    assert run_json("savings", "--since", "1h")["sessions"] == []
    assert run("savings", "--since", "2030-01-01").stderr == "No costs are recorded since 2030-01-01.\n"
    assert "is not a time" in run("savings", "--since", "7", code=2).stderr


def test_missing_log_has_no_savings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MNEMOSYNE_DATA_DIR", str(tmp_path))
    assert f"Nothing has been recorded in {tmp_path} yet." in run("savings").stderr
    assert run_json("savings") == {"sessions": [], "total": None, "quota": []}


DAY = 24 * 3600 * 10**6


def test_start_is_a_date_a_duration_or_the_beginning() -> None:
    assert time_of(None) == 0
    assert time_of("2026-11-21T00:00:00+00:00") == int(datetime(2026, 11, 21, tzinfo=UTC).timestamp()) * 10**6
    for text, ago in (("12h", DAY // 2), ("7d", 7 * DAY), ("2w", 14 * DAY)):
        assert abs(time.time_ns() // 1000 - ago - time_of(text)) < DAY // 24


@pytest.mark.parametrize("text", ["yesterday", "7", "7y", "2026-13-01"])
def test_invalid_time_is_refused(text: str) -> None:
    with pytest.raises(click.BadParameter, match="is not a time; give a date such as 2026-11-21, or 12h, 7d, 2w"):
        time_of(text)
