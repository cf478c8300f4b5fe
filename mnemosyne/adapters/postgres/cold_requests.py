"""The causes of cache misses as a table, for SQL and metrics: each cold request is explained once, after its reply.

The rules need the bodies of two requests, so this is no projection. A session is read only if its counts show a cold
request that is not explained yet. The state is in the database, so any process can resume.
"""

import logging
from collections.abc import Mapping
from uuid import UUID

import orjson
import trio

from mnemosyne.adapters.postgres.content_store import hold_sessions
from mnemosyne.adapters.postgres.database import Connection, Database
from mnemosyne.backoff import backoff
from mnemosyne.domain.history.time_travel import history_of
from mnemosyne.domain.ports import Progress
from mnemosyne.errors import LogDamaged, LogFailed, LogUnavailable, UnknownEvent
from mnemosyne.services.cache_misses import STARTS, read_misses, reading_as_json
from mnemosyne.services.sessions import Archive

log = logging.getLogger(__name__)

RULES = 2
"""The version of the rules. A new number explains all sessions again."""

GATHER_SECONDS = 2.0
"""The delay after an event, and between two sessions."""

REST = 9
"""The pause after a session, in the time that it took: at most a tenth of a core is used."""

FIRST_PAUSE, LONGEST_PAUSE = 0.5, 30.0
"""Seconds between attempts while the database is away."""

Place = tuple[str, int, int, int]
"""A request: its branch, turn, attempt and round; round 0 is the client's own request."""


class ColdRequests:
    """Explains the cold requests of all sessions in a database."""

    def __init__(self, database: Database, archive: Archive) -> None:
        self._database, self._archive = database, archive

    async def run(self, progress: Progress) -> None:
        """Explain cold requests until cancelled, woken by ``progress``."""
        seen, pauses = 0, backoff(FIRST_PAUSE, LONGEST_PAUSE)
        while True:
            try:
                began = trio.current_time()
                if await self.explain_next(seen):
                    await trio.sleep((trio.current_time() - began) * REST)
                else:
                    seen = await progress.beyond(seen)
                    await trio.sleep(GATHER_SECONDS)
                pauses = backoff(FIRST_PAUSE, LONGEST_PAUSE)
                continue
            except LogFailed as error:
                log.debug("causes of cache misses wait: %s", error)
            except Exception:
                log.exception("a session's cache misses could not be explained")
            await trio.sleep(next(pauses))

    async def explain_next(self, position: int = 0) -> bool:
        """Explain the session that was active last and is not explained; return whether there was one. Raises
        LogUnavailable while the read models lack an event up to ``position``, and LogFailed.
        """
        found = await self._database.run(_take_next, position)
        if found is None:
            return False
        stream, active, cold = found
        if cold:
            explained = await self._explain(stream, min(cold.values()))
            await self._database.run(_put, stream, active, {**dict.fromkeys(cold, b"[]"), **explained})
        return True

    async def _explain(self, stream: UUID, since: int) -> Mapping[Place, bytes]:
        """The causes of the cold requests since a time; an older one is explained already."""
        try:
            events = await self._archive.events.read(stream)
            history = await trio.to_thread.run_sync(history_of, str(stream), events)
        except (LogDamaged, UnknownEvent):
            return {}
        found = await read_misses(self._archive, stream, events, history, since=since)
        return {
            (each.address.branch, each.address.turn, each.address.attempt, each.round or 0): orjson.dumps(
                reading_as_json(each)["causes"]
            ).replace(b"\\u0000", b"\\ufffd")  # which PostgreSQL cannot hold
            for each in found
            if each.causes
        }


def clear(connection: Connection) -> None:
    """Delete all explanations, so that they are computed again."""
    connection.execute("delete from mnemosyne.cold_sessions")
    connection.execute("delete from mnemosyne.cold_totals")


