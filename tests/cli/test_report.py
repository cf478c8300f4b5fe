"""``mnemosyne report``: the context and the cost of one session, on a real database."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import attrs
import pytest

from mnemosyne.cli.report import paging_lines
from mnemosyne.domain.objects.events import FaultKind, ObjectFaulted
from mnemosyne.domain.tools.tool_paging import PagingForecast
from tests.cli.logs import MANAGED, OBSERVED
from tests.cli.running import run, run_json
from tests.domain.remembered import created, faulted
from tests.domain.session_events import accounted
from tests.projections.test_savings import STREAM

Recorded = Callable[[Sequence[Any]], None]


@pytest.mark.usefixtures("managed")
def test_report_shows_the_context_its_compactions_and_its_cost(tmp_path: Path) -> None:
    output = run("report", "a session").stdout
    assert output.startswith("a session\N{REPLACEMENT CHARACTER}  3 turns, 3 managed\n")
    for sentence in (
        "The largest prompt had 40.0k tokens (in main).",
        "The context was in zone normal at 2 turns, caution at 1 turn.",
        "0 evictions; nothing was needed again.",
        "Its context was compacted 1 time:",
        "  main 2 (cold): cost 6250 input tokens, paid off after 1 turn, expected after 4 turns",
        "70.0k tokens sent, unmanaged 155.0k; $0.44, unmanaged $0.97: $0.53 (55%) saved.",
        "The provider billed 1.00 times the expected amount.",
    ):
        assert sentence in output.splitlines(), sentence
    page = tmp_path / "out.html"
    report = run_json("report", str(STREAM), "--html", str(page))
    assert [turn["zone"] for turn in report["turns"]] == ["normal", "normal", "caution"]
    (rewrite,) = report["epochs"]
    assert (rewrite["turn"], rewrite["price"], rewrite["paid_back"]) == (2, 6250, 1)
    assert (rewrite["reason"], rewrite["expected_payback"]) == ("cold", 4)
    assert page.read_text(encoding="utf-8").startswith("<!doctype html>")
    missing = tmp_path / "none" / "out.html"
    assert "cannot be written" in run("report", str(STREAM), "--html", str(missing), code=1).stderr


def test_report_shows_the_share_of_tokens_that_were_used_later(conversation: str) -> None:
    effective = run_json("report", conversation)["effective"]
    assert 0 < effective["used_later"] < effective["sent"]
    share = f"{effective['used_later'] / effective['sent']:.0%}"
    assert f"tokens of objects in its requests, {share} were used later" in run("report", conversation).stdout


def test_report_counts_evicted_items_that_were_needed_again_by_kind(recorded: Recorded) -> None:
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
    recorded([*MANAGED, created("k7m2qpd"), *faults])
    output = run("report", "a session").stdout
    assert (
        "evicted items were needed again 3 times, at most 3 turns after their last use: the agent read or"
        " ran it again 2 times, the model queried it 1 time." in output
    )
    assert "The thrash index was at most 0.2 (in main, turn 3), and 0.2 at the end:" in output


def test_thrash_index_is_that_of_the_worst_and_of_the_last_turn(recorded: Recorded) -> None:
    again = [faulted("k7m2qpd", turn) for turn in (2, 3, 3, 4, 8)]
    later = [accounted(turn, 20_000, 20_000) for turn in range(4, 9)]
    recorded([*MANAGED, *later, created("k7m2qpd"), *again])
    assert run_json("report", "a session")["thrash"] == {"worst": 0.6, "branch": "main", "turn": 4, "last": 0.2}


def test_unmanaged_session_saves_nothing(recorded: Recorded) -> None:
    recorded(OBSERVED)
    assert "$0.063, unmanaged $0.063: nothing saved." in run("report", "a session").stdout
    assert run("savings").stdout.splitlines()[1].endswith("nothing")
    assert "nothing was saved and nothing lost" in run("savings").stdout
    assert run_json("savings")["total"]["dollars_saved"] == 0


def test_report_shows_the_effect_of_paging_tool_definitions() -> None:
    paged = PagingForecast(tools=25, paged=("Look", "Turn"), saved=9_100, called=(), is_the_clients=False)
    sentence = (
        "Paging of tool definitions (manage_tool_budget = 0) removes about 9100 tokens from each request: 2 of the"
        " client's 25 tools keep one line. The model must load one of these before it calls it"
    )
    assert paging_lines(paged) == [f"{sentence}, and this session called none of them."]
    called = attrs.evolve(paged, called=("Turn\x1b",))
    assert paging_lines(called) == [f"{sentence}, and this session called 1 of them (Turn\N{REPLACEMENT CHARACTER})."]
    assert paging_lines(attrs.evolve(paged, paged=(), saved=0)) == []
    assert "does not page" in paging_lines(attrs.evolve(paged, paged=(), saved=0, is_the_clients=True))[0]
    assert paging_lines(None) == []
