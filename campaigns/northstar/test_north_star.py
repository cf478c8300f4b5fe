"""The main promise: over a long conversation in a tight window, no decision is lost."""

import tempfile
from pathlib import Path

import pytest

from campaigns.northstar.conversation import LONG, SHORT, SUBJECTS, Lengths
from campaigns.northstar.playing import WINDOW, Outcome, in_memory, served
from tests.http.managing import assert_nothing_of_ours


def check(outcome: Outcome, lengths: Lengths = LONG) -> None:
    found = outcome.figures
    assert outcome.violations == []
    assert_nothing_of_ours(outcome.play.client)
    assert found.prompts == lengths.deciding + lengths.middle + lengths.asking
    assert found.whole > (7 if lengths is LONG else 2) * WINDOW
    assert found.largest <= WINDOW
    assert [each for each in outcome.play.asked if each.cited is None] == []
    assert found.right == found.named == found.asked == lengths.times * len(SUBJECTS)
    assert found.resident + found.answered == found.asked
    assert found.most_faults <= 2
    assert found.thrash < 0.5
    assert found.billed <= 1.02


async def test_decisions_are_known_after_the_conversation_exceeded_the_window() -> None:
    outcome = await in_memory(SHORT)
    check(outcome, SHORT)
    assert outcome.figures.without_us == 0


@pytest.mark.soak
async def test_decisions_are_known_two_hundred_prompts_later_in_an_eighth_of_the_window() -> None:
    outcome = await in_memory()
    check(outcome)
    assert outcome.figures.without_us == 0


@pytest.mark.soak
async def test_decisions_are_known_through_a_real_server_with_database_and_index() -> None:
    # Not pytest's own temporary folder, which is kept, and the database may run as another user.
    with tempfile.TemporaryDirectory(prefix="mnemosyne-north-star-") as folder:
        outcome = await served(Path(folder))
    check(outcome)
    assert outcome.figures.without_us <= 3  # on a busy machine, a turn would not wait long enough
