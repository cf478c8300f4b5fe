"""Which texts of a client are references to earlier content, and which only look like one."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mnemosyne.domain.wire.rereads import (
    WORDINGS,
    RefersTo,
    Wording,
    claims_own_change,
    find_reference,
    resembles_reference,
)

REMINDER = "<system-reminder>\nBe brief.\n</system-reminder>"


def said(wording: Wording) -> str:
    return wording.text.format(path="/src/CLAUDE.md")


@pytest.mark.parametrize("wording", WORDINGS, ids=lambda each: each.refers_to.name)
def test_every_captured_wording_is_found_alone_and_before_reminders(wording: Wording) -> None:
    for text, rest in ((said(wording), ""), (f"{said(wording)}\n\n{REMINDER}\n{REMINDER}", f"{REMINDER}\n{REMINDER}")):
        found = find_reference(text)
        assert found is not None
        assert (found.wording, found.rest) == (wording, rest)


@pytest.mark.parametrize("wording", WORDINGS, ids=lambda each: each.refers_to.name)
@given(before=st.text(min_size=1), after=st.text(min_size=1))
def test_a_wording_inside_other_text_is_no_reference(wording: Wording, before: str, after: str) -> None:
    for text in (before + said(wording), said(wording) + after, before + said(wording) + after):
        if text.strip() != said(wording):
            assert find_reference(text) is None


@pytest.mark.parametrize(
    "text",
    [
        "",
        "     1\tFile unchanged since last read.\n",
        "x = 1\n",
        "It is empty now.",
        "<system-reminder>Warning: the file exists but the contents are empty.</system-reminder>",
        "Wasted call",
        "def unchanged(file, last):\n    return file.read() == last\n\nread = unchanged\n",
    ],
)
def test_a_short_file_neither_is_a_reference_nor_looks_like_one(text: str) -> None:
    assert find_reference(text) is None
    assert not resembles_reference(text)


@pytest.mark.parametrize(
    "text",
    [
        "File content unchanged since the earlier Read; refer to that result.",
        "This file has not changed since your last read. Refer to the earlier result in this conversation.",
        "Wasted call — the file is unchanged since your last Read.",
    ],
)
def test_another_wording_of_the_same_looks_like_a_reference(text: str) -> None:
    assert find_reference(text) is None
    assert resembles_reference(text)


def test_only_the_end_of_a_changes_result_says_that_the_file_is_current() -> None:
    (claim,) = [each.text for each in WORDINGS if each.refers_to is RefersTo.OWN_CHANGE]
    assert claims_own_change(f"The file /src/a.py has been updated successfully. {claim}")
    assert not claims_own_change(f"{claim} But it was not written.")
    assert not claims_own_change("The file /src/a.py has been updated successfully.")
