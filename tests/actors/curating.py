"""A process whose sessions are curated, for the tests of it."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import attrs
import trio

from mnemosyne.actors.awake import AwakeSessions
from mnemosyne.actors.budget import HelperBudget
from mnemosyne.actors.curator import Curator
from mnemosyne.actors.messages import Due, Identity, Owed
from mnemosyne.actors.patience import Patience
from mnemosyne.actors.summarizing import Summarizer
from mnemosyne.domain.objects.events import ObjectSummarized
from mnemosyne.domain.objects.work import OwedSummary
from mnemosyne.domain.session.budget import Budget
from mnemosyne.domain.summaries.helper_model import HelperModel
from mnemosyne.errors import ActorStopped, VersionConflict
from tests.actors.spending import LoggedSpending
from tests.actors.support import IDENTITY, PATIENT, Process, ProcessLog, StoppableLog, events_of, open_process
from tests.waiting import DEADLINE

ENOUGH_MONEY = Budget(10**12, 1.0)

FACTS = (
    "The parser in src/{0}/parser_{0}.py fails on line {1} with KeyError: '{0}_name', as {0}.toml lacks a section.",
    "The database {0}_db listens on port 5{1} and is asked {1} times, since {0}_balancer drops idle connections.",
    "The function load_{0}_{1}() returns None where the file is missing; its caller main_{0}() does not check that.",
    "Running make {0}-test took {1}.5 seconds; tests/test_{0}.py::test_{1} is the slowest with 3.1 seconds of them.",
)


def long_text(name: str, size: int = 6_000) -> str:
    """A text of about so many characters that is worth a summary, and about things of its own."""
    return "\n".join(FACTS[number % len(FACTS)].format(name, number) for number in range(size // 100))


@attrs.define
class Curated:
    """The process, and the way to ask what its session owes."""

    process: Process
    curator: Curator
    budget: HelperBudget
    identity: Identity = IDENTITY

    async def owed(self) -> list[OwedSummary]:
        """What the session still owes, as its actor says or, where that is stopping, the next one."""
        while True:
            _, asked = self.process.registry.ask(self.identity, Owed(limit=1_000, given_up=frozenset()))
            with suppress(ActorStopped, VersionConflict):
                due = await asked.wait()
                assert isinstance(due, Due)
                return list(due.summaries)

    async def until_owed(self, count: int) -> None:
        """Wait until no more than so many summaries are owed."""
        committed = self.process.journal.committed
        with trio.fail_after(DEADLINE):
            position = committed.position
            while len(await self.owed()) > count:
                with trio.move_on_after(0.05):  # another process may be the one that commits
                    position = await committed.beyond(position)


@asynccontextmanager
async def open_curated(
    log: StoppableLog,
    model: HelperModel | None = None,
    *,
    budget: Budget = ENOUGH_MONEY,
    seconds: float = 20.0,
    patience: Patience = PATIENT,
) -> AsyncIterator[Curated]:
    """A process of ours on a log, with a curator. The clock stands still in 1970."""
    async with (
        open_process(log, patience=patience) as process,
        open_curator(process, log, model, budget=budget, seconds=seconds) as found,
    ):
        yield found


@asynccontextmanager
async def open_curator(
    process: Process,
    log: ProcessLog,
    model: HelperModel | None = None,
    *,
    budget: Budget = ENOUGH_MONEY,
    seconds: float = 20.0,
) -> AsyncIterator[Curated]:
    """A curator of such a process."""
    async with trio.open_nursery() as nursery:
        reserving = HelperBudget(LoggedSpending(log), budget, lambda: 1)
        summarizer = Summarizer(model, reserving, seconds=seconds, pauses=(0.0,))
        curator = Curator(AwakeSessions(process.registry), log, summarizer, reserving, lambda: 1, lambda: "curated")
        nursery.start_soon(curator.run)
        yield Curated(process, curator, reserving)
        nursery.cancel_scope.cancel()


async def summaries(log: StoppableLog) -> list[ObjectSummarized]:
    """The summaries on record, in order."""
    return [event for event in await events_of(log) if isinstance(event, ObjectSummarized)]
