"""The results of a trial survive any interruption, and two trials are never mixed."""

import json
from pathlib import Path

import attrs
import pytest

from mnemosyne.errors import BadConfiguration
from mnemosyne_lab.trial.statistics import PairCounts
from mnemosyne_lab.trial.tasks import RunResult, TrialRecord, TrialTerms, count_pairs

TERMS = TrialTerms(tasks="d", seed=1, urls={"with": "http://a", "without": "http://b"})


def run(pair: str, arm: str, *, passed: bool = True) -> RunResult:
    return RunResult(pair=pair, arm=arm, first=True, passed=passed, exit=0, seconds=1.5, dollars=0.25)


def test_saved_runs_are_there_when_the_file_is_opened_again(tmp_path: Path) -> None:
    record = TrialRecord(tmp_path / "r.jsonl")
    assert record.open(TERMS) == []
    record.add(run("a/1", "with"))
    record.add(run("a/1", "without", passed=False))
    assert TrialRecord(tmp_path / "r.jsonl").open(TERMS) == [run("a/1", "with"), run("a/1", "without", passed=False)]


def test_answers_are_kept_and_lines_of_earlier_versions_are_read(tmp_path: Path) -> None:
    record = TrialRecord(tmp_path / "r.jsonl")
    record.open(TERMS)
    record.add(attrs.evolve(run("a/1", "with"), changes="+x", output="Done."))
    record.add_answer("h", "hash", "{}")
    row = {"pair": "a/1", "arm": "without", "first": False, "passed": True, "exit": 0, "seconds": 1.5, "dollars": 0.25}
    with (tmp_path / "r.jsonl").open("a") as file:
        file.write(json.dumps({**row, "stopped": False}) + "\n")
    again = TrialRecord(tmp_path / "r.jsonl")
    assert [(each.arm, each.changes, each.output) for each in again.open(TERMS)] == [
        ("with", "+x", "Done."),
        ("without", None, None),
    ]
    assert again.answers == {("h", "hash"): "{}"}


def test_truncated_line_is_a_run_to_repeat(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    record = TrialRecord(path)
    record.open(TERMS)
    record.add(run("a/1", "with"))
    record.add(run("a/1", "without"))
    path.write_bytes(path.read_bytes()[:-9])
    assert record.open(TERMS) == [run("a/1", "with")]
    record.add(run("a/1", "without"))
    assert record.open(TERMS) == [run("a/1", "with"), run("a/1", "without")]


@pytest.mark.parametrize(
    ("other", "said"),
    [
        (TrialTerms(tasks="e", seed=1, urls=TERMS.urls), "other tasks"),
        (TrialTerms(tasks="d", seed=2, urls=TERMS.urls), "other seed"),
        (TrialTerms(tasks="d", seed=1, urls={"with": "http://c", "without": "http://b"}), "other urls"),
    ],
)
def test_trial_with_other_terms_does_not_continue(tmp_path: Path, other: TrialTerms, said: str) -> None:
    TrialRecord(tmp_path / "r.jsonl").open(TERMS)
    with pytest.raises(BadConfiguration, match=said):
        TrialRecord(tmp_path / "r.jsonl").open(other)


@pytest.mark.parametrize("text", ["a poem", "a poem\n", "{}\n", "[]\n", '{"trial": 9}\n'])
def test_file_of_another_kind_is_unchanged(tmp_path: Path, text: str) -> None:
    path = tmp_path / "r.jsonl"
    path.write_text(text)
    with pytest.raises(BadConfiguration, match="does not contain"):
        TrialRecord(path).open(TERMS)
    assert path.read_text() == text


@pytest.mark.parametrize("line", ["{}", "7", "nonsense", '{"pair": "a", "arm": "third", "passed": true}'])
def test_line_that_is_no_run_is_named(tmp_path: Path, line: str) -> None:
    path = tmp_path / "r.jsonl"
    TrialRecord(path).open(TERMS)
    path.write_text(path.read_text() + line + "\n")
    with pytest.raises(BadConfiguration, match="line 2"):
        TrialRecord(path).open(TERMS)


def test_unwritable_path_is_named(tmp_path: Path) -> None:
    with pytest.raises(BadConfiguration, match="cannot be"):
        TrialRecord(tmp_path / "none" / "r.jsonl").open(TERMS)
    with pytest.raises(BadConfiguration, match="cannot be"):
        TrialRecord(tmp_path).open(TERMS)


def test_pair_counts_once_both_runs_ended() -> None:
    both = [run("a", "with"), run("a", "without")]
    lost = [run("b", "with", passed=False), run("b", "without")]
    gained = [run("c", "without", passed=False), run("c", "with"), run("c", "with", passed=False)]
    assert count_pairs([*both, *lost, *gained, run("d", "with")]) == PairCounts(both=1, gained=1, lost=1)
