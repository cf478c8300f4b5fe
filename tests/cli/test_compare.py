"""``mnemosyne compare`` shows two runs side by side."""

import pytest

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
