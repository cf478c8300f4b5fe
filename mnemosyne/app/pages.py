"""The composition of the page process, which reads the log and shows it; turns do not depend on it.

It opens the database like a command, with or without a running server. While the database is unavailable, pages say so.
"""

import logging
import math
import signal
import socket
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Never
from uuid import UUID

import attrs
import trio
from quart_trio import QuartTrio

from mnemosyne import __version__
from mnemosyne.actors.composing import Composer
from mnemosyne.adapters.embedding.embedder import EntryMeaning
from mnemosyne.adapters.postgres.database import Database
from mnemosyne.adapters.postgres.event_log import CachedEventLog
from mnemosyne.adapters.postgres.journal import LogProgress
from mnemosyne.adapters.postgres.leading import lag, publish_progress
from mnemosyne.app.asking import open_composer, record_answers
from mnemosyne.app.knowledge import open_knowledge
from mnemosyne.app.learning import find_facts
from mnemosyne.app.object_index import fill_index, model_of, open_index, read_standing, why_words_only
from mnemosyne.app.process import new_id, now
from mnemosyne.app.read_models import OpenReadModels, open_read_models
from mnemosyne.app.settings import limits_of
from mnemosyne.app.simulations import Simulations
from mnemosyne.app.storage import is_embedded, run_journal
from mnemosyne.config import SETTINGS, Config, repeat_options
from mnemosyne.data_dir import local_token, prepare_data_dir
from mnemosyne.domain.knowledge.decide import Place
from mnemosyne.domain.knowledge.kinds import EntrySource
from mnemosyne.domain.knowledge.knowledge_store import KnowledgeStore
from mnemosyne.errors import LogUnavailable, MnemosyneError, leaves
from mnemosyne.http.app import answer_lifespan, hosts_of, refusal_for
from mnemosyne.http.browsers import AllowedHosts
from mnemosyne.http.gateway import Receive, Scope, Send, refuse
from mnemosyne.http.inspector.access import Access
from mnemosyne.http.inspector.pages import create_pages
from mnemosyne.http.serving import run_hypercorn
from mnemosyne.page_links import PageLinks
from mnemosyne.services.asking import Compose
from mnemosyne.services.budgets import Budgets
from mnemosyne.services.conversation_view import no_conversations
from mnemosyne.services.knowledge import KnowledgeService
from mnemosyne.services.observing import Observations, no_observations
from mnemosyne.services.overviews import Openings
from mnemosyne.services.search import CrossSessionIndex
from mnemosyne.services.turn_view import KnownTurns

log = logging.getLogger(__name__)

IDLE_SECONDS = 600.0
"""A server's page process ends after this time without requests."""

OPENING_SECONDS = 10.0
"""How long a page waits for the database after the start of the process."""

AGAIN_SECONDS = 1.0
"""Delay before the database is tried again."""

FILLING_SECONDS = 2.0
"""How long a search waits for the index while a worker fills it."""

DRAIN_SECONDS = 1.0


