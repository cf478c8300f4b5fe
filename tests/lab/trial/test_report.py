"""The page of a trial shows any text as text, and any interval within its chart."""

import re

import pytest

from mnemosyne_lab.trial.report import TrialResult, trial_report
from mnemosyne_lab.trial.tasks import RunResult
from tests.lab.evaluation.test_report_html import HOSTILE, Page


@pytest.mark.parametrize(("passed", "margin"), [((), 0.05), ((True, False), 0.99), ((False, True), 0.001)])
def test_page_is_whole_for_any_names_and_results(passed: tuple[bool, ...], margin: float) -> None:
    runs = [
        RunResult(pair=HOSTILE, arm=arm, first=True, passed=each, exit=None, seconds=1, dollars=0.5)
        for arm, each in zip(("with", "without"), passed, strict=False)
    ]
    trial = TrialResult(runs, margin)
    text = trial_report(trial)
    page = Page(text)
    assert (page.open, page.scripts) == ([], [])
    places = [float(each) for each in re.findall(r'(?: cx="|span" d="M)([-\d.]+)', text)]
    assert all(0 <= each <= 960 for each in places)
    assert len(places) == 2
