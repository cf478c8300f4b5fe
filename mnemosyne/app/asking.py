"""The composition of ``mnemosyne ask``: the log, the index and, if configured, the helper model."""

import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import trio

from mnemosyne.actors.composing import Composer
from mnemosyne.actors.helper_calls import HelperBudget, HelperModels
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
    tokens: int | None,
    *,
    helper: bool,
    say: Callable[[str], None],
) -> MemoryAnswer:
    """Answer a question from a session; with ``helper``, in the helper model's words, whose cost is recorded in the
    session. ``say`` gets the reason if the helper is unusable. Raises what ``services.asking.ask`` raises.
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
    """Open the helper and run the journal that records its cost; None if it is not wanted or not usable."""
    config, journal = models.config, models.archive.journal
    if not wanted or config.helper == "extractive":
        yield None
        return
    try:
        if config.helper == "client":
            raise BadConfiguration("with helper = client it works only with the key of a client's request.")
        check_helper(config, os.environ)
    except BadConfiguration as error:
        say(f"The helper is not used: {error}")
        yield None
        return
    budget = HelperBudget(PostgresSpending(models.database, models.log), helper_limits(config), now)
    async with open_helper(config, os.environ) as source, trio.open_nursery() as nursery:
        assert source is not None
        await nursery.start(journal.run)
        try:
            yield Composer(HelperModels(source, budget))
        finally:
            with trio.CancelScope(shield=True):
                await journal.close(LAST_COMMIT_SECONDS)
