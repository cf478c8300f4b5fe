"""Which sentences settle something, and which leave it open."""

import pytest

from mnemosyne.domain.objects.speakers import Speaker
from mnemosyne.domain.segmentation.settling import ClaimKind, is_open, is_pasted, settles, tells_of_a_text


@pytest.mark.parametrize(
    ("said", "kind"),
    [
        ("no, it should be the working tree and the new changes", ClaimKind.CORRECTION),
        ("no revert those changes, they belong to the commit", ClaimKind.CORRECTION),
        ("what I actually meant are the tests of the server", ClaimKind.CORRECTION),
        ("don't change anything, just let me know", ClaimKind.CONSTRAINT),
        ("keep backwards compatibility but always write the new field", ClaimKind.CONSTRAINT),
        ("I'd prefer it in the sessions package", ClaimKind.PREFERENCE),
        ("I still feel an id in that package is wrong", ClaimKind.PREFERENCE),
        ("let's store it in the metadata", ClaimKind.DECISION),
        ("lets make the old command hidden", ClaimKind.DECISION),
        ("I think we should change that to be strict", ClaimKind.DECISION),
    ],
)
def test_what_users_settle_as_they_type(said: str, kind: ClaimKind) -> None:
    assert settles(said, Speaker.USER) is kind
    assert not is_open(said, Speaker.USER)


@pytest.mark.parametrize(
    "said",
    [
        "let's see what it prints",
        "let's do that",
        "let's check the logs first",
        "lets implement it",
        "please run the tests",
    ],
)
def test_next_steps_and_bare_consent_settle_nothing(said: str) -> None:
    assert settles(said, Speaker.USER) is None


@pytest.mark.parametrize(
    "said",
    ["maybe we should use trio", "he said we should use trio", "according to Bob we should use trio", "I wonder if so"],
)
def test_guesses_and_what_others_said_are_open(said: str) -> None:
    assert is_open(said, Speaker.USER)


def test_what_a_text_says_is_told_of_it() -> None:
    assert tells_of_a_text("The README says that we use trio.")
    assert tells_of_a_text("Bob wrote to me: use trio.")
    assert not tells_of_a_text("We use trio in the README.")


def test_a_review_that_nobody_speaks_in_is_pasted() -> None:
    assert is_pasted("The regex should be stricter. Consider using the shared one.")
    assert not is_pasted("I got this: the regex should be stricter. Consider using the shared one.")
    assert not is_pasted("the command should show all branches")
