"""Announcements of the next step are distinguished from texts with content."""

import pytest

from mnemosyne.domain.text.announcements import only_announces


@pytest.mark.parametrize(
    "line",
    [
        "Let me look at the queue.",
        "Now let me run the tests:",
        "Perfect!",
        "Now I understand the full picture.",
        "Here's what I found.",
        "Good question.",
    ],
)
def test_a_text_that_only_announces_is_recognized(line: str) -> None:
    assert only_announces(line)


@pytest.mark.parametrize(
    "line",
    [
        "The queue retries seven times.",
        "I understand that the queue retries seven times.",
        "Good question: the queue retries seven times.",
        "Let me explain: the queue retries seven times.\nIts proxy gives up after eight.",
        "Let me look at the queue, " + "which is of no use whatever and " * 8 + "ends.",
        "",
    ],
)
def test_a_text_with_content_is_not_an_announcement(line: str) -> None:
    assert not only_announces(line)
