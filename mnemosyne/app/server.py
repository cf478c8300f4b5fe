"""The composition of the server process: it relays, plans and records. The worker keeps the read models."""

import gc
import logging
import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from functools import cache, partial

import attrs
import trio

from mnemosyne import credentials
from mnemosyne.actors.loaded_sessions import LoadedSessions
from mnemosyne.actors.owners import MemoryOwners
from mnemosyne.actors.session_finder import SessionFinder
from mnemosyne.actors.spending_guard import SpendingGuard
from mnemosyne.actors.turn import TurnOpener
from mnemosyne.adapters.embedding.embedder import LocalModel
from mnemosyne.adapters.helpers.opening import check_helper
from mnemosyne.adapters.postgres.bills import PostgresBills
from mnemosyne.adapters.postgres.content_store import PostgresContentStore
from mnemosyne.adapters.postgres.directory import PostgresDirectory
from mnemosyne.adapters.postgres.event_log import PostgresEventLog
from mnemosyne.adapters.postgres.journal import GroupJournal
from mnemosyne.adapters.postgres.leading import SERVER, name_of
from mnemosyne.adapters.postgres.placements import join_shards
from mnemosyne.adapters.postgres.reconnecting_log import OpenLog, ReconnectingLog
from mnemosyne.adapters.upstream import HttpUpstream
from mnemosyne.app.discovery import off_sentence
from mnemosyne.app.freed_memory import return_freed_memory
from mnemosyne.app.kept_files import find_keeper
from mnemosyne.app.launch import as_variables
from mnemosyne.app.logs import log_turns
from mnemosyne.app.metrics import ServerMetrics
from mnemosyne.app.object_index import model_of, open_index
from mnemosyne.app.on_demand import open_pages, pages_at, pass_to_pages
from mnemosyne.app.policies import load_policy
from mnemosyne.app.process import new_id, now
from mnemosyne.app.process_link import ProcessPlace, SharedWorker, join
from mnemosyne.app.reloading import Reloader, reload_on_hangup
from mnemosyne.app.settings import limits_of, settings_of
from mnemosyne.app.storage import LAST_COMMIT_SECONDS, event_codec, open_database
from mnemosyne.app.supervising import Supervisor
from mnemosyne.app.tracing import SpanSender
from mnemosyne.app.turns import open_registry
from mnemosyne.backoff import backoff
from mnemosyne.config import Config, databases_of, upstreams_of
from mnemosyne.data_dir import local_token, memory_key, prepare_data_dir
from mnemosyne.domain.ports import Append
from mnemosyne.domain.session.directory import Directory
from mnemosyne.domain.session.round_events import Mode
from mnemosyne.domain.wire.exchange import Reachability
from mnemosyne.errors import BadConfiguration, LogFailed
from mnemosyne.http.app import create_app
from mnemosyne.http.client_reply import RelayProgress
from mnemosyne.http.gateway import Gateway
from mnemosyne.http.inspector.status import ServerParts
from mnemosyne.http.routing import RoutedUpstream
from mnemosyne.http.serving import bind, listen_at, serve, url_of
from mnemosyne.http.unfinished import Unfinished
from mnemosyne.services.tally import RecordTally
from mnemosyne.upstreams import list_takers

log = logging.getLogger(__name__)

FIRST_PAUSE, LONGEST_PAUSE = 0.5, 30.0
"""Seconds between attempts to open the database."""

OPENING_SECONDS = 5.0
"""How long the start waits for the database before serving without one."""

RECORDING_SECONDS = 10.0
"""How long shutdown waits for turns to be recorded after their replies were sent."""

FINISHING_SECONDS = 5.0
"""How long a stopping server waits for a helper model's summaries of its sessions."""

LETTING_GO_SECONDS = 5.0
"""How long shutdown waits for the database to stop."""

HARD_EXIT_SECONDS = 2.0
"""Time limits of a hard exit for writing queued appends and for closing the database."""

UNANSWERED_SECONDS = 5.0
"""If an append waits longer, the database counts as not answering."""

SWITCH_SECONDS = 0.000_5
"""The interpreter's switch interval. A turn releases the interpreter lock about fifty times, at each system call, and
waits this long to get it back while a thread parses another session's body; Python's default of 5 ms would add a
quarter of a second.
"""

COLLECTIONS = (10_000, 10, 50)
"""Thresholds of the garbage collector (``gc.set_threshold``)."""


