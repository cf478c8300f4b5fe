"""The north star: over a long conversation in a tight window, nothing that was decided is lost."""

import tempfile
from pathlib import Path

import pytest

from campaigns.northstar.conversation import LONG, SHORT, SUBJECTS, Lengths
from campaigns.northstar.playing import WINDOW
from campaigns.northstar.stages import Outcome, in_memory, served
from tests.http.managing import assert_nothing_of_ours


def check(outcome: Outcome, lengths: Lengths = LONG) -> None:
    """All that is claimed."""
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


async def test_what_was_decided_is_known_when_the_conversation_has_left_the_window() -> None:
    outcome = await in_memory(SHORT)
    check(outcome, SHORT)
    assert outcome.figures.without_us == 0


@pytest.mark.soak
async def test_what_was_decided_is_known_two_hundred_prompts_later_in_an_eighth_of_the_window() -> None:
    outcome = await in_memory()
    check(outcome)
    assert outcome.figures.without_us == 0


@pytest.mark.soak
async def test_a_real_server_with_its_database_and_index_knows_it_too() -> None:
    # Not pytest's own temporary folder: that one keeps what it holds, and the database may run as another user.
    with tempfile.TemporaryDirectory(prefix="mnemosyne-north-star-") as folder:
        outcome = await served(Path(folder))
    check(outcome)
    assert outcome.figures.without_us <= 3  # where the machine is busy, a turn does not wait
