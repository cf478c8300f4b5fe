"""What people are told of what managing saved or cost, on a real database."""

import json
from pathlib import Path
from typing import Any

import attrs
import pytest
import trio

from mnemosyne.app.storage import event_codec
from mnemosyne.cli.accounts import account_of
from mnemosyne.domain.cost.prices import Tokens
from mnemosyne.domain.objects.events import FaultKind, ObjectFaulted, TurnAssessed
from mnemosyne.domain.ports import Append, Envelope
from mnemosyne.domain.session.events import SessionStarted
from mnemosyne.domain.session.round_events import EpochBegan, Mode
from tests.cli.test_timeline import run
from tests.domain.objects.test_faults import faulted
from tests.domain.remembered import created
from tests.projections.support import POSTGRES, open_world
from tests.projections.test_savings import STREAM, accounted, epoch


def assessed(turn: int) -> TurnAssessed:
    return TurnAssessed(
        at=turn * 10,
        branch="main",
        turn=turn,
        model="claude-opus-4-5",
        open_from=0,
        typed=(),
        content=(0, 0),
        head=(500_000, 0),
        tokens=1_000,
        usable=100_000,
        zone="normal" if turn < 3 else "caution",
    )


STARTED = SessionStarted(at=1, tenant="t", external_id="a session\x1b", client="c", client_version=None, salt=b"s")
MANAGED = [
    STARTED,
    assessed(1),
    accounted(1, 10_000, 30_000),
    assessed(2),
    EpochBegan(
        at=20, branch="main", turn=2, epoch=1, messages=3, reason="cold", freed=9, price=5_000, payback=4, hour=False
    ),
    epoch(2, 1),
    accounted(2, 40_000, 35_000, compacted=True),
    assessed(3),
    accounted(3, 20_000, 90_000, assumed=True),
]
OBSERVED = [STARTED, accounted(1, 10_000, 12_000, Mode.OBSERVE)]


def recorded(dsn: str, folder: Path, monkeypatch: pytest.MonkeyPatch, events: list[Any]) -> None:
    """A database that holds these events, and an environment in which the commands find it."""

    async def fill() -> None:
        async with open_world(POSTGRES, dsn, event_codec()) as world:
            await world.journal.append(Append(STREAM, 0, tuple(Envelope(event, "c") for event in events)))

    trio.run(fill)
    for name, value in {"MNEMOSYNE_DSN": dsn, "MNEMOSYNE_DATA_DIR": str(folder)}.items():
        monkeypatch.setenv(name, value)


