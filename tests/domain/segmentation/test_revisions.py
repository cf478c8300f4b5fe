"""A claim takes the place of an earlier one if it says so, of which is clear, and its speaker is trusted no less."""

import pytest

from mnemosyne.domain.segmentation.revisions import Settled, find_revised, revisions

EARLIER = {
    "size": "We decided: the part size of the upload client is 8 MiB, because it is fast.",
    "retry": "I'll go with a fixed pause for the retries of the upload client.",
    "cache": "Decision: the cache lifetime of the search index is one day.",
    "login": "Let's use ten minutes for the cache lifetime of the login service.",
}


@pytest.mark.parametrize(
    ("sentence", "old"),
    [
        ("We changed our mind: the part size of the upload client is 64 MiB.", "size"),
        ("Let's use 1 MiB as the part size of the upload client instead, because retries of the login fail.", "size"),
        ("From now on let's keep the cache lifetime of the search index at an hour.", "cache"),
        ("We'll no longer use a fixed pause for the retries of the upload client.", "retry"),
    ],
)
def test_a_decision_that_says_so_revises_the_one_on_the_same_matter(sentence: str, old: str) -> None:
    assert find_revised(sentence, EARLIER) == (old,)


@pytest.mark.parametrize(
    "sentence",
    [
        "We decided: the part size of the upload client is 64 MiB.",  # does not say that it changes anything
        "We changed our mind: the checksum of the upload client is MD5.",  # nothing was decided on that
        "From now on the cache lifetime is one minute everywhere.",  # which of the two?
        "Let's use `the part size of the upload client instead` as a title.",
        f"I say it again: instead of asking, {EARLIER['size']}",
        "Let's use a lockout after ten tries for the login service from now on.",  # another matter of that service
    ],
)
def test_nothing_is_revised_where_it_is_not_clear_what(sentence: str) -> None:
    assert find_revised(sentence, EARLIER) == ()


def test_what_was_told_again_is_revised_with_what_it_tells() -> None:
    told = EARLIER | {"again": f"As I said: {EARLIER['size']}"}
    assert find_revised("We changed our mind: the part size of the upload client is 64 MiB.", told) == ("size", "again")


@pytest.mark.parametrize("again", ["thinking again: ", "Or better: ", "no wait, ", "on second thought, "])
def test_who_thinks_again_needs_to_say_less_of_what_about(again: str) -> None:
    earlier = {"hide": "let's make the start command hidden", "tests": "let's add tests for the list command"}
    assert find_revised(f"{again}let's completely remove the start command", earlier) == ("hide",)
    assert find_revised("let's completely remove the start command", earlier) == ()


OLD = "Let's use 8 MiB as the part size of the upload client."
NEW = "Let's use 1 MiB as the part size of the upload client from now on."


def found(first: str, second: str, kind: str = "decision") -> list[tuple[str, str]]:
    held = [Settled("old", OLD, ("decision", first))]
    return list(revisions([Settled("new", NEW, (kind, second))], held))


def test_nobody_revises_what_somebody_said_who_is_trusted_more() -> None:
    assert found("user", "user") == found("assistant", "user") == found("assistant", "assistant") == [("old", "new")]
    assert found("user", "assistant") == []


def test_whose_speaker_nobody_knows_revises_nothing_and_is_revised_by_anybody() -> None:
    assert found("user", "nobody") == found("assistant", "nobody") == []
    assert found("nobody", "assistant") == [("old", "new")]


def test_what_was_found_to_be_so_revises_no_decision() -> None:
    assert found("assistant", "user", "conclusion") == []


def test_a_claim_is_revised_once_and_by_the_first_that_does() -> None:
    new = [
        Settled("one", NEW, ("decision", "user")),
        Settled("two", NEW.replace("1 MiB", "2 MiB"), ("decision", "user")),
    ]
    assert list(revisions(new, [Settled("old", OLD, ("decision", "user"))])) == [("old", "one"), ("one", "two")]
