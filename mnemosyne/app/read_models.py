"""Read models of an open database, updated before each query, with or without a running server."""

from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, asynccontextmanager, contextmanager, nullcontext

from mnemosyne.adapters.postgres.database import Database
from mnemosyne.adapters.postgres.event_log import PostgresEventLog
from mnemosyne.adapters.postgres.projection_store import PostgresProjections
from mnemosyne.app.storage import Storage, open_database, storage_of
from mnemosyne.config import Config
from mnemosyne.projections.catalog import find
from mnemosyne.projections.projection import Projection
from mnemosyne.projections.projector import Projector
from mnemosyne.services.read_models import Question, Row

Bars = Callable[[str], AbstractContextManager[Callable[[int, int], None]]]
"""Opens a progress bar with a label; the result takes (done, total)."""


def no_bars(label: str) -> AbstractContextManager[Callable[[int, int], None]]:
    """Return a progress bar that shows nothing."""
    return nullcontext(lambda done, total: None)


class OpenReadModels:
    """Implements services.read_models.ReadModels for one tenant. ``say`` gets messages about problems."""

    def __init__(
        self,
        config: Config,
        database: Database,
        say: Callable[[str], None],
        bars: Bars = no_bars,
        event_log: type[PostgresEventLog] = PostgresEventLog,
    ) -> None:
        self.archive: Storage = storage_of(database, config.tenant, event_log=event_log)
        """The log in the same database; read-only except for recording helper answers."""
        self.log = self.archive.events
        self.store = PostgresProjections(database)
        self.config = config
        self.database = database
        self.bars = bars
        self._say = say

    async def answers(self, *questions: Question) -> list[list[Row]]:
        """See services.read_models.ReadModels. Rows of other tenants' sessions are always removed; a query that counts
        or limits rows must exclude them itself and gets the tenant as a parameter.
        """
        of_others, tenant = Question("timeline", "of_others"), {"tenant": self.config.tenant}
        queries = [(find(question.projection), question) for question in (of_others, *questions)]
        projections = list({each.name: each for asked, _ in queries for each in (asked, *asked.others)}.values())
        await self.refresh(projections)
        foreign, *answers = await self.store.select(
            projections,
            [(projection.query(question.query), {**question.about, **tenant}) for projection, question in queries],
        )
        others = {row["stream"] for row in foreign}
        return [
            [] if question.about.get("stream") in others else [row for row in rows if row.get("stream") not in others]
            for question, rows in zip(questions, answers, strict=True)
        ]

    async def refresh(self, projections: Sequence[Projection]) -> bool:
        """Bring projections up to date; report those that cannot be, and return whether all are current."""
        behind, are_current = await self.store.behind(projections), True
        total = await self.log.last_position() if behind else 0
        for projection in behind:
            with self.bar_of(projection.name, total) as report:
                projector = Projector(projection, self.log, self.store, say=self._say, report=report)
                standing = await projector.catch_up()
            if standing.error is not None:
                are_current = False
                self._say(f"{projection.name} is out of date: {standing.error}.")
        return are_current

    @contextmanager
    def bar_of(self, label: str, total: int) -> Iterator[Callable[[int], None]]:
        """Return the report function of a progress bar up to ``total``; the bar appears at the first report."""
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
    """Open the database and its read models. Raises what ``open_database`` raises."""
    async with open_database(config) as database:
        yield OpenReadModels(config, database, say, bars, event_log)
