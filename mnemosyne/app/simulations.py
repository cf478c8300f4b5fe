"""Simulate branches under other policies, one at a time, each in a separate process.

A page gets the progress at once and asks again.
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
"""A session, its branch, a policy, and the branch's number of turns."""

HELD = 64
"""Number of cached results."""

WAITING = 8
"""Length of the queue; further questions are not queued and must be asked again."""


@attrs.define
class _Work:
    """A pending question, its start in trio's time, and its progress; ``done`` is None while it is queued."""

    since: float
    turns: int
    done: int | None

    def tell(self) -> SimulationProgress:
        return SimulationProgress(seconds=trio.current_time() - self.since, done=self.done, turns=self.turns)


class Simulations:
    """Simulates sessions of one log. ``policies`` are descriptions by name; ``command`` simulates a branch of an
    exported session, with the arguments FILE BRANCH POLICY.
    """

    def __init__(self, policies: Mapping[str, str], command: Sequence[str]) -> None:
        self.policies = policies
        self._command = command
        self._answers: Lru[Question, SimulatedBranch | str] = Lru(HELD)
        self._open: dict[Question, _Work] = {}
        self._sender, self._receiver = trio.open_memory_channel[tuple[Archive, Question]](WAITING)

    def ask(self, archive: Archive, question: Question) -> SimulatedBranch | str | SimulationProgress:
        """Return the result, an error message, or the progress."""
        answer = self._answers.get(question)
        if answer is not None:
            return answer
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
        """Answer one question after the other, until cancelled."""
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
        except (MnemosyneError, OSError) as error:  # OSError: no space for the file, or no process
            return str(error)

    async def _simulate(self, path: Path, branch: str, policy: str, work: _Work) -> SimulatedBranch | str:
        command = [*self._command, str(path), branch, policy]
        result: SimulatedBranch | None = None
        stderr = bytearray()
        async with trio.open_nursery() as nursery:
            run = partial(trio.run_process, command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
            process: trio.Process = await nursery.start(run)
            nursery.start_soon(_collect, process.stderr, stderr)
            async for line in _read_lines(process.stdout):
                step = read_step(line)
                if isinstance(step, SimulatedBranch):
                    result = step
                else:
                    work.done, work.turns = step
        if process.returncode == 0 and result is not None:
            return result
        error_text = stderr.decode("utf-8", "replace")
        log.error("policy %s could not be simulated on branch %s: %s", policy, branch, error_text)
        return next(reversed(error_text.splitlines()), "The simulation failed.")


async def _collect(pipe: trio.abc.ReceiveStream | None, into: bytearray) -> None:
    assert pipe is not None
    async for chunk in pipe:
        into += chunk


async def _read_lines(pipe: trio.abc.ReceiveStream | None) -> AsyncIterator[bytes]:
    assert pipe is not None
    rest = b""
    async for chunk in pipe:
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            yield line
