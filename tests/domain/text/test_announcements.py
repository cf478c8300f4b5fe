"""What announces only what comes next is told from what says something."""

import pytest

from mnemosyne.domain.text.announcements import only_announces


@pytest.mark.parametrize(
    "said",
    [
        "Let me look at the queue.",
        "Now let me run the tests:",
        "Perfect!",
        "Now I understand the full picture.",
        "Here's what I found.",
        "Good question.",
    ],
)
def test_what_only_says_what_comes_next_is_known(said: str) -> None:
    assert only_announces(said)


@pytest.mark.parametrize(
    "said",
    [
        "The queue retries seven times.",
        "I understand that the queue retries seven times.",
        "Good question: the queue retries seven times.",
        "Let me explain: the queue retries seven times.\nIts proxy gives up after eight.",
        "Let me look at the queue, " + "which is of no use whatever and " * 8 + "ends.",
        "",
    ],
)
def test_what_says_something_or_goes_on_is_not(said: str) -> None:
    assert not only_announces(said)
