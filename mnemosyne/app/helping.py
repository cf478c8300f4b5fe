"""A helper model's work for sessions. A worker without a helper model does not import this module: it takes 5 MB."""

import os
from collections.abc import Callable
from typing import Protocol, cast

import trio

from mnemosyne.actors.composing import Composer, WaitingQuestions
from mnemosyne.actors.helper_calls import HelperBudget, HelperModels
from mnemosyne.actors.helper_work import HelperRequest, HelperWorker, WaitingOrders
from mnemosyne.actors.messages import HelperDone, Identity
from mnemosyne.adapters.helpers.opening import open_helper
from mnemosyne.adapters.postgres.content_store import PostgresContentStore
from mnemosyne.adapters.postgres.database import Database
from mnemosyne.adapters.postgres.event_log import PostgresEventLog
from mnemosyne.adapters.postgres.projection_store import PostgresSpending
from mnemosyne.app.settings import helper_limits
from mnemosyne.app.storage import event_codec
from mnemosyne.app.worker_link import Remote
from mnemosyne.config import Config
from mnemosyne.domain.helper.answer import HelperQuestion
from mnemosyne.domain.helper.model import ClientKey
from mnemosyne.domain.helper.tasks import BACKGROUND_TASKS
from mnemosyne.domain.session.input_events import HelperAnswer


class RemoteSessions(Remote):
    """The worker's end: ``ServedSessions`` of the server."""

    async def wait_for_order(self) -> HelperRequest:
        return cast("HelperRequest", await self.call("wait_for_order"))

    async def drop_lost_orders(self) -> None:
        await self.call("drop_lost_orders")

    async def tell(self, identity: Identity, done: HelperDone | None) -> bool:
        return bool(await self.call("tell", identity, done))

    async def wait_for_question(self) -> tuple[int, HelperQuestion, ClientKey | None]:
        return cast("tuple[int, HelperQuestion, ClientKey | None]", await self.call("wait_for_question"))

    async def deliver_answer(self, number: int, answer: HelperAnswer | None) -> bool:
        return bool(await self.call("deliver_answer", number, answer))


class ServedSessions(WaitingOrders, WaitingQuestions, Protocol):
    """What a worker may take from sessions and report to them."""

    async def drop_lost_orders(self) -> None:
        """Wait no longer for the orders that a worker took: it has ended."""


async def help_sessions(
    config: Config,
    database: Database,
    sessions: ServedSessions,
    now: Callable[[], int],
    new_id: Callable[[], str],
) -> None:
    """Let the helper model, if configured, work on the orders of sessions and answer questions of turns."""
    spending = PostgresSpending(database, PostgresEventLog(database, event_codec()))
    budget = HelperBudget(spending, helper_limits(config), now)
    async with open_helper(config, os.environ) as source, trio.open_nursery() as nursery:
        if source is not None:
            models = HelperModels(source, budget)
            worker = HelperWorker(models, PostgresContentStore(database), spending, BACKGROUND_TASKS, now, new_id)
            nursery.start_soon(worker.run, sessions)
            nursery.start_soon(Composer(models).run, sessions)