@pytest.fixture
def managed(dsn: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recorded(dsn, tmp_path, monkeypatch, MANAGED)


@pytest.fixture
def observed(dsn: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recorded(dsn, tmp_path, monkeypatch, OBSERVED)


@pytest.mark.usefixtures("managed")
def test_savings_are_the_difference_to_the_unmanaged_session_with_what_was_assumed() -> None:
    output = run("savings").stdout
    lines = output.splitlines()
    assert lines[0].split() == ["SESSION", "TURNS", "MANAGED", "SENT", "UNMANAGED", "COST", "UNMANAGED", "$", "SAVED"]
    assert "a session\N{REPLACEMENT CHARACTER}" in lines[1]
    assert lines[1].endswith("$0.4376  $0.9688      $0.5312 (55%) saved")
    assert "It would have compacted 1 time; to what size is assumed, from recorded sessions." in lines
    assert "Of 1 turn the provider did not say what it used: that is assumed, too." in lines


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
    assert "give a date as 2026-11-21, or 12h, 7d, 2w" in run("savings", "--since", when, code=2).stderr


@pytest.mark.usefixtures("managed")
def test_that_no_turn_is_so_young_is_not_said_as_if_there_were_none() -> None:
    assert run("savings", "--since", "2030-01-01").stderr == "No turn of the ledger began since 2030-01-01.\n"


@pytest.mark.usefixtures("managed")
def test_a_report_tells_of_context_pressure_rewrites_and_money() -> None:
    output = run("report", "a session").stdout
    assert output.startswith("a session\N{REPLACEMENT CHARACTER}  3 turns, 3 managed\n")
    for sentence in (
        "context of main, in tokens over turns",
        "The largest prompt had 40.0k tokens (in main).",
        "The window was in zone normal at 2 turns, caution at 1 turn.",
        "Objects were lowered 0 times; nothing was missed.",
        "Its history was rewritten 1 time:",
        "  main 2 (cold): 6250 tokens of input at once, had paid after 1 turn, expected after 4 turns",
        "70.0k tokens sent, unmanaged 155.0k; $0.4376, unmanaged $0.9688: $0.5312 (55%) saved.",
        "The provider billed 1.00 times what we expected.",
    ):
        assert sentence in output.splitlines(), sentence


def test_a_report_tells_what_was_asked_for_from_what_was_read_again(
    dsn: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kinds = (FaultKind.IMPLICIT, FaultKind.IMPLICIT, FaultKind.MICRO)
    faults = [
        ObjectFaulted(
            at=9,
            object="k7m2qpd",
            branch="main",
            turn=3,
            kind=kind,
            reason="r",
            distance=number,
            tokens=1,
            avoided_tokens=0,
            latency=0,
        )
        for number, kind in enumerate(kinds, 1)
    ]
    recorded(dsn, tmp_path, monkeypatch, [*MANAGED, created("k7m2qpd"), *faults])
    output = run("report", "a session", "--html", str(tmp_path / "out.html")).stdout
    assert (
        "what it did not see was missed 3 times, at most 3 turns after it had been seen: the model asked about it"
        " 1 time, the agent read or ran it again 2 times." in output
    )
    assert "The thrash index was at most 0.2 (in main, turn 3), and 0.2 at the end:" in output
    assert "thrash index" in (tmp_path / "out.html").read_text(encoding="utf-8")


def test_the_thrash_index_of_a_report_is_that_of_its_worst_turn_and_of_its_last(
    dsn: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    again = [faulted("k7m2qpd", turn) for turn in (2, 3, 3, 4, 8)]
    later = [accounted(turn, 20_000, 20_000) for turn in range(4, 9)]
    recorded(dsn, tmp_path, monkeypatch, [*MANAGED, *later, created("k7m2qpd"), *again])
    found = json.loads(run("report", "a session", "--json").stdout)["thrash"]
    assert found == {"worst": 0.6, "branch": "main", "turn": 4, "last": 0.2}


def test_where_nothing_was_managed_a_report_says_nothing_saved(
    dsn: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorded(dsn, tmp_path, monkeypatch, OBSERVED)
    assert "$0.0625, unmanaged $0.0625: nothing saved." in run("report", "a session").stdout


@pytest.mark.usefixtures("managed")
def test_a_report_is_also_json_and_a_page(tmp_path: Path) -> None:
    page = tmp_path / "out.html"
    found = json.loads(run("report", str(STREAM), "--html", str(page), "--json").stdout)
    assert [turn["zone"] for turn in found["turns"]] == ["normal", "normal", "caution"]
    (rewrite,) = found["epochs"]
    assert (rewrite["turn"], rewrite["price"], rewrite["paid_back"]) == (2, 6250, 1)
    assert (rewrite["reason"], rewrite["expected_payback"]) == ("cold", 4)
    assert page.read_text(encoding="utf-8").startswith("<!DOCTYPE html>")
    missing = tmp_path / "none" / "out.html"
    assert "cannot be written" in run("report", str(STREAM), "--html", str(missing), code=1).stderr


def test_without_a_log_there_is_nothing_to_tell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MNEMOSYNE_DATA_DIR", str(tmp_path))
    assert f"Nothing has been recorded in {tmp_path} yet." in run("savings").stderr
    assert json.loads(run("savings", "--json").stdout) == {"sessions": [], "total": None}
    assert "Nothing has been recorded" in run("report", "x", code=1).stderr


@pytest.mark.parametrize(
    ("event", "said"),
    [
        (accounted(1, 100, 300), "Without us it would have used 300 written to it, 1 of output: it cost 250 less"),
        (accounted(1, 300, 100), "it cost 250 more (in tokens of input)."),
        (accounted(1, 100, 300, Mode.OBSERVE), "nothing was saved and nothing lost."),
        (accounted(1, 100, 300, assumed=True), "because the provider did not say."),
        (accounted(1, 100, 300, rounds=3), "in 3 rounds, as billed."),
        (accounted(1, 100, 300, compacted=True), "the client would have compacted its history here."),
        (accounted(1, 100, 300, deviates=True), "bills markedly more"),
        (attrs.evolve(accounted(1, 100, 300), actual=Tokens(read=20_000)), "It used 20.0k read from the cache"),
    ],
)
def test_the_account_of_a_turn_is_told_in_sentences(event: Any, said: str) -> None:
    assert said in " ".join(account_of(event))
