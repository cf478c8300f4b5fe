"""Simulate branches under other policies, one at a time, each in a separate process."""

import logging
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from uuid import UUID

import attrs
import trio

from mnemosyne.app.storage import event_codec
from mnemosyne.errors import MnemosyneError
from mnemosyne.services.exporting import write_session
from mnemosyne.services.sessions import Archive
from mnemosyne.services.simulated import SimulatedBranch, read_branch

log = logging.getLogger(__name__)


@attrs.frozen
class Simulations:
    """Simulates sessions of one log. ``policies`` are descriptions by name; ``command`` simulates a branch of an
    exported session, with the arguments FILE BRANCH POLICY.
    """

    policies: Mapping[str, str]
    command: Sequence[str]
    _one: trio.CapacityLimiter = attrs.field(factory=lambda: trio.CapacityLimiter(1))

    async def simulate(self, archive: Archive, stream: UUID, branch: str, policy: str) -> SimulatedBranch:
        """Simulate a branch, after earlier simulations. Raises MnemosyneError if that fails."""
        try:
            async with self._one:
                return await self._simulate(archive, stream, branch, policy)
        except OSError as error:  # no space for the file, or no process
            raise MnemosyneError(f"The simulation failed: {error}.") from None

    async def _simulate(self, archive: Archive, stream: UUID, branch: str, policy: str) -> SimulatedBranch:
        with tempfile.TemporaryDirectory(prefix="mnemosyne-what-if-") as name:
            path = Path(name) / "session.jsonl"
            with path.open("wb") as file:
                await write_session(archive, str(stream), file, event_codec())
            command = [*self.command, str(path), branch, policy]
            done = await trio.run_process(command, capture_stdout=True, capture_stderr=True, check=False)
        if done.returncode == 0:
            return read_branch(done.stdout)
        error_text = done.stderr.decode("utf-8", "replace")
        log.error("policy %s could not be simulated on branch %s: %s", policy, branch, error_text)
        raise MnemosyneError(next(reversed(error_text.splitlines()), "The simulation failed."))
