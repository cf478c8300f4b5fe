"""Finding the claims of a text that a person asks to remember, with the configured helper model."""

import logging
import os
from collections.abc import Sequence

import attrs
import trio

from mnemosyne.actors.helper_calls import HelperBudget, HelperModels
from mnemosyne.actors.helper_work import HelperRequest, HelperWorker
from mnemosyne.actors.messages import Identity
from mnemosyne.adapters.helpers.opening import check_helper, open_helper
from mnemosyne.adapters.postgres.projection_store import PostgresSpending
from mnemosyne.app.process import new_id, now
from mnemosyne.app.read_models import OpenReadModels
from mnemosyne.app.settings import helper_limits
from mnemosyne.domain.helper.background import HelperOrder
from mnemosyne.domain.helper.facts import FACTS, FactInputs
from mnemosyne.domain.helper.tasks import BACKGROUND_TASKS
from mnemosyne.domain.knowledge.kinds import EntryKind
from mnemosyne.domain.knowledge.prompts import LearnedFact
from mnemosyne.domain.session.directory import operator_stream
from mnemosyne.errors import BadConfiguration, MnemosyneError
from mnemosyne.services import memories

log = logging.getLogger(__name__)

SECONDS = 20.0
"""How long a person waits for the helper model; then the text is saved as it is."""


async def find_facts(models: OpenReadModels, text: str) -> Sequence[LearnedFact]:
    """The claims that the helper model finds in a text; none if it cannot be used. Its work is recorded with the
    operator's decisions, because it belongs to no session.
    """
    with trio.move_on_after(SECONDS):
        try:
            return await _ask(models, text)
        except BadConfiguration:
            return ()  # doctor reports it
        except MnemosyneError as error:
            log.info("the helper model found no claims: %s", error)
    return ()


async def _ask(models: OpenReadModels, text: str) -> Sequence[LearnedFact]:
    config, archive = models.config, models.archive
    if config.helper in ("extractive", "client"):
        return ()
    check_helper(config, os.environ)
    spending = PostgresSpending(models.database, models.log)
    budget = HelperBudget(spending, helper_limits(config), now)
    stream = operator_stream(config.tenant)
    request = HelperRequest(
        Identity(stream=stream, tenant=config.tenant, external_id=""),
        HelperOrder(task=FACTS, subject="remember", about=FactInputs(text=text)),
    )
    async with open_helper(config, os.environ) as source:
        assert source is not None
        worker = HelperWorker(HelperModels(source, budget), archive.contents, spending, BACKGROUND_TASKS, now, new_id)
        done = await worker.work(request)
    if done is None:
        return ()
    with trio.CancelScope(shield=True):
        await memories.decide(archive, stream, lambda _: done.work, done.correlation_id)
    return [LearnedFact(**attrs.asdict(each) | {"kind": EntryKind(each.kind)}) for each in done.effect.learned]
