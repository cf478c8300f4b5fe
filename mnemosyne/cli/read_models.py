"""Opening projections for a command that reads them: brought up to date first, whether a server runs or not."""

import io
import sys
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import click

from mnemosyne.cli.printing import progress_bar
from mnemosyne.config import Config
from mnemosyne.errors import NotFound

if TYPE_CHECKING:
    from rich.console import RenderableType

    from mnemosyne.adapters.postgres.database import Database
    from mnemosyne.adapters.postgres.event_views import ViewedLog
    from mnemosyne.adapters.postgres.object_index import PostgresObjectIndex
    from mnemosyne.adapters.postgres.projection_store import PostgresProjections
    from mnemosyne.projections.projection import Projection, Query

Result = TypeVar("Result")

WATCH_SECONDS = 1.0

watch_option = click.option("--watch", is_flag=True, help="Show it again whenever it changes, until Ctrl-C.")

NAMED_AT_MOST = 5

WIDE = 1000


class ReadModels:
    """The projections of an open database."""

    def __init__(self, database: "Database", event_log: "ViewedLog", store: "PostgresProjections") -> None:
        self.database = database
        self.log = event_log
        self.store = store

    async def refresh(self, projections: "Sequence[Projection]") -> bool:
        """Bring projections up to date; say on stderr what cannot be, and return whether all are."""
        from mnemosyne.projections.projector import Projector

        total, are_current = await self.log.last_position(), True
        for projection in projections:
            with self.progress_of(projection, total) as report:
                projector = Projector(projection, self.log, self.store, say=_say, report=report)
                standing = await projector.catch_up()
            if standing.error is not None:
                are_current = False
                _say(f"{projection.name} shows what was before it stopped: {standing.error}.")
        return are_current

    async def filled_index(self, config: Config, *, anew: bool = False) -> "PostgresObjectIndex":
        """The index of objects with all that its projection knows; ``anew``: made again, but for vectors."""
        from mnemosyne.app.storage import open_index

        with ExitStack() as stack:
            bar: list[Callable[[int, int], None]] = []
            done = total = 0

            def report(objects: int) -> None:
                nonlocal done
                done += objects
                if not bar:
                    bar.append(stack.enter_context(progress_bar("indexing")))
                bar[0](done, total)

            index, indexer = await open_index(config, self.database, report)
            if anew:
                await index.clear()
            standing = await index.standing()
            total = standing.missing + standing.unembedded
            await indexer.catch_up()
        return index

    @contextmanager
    def progress_of(self, projection: "Projection", total: int) -> Iterator[Callable[[int], None]]:
        """A bar for a rebuild up to the position ``total``, once there is something to show."""
        with ExitStack() as stack:
            bar: list[Callable[[int, int], None]] = []

            def report(position: int) -> None:
                if not bar:
                    bar.append(stack.enter_context(progress_bar(projection.name)))
                bar[0](position, total)

            yield report

    async def ask(
        self, projections: "Sequence[Projection]", *questions: "tuple[Query, Mapping[str, object]]"
    ) -> list[list[dict[str, Any]]]:
        """The answers to questions, all of one moment."""
        return await self.store.select(projections, questions)


def _say(text: str) -> None:
    click.echo(text, err=True)


def with_read_models(config: Config, work: Callable[[ReadModels], Awaitable[Result]]) -> Result:
    """Open the database, do the work, close it."""
    import trio

    from mnemosyne.adapters.postgres.projection_store import PostgresProjections
    from mnemosyne.app.storage import open_database, viewed_log

    async def run() -> Result:
        async with open_database(config) as database:
            return await work(ReadModels(database, viewed_log(database), PostgresProjections(database)))

    return trio.run(run)


def only_session(found: Sequence[Mapping[str, Any]], wanted: str) -> Any:
    """The stream of the session that a person means, of those that the query ``find`` gave. Raises NotFound."""
    exact = [row for row in found if row["exact"]]
    candidates = exact or found
    if not wanted or not candidates:
        raise NotFound(f"There is no session {wanted!r}; `mnemosyne sessions` lists all.")
    if len(candidates) > 1:
        names = [f"{row['stream']} ({row['external_id']})" for row in candidates[:NAMED_AT_MOST]]
        more = f" and {len(candidates) - NAMED_AT_MOST} more" if len(candidates) > NAMED_AT_MOST else ""
        raise NotFound(
            f"{wanted!r} may mean {len(candidates)} sessions: {', '.join(names)}{more}. Give more of the id."
        )
    return candidates[0]["stream"]


def show(renderable: "RenderableType") -> None:
    """Print what rich has laid out. A file or a pipe has no width that lines would have to be cut to."""
    from rich.console import Console

    if sys.stdout.isatty():
        Console().print(renderable)
        return
    console = Console(file=io.StringIO(), width=WIDE, highlight=False)
    with console.capture() as capture:
        console.print(renderable)
    click.echo("\n".join(line.rstrip() for line in capture.get().splitlines()))


def watch(
    config: Config, refresh: Callable[[ReadModels], Awaitable[Result]], render: Callable[[Result], "RenderableType"]
) -> None:
    """Show what ``refresh`` finds in place of what was shown before, whenever it is another, until Ctrl-C."""
    try:
        with_read_models(config, partial(_watch, refresh=refresh, render=render))
    except* KeyboardInterrupt:
        pass


async def _watch(
    models: ReadModels, refresh: Callable[[ReadModels], Awaitable[Result]], render: Callable[[Result], "RenderableType"]
) -> None:
    import trio
    from rich.console import Console
    from rich.live import Live

    shown: Result | None = None
    with Live(console=Console(), auto_refresh=False, vertical_overflow="visible") as live:
        while True:
            found = await refresh(models)
            if found != shown:
                shown = found
                if live.console.is_terminal:
                    live.update(render(found), refresh=True)
                else:
                    show(render(found))  # nothing can be replaced where it goes
            await trio.sleep(WATCH_SECONDS)


def table_of(headers: Sequence[str], lines: "Sequence[tuple[Sequence[str], str]]", *, right: str) -> "RenderableType":
    """A table of cells with a style for each line. Where the terminal is too narrow, names are cut and numbers are not;
    the headers in ``right`` name those that are numbers.
    """
    from rich.table import Table
    from rich.text import Text

    numbers = set(right.split())
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for header, *column in zip(headers, *(cells for cells, _ in lines), strict=True):
        is_number = header in numbers
        width = max(map(len, (header, *column))) if is_number else None
        table.add_column(header, justify="right" if is_number else "left", no_wrap=True, min_width=width)
    for cells, style in lines:
        table.add_row(*map(Text, cells), style=style)
    return table
