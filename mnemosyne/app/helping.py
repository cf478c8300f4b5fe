"""A helper model's work for sessions. A worker without a helper model does not import this module: it takes 5 MB."""

import os
from collections.abc import Callable, Coroutine
from typing import Any, Protocol

import trio

from mnemosyne.actors.composing import Composer, WaitingQuestions
from mnemosyne.actors.helper_calls import HelperBudget, HelperModels
from mnemosyne.actors.helper_work import HelperWorker, WaitingOrders
from mnemosyne.adapters.helpers.opening import open_helper
from mnemosyne.adapters.postgres.content_store import PostgresContentStore
from mnemosyne.adapters.postgres.database import Database
from mnemosyne.adapters.postgres.event_log import PostgresEventLog
from mnemosyne.adapters.postgres.projection_store import PostgresSpending
from mnemosyne.app.settings import helper_limits
from mnemosyne.app.storage import event_codec
from mnemosyne.app.worker_link import Remote
from mnemosyne.config import Config
from mnemosyne.domain.helper.tasks import BACKGROUND_TASKS


def _ask_server(method: str) -> Callable[..., Coroutine[Any, Any, Any]]:
    async def call(remote: Remote, *arguments: object) -> Any:
        return await remote.call(method, *arguments)

    return call


class RemoteSessions(Remote):
    """The worker's end: ``ServedSessions`` of the server."""

    wait_for_order = _ask_server("wait_for_order")
    tell = _ask_server("tell")
    wait_for_question = _ask_server("wait_for_question")
    deliver_answer = _ask_server("deliver_answer")


class ServedSessions(WaitingOrders, WaitingQuestions, Protocol):
    """What a worker may take from sessions and report to them."""


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
