"""A program with a small head never pays more than two percent for its memory tools, at any of its ends."""

import attrs

from campaigns.payers.playing import PAYERS, WITHIN, Payer
from campaigns.payers.programs import SESSION, Program, dearest, run
from campaigns.payers.test_bills import AS_OTHERS, by_tariff
from mnemosyne.domain.session.directory import stream_of
from mnemosyne.domain.session.round_events import Mode
from mnemosyne.replay.deciding import review
from mnemosyne.services.verifying import verify
from mnemosyne_lab.evaluation import tariffs
from tests.actors.support import StoppableLog
from tests.plain.archive import MemoryArchive

API = PAYERS[0]
SMALL = Program(head=100, turns=8, step=3_000, breaks={6: 4_000})
"""After a break in which any hosted cache forgot, it has 18,000 tokens."""


@by_tariff(but=AS_OTHERS)
async def test_small_program_is_observed_until_a_break_and_no_end_is_dearer(payer: Payer) -> None:
    log = StoppableLog()
    watched = await run(SMALL, payer, Mode.OBSERVE)
    managed = await run(SMALL, payer, Mode.MANAGE, log=log)
    assert dearest(watched, managed, payer, SMALL.model) < 1 + WITHIN
    assert managed.managed_from == (None if payer.judged is tariffs.LOCAL else 6)
    archive, stream = MemoryArchive(log), stream_of("t", SESSION)
    decided = await review(archive, str(stream))
    assert (decided.differences, decided.skipped) == ([], [])
    assert (await verify(archive, stream)).verdict == "ok"


async def test_program_without_cache_markers_gets_tools_once_they_are_relatively_small() -> None:
    program = attrs.evolve(SMALL, marks=False, turns=7, breaks={})
    watched = await run(program, API, Mode.OBSERVE)
    managed = await run(program, API, Mode.MANAGE)
    assert managed.managed_from == 5
    assert dearest(watched, managed, API, program.model) < 1 + WITHIN


async def test_tools_from_the_first_request_cost_more_if_requested() -> None:
    program = attrs.evolve(SMALL, turns=2)
    watched = await run(program, API, Mode.OBSERVE)
    managed = await run(program, API, Mode.MANAGE, manages_small=True)
    assert managed.managed_from == 1
    assert dearest(watched, managed, API, program.model) > 1 + WITHIN
