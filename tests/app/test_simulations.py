"""Simulations run in a separate process, once for each question."""

import os
import sys
from pathlib import Path
from typing import Any

import trio

from mnemosyne.app.simulations import WAITING, Question, Simulations
from mnemosyne.services.simulated import (
    SimulatedBranch,
    SimulatedTurn,
    SimulationProgress,
    read_step,
    write_branch,
    write_step,
)
from tests.services.talking import rich_session, talking
from tests.waiting import until

FOUND = SimulatedBranch(
    policy="cold",
    about="a policy",
    turns=[SimulatedTurn(turn=1, fixed=9, held=(1, 0, 0, 2), is_rewritten=True)],
    nanodollars=1,
    nanodollars_unmanaged=2,
    verdict="It is so.",
)


def progress(answer: object) -> tuple[int | None, int]:
    assert isinstance(answer, SimulationProgress)
    return answer.done, answer.turns


async def answered(command: tuple[str, ...], *, times: int = 1) -> Any:
    async with talking() as talk, trio.open_nursery() as nursery:
        await rich_session(talk)
        simulations = Simulations({"cold": "a policy"}, command)
        nursery.start_soon(simulations.run)
        question: Question = (talk.stream, "main", "cold", 5)
        for _ in range(times):
            assert progress(simulations.ask(talk.archive, question)) == (0, 5)
        await until(lambda: not isinstance(simulations.ask(talk.archive, question), SimulationProgress))
        nursery.cancel_scope.cancel()
        return simulations.ask(talk.archive, question)


async def test_a_repeated_question_is_simulated_once(tmp_path: Path) -> None:
    count, answer = tmp_path / "count", tmp_path / "answer"
    answer.write_bytes(write_branch(FOUND))
    program = f"open({str(count)!r}, 'a').write('x'); print(open({str(answer)!r}).read(), end='')"
    assert await answered((sys.executable, "-c", program), times=3) == FOUND
    assert count.read_text() == "x"


async def test_a_failed_simulation_returns_its_error() -> None:
    program = "import sys; print('noise', file=sys.stderr); sys.exit('There is no policy.')"
    assert await answered((sys.executable, "-c", program)) == "There is no policy."


async def test_a_question_beyond_the_queue_must_be_asked_again() -> None:
    async with talking() as talk:
        simulations = Simulations({}, ())
        for number in range(WAITING + 1):
            assert progress(simulations.ask(talk.archive, (talk.stream, "main", "cold", number))) == (
                None if number else 0,
                number,
            )


async def test_a_running_simulation_reports_progress_and_the_next_one_waits(tmp_path: Path) -> None:
    gate, answer = tmp_path / "gate", tmp_path / "answer"
    os.mkfifo(gate)
    answer.write_bytes(write_step(2, 4) + write_branch(FOUND))
    program = f"""
print('{{"done":1,"turns":4}}', flush=True)
open({str(gate)!r}).read()
print(open({str(answer)!r}).read(), end='')
"""
    async with talking() as talk, trio.open_nursery() as nursery:
        await rich_session(talk)
        simulations = Simulations({"cold": "a policy"}, (sys.executable, "-c", program))
        nursery.start_soon(simulations.run)
        first, second = ((talk.stream, "main", policy, 5) for policy in ("cold", "another"))
        assert progress(simulations.ask(talk.archive, first)) == (0, 5)
        assert progress(simulations.ask(talk.archive, second)) == (None, 5)
        await until(lambda: progress(simulations.ask(talk.archive, first)) == (1, 4))
        assert progress(simulations.ask(talk.archive, second)) == (None, 5)
        await trio.to_thread.run_sync(gate.write_bytes, b"go on")
        await until(lambda: simulations.ask(talk.archive, first) == FOUND)
        nursery.cancel_scope.cancel()


def test_written_results_are_read_back() -> None:
    assert read_step(write_branch(FOUND)) == FOUND
    assert read_step(write_step(3, 250)) == (3, 250)
