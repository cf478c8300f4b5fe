"""Which texts of a client are references to earlier content, and which only resemble one."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mnemosyne.domain.wire.rereads import (
    WORDINGS,
    RefersTo,
    Wording,
    claims_own_change,
    find_reference,
    may_be_reference,
)
from tests.not_none import not_none

REMINDER = "<system-reminder>\nBe brief.\n</system-reminder>"


def wording_text(wording: Wording) -> str:
    return wording.text.format(path="/src/CLAUDE.md")


@pytest.mark.parametrize("wording", WORDINGS, ids=lambda wording: wording.refers_to.name)
def test_every_captured_wording_is_found_alone_and_before_reminders(wording: Wording) -> None:
    for text, rest in (
        (wording_text(wording), ""),
        (f"{wording_text(wording)}\n\n{REMINDER}\n{REMINDER}", f"{REMINDER}\n{REMINDER}"),
    ):
        reference = not_none(find_reference(text))
        assert (reference.wording, reference.rest) == (wording, rest)


@pytest.mark.parametrize("wording", WORDINGS, ids=lambda wording: wording.refers_to.name)
@given(before=st.text(min_size=1), after=st.text(min_size=1))
def test_a_wording_within_other_text_is_not_a_reference(wording: Wording, before: str, after: str) -> None:
    for text in (before + wording_text(wording), wording_text(wording) + after, before + wording_text(wording) + after):
        if text.strip() != wording_text(wording):
            assert find_reference(text) is None


@pytest.mark.parametrize(
    "text",
    [
        "",
        "     1\tFile unchanged since last read.\n",
        "12→Wasted call",
        "<system-reminder>Warning: the file exists but the contents are empty.</system-reminder>",
        "x = 1\n" * 100,
    ],
)
def test_listings_reminders_and_long_texts_cannot_be_references(text: str) -> None:
    assert find_reference(text) is None
    assert not may_be_reference(text)


@pytest.mark.parametrize(
    "text",
    [
        "File content unchanged since the earlier Read; refer to that result.",
        "Die Datei hat sich nicht verändert.",
        "[same as call 3]",
    ],
)
def test_a_short_text_that_is_not_a_listing_may_be_a_reference_in_any_language(text: str) -> None:
    assert find_reference(text) is None
    assert may_be_reference(text)


def test_only_the_end_of_a_changes_result_says_that_the_file_is_current() -> None:
    (claim,) = [wording.text for wording in WORDINGS if wording.refers_to is RefersTo.OWN_CHANGE]
    assert claims_own_change(f"The file /src/a.py has been updated successfully. {claim}")
    assert not claims_own_change(f"{claim} But it was not written.")
    assert not claims_own_change("The file /src/a.py has been updated successfully.")
