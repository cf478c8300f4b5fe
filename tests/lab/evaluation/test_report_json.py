"""The JSON report holds every figure once, rounded once, and null where a denominator is zero."""

import json
from fractions import Fraction

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mnemosyne_lab.evaluation.report_json import report, report_json
from mnemosyne_lab.evaluation.results import Evaluation
from tests.lab.evaluation.building import evaluation, policy, session

SESSION_KEYS = [
    *("name", "turns", "tokens_sent", "tokens_unmanaged", "billed", "billed_unmanaged", "dollars", "dollars_unmanaged"),
    *("epochs", "evictions", "exact_faults", "demands", "resident", "declared", "silent", "wire_violations"),
]


def test_session_has_exactly_the_documented_keys_with_numbers() -> None:
    for told in json.loads(report_json(evaluation()))["policies"].values():
        for each in told["sessions"]:
            assert list(each) == SESSION_KEYS
            assert all(type(each[key]) in (int, float) for key in SESSION_KEYS[1:])


def test_totals_are_the_sums_of_the_sessions() -> None:
    for told in report(evaluation())["policies"].values():
        for key in SESSION_KEYS[1:]:
            assert told["totals"][key] == pytest.approx(sum(each[key] for each in told["sessions"]), abs=0.01)


def test_billed_ratio_is_of_sums_and_the_dearest_session_is_named() -> None:
    long = attrs.evolve(session("long"), billed=Fraction(500), billed_unmanaged=Fraction(1000))
    short = attrs.evolve(session("short"), billed=Fraction(103), billed_unmanaged=Fraction(100))
    totals = report(evaluation(attrs.evolve(policy("p", 0.5), sessions=[long, short])))["policies"]["p"]["totals"]
    assert totals["billed_ratio"] == round(603 / 1100, 4)
    assert totals["dearest_session"] == {"name": "short", "ratio": 1.03}
    assert totals["share_of_sessions_dearer"] == 0.5


def test_ratio_without_a_denominator_is_null() -> None:
    idle = attrs.evolve(session(strength=0), demands=0, resident=0, declared=0, silent=0)
    totals = json.loads(report_json(evaluation(attrs.evolve(policy("p", 0), sessions=[idle]))))["policies"]["p"][
        "totals"
    ]
    assert totals["exact_faults_per_eviction"] is None
    assert totals["share_resident"] is None
    assert totals["faults_per_thousand_demands"] is None


def test_evaluation_of_nothing_is_an_empty_report() -> None:
    nothing = report_json(Evaluation(settings={}, policies=[]))
    assert json.loads(nothing) == {
        "verdict": None,
        "judged": None,
        "settings": {},
        "skipped": [],
        "comparisons": [],
        "legend": {},
        "policies": {},
        "window": [],
        "closeness": None,
        "judge": None,
    }
    without = report(evaluation(attrs.evolve(policy("p", 0.5), sessions=[])))["policies"]["p"]["totals"]
    assert without["sessions"] == without["billed"] == 0
    assert without["dearest_session"] is None


def test_two_policies_of_one_name_are_refused() -> None:
    with pytest.raises(ValueError, match="'half'"):
        report(evaluation(policy("half", 0.5), policy("half", 0.6)))


@given(st.text())
def test_any_name_survives_the_report_and_its_encoding(name: str) -> None:
    text = report_json(evaluation(policy(name, 0.5, [name], turns=1)))
    told = json.loads(text.encode("ascii"))
    assert told["policies"][name]["sessions"][0]["name"] == name


@given(st.lists(st.fractions(0, 10**9), min_size=1, max_size=9))
def test_order_of_the_sessions_changes_no_sum(amounts: list[Fraction]) -> None:
    sessions = [attrs.evolve(session(turns=1), billed=amount) for amount in amounts]
    totals = [
        report(evaluation(attrs.evolve(policy("p", 0.5), sessions=each)))["policies"]["p"]["totals"]
        for each in (sessions, sessions[::-1])
    ]
    assert totals[0]["billed"] == totals[1]["billed"]
    assert totals[0]["billed_ratio"] == totals[1]["billed_ratio"]
