"""What if: branches under other policies, each simulated in a process of its own, one after the other.

The page that asks is answered at once with how far that is, and asks again.
"""

import logging
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TypeAlias
from uuid import UUID

import trio

from mnemosyne.app.storage import event_codec
from mnemosyne.bounded import Lru
from mnemosyne.errors import MnemosyneError
from mnemosyne.services.exporting import write_session
from mnemosyne.services.sessions import Archive
from mnemosyne.services.simulated import SimulatedBranch, read_branch

log = logging.getLogger(__name__)

Question: TypeAlias = tuple[UUID, str, str, int]
"""A session, its branch, a policy, and how many turns the branch had."""

HELD = 64
"""So many answers are kept."""

WAITING = 8
"""So many questions wait; one more is told to come back."""


class Simulations:
    """Those of one log. ``policies`` are what can be asked for, by name, each with what it does; ``command`` tries one
    on a branch of an exported session: FILE BRANCH POLICY.
    """

    def __init__(self, policies: Mapping[str, str], command: Sequence[str]) -> None:
        self.policies = policies
        self._command = command
        self._answers: Lru[Question, SimulatedBranch | str] = Lru(HELD)
        self._begun: dict[Question, float] = {}
        self._sender, self._receiver = trio.open_memory_channel[tuple[Archive, Question]](WAITING)

    def ask(self, archive: Archive, question: Question) -> SimulatedBranch | str | float:
        """The answer; a sentence where there can be none; or since how many seconds it is waited for."""
        found = self._answers.get(question)
        if found is not None:
            return found
        if question not in self._begun:
            try:
                self._sender.send_nowait((archive, question))
            except trio.WouldBlock:
                return 0.0
            self._begun[question] = trio.current_time()
        return trio.current_time() - self._begun[question]

    async def run(self) -> None:
        """Answer one question after the other, for ever."""
        async for archive, question in self._receiver:
            self._answers.put(question, await self._answer(archive, question))
            del self._begun[question]

    async def _answer(self, archive: Archive, question: Question) -> SimulatedBranch | str:
        stream, branch, policy, _ = question
        try:
            with tempfile.TemporaryDirectory(prefix="mnemosyne-what-if-") as name:
                path = Path(name) / "session.jsonl"
                with path.open("wb") as file:
                    await write_session(archive, str(stream), file, event_codec())
                return await self._simulate(path, branch, policy)
        except (MnemosyneError, OSError) as error:  # no room for the file, no process to be had
            return str(error)

    async def _simulate(self, path: Path, branch: str, policy: str) -> SimulatedBranch | str:
        command = [*self._command, str(path), branch, policy]
        done = await trio.run_process(command, capture_stdout=True, capture_stderr=True, check=False)
        if done.returncode == 0:
            return read_branch(done.stdout)
        said = done.stderr.decode("utf-8", "replace")
        log.error("policy %s could not be tried on branch %s: %s", policy, branch, said)
        return next(reversed(said.splitlines()), "It could not be simulated.")
