"""``mnemosyne ask`` put together: the log, the index and, where the settings name one, the helper model."""

import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import trio

from mnemosyne.actors.budget import HelperBudget
from mnemosyne.actors.composing import Composer
from mnemosyne.adapters.helpers.opening import check_helper, open_helper
from mnemosyne.adapters.postgres.projection_store import PostgresSpending
from mnemosyne.app.object_index import fill_index
from mnemosyne.app.process import new_id, now
from mnemosyne.app.settings import helper_limits
from mnemosyne.app.storage import LAST_COMMIT_SECONDS
from mnemosyne.domain.recall.object_search import Filter
from mnemosyne.errors import BadConfiguration
from mnemosyne.services import asking, sessions
from mnemosyne.services.asking import MemoryAnswer

if TYPE_CHECKING:
    from mnemosyne.app.read_models import OpenReadModels


async def ask(
    models: "OpenReadModels",
    session: str,
    question: str,
    chosen: Filter,
    tokens: int,
    *,
    helper: bool,
    say: Callable[[str], None],
) -> MemoryAnswer:
    """What a session answers; ``helper``: in sentences of the helper model, where there is one. What that cost is
    recorded in the session. ``say`` is told why there is none. Raises what ``services.asking.ask`` raises.
    """
    stream = await sessions.find(models.archive, session)
    index = await fill_index(models)
    async with _open_composer(models, say, wanted=helper) as composer:
        if composer is None:
            return await asking.ask(models.archive, index, stream, question, chosen, tokens)
        found = await asking.ask(models.archive, index, stream, question, chosen, tokens, composer.compose)
        if found.helped is not None:
            recorded = False
            try:
                await asking.record(models.archive, stream, question, found.helped, now(), new_id())
                recorded = True
            finally:
                composer.settle(found.helped, is_recorded=recorded)
        return found


@asynccontextmanager
async def _open_composer(
    models: "OpenReadModels", say: Callable[[str], None], *, wanted: bool
) -> AsyncIterator[Composer | None]:
    """What asks the helper, and a journal for what that costs; None where there is to be none, or cannot be one."""
    config, journal = models.config, models.archive.journal
    if not wanted or config.helper == "extractive":
        yield None
        return
    try:
        check_helper(config, os.environ)
    except BadConfiguration as error:
        say(f"No helper is asked: {error}")
        yield None
        return
    budget = HelperBudget(PostgresSpending(models.database, models.log), helper_limits(config), now)
    async with open_helper(config, os.environ) as model, trio.open_nursery() as nursery:
        assert model is not None
        await nursery.start(journal.run)
        try:
            yield Composer(model, budget)
        finally:
            with trio.CancelScope(shield=True):
                await journal.close(LAST_COMMIT_SECONDS)
