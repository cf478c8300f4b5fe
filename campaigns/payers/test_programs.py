"""A program with a small head never pays more than two percent for its memory tools, at any of its ends."""

from typing import Any

import attrs
import pytest

from campaigns.payers.playing import PAYERS, WITHIN, Payer
from campaigns.payers.programs import Program, dearest, run
from campaigns.payers.test_bills import AS_OTHERS, by_tariff
from campaigns.scenarios.scene import Scene
from mnemosyne.domain.session.directory import stream_of
from mnemosyne.domain.session.round_events import Mode
from mnemosyne.replay.deciding import review
from mnemosyne_lab.evaluation.policy import LOCAL
from tests.plain.archive import MemoryArchive

API = PAYERS[0]
SMALL = Program(head=100, turns=8, step=3_000, breaks={6: 4_000})
"""After a break in which any hosted cache forgot, it has 18,000 tokens."""


@by_tariff(but=AS_OTHERS)
async def test_small_program_is_observed_until_a_break_and_no_end_is_dearer(payer: Payer) -> None:
    async def review_decisions(scene: Scene) -> None:
        assert scene.log is not None
        decided = await review(MemoryArchive(scene.log), str(stream_of("t", scene.name)))
        assert (decided.differences, decided.skipped) == ([], [])

    watched = await run(SMALL, payer, Mode.OBSERVE)
    managed = await run(SMALL, payer, Mode.MANAGE, check=review_decisions)
    assert dearest(watched, managed, payer, SMALL.model) < 1 + WITHIN
    assert managed.managed_from == (None if payer.judged is LOCAL else 6)


@pytest.mark.parametrize(
    ("changes", "manages_small", "begins", "is_dearer"),
    [({"marks": False, "turns": 7, "breaks": {}}, False, 5, False), ({"turns": 2}, True, 1, True)],
    ids=["tools join once they are relatively small", "tools from the first request on"],
)
async def test_program_gets_tools_early_without_cache_markers_or_if_it_requests_them(
    changes: dict[str, Any], manages_small: bool, begins: int, is_dearer: bool
) -> None:
    program = attrs.evolve(SMALL, **changes)
    watched = await run(program, API, Mode.OBSERVE)
    managed = await run(program, API, Mode.MANAGE, manages_small=manages_small)
    assert managed.managed_from == begins
    assert (dearest(watched, managed, API, program.model) > 1 + WITHIN) is is_dearer
