"""``mnemosyne report``: one session, its context and its money, on a real database."""

import json
from pathlib import Path

import attrs
import pytest

from mnemosyne.cli.report import paging_lines
from mnemosyne.domain.objects.events import FaultKind, ObjectFaulted
from mnemosyne.domain.tools.tool_paging import PagingForecast
from tests.cli.ledgers import MANAGED, OBSERVED, recorded
from tests.cli.running import run
from tests.domain.remembered import created, faulted
from tests.domain.session_events import accounted
from tests.projections.test_savings import STREAM


@pytest.mark.usefixtures("managed")
def test_a_report_tells_of_context_pressure_rewrites_and_money() -> None:
    output = run("report", "a session").stdout
    assert output.startswith("a session\N{REPLACEMENT CHARACTER}  3 turns, 3 managed\n")
    for sentence in (
        "The largest prompt had 40.0k tokens (in main).",
        "The context was in zone normal at 2 turns, caution at 1 turn.",
        "0 evictions; nothing was needed again.",
        "Its context was compacted 1 time:",
        "  main 2 (cold): cost 6250 input tokens, paid off after 1 turn, expected after 4 turns",
        "70.0k tokens sent, unmanaged 155.0k; $0.4376, unmanaged $0.9688: $0.5312 (55%) saved.",
        "The provider billed 1.00 times the expected amount.",
    ):
        assert sentence in output.splitlines(), sentence


def test_a_report_tells_how_much_of_what_was_sent_was_of_use_later(conversation: str) -> None:
    told = json.loads(run("report", conversation, "--json").stdout)["effective"]
    assert 0 < told["used_later"] < told["sent"]
    share = f"{told['used_later'] / told['sent']:.0%}"
    assert f"tokens of objects in its requests, {share} were used later" in run("report", conversation).stdout


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
    output = run("report", "a session").stdout
    assert (
        "evicted items were needed again 3 times, at most 3 turns after their last use: the agent read or"
        " ran it again 2 times, the model queried it 1 time." in output
    )
    assert "The thrash index was at most 0.2 (in main, turn 3), and 0.2 at the end:" in output


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
    assert page.read_text(encoding="utf-8").startswith("<!doctype html>")
    missing = tmp_path / "none" / "out.html"
    assert "cannot be written" in run("report", str(STREAM), "--html", str(missing), code=1).stderr


def test_a_report_says_what_paging_of_tools_does_and_whose_it_is() -> None:
    paged = PagingForecast(tools=25, paged=("Look", "Turn"), saved=9_100, called=(), is_the_clients=False)
    rest = "The model must load one of these before it calls it"
    saying = (
        "Paging of tool definitions (manage_tool_budget = 0) removes about 9100 tokens from each request: 2 of the"
        f" client's 25 tools keep one line. {rest}"
    )
    assert paging_lines(paged) == [f"{saying}, and this session called none of them."]
    called = attrs.evolve(paged, called=("Turn\x1b",))
    assert paging_lines(called) == [f"{saying}, and this session called 1 of them (Turn\N{REPLACEMENT CHARACTER})."]
    assert paging_lines(attrs.evolve(paged, paged=(), saved=0)) == []
    assert "does not page" in paging_lines(attrs.evolve(paged, paged=(), saved=0, is_the_clients=True))[0]
    assert paging_lines(None) == []