class OpenPageContext:
    """See ``http.inspector.page_context.PageContext``."""

    def __init__(
        self,
        config: Config,
        now: Callable[[], int],
        new_id: Callable[[], str],
        simulations: Simulations,
        load: Callable[[], Config] | None = None,
    ) -> None:
        self.shown: Mapping[str, Any] = {
            setting.name: {
                "value": setting.text(getattr(config, setting.name)),
                "source": config.sources[setting.name],
            }
            for setting in SETTINGS
            if setting.name != "dsn"
        }
        self.budgets = Budgets(lambda: limits_of(config if load is None else load()), now)
        self.observations: Observations = no_observations()
        self.openings: Openings = {}
        self.turns = KnownTurns()
        self.conversations = no_conversations()
        self.simulations = simulations
        self.now = now
        self.new_id = new_id
        self._config = config
        self._models: OpenReadModels | None = None
        self._store: KnowledgeStore | None = None
        self._composer: Composer | None = None
        self._model = model_of(config)
        self._meaning = EntryMeaning(self._model)
        self._progress = LogProgress()
        self._why = "it is being opened"
        self._tried = trio.Event()
        self._gone = trio.Event()

    async def wait_until_tried(self) -> None:
        """Wait briefly until the first connection attempt to the database has ended."""
        with trio.move_on_after(OPENING_SECONDS):
            await self._tried.wait()

    @property
    def is_open(self) -> bool:
        return self._models is not None

    @property
    def models(self) -> OpenReadModels:
        if self._models is None:
            raise LogUnavailable(self._away)
        return self._models

    @property
    def _away(self) -> str:
        return f"The database is away: {self._why}"

    @property
    def archive(self) -> Any:
        return self.models.archive

    @property
    def store(self) -> KnowledgeStore:
        """The memory across sessions."""
        if self._store is None:
            raise LogUnavailable(self._away)
        return self._store

    async def knowledge(self, folder: Path | None, source: EntrySource = EntrySource.USER) -> KnowledgeService:
        facts = partial(find_facts, self.models)
        return await trio.to_thread.run_sync(
            open_knowledge,
            self.store,
            self._config.tenant,
            folder,
            source,
            self._meaning,
            facts,
            abandon_on_cancel=True,
        )

    def knowledge_of(self, project: str | None) -> KnowledgeService:
        return KnowledgeService(self.store, self._config.tenant, project, meaning=self._meaning)

    async def places(self) -> Sequence[Place]:
        return await self.store.list_places(self._config.tenant)

    async def version_of(self, stream: UUID) -> int:
        return await self.models.archive.events.version(stream)

    @property
    def position(self) -> int:
        return self._progress.position

    async def index(self) -> CrossSessionIndex:
        models = self.models
        # A leading worker fills the index, too; a page must not wait long for it.
        with trio.move_on_after(FILLING_SECONDS if (await lag(models.database)).led else math.inf):
            return await fill_index(models, self._model)
        return await open_index(models.config, models.database, self._model)

    def compose(self, stream: UUID, question: str) -> Compose | None:
        return record_answers(self.archive, self._composer, stream, question)

    async def beyond(self, position: int) -> tuple[int, frozenset[UUID]]:
        gone, last = self._gone, position
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_cancel_behind, gone, nursery.cancel_scope)
            last = await self._progress.beyond(position)
            nursery.cancel_scope.cancel()
        recorded = await self.archive.events.tail(after=position, limit=_MOST_EVENTS)
        streams = {record.stream for record in recorded}
        # The tail has events of all tenants: do not reveal the activity or ids of other tenants' sessions.
        return last, frozenset([stream for stream in streams if await self.archive.events.streams(str(stream))])

    async def health(self) -> Mapping[str, Any]:
        models = self.models
        behind = await lag(models.database)
        return {
            "version": __version__,
            "database": "embedded database" if is_embedded(self._config.dsn) else "your own database",
            "events": await models.log.last_position(),
            "worker": behind,
            "words_only": await trio.to_thread.run_sync(why_words_only, self._config),
            "vectors": (await read_standing(models.database)).sentence,
            "disk": await models.archive.files.disk_bytes(),
        }

    async def keep_open(self) -> Never:
        """Open the database and reopen it whenever it becomes unavailable."""
        while True:
            try:
                await self._hold_open()
            except* MnemosyneError as group:
                self._why = " ".join(dict.fromkeys(map(str, leaves(group))))
                self._tried.set()
                log.warning("the database is away: %s", self._why)
            self._models = self._store = None
            self._gone.set()
            await trio.sleep(AGAIN_SECONDS)

    async def _hold_open(self) -> None:
        async with (
            open_read_models(self._config, log.info, event_log=CachedEventLog) as models,
            run_journal(models.archive) as archive,
            open_composer(models, log.info) as self._composer,
        ):
            listener = Database(models.database.dsn, connections=1)
            self._progress.advance(await models.log.last_position())
            self._gone = trio.Event()
            self._models, self._store = models, KnowledgeStore(archive.events, archive.journal)
            self._tried.set()
            try:
                await publish_progress(listener, self._progress)
            finally:
                listener.close()


_MOST_EVENTS = 1000


async def _cancel_behind(event: trio.Event, scope: trio.CancelScope) -> None:
    await event.wait()
    scope.cancel()


@attrs.define
class PagesAlone:
    """The ASGI application of the page process. ``asked_at`` is the time of the last request, in trio's time; ``busy``
    counts the running requests.
    """

    pages: QuartTrio
    allowed_hosts: AllowedHosts
    asked_at: float
    busy: int = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await answer_lifespan(receive, send)
        elif refused := refusal_for(self.allowed_hosts, scope):
            await refuse(send, refused)
        else:
            self.busy += 1
            try:
                pages: Any = self.pages  # the framework has its own types for the same messages
                await pages(scope, receive, send)
            finally:
                self.busy -= 1
                self.asked_at = trio.current_time()

    async def wait_until_idle(self, seconds: float) -> None:
        """Wait until there was no request for ``seconds``."""
        while True:
            remaining = seconds if self.busy else self.asked_at + seconds - trio.current_time()
            if remaining <= 0:
                return
            await trio.sleep(remaining)


async def run_pages(
    config: Config,
    listener: socket.socket,
    simulations: Simulations,
    *,
    idle_seconds: float | None = None,
    ready: Callable[[], None] = lambda: None,
    load: Callable[[], Config] | None = None,
) -> None:
    """Serve pages at a listening socket until SIGTERM or SIGINT, or until there was no request for ``idle_seconds``.
    ``load`` reads the settings again.
    """
    prepare_data_dir(config.data_dir)
    page_context = OpenPageContext(config, now, new_id, simulations, load)
    access = Access(local_token(config.data_dir), PageLinks(config.data_dir), now)
    app = PagesAlone(create_pages(page_context, access, repeat_options(config)), hosts_of(config), trio.current_time())
    stopping = trio.Event()
    with trio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(page_context.keep_open)
            await nursery.start(run_hypercorn, app, listener, stopping, DRAIN_SECONDS)
            ready()
            if idle_seconds is None:
                await anext(aiter(signals))
            else:
                with trio.CancelScope() as scope:
                    nursery.start_soon(_cancel_at_a_signal, signals, scope)
                    await app.wait_until_idle(idle_seconds)
            nursery.cancel_scope.cancel()


async def _cancel_at_a_signal(signals: Any, scope: trio.CancelScope) -> None:
    async for _ in signals:
        scope.cancel()
