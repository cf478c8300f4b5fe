"""The read models of an open database: brought up to date before they are asked, whether a server runs or not."""

from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, asynccontextmanager, contextmanager, nullcontext

from mnemosyne.adapters.postgres.database import Database
from mnemosyne.adapters.postgres.event_log import PostgresEventLog
from mnemosyne.adapters.postgres.projection_store import PostgresProjections
from mnemosyne.app.storage import Storage, open_database, open_views, storage_of
from mnemosyne.config import Config
from mnemosyne.projections.catalog import find
from mnemosyne.projections.projection import Projection
from mnemosyne.projections.projector import Projector
from mnemosyne.services.read_models import Question, Row

Bars = Callable[[str], AbstractContextManager[Callable[[int, int], None]]]
"""What shows how far something has come (done, of how many), under a label."""


def no_bars(label: str) -> AbstractContextManager[Callable[[int, int], None]]:
    """For those who do not watch."""
    return nullcontext(lambda done, total: None)


class OpenReadModels:
    """See services.read_models.ReadModels: those of one tenant's sessions. ``say`` gets a sentence about whatever is
    out of the ordinary.
    """

    def __init__(
        self,
        config: Config,
        database: Database,
        say: Callable[[str], None],
        bars: Bars = no_bars,
        event_log: type[PostgresEventLog] = PostgresEventLog,
    ) -> None:
        self.archive: Storage = storage_of(database, config.tenant, event_log=event_log)
        """The log in the same database, which is read; a helper's answer to a question is recorded there."""
        self.log = open_views(database)
        self.store = PostgresProjections(database)
        self.config = config
        self.database = database
        self.bars = bars
        self._say = say

    async def answers(self, *questions: Question) -> list[list[Row]]:
        """See services.read_models.ReadModels. Rows of other tenants' sessions are left out, whatever is asked; a query
        that counts or limits rows has to leave them out itself, and is told the tenant.
        """
        whose, tenant = Question("timeline", "of_others"), {"tenant": self.config.tenant}
        asked = [(find(each.projection), each) for each in (whose, *questions)]
        projections = list({projection.name: projection for projection, _ in asked}.values())
        await self.refresh(projections)
        foreign, *answers = await self.store.select(
            projections, [(projection.query(each.query), {**each.about, **tenant}) for projection, each in asked]
        )
        others = {row["stream"] for row in foreign}
        return [
            [] if each.about.get("stream") in others else [row for row in rows if row.get("stream") not in others]
            for each, rows in zip(questions, answers, strict=True)
        ]

    async def follow(self, *projections: str) -> bool:
        """See services.read_models.ReadModels."""
        return await self.refresh([find(each) for each in projections])

    async def refresh(self, projections: Sequence[Projection]) -> bool:
        """Bring projections up to date; say what cannot be, and return whether all are."""
        total, are_current = await self.log.last_position(), True
        for projection in projections:
            with self.bar_of(projection.name, total) as report:
                projector = Projector(projection, self.log, self.store, say=self._say, report=report)
                standing = await projector.catch_up()
            if standing.error is not None:
                are_current = False
                self._say(f"{projection.name} shows what was before it stopped: {standing.error}.")
        return are_current

    @contextmanager
    def bar_of(self, label: str, total: int) -> Iterator[Callable[[int], None]]:
        """A bar for a rebuild up to the position ``total``, once there is something to show."""
        with ExitStack() as stack:
            bar: list[Callable[[int, int], None]] = []

            def report(position: int) -> None:
                if not bar:
                    bar.append(stack.enter_context(self.bars(label)))
                bar[0](position, total)

            yield report


@asynccontextmanager
async def open_read_models(
    config: Config,
    say: Callable[[str], None],
    bars: Bars = no_bars,
    event_log: type[PostgresEventLog] = PostgresEventLog,
) -> AsyncIterator[OpenReadModels]:
    """Open the database for as long as the context lasts. Raises what ``open_database`` raises."""
    async with open_database(config) as database:
        yield OpenReadModels(config, database, say, bars, event_log)
