"""A simulation runs in a separate process, and its error is raised here."""

import sys
from pathlib import Path

from mnemosyne.app.simulations import Simulations
from mnemosyne.errors import MnemosyneError
from mnemosyne.services.simulated import SimulatedBranch, SimulatedTurn, write_branch
from tests.services.talking import rich_session, talking

FOUND = SimulatedBranch(
    policy="cold",
    about="a policy",
    turns=[SimulatedTurn(turn=1, fixed=9, held=(1, 0, 0, 2), is_rewritten=True)],
    nanodollars=1,
    nanodollars_unmanaged=2,
    verdict="It is so.",
)


async def answered(program: str) -> SimulatedBranch | str:
    async with talking() as talk:
        await rich_session(talk)
        simulations = Simulations({"cold": "a policy"}, (sys.executable, "-c", program))
        try:
            return await simulations.simulate(talk.archive, talk.stream, "main", "cold")
        except MnemosyneError as error:
            return str(error)


async def test_the_process_gets_the_session_and_its_result_is_read_back(tmp_path: Path) -> None:
    answer = tmp_path / "answer"
    answer.write_bytes(write_branch(FOUND))
    program = f"""
import sys
file, branch, policy = sys.argv[1:]
assert b'mnemosyne-session' in open(file, 'rb').readline() and (branch, policy) == ('main', 'cold')
print(open({str(answer)!r}).read(), end='')
"""
    assert await answered(program) == FOUND


async def test_a_failed_simulation_raises_its_error() -> None:
    program = "import sys; print('noise', file=sys.stderr); sys.exit('There is no policy.')"
    assert await answered(program) == "There is no policy."
    assert await answered("import sys; sys.exit(1)") == "The simulation failed."
