"""The composition of ``mnemosyne ask``: the log, the index and, if configured, the helper model."""

import os
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING
from uuid import UUID

from mnemosyne.actors.composing import Composer
from mnemosyne.actors.helper_calls import HelperBudget, HelperModels
from mnemosyne.adapters.helpers.opening import check_helper, open_helper
from mnemosyne.adapters.postgres.projection_store import PostgresSpending
from mnemosyne.app.object_index import fill_index
from mnemosyne.app.process import new_id, now
from mnemosyne.app.settings import helper_limits
from mnemosyne.app.storage import run_journal
from mnemosyne.domain.helper.answer import HelperQuestion
from mnemosyne.domain.recall.object_search import Filter
from mnemosyne.domain.session.input_events import HelperAnswer
from mnemosyne.errors import BadConfiguration
from mnemosyne.services import asking, sessions
from mnemosyne.services.asking import Compose, MemoryAnswer
from mnemosyne.services.sessions import Archive

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
    async with AsyncExitStack() as stack:
        composer = await stack.enter_async_context(open_composer(models, say, wanted=helper))
        if composer is not None:
            await stack.enter_async_context(run_journal(models.archive))
        compose = record_answers(models.archive, composer, stream, question)
        return await asking.ask(models.archive, await fill_index(models), stream, question, chosen, tokens, compose)


def record_answers(archive: Archive, composer: Composer | None, stream: UUID, question: str) -> Compose | None:
    """Compose the answer to a question with ``composer``, and record it with its cost in the session; None without a
    composer. The journal must be running.
    """
    if composer is None:
        return None

    async def compose(asked: HelperQuestion) -> HelperAnswer | None:
        helped = await composer.compose(asked)
        if helped is None:
            return None
        recorded = False
        try:
            await asking.record(archive, stream, question, helped, now(), new_id())
            recorded = True
        finally:
            composer.settle(helped, is_recorded=recorded)
        return helped

    return compose


@asynccontextmanager
async def open_composer(
    models: "OpenReadModels", say: Callable[[str], None], *, wanted: bool = True
) -> AsyncIterator[Composer | None]:
    """Open the helper; None if it is not wanted or not usable, for which ``say`` gets the reason."""
    config = models.config
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
    async with open_helper(config, os.environ) as source:
        assert source is not None
        yield Composer(HelperModels(source, budget))
