"""Retention: sessions beyond the limits are forgotten once a day, and not because of a changed clock."""

import os
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

import attrs
import pytest

from mnemosyne.app.process import now
from mnemosyne.app.retaining import Limit, limits_of, retain
from mnemosyne.app.storage import event_codec, open_database, storage_of
from mnemosyne.app.worker import LOOK_SECONDS, retain_daily, retain_once
from mnemosyne.config import Config, load
from mnemosyne.domain.ports import Append, Content, Envelope
from mnemosyne.domain.session.directory import stream_of
from mnemosyne.domain.session.events import SessionStarted
from mnemosyne.domain.session.retention import DAY
from mnemosyne.setting_values import TenantQuota
from tests.adapters.log_support import query
from tests.domain.session_events import began, opened_branch
from tests.fixtures import LentDatabases
from tests.projections.support import POSTGRES, open_world

FORGOTTEN = "select count(*) from mnemosyne.stored_events where topic = 'session.forgotten.v1'"
LOOK = int(LOOK_SECONDS * 1e6)


class Over(Exception):
    """The last wait was reached."""


def config_of(dsn: str, folder: Path, **changes: Any) -> Config:
    return attrs.evolve(load({"dsn": dsn, "data_dir": str(folder)}, {}), **changes)


async def look(start: int, steps: Sequence[int], fails: int = 0) -> list[int]:
    """Run the retention task; the first ``fails`` runs fail, a wait lasts a step. Return the times of its runs (µs)."""
    clock, left, tried = [start], list(steps), list[int]()

    async def wait(seconds: float) -> None:
        assert seconds == LOOK_SECONDS
        if not left:
            raise Over
        clock[0] += left.pop(0)

    async def retain() -> bool:
        tried.append(clock[0])
        return len(tried) > fails

    with pytest.raises(Over):
        await retain_daily(retain, lambda: clock[0], wait)
    return tried


async def record(dsn: str, session: str, at: int, tenant: str = "local") -> None:
    """Record a session of one turn with some content."""
    started = SessionStarted(at=at, tenant=tenant, external_id=session, client="c", client_version=None, salt=b"s")
    events = (started, opened_branch(), began(1, "m", at=at))
    words = session.encode() * 20
    content = Content(sha256(words).digest(), words)
    async with open_world(POSTGRES, dsn, event_codec()) as world:
        envelopes = tuple(Envelope(event, "c") for event in events)
        await world.journal.append(Append(stream_of(tenant, session), 0, envelopes, (content,)))


async def test_sessions_are_forgotten_once_a_day_and_not_when_the_clock_was_set() -> None:
    assert await look(0, [LOOK] * 200) == [LOOK, LOOK + DAY]
    assert await look(0, [LOOK] * 200, fails=1) == [LOOK, 2 * LOOK, 2 * LOOK + DAY], "again at the next look"
    assert await look(DAY, [30 * DAY]) == [], "the clock was set"
    assert await look(DAY, [-LOOK]) == [], "and set back"
    assert await look(DAY, [30 * DAY, LOOK]) == [31 * DAY + LOOK], "it shows at the next look"


async def test_worker_forgets_only_old_sessions(tmp_path: Path, dsn: str) -> None:
    await record(dsn, "old", now() - 31 * DAY)
    await record(dsn, "young", now() - 29 * DAY)
    given = {"dsn": dsn, "data_dir": str(tmp_path), "retain_days": 30}
    assert await retain_once(load(given, {}))
    assert query(dsn, FORGOTTEN) == [(1,)]
    assert not await retain_once(load({**given, "dsn": "postgresql://127.0.0.1:9/none"}, {}))


async def test_a_worker_forgets_in_its_own_database_of_several(
    tmp_path: Path, databases: LentDatabases, monkeypatch: pytest.MonkeyPatch
) -> None:
    with databases.lend() as first, databases.lend() as own:
        for dsn in (first, own):
            await record(dsn, "old", now() - 31 * DAY)
        monkeypatch.setenv("MNEMOSYNE_DSN", own)  # as a supervisor passes it
        given = {"data_dir": str(tmp_path), "retain_days": 30, "shards": [first]}
        assert await retain_once(load(given, os.environ))
        assert (query(first, FORGOTTEN), query(own, FORGOTTEN)) == ([(0,)], [(1,)])


async def test_a_quota_forgets_only_that_tenant_s_oldest_sessions(tmp_path: Path, dsn: str) -> None:
    for tenant in ("red", "blue"):
        for at, session in enumerate(("old", "new")):
            await record(dsn, f"{session} {tenant}", at, tenant)
    async with open_database(config_of(dsn, tmp_path)) as database:
        sizes = await storage_of(database, "red").events.sizes()
        quota = TenantQuota("red", max(each.stored_bytes for each in sizes.values()))
        config = config_of(dsn, tmp_path, tenant_quotas=(quota, TenantQuota("nobody", 1)))
        planned = await retain(config, database, lambda: 10**16, lambda: "c", dry_run=True)
        assert query(dsn, FORGOTTEN) == [(0,)]
        assert planned == await retain(config, database, lambda: 10**16, lambda: "c")
        ((tenant, victim),) = planned.victims
        assert (tenant, victim.candidate.session) == ("red", stream_of("red", "old red"))
        assert query(dsn, FORGOTTEN) == [(1,)]
        assert (await retain(config, database, lambda: 10**16, lambda: "c")).victims == []


def test_retention_limits_follow_the_settings() -> None:
    config = attrs.evolve(load({}, {}), tenant_quotas=(TenantQuota("red", 7), TenantQuota("local", 8)))
    assert limits_of(config) == [Limit("local", None, None), Limit("red", None, 7)]
    assert limits_of(attrs.evolve(config, retain_days=9)) == [Limit("local", 9, None), Limit("red", None, 7)]
    assert limits_of(load({}, {}), {"blue", "local"}) == [Limit("local", None, None), Limit("blue", None, None)]