async def run_server(
    config: Config, ready: Callable[[str], None], load: Callable[[], Config], place: ProcessPlace | None = None
) -> None:
    """Serve until a signal stops the server. ``ready`` gets the server's URL once it accepts requests; ``load`` reloads
    the settings. ``place``: this is one of several processes.
    """
    prepare_data_dir(config.data_dir)
    token = local_token(config.data_dir)
    owners = MemoryOwners(memory_key(config.data_dir))
    listener = bind(config.host, config.port) if place is None else listen_at(place.handed)
    announce: Callable[[], object] = partial(ready, url_of(listener)) if place is None else lambda: None
    settings_of(config)  # before anything is opened
    load_policy(config)
    check_helper(config, os.environ)  # before the worker finds out
    progress, model = RelayProgress(), model_of(config)
    event_log = ReconnectingLog()
    event_codec().prepare()
    credentials.prepare()
    tally = RecordTally()
    spans = SpanSender(config.otlp_endpoint, now) if config.otlp_endpoint is not None else None

    def observe(append: Append, size: int, seconds: float, error: LogFailed | None) -> None:
        tally.note(append, size, error)
        log_turns(append, error)
        if spans is not None:
            spans.note(append, size, seconds, error)

    journal = GroupJournal(event_log, event_codec(), on_outcome=observe, is_away=event_log.is_away)
    async with (
        _open_upstreams(config) as upstreams,
        trio.open_nursery() as storage,
    ):
        ignored = tuple(dict.fromkeys(sentence for upstream in upstreams for sentence in upstream.ignored))
        for sentence in ignored:
            log.warning("%s", sentence)
        opening = _Opening(partial(keep_open, config, event_log, model, place.shard if place is not None else 0))
        storage.start_soon(opening.run)
        await storage.start(journal.run)
        with trio.move_on_after(OPENING_SECONDS):
            await event_log.tried.wait()
        await _warn_if_off(config, event_log)
        async with trio.open_nursery() as sessions:
            registry = open_registry(
                sessions, config, events=event_log, contents=event_log, journal=journal, index=event_log, model=model
            )
            if spans is not None:
                sessions.start_soon(spans.run)
            environ = {**os.environ, **as_variables(config)}
            unfinished = Unfinished()
            sessions.start_soon(return_freed_memory, lambda: progress.running > 0)
            async with AsyncExitStack() as stack:
                member = None
                supervisor: Supervisor | SharedWorker
                if place is None:
                    supervisor = Supervisor(event_log, LoadedSessions(registry), environ)
                    sessions.start_soon(supervisor.run)
                    pages = await stack.enter_async_context(open_pages(environ, event_log.dsn, token, sessions))
                else:
                    member = await stack.enter_async_context(join(place, registry, progress, event_log))
                    supervisor = SharedWorker(member.remote, event_log, sessions)
                    pages = await stack.enter_async_context(pass_to_pages(pages_at(place.folder), token))
                turns = await stack.enter_async_context(trio.open_nursery())
                find_finder = cache(partial(SessionFinder, registry, event_log))
                of_keys = {key.sha256: find_finder(key.tenant) for key in config.tenant_keys}
                finder = find_finder(config.tenant)
                guard = SpendingGuard(event_log, limits_of(config), lambda: limits_of(load()))
                keep = find_keeper(os.environ)
                opener = TurnOpener(registry, finder, turns, now, new_id, of_keys, find_finder, owners, guard, keep)
                upstream = RoutedUpstream(upstreams[0], tuple(zip(upstreams_of(config), upstreams[1:], strict=True)))
                gateway = Gateway(
                    upstream, turns, progress, config.max_body_bytes, opener, Mode(config.mode), unfinished
                )
                gateway.sharing = member.sharing if member is not None else None
                metrics = ServerMetrics(
                    gateway=gateway,
                    tally=tally,
                    journal=journal,
                    registry=registry,
                    supervisor=supervisor,
                    event_log=event_log,
                    member=member,
                )
                parts = ServerParts(
                    off_since=finder.off_since,
                    worker=supervisor.describe,
                    database=partial(
                        describe_recording,
                        journal,
                        tally,
                        event_log,
                        lambda: len(turns.child_tasks) - progress.running,
                        lambda: registry.turns_lost,
                    ),
                    metrics=metrics.page,
                    probe=partial(probe_upstreams, config, upstreams),
                    ignored=ignored,
                    present=owners.present,
                    end=lambda session: turns.start_soon(finder.end, session, now(), new_id()),
                    gather=member.gather if member is not None else None,
                )
                app = create_app(config, gateway, token, parts, pages)
                reloader = Reloader(config, load, gateway, guard, app.status.settings, supervisor.restart)
                sessions.start_soon(reload_on_hangup, reloader.reload)
                if member is not None:
                    member.served.describe, member.served.measure = app.status.describe, metrics.measure
                    sessions.start_soon(member.run, event_log)
                    announce = partial(sessions.start_soon, member.be_ready)
                await serve(
                    app,
                    listener,
                    progress,
                    drain_seconds=config.drain_seconds,
                    stall_seconds=config.stall_seconds,
                    ready=announce,
                    hard_exit=partial(_hard_exit, journal, opening),
                    passed=member.listen() if member is not None else None,
                )
                turns.cancel_scope.deadline = trio.current_time() + RECORDING_SECONDS
            if turns.cancel_scope.cancelled_caught:
                log.error("The database did not answer in time; turns not yet recorded are lost.")
            else:
                with trio.move_on_after(FINISHING_SECONDS):
                    await registry.finish()
            if member is not None:
                await member.leave()
            sessions.cancel_scope.cancel()
        await journal.close(LAST_COMMIT_SECONDS)
        await _let_go(opening)
        storage.cancel_scope.cancel()


