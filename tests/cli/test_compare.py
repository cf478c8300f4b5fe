"""``mnemosyne compare`` shows two runs side by side."""

import pytest

from mnemosyne.cli import compare
from mnemosyne.domain.history.run_comparison import Divergence, RunComparison, RunPart
from mnemosyne.domain.wire.request_matching import RequestDifference
from mnemosyne.services.comparing import RunSummary, SessionComparison
from tests.cli.running import run, run_json


@pytest.mark.usefixtures("conversation")
def test_runs_are_shown_side_by_side_with_their_first_difference() -> None:
    same = run_json("compare", "s", "s")
    whole = run_json("timeline", "s")
    assert same["found"]["divergence"] is None
    assert same["first"] == same["second"]
    assert same["first"]["turns"] == len({(each["branch"], each["turn"]) for each in whole["turns"]})
    assert same["first"]["files"]
    assert "parts of the conversation are the same." in run("compare", "s", "s").stdout
    assert "There is no session 'another'" in run("compare", "s", "another", code=1).stderr


@pytest.mark.parametrize(
    ("same", "sentence"),
    [(2, "The first 2 parts of the conversation are the same. Then:"), (0, "The conversations differ from the start:")],
)
def test_the_first_difference_is_introduced_by_what_is_the_same(
    same: int, sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    counts = dict.fromkeys(("turns", "prompt_tokens", "cached_tokens", "reply_tokens", "microseconds"), 1)
    one = RunSummary(session="s", name="s", branch="main", client="c", model=None, nanodollars=None, files=(), **counts)
    apart = Divergence(RunPart(1, "text", {}), None, RequestDifference("text", "a", "b"))
    compare._print(SessionComparison(one, one, RunComparison(same, apart, (), ())))
    assert capsys.readouterr().out.splitlines()[-3:] == [sentence, "  run 1: turn 1, text, text: a", "  run 2: ended"]