def _take_next(connection: Connection, position: int) -> tuple[UUID, int, Mapping[Place, int]] | None:
    """The most recently active session that is not explained yet, and its cold requests. If it has none, it is marked
    as explained.
    """
    models, places, is_older, least = connection.execute(_STANDING, (RULES,)).fetchone() or (0, 0, False, 0)
    if (models, places) != (2, 1) or least < position:
        if position:
            raise LogUnavailable("the read models are being updated")
        return None
    if is_older:
        clear(connection)
    if (found := connection.execute(_NEXT).fetchone()) is None:
        return None
    stream, active = found
    # The requests that are not explained, and that began a branch or read less than the one before left in the cache;
    # some more than ``read_misses`` finds, never fewer. Each has the time when its turn began.
    cold = {(branch, *place): began for branch, *place, began in connection.execute(_COLD, {"stream": stream})}
    if not cold:
        _put(connection, stream, active, cold)
    return stream, active, cold


_STANDING = b"""
select count(*), count(distinct position), exists (select from mnemosyne.cold_sessions where rules <> %s),
    min(position)
from mnemosyne.projections where name in ('timeline', 'usage') and not side
"""
"""The numbers of read models and of their distinct positions, whether any explanation is older, the least position."""

_NEXT = b"""
select s.stream, s.last_active_at from mnemosyne.timeline_sessions s
left join mnemosyne.cold_sessions c on c.stream = s.stream
where s.forgotten_at is null and s.last_active_at is distinct from c.active and s.last_active_at is not null
order by s.last_active_at desc limit 1
"""

_COLD = b"""
with counted as (
    select u.branch, u.turn, u.attempt, u.round, t.version, coalesce(t.began_at, 0) as began,
        u.cache_read_tokens as read,
        u.input_tokens + u.cache_read_tokens + u.cache_write_5m_tokens + u.cache_write_1h_tokens as prompt,
        -- Only the Messages API, whose lanes have no such prefix, caches no more than what is marked.
        case when b.lane ~ '^(chat|responses)/' or u.cache_write_5m_tokens + u.cache_write_1h_tokens = 0 then 0
            else u.input_tokens end as unmarked
    from mnemosyne.billed_replies() u
    join mnemosyne.timeline_branches b on b.stream = u.stream and b.branch = u.branch
    join mnemosyne.timeline_turns t
        on t.stream = u.stream and t.branch = u.branch and t.turn = u.turn and t.attempt = u.attempt
    where u.stream = %(stream)s
), compared as (
    select *, lag(prompt - unmarked) over (partition by branch order by version, round) as cached from counted
)
select branch, turn, attempt, round, began from compared c
where (cached is null or least(prompt, cached) > read) and not exists (
    select from mnemosyne.cold_requests r where r.stream = %(stream)s
        and (r.branch, r.turn, r.attempt, r.round) = (c.branch, c.turn, c.attempt, c.round))
"""


def _put(connection: Connection, stream: UUID, active: int, cold: Mapping[Place, bytes]) -> None:
    connection.execute("set local synchronous_commit to off")
    hold_sessions(connection, (stream,), "share")  # against an erasure meanwhile
    if connection.execute(_FORGOTTEN, (stream,)).fetchone():
        return
    connection.execute(
        "insert into mnemosyne.cold_sessions (stream, active, rules) values (%s, %s, %s)"
        " on conflict (stream) do update set active = excluded.active",
        (stream, active, RULES),
    )
    if not cold:
        return
    columns = {name: [place[number] for place in cold] for number, name in enumerate("btar")}
    starts = [each.value for each in STARTS]
    connection.execute(_PUT, {**columns, "c": [each.decode() for each in cold.values()], "stream": stream, "s": starts})


_FORGOTTEN = b"select from mnemosyne.stored_events where originator_id = %s and topic = 'session.forgotten.v1'"

_PUT = b"""
with made as (
    insert into mnemosyne.cold_requests (branch, turn, attempt, round, causes, stream)
    select *, %(stream)s from unnest(%(b)s::text[], %(t)s::bigint[], %(a)s::bigint[], %(r)s::bigint[], %(c)s::jsonb[])
    on conflict do nothing returning causes
)
insert into mnemosyne.cold_totals as held (cause, culprit, tokens)
select c.cause, c.culprit, sum(c.tokens)
from made cross join lateral jsonb_to_recordset(made.causes) as c (cause text, culprit text, tokens bigint)
where c.cause <> all(%(s)s) group by 1, 2
on conflict (cause, culprit) do update set tokens = held.tokens + excluded.tokens
"""
