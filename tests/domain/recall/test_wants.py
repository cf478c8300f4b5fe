"""What a question is after is known by its words, and an answer by its shape."""

import pytest

from mnemosyne.domain.recall.wants import shape_of
from mnemosyne.domain.text.words import query_words


def fits(question: str, line: str) -> float:
    return shape_of(question).fits(line, frozenset(query_words(question))).worth


@pytest.mark.parametrize(
    ("question", "answer", "other"),
    [
        ("which line defines parse_header?", "   12→def parse_header(raw):", "   40→    return parse_header(raw)"),
        ("what does acquire take?", "func (p *Pool) acquire(ctx Context) error {", "p.acquire(ctx)"),
        ("where is the ConnectionPool?", "src/pool.py:3:class ConnectionPool:", "src/main.py:9:    run(pool)"),
        ("what is the value of max_connections?", "  max_connections: 20", "# max_connections must be small"),
        ("why did the tests fail?", "E   ValueError: no such header", "tests/test_header.py ..F"),
        ("why did the build fail?", "main.go:12:3: undefined: parse", "main.go:14:3: done"),
        ("which tests failed?", "--- FAIL: TestParse (0.01s)", "=== RUN   TestParse"),
        ("how many tests passed?", "Ran 14 tests in 0.3s", "test_parse ... ok"),
        ("which files changed?", "diff --git a/src/a.py b/src/a.py", "+    return 1"),
        ("what does the diff add?", "+    return 1", "-    return 0"),
        ("what does the diff remove?", "-    return 0", "--- a/src/a.py"),
        ("what did we decide about the pool?", "Let's use 20 connections instead of 25.", "The pool has connections."),
        ("which steps are open?", "- [ ] write the docs", "- [x] write the code"),
        ("which commit is it?", "3fa9c01 Mend the header", "Mend the header"),
        ("what does the section Linking ids say?", "### Linking ids", "Linking ids is hard."),
        ("did TestPool pass?", "--- PASS: TestPool (0.01s)", "=== RUN   TestPool"),
        ("what is number 3?", "3. Rename the field", "2. Add the test"),
    ],
)
def test_the_line_that_answers_fits_better_than_one_that_holds_the_same_words(
    question: str, answer: str, other: str
) -> None:
    assert fits(question, answer) > fits(question, other)


def test_a_definition_of_the_very_name_fits_better_than_one_of_a_longer_name() -> None:
    question = "where is parse defined?"
    assert 1.0 == fits(question, "def parse(raw):") > fits(question, "def parse_header(raw):") > 0
    assert fits(question, "def render(raw):") == 0


def test_what_a_name_says_is_not_what_is_asked() -> None:
    assert not shape_of("deleteSession|removeSession in src/why/failed.go").shapes
    assert not shape_of("the text \u201cwhy it failed\u201d").shapes


@pytest.mark.parametrize("question", ["", "\u306a\u305c\u5931\u6557\u3057\u305f", "12345", "?" * 2_000])
def test_what_is_no_english_question_is_after_nothing(question: str) -> None:
    assert fits(question, "def f(): raise ValueError") == 0
