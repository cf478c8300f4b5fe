"""Failures are recognized by the shape of the answer."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mnemosyne.domain.segmentation.outcomes import (
    cut_short,
    exit_code,
    find_failure,
    says_error,
    shows_failure,
    was_refused_by_user,
)


@pytest.mark.parametrize(
    ("text", "code"),
    [("Exit code 2\nno such file", 2), ("<returncode>-9</returncode>", -9), ("done\nexit status 3", 3), ("Exit", None)],
)
def test_a_stated_exit_code_is_read(text: str, code: int | None) -> None:
    assert exit_code(text) == code


@pytest.mark.parametrize(
    "text",
    [
        "Traceback (most recent call last):\n  File",
        "--- FAIL: TestX (0.00s)",
        "FAILED tests/test_a.py::test_b",
        "=== 2 failed, 3 passed in 1.2s ===",
        "error[E0308]: mismatched types",
        "src/a.c:3:7: error: expected ';'",
        "KeyError: 'x'",
    ],
)
def test_the_output_of_a_run_shows_its_failure(text: str) -> None:
    assert shows_failure(f"some lines\n{text}\n")
    assert not shows_failure(f"it said: {text}")


def test_the_middle_of_a_very_long_output_is_not_searched() -> None:
    assert not shows_failure("x\n" * 10_000 + "KeyError: 'x'\n" + "x\n" * 10_000)


@pytest.mark.parametrize(
    ("text", "is_error"),
    [("<tool_use_error>no</tool_use_error>", True), ("Error: no", True), ("Errors are fine", False), ("", False)],
)
def test_an_answer_that_is_only_an_error_is_recognized(text: str, is_error: bool) -> None:
    assert says_error(text) == is_error


@pytest.mark.parametrize(
    ("output", "failure"),
    [
        ("ValueError: a\nKeyError: b", "KeyError: b"),
        ("<tool_use_error>File not read yet</tool_use_error>", "File not read yet"),
        ("", ""),
        ("Exit code 1\n[lint] $ lint run\n\npackage/deep/do_test.go:112:11: elseif: no", "[lint] $ lint run"),
    ],
)
def test_failure_is_the_last_error_or_the_first_line(output: str, failure: str) -> None:
    assert find_failure(output) == failure


def test_truncated_and_refused_answers_are_recognized() -> None:
    assert cut_short("a\n… output truncated")
    assert not cut_short("all of it")
    assert was_refused_by_user("The user doesn't want to proceed with this tool use.")
    assert not was_refused_by_user("I told the user: The user rejected it")


@given(st.text(max_size=300))
def test_no_answer_raises(text: str) -> None:
    exit_code(text)
    find_failure(text)
