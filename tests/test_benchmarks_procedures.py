"""A learned line meets the first failure of a session that enough others had seen, and nothing else."""

from typing import Any

from benchmarks.procedures import NEAR, SEEN_IN, Told, cause_of, cures, failures, met, shape_of, told_by
from mnemosyne.domain.history.calls import AnsweredCall


def call(
    said: str = "", *, tool: str = "Bash", failed: bool = True, refused: bool = False, **given: Any
) -> AnsweredCall:
    return AnsweredCall(turn=1, id="c", tool=tool, given=given, said=said, failed=failed, refused=refused)


def test_a_call_s_shape_is_its_program_and_a_failure_s_cause_what_does_not_vary() -> None:
    commands = ("cd /a && go test ./x", "FAST=1 go test -v", "go test")
    assert {shape_of(call(command=each)) for each in commands} == {"Bash go test"}
    assert shape_of(call(tool="Read", file_path="/a")) == "Read"
    assert cause_of(call("Exit code 1\n\nno 'x' in /a/b.py:7")) == cause_of(call("no 'y' in /c.py:12"))


def test_only_first_failures_count_that_three_other_sessions_had_seen() -> None:
    fails, other = call("it broke", command="make it"), call("it broke", command="make that")
    sessions = [[fails, fails], *[[fails]] * SEEN_IN, [other], [call("it broke", command="make it", refused=True)]]
    assert list(met([failures(each) for each in sessions])) == [fails] * (SEEN_IN + 1)
    assert list(met([failures(each) for each in sessions[1:]])) == []


def test_a_cure_is_another_call_that_comes_right_behind_and_does_not_fail() -> None:
    fails, cures_it = call("it broke", tool="Edit"), call("read", tool="Read", failed=False)
    assert list(cures([fails, cures_it]).values()) == [fails]
    assert cures([fails, *[call("edited", tool="Edit", failed=False)] * NEAR, cures_it]) == {}


def test_who_else_tells_of_a_rule() -> None:
    assert told_by(call("File has not been read yet.", tool="Edit", file_path="/a")) is Told.DESCRIPTION
    assert told_by(call("FAIL: test_x", command="make test")) is Told.WORK
    assert told_by(call("bash: mage: command not found", command="mage")) is Told.NOBODY
