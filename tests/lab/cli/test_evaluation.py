"""The terminal table has the numbers of the JSON, in 100 columns and without colour."""

import attrs
import pytest

from mnemosyne_lab.cli.evaluation import render_evaluation
from mnemosyne_lab.evaluation.report_json import COLUMNS, NOTHING, report
from mnemosyne_lab.evaluation.results import Evaluation
from tests.lab.evaluation.building import evaluation, policy


def printed(told: Evaluation, *, width: int = 100) -> str:
    return render_evaluation(told, width=width) + "\n"


def row(text: str, name: str) -> list[str]:
    return next(line for line in text.splitlines() if line.startswith(name)).removeprefix(name).split()


def test_every_cell_is_the_number_of_the_json() -> None:
    text, policies = printed(evaluation()), report(evaluation())["policies"]
    for name in ("unmanaged", "half", "most"):
        totals = policies[name]["totals"]
        assert totals["share_of_steps_to_short_forms"] is None
        assert row(text, name) == [
            f"{totals['billed_ratio']:.3f}",
            f"{totals['nominal_ratio']:.3f}",
            f"{totals['dearest_session']['ratio']:.3f}",
            f"{totals['share_of_sessions_dearer']:.0%}",
            NOTHING if name == "unmanaged" else f"{totals['exact_faults_per_eviction']:.2%}",
            NOTHING,  # no step down is recorded
            f"{totals['share_resident']:.1%}",
            str(totals["silent"]),
            f"{totals['epochs_per_session']:.1f}",
            f"{totals['dollars']:.2f}",
        ]


@pytest.mark.parametrize("width", [80, 100, 120])
def test_table_fits_the_terminal_without_truncated_numbers(width: int) -> None:
    long = policy("a policy with quite a long name that says what it does", 0.5, ["a session/with a long name " * 9])
    text = printed(evaluation(long, policy("unmanaged", 0)), width=width)
    assert all(len(line) <= width for line in text.splitlines())
    head, first, _ = text.splitlines()[:3]
    assert first.startswith("a policy")
    assert "\N{HORIZONTAL ELLIPSIS}" in first
    assert [cell for cell in first.split()[-6:] if "\N{HORIZONTAL ELLIPSIS}" in cell] == []
    assert ("epochs" in head.split()) == (width > 80)


def test_each_column_is_explained_and_each_dearest_session_named() -> None:
    text = " ".join(printed(evaluation()).split())
    assert all(" ".join(column.words.split()) in text for column in COLUMNS)
    assert "half: short at" in text


def test_hostile_name_controls_neither_terminal_nor_markup() -> None:
    text = printed(evaluation(policy("[red]p\x1b[2J", 0.5, ["\x1b]0;title\x07[link=x]"])))
    assert "\x1b" not in text
    assert "[red]p" in text
    assert "[link=x]" in text


def test_empty_evaluation_is_reported_with_the_skipped_inputs() -> None:
    text = printed(attrs.evolve(evaluation(), policies=[]))
    assert text == "No policy was evaluated.\nSkipped: sessions.jsonl, line 7: no messages; leave it out.\n"


def test_invalid_requests_are_reported_with_their_policy() -> None:
    broken = policy("half", 0.5)
    broken = attrs.evolve(broken, sessions=[attrs.evolve(each, wire_violations=2) for each in broken.sessions])
    assert "protocol rule: half 4." in " ".join(printed(evaluation(policy("unmanaged", 0), broken)).split())
    assert "protocol rule: none, under any policy." in " ".join(printed(evaluation()).split())
