"""What if: branches under other policies, each simulated in a process of its own, one after the other.

The page that asks is answered at once with how far that is, and asks again.
"""

import logging
import subprocess
import tempfile
from collections.abc import AsyncIterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TypeAlias
from uuid import UUID

import attrs
import trio

from mnemosyne.app.storage import event_codec
from mnemosyne.bounded import Lru
from mnemosyne.errors import MnemosyneError
from mnemosyne.services.exporting import write_session
from mnemosyne.services.sessions import Archive
from mnemosyne.services.simulated import SimulatedBranch, SimulationProgress, read_step

log = logging.getLogger(__name__)

Question: TypeAlias = tuple[UUID, str, str, int]
"""A session, its branch, a policy, and how many turns the branch had."""

HELD = 64
"""So many answers are kept."""

WAITING = 8
"""So many questions wait; one more is told to come back."""


@attrs.define
class _Work:
    """A question that is not answered yet, since a time of trio's clock; how far that is, unless others come first."""

    since: float
    turns: int
    done: int | None

    def tell(self) -> SimulationProgress:
        return SimulationProgress(seconds=trio.current_time() - self.since, done=self.done, turns=self.turns)


class Simulations:
    """Those of one log. ``policies`` are what can be asked for, by name, each with what it does; ``command`` tries one
    on a branch of an exported session: FILE BRANCH POLICY.
    """

    def __init__(self, policies: Mapping[str, str], command: Sequence[str]) -> None:
        self.policies = policies
        self._command = command
        self._answers: Lru[Question, SimulatedBranch | str] = Lru(HELD)
        self._open: dict[Question, _Work] = {}
        self._sender, self._receiver = trio.open_memory_channel[tuple[Archive, Question]](WAITING)

    def ask(self, archive: Archive, question: Question) -> SimulatedBranch | str | SimulationProgress:
        """The answer; a sentence where there can be none; or how far it is."""
        found = self._answers.get(question)
        if found is not None:
            return found
        work = self._open.get(question)
        if work is None:
            work = _Work(trio.current_time(), question[-1], None if self._open else 0)
            try:
                self._sender.send_nowait((archive, question))
            except trio.WouldBlock:
                return work.tell()
            self._open[question] = work
        return work.tell()

    async def run(self) -> None:
        """Answer one question after the other, for ever."""
        async for archive, question in self._receiver:
            self._answers.put(question, await self._answer(archive, question))
            del self._open[question]

    async def _answer(self, archive: Archive, question: Question) -> SimulatedBranch | str:
        stream, branch, policy, _ = question
        work = self._open[question]
        work.done = 0
        try:
            with tempfile.TemporaryDirectory(prefix="mnemosyne-what-if-") as name:
                path = Path(name) / "session.jsonl"
                with path.open("wb") as file:
                    await write_session(archive, str(stream), file, event_codec())
                return await self._simulate(path, branch, policy, work)
        except (MnemosyneError, OSError) as error:  # no room for the file, no process to be had
            return str(error)

    async def _simulate(self, path: Path, branch: str, policy: str, work: _Work) -> SimulatedBranch | str:
        command = [*self._command, str(path), branch, policy]
        found: SimulatedBranch | None = None
        complaint = bytearray()
        async with trio.open_nursery() as nursery:
            run = partial(trio.run_process, command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
            process: trio.Process = await nursery.start(run)
            nursery.start_soon(_collect, process.stderr, complaint)
            async for line in _read_lines(process.stdout):
                told = read_step(line)
                if isinstance(told, SimulatedBranch):
                    found = told
                else:
                    work.done, work.turns = told
        if process.returncode == 0 and found is not None:
            return found
        said = complaint.decode("utf-8", "replace")
        log.error("policy %s could not be tried on branch %s: %s", policy, branch, said)
        return next(reversed(said.splitlines()), "It could not be simulated.")


async def _collect(pipe: trio.abc.ReceiveStream | None, into: bytearray) -> None:
    assert pipe is not None
    async for chunk in pipe:
        into += chunk


async def _read_lines(pipe: trio.abc.ReceiveStream | None) -> AsyncIterator[bytes]:
    """Whole lines as they come."""
    assert pipe is not None
    rest = b""
    async for chunk in pipe:
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            yield line
