"""What if is answered by a process of its own, once for each question, and what goes wrong there is a sentence."""

import sys
from pathlib import Path
from typing import Any

import pytest
import trio

from mnemosyne.app.simulations import WAITING, Question, Simulations
from mnemosyne.services.simulated import SimulatedBranch, SimulatedTurn, read_branch, write_branch
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


async def answered(command: tuple[str, ...], *, times: int = 1) -> Any:
    async with talking() as talk, trio.open_nursery() as nursery:
        await rich_session(talk)
        simulations = Simulations({"cold": "a policy"}, command)
        nursery.start_soon(simulations.run)
        question: Question = (talk.stream, "main", "cold", 5)
        for _ in range(times):
            assert simulations.ask(talk.archive, question) == pytest.approx(0, abs=60)
        await until(lambda: not isinstance(simulations.ask(talk.archive, question), float))
        nursery.cancel_scope.cancel()
        return simulations.ask(talk.archive, question)


async def test_a_question_is_answered_once_however_often_a_page_asks(tmp_path: Path) -> None:
    count, answer = tmp_path / "count", tmp_path / "answer"
    answer.write_bytes(write_branch(FOUND))
    program = f"open({str(count)!r}, 'a').write('x'); print(open({str(answer)!r}).read())"
    assert await answered((sys.executable, "-c", program), times=3) == FOUND
    assert count.read_text() == "x"


async def test_what_went_wrong_is_said() -> None:
    program = "import sys; print('noise', file=sys.stderr); sys.exit('There is no policy.')"
    assert await answered((sys.executable, "-c", program)) == "There is no policy."


async def test_whoever_comes_when_many_wait_is_told_to_wait_too() -> None:
    async with talking() as talk:
        simulations = Simulations({}, ())
        for number in range(WAITING + 1):
            assert simulations.ask(talk.archive, (talk.stream, "main", "cold", number)) == pytest.approx(0, abs=60)


def test_a_branch_is_read_as_it_was_written() -> None:
    assert read_branch(write_branch(FOUND)) == FOUND
