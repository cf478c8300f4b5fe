"""Opening read models for a command."""

from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from mnemosyne.cli.printing import progress_bar, say
from mnemosyne.config import Config

if TYPE_CHECKING:
    from mnemosyne.app.read_models import OpenReadModels

Result = TypeVar("Result")


def with_read_models(config: Config, work: "Callable[[OpenReadModels], Awaitable[Result]]") -> Result:
    """Open the database, do the work, close it."""
    import trio

    from mnemosyne.app.read_models import open_read_models

    async def run() -> Result:
        async with open_read_models(config, partial(say, err=True), progress_bar) as models:
            return await work(models)

    return trio.run(run)