@asynccontextmanager
async def _open_upstreams(config: Config) -> AsyncIterator[list[HttpUpstream]]:
    """Open the providers, the default one first."""
    async with AsyncExitStack() as stack:
        yield [
            await stack.enter_async_context(HttpUpstream(url, ca_bundle=config.ca_bundle))
            for url in (config.upstream, *(upstream.url for upstream in upstreams_of(config)))
        ]


async def probe_upstreams(config: Config, upstreams: Sequence[HttpUpstream], dialect: str) -> list[Reachability]:
    """Check whether all providers of a dialect are reachable."""
    default, *others = upstreams
    opened = dict(zip(upstreams_of(config), others, strict=True))
    takers = [opened[taker] for taker in list_takers([*opened], (dialect,), None)]
    return [await upstream.probe() for upstream in takers or [default]]


def describe_recording(
    journal: GroupJournal,
    tally: RecordTally,
    event_log: ReconnectingLog,
    count_records: Callable[[], int],
    count_lost: Callable[[], int],
) -> dict[str, object]:
    """Describe the recording: whether the database answers, how much waits to be written, for how many seconds and why,
    and how much is lost. ``count_records`` counts pending records of turns, ``count_lost`` the turns that are not
    recorded or incomplete.
    """
    waiting = journal.waiting
    return {
        "state": "not answering" if waiting.seconds > UNANSWERED_SECONDS else "there",
        "seconds": round(waiting.seconds, 1),
        "appends_waiting": waiting.appends,
        "appends_lost": tally.failed_appends,
        "turns_lost": count_lost(),
        "records_waiting": count_records(),
        "problem": event_log.problem or journal.problem,
    }


async def _warn_if_off(config: Config, directory: Directory) -> None:
    """Warn that managing is switched off."""
    with trio.move_on_after(OPENING_SECONDS), suppress(LogFailed):
        since = await directory.off_since(config.tenant)
        if since is not None:
            log.warning("%s", off_sentence(since))


class _Opening:
    """The task that keeps the database open; it can be ended separately."""

    def __init__(self, keep_open: Callable[[], Awaitable[None]]) -> None:
        self._keep_open = keep_open
        self._scope = trio.CancelScope()
        self._ended = trio.Event()

    async def run(self) -> None:
        try:
            with self._scope:
                await self._keep_open()
        finally:
            self._ended.set()

    async def end(self) -> None:
        """Close the database; the embedded server stops if no other process uses it."""
        self._scope.cancel()
        await self._ended.wait()


async def _let_go(opening: _Opening) -> None:
    """Close the database, or exit without waiting if it hangs."""
    with trio.move_on_after(LETTING_GO_SECONDS):
        await opening.end()
        return
    log.warning("The database did not stop within %g s; exiting without it.", LETTING_GO_SECONDS)
    logging.shutdown()
    os._exit(0)


async def _hard_exit(journal: GroupJournal, opening: _Opening) -> None:
    """End the process now. Hypercorn shields its sends, so cancellation would not end those to dead clients."""
    with trio.CancelScope(shield=True):
        await journal.close(HARD_EXIT_SECONDS)
        with trio.move_on_after(HARD_EXIT_SECONDS):
            await opening.end()
    logging.shutdown()
    os._exit(0)


def share_the_interpreter() -> None:
    """Shorten the switch interval, so that turns continue while threads parse content."""
    sys.setswitchinterval(SWITCH_SECONDS)


def collect_rarely() -> None:
    """Run the garbage collector less often, and not on imported modules.

    A full collection stops all threads and so every session, for a tenth of a second while a body with very many values
    is parsed. Reference counting frees most values at once, and finished turns and sessions leave no reference cycles
    (docs/research/reliability.md).
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(*COLLECTIONS)


async def keep_open(config: Config, event_log: ReconnectingLog, model: LocalModel, shard: int = 0) -> None:
    """Keep the server's log open: open it, and reopen it after failures. ``shard`` is the number of its database."""
    databases = databases_of(config)
    if databases:
        config = attrs.evolve(config, dsn=databases[shard])
    pauses = backoff(FIRST_PAUSE, LONGEST_PAUSE)
    while True:
        try:
            async with open_database(config, name_of(SERVER)) as database:
                index = await open_index(config, database, model)
                events = PostgresEventLog(database, event_codec())
                if len(databases) > 1:
                    await join_shards(database, events, shard, databases[:shard] + databases[shard + 1 :])
                directory = PostgresDirectory(database, events)
                bills = PostgresBills(database, events)
                opened = OpenLog(database, events, PostgresContentStore(database), index, directory, bills)
                with event_log.holding(opened):
                    log.info("the log is open")
                    pauses = backoff(FIRST_PAUSE, LONGEST_PAUSE)
                    await trio.sleep_forever()
        except (LogFailed, BadConfiguration) as error:
            reason = f"{str(error).rstrip('.')}."
            event_log.away(reason)
            pause = next(pauses)
            log.error(
                "the log cannot be opened: %s Requests are forwarded and recorded later; next attempt in %g s.",
                reason,
                pause,
            )
            await trio.sleep(pause)
