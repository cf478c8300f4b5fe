"""Opening read models for a command, and showing what changes in them."""

from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, TypeVar

import click

from mnemosyne.cli.printing import is_plain, progress_bar, say, show
from mnemosyne.config import Config

if TYPE_CHECKING:
    from rich.console import RenderableType

    from mnemosyne.app.read_models import OpenReadModels

Result = TypeVar("Result")

WATCH_SECONDS = 1.0

watch_option = click.option("--watch", is_flag=True, help="Show it again whenever it changes, until Ctrl-C.")


def with_read_models(config: Config, work: "Callable[[OpenReadModels], Awaitable[Result]]") -> Result:
    """Open the database, do the work, close it."""
    import trio

    from mnemosyne.app.read_models import open_read_models

    async def run() -> Result:
        async with open_read_models(config, partial(say, err=True), progress_bar) as models:
            return await work(models)

    return trio.run(run)


def watch(
    config: Config,
    read: "Callable[[OpenReadModels], Awaitable[Result]]",
    render: "Callable[[Result], RenderableType]",
) -> None:
    """Show what ``read`` finds in place of what was shown before, whenever it is another, until Ctrl-C."""
    try:
        with_read_models(config, partial(_watch, read=read, render=render))
    except* KeyboardInterrupt:
        pass


async def _watch(
    models: "OpenReadModels",
    read: "Callable[[OpenReadModels], Awaitable[Result]]",
    render: "Callable[[Result], RenderableType]",
) -> None:
    import trio
    from rich.console import Console
    from rich.live import Live

    shown: Result | None = None
    with Live(
        console=Console(force_terminal=False if is_plain() else None), auto_refresh=False, vertical_overflow="visible"
    ) as live:
        while True:
            found = await read(models)
            if found != shown:
                shown = found
                if live.console.is_terminal:
                    live.update(render(found), refresh=True)
                else:
                    show(render(found))  # nothing can be replaced where it goes
            await trio.sleep(WATCH_SECONDS)
