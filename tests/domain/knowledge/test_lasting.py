"""A sentence is told in later sessions only if it says something away from its place, and beyond its moment."""

import pytest

from mnemosyne.domain.knowledge.lasting import find_right, is_passing, says_what_instead, stands


@pytest.mark.parametrize(
    "said",
    [
        "let's fix 3 too",
        "I think 2 is the right approach.",
        "let's do the migration next",
        "yeah let's follow through with your recommendations",
        "keep all the colours we changed",
        'ok, let\'s rename to "steps" instead.',
        "ok, let's do this fix then",
        "don't change anything, just let me know",
        "don't touch the parser",
        "I don't like turn, any other suggestions?",
        "(the log should be the source of truth)",
        "We should update \N{HORIZONTAL ELLIPSIS} to have a check mark",
        "I'd like to explain the issue briefly in general.",
        "The trouble with the old solution is that there is no way out, since yes, "
        + "we have the old branch, and " * 4
        + "so",
    ],
)
def test_what_points_elsewhere_or_asks_for_work_passes(said: str) -> None:
    assert is_passing(said)


@pytest.mark.parametrize(
    "said",
    [
        "Let's use PostgreSQL for the event log.",
        "let's completely remove the start command",
        "We should add the agent's name to any logging",
        "In this repo we want to commit generated files",
        "From now on don't push to main",
        "Never commit without running the tests.",
    ],
)
def test_what_says_all_that_it_means_lasts(said: str) -> None:
    assert not is_passing(said)


@pytest.mark.parametrize(
    ("said", "lasting"),
    [
        ("Never commit without running the tests.", True),
        ("I prefer short functions over comments.", True),
        ("we must test on arm64.", True),
        ("When you push, always run the linter", True),
        ("keep reading the old field but always write the new one", False),
        ("we need to accept that an agent may be killed", False),
        ("don't use the old parser", False),
    ],
)
def test_a_rule_says_itself_that_it_stands(said: str, lasting: bool) -> None:
    assert stands(said) is lasting


def test_a_correction_says_what_is_right_and_what_is_not() -> None:
    assert find_right("No, we use pnpm, not npm") == "we use pnpm, not npm"
    assert find_right("ok, no wait, we use pnpm") == "we use pnpm"
    assert says_what_instead("we use pnpm, not npm")
    assert says_what_instead("we run tests with nox rather than tox")
    assert not says_what_instead("we use pnpm")
    assert not says_what_instead("it is not correct")
