"""Retention: sessions beyond the limits are forgotten once a day, and not because of a changed clock."""

from collections.abc import Sequence
from pathlib import Path

import attrs
import pytest
import trio

from mnemosyne.app.retaining import LOOK_SECONDS, Limit, limits_of, retain, retain_daily
from mnemosyne.app.storage import open_database, storage_of
from mnemosyne.config import Config, load
from mnemosyne.domain.session.directory import stream_of
from mnemosyne.domain.session.retention import DAY
from mnemosyne.setting_values import TenantQuota
from tests.adapters.log_support import query
from tests.app.home import at_home
from tests.http.managing import Client, text

FORGOTTEN = "select count(*) from mnemosyne.stored_events where topic = 'session.forgotten.v1'"
LOOK = int(LOOK_SECONDS * 1e6)


class Over(Exception):
    """The last wait was reached."""


async def live(config: Config, start: int, steps: Sequence[int]) -> list[bool]:
    """Run the retention task; each wait advances the clock by a step (µs). Return whether a session was forgotten
    before each wait and after the last.
    """
    async with open_database(config) as database:
        clock, left, seen = [start], list(steps), list[bool]()

        async def wait(seconds: float) -> None:
            assert seconds == LOOK_SECONDS
            seen.append(query(database.dsn, FORGOTTEN) != [(0,)])
            if not left:
                raise Over
            clock[0] += left.pop(0)

        with pytest.raises(Over):
            await retain_daily(config, database, lambda: clock[0], lambda: "c", wait)
        return seen


async def test_a_session_is_forgotten_when_it_is_too_old_and_not_when_the_clock_was_set(
    tmp_path: Path, dsn: str
) -> None:
    async with at_home(tmp_path, dsn) as home:
        async with home.served() as served:
            await Client(served.url, session="s").turn(text("Hello."))
        config = attrs.evolve(home.config, retain_days=30)
        async with open_database(config) as database:
            (stream,) = await storage_of(database).events.streams()
            born = (await storage_of(database).events.read(stream))[-1].envelope.event.at
        young, old = born + DAY, born + 31 * DAY
        assert await live(config, young, [LOOK]) == [False, False]
        assert await live(config, young, [30 * DAY]) == [False, False], "the clock was set"
        assert await live(config, old, [-LOOK]) == [False, False], "and set back"
        assert await live(config, young, [30 * DAY, LOOK]) == [False, False, True], "it shows at the next look"


async def test_a_quota_forgets_only_that_tenant_s_oldest_sessions(tmp_path: Path, dsn: str) -> None:
    async with at_home(tmp_path, dsn) as home:
        for tenant in ("red", "blue"):
            async with home.served(None, "--tenant", tenant) as served:
                for session in ("old", "new"):
                    await Client(served.url, session=f"{session} {tenant}").turn(text(f"Hello of {session}."))
        async with open_database(home.config) as database:
            sizes = await storage_of(database, "red").events.sizes()
            quota = TenantQuota("red", max(each.stored_bytes for each in sizes.values()))
            config = attrs.evolve(home.config, tenant_quotas=(quota, TenantQuota("nobody", 1)))
            gone = await retain(config, database, 10**16, lambda: 10**16, lambda: "c")
            assert [each.candidate.session for each in gone] == [stream_of("red", "old red")]
            assert query(dsn, FORGOTTEN) == [(1,)]
            assert await retain(config, database, 10**16, lambda: 10**16, lambda: "c") == []


def test_retention_limits_follow_the_settings() -> None:
    config = attrs.evolve(load({}, {}), tenant_quotas=(TenantQuota("red", 7), TenantQuota("local", 8)))
    assert limits_of(config) == [Limit("red", None, 7)]
    assert limits_of(attrs.evolve(config, retain_days=9)) == [Limit("local", 9, None), Limit("red", None, 7)]
    assert limits_of(load({}, {})) == []


async def test_sessions_are_forgotten_once_a_day(tmp_path: Path, dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[int] = []

    async def retain(config: Config, database: object, at: int, *_: object) -> Sequence[object]:
        done.append(at)
        await trio.lowlevel.checkpoint()
        return ()

    monkeypatch.setattr("mnemosyne.app.retaining.retain", retain)
    async with at_home(tmp_path, dsn) as home:
        await live(home.config, 0, [LOOK] * 200)
    assert done == [LOOK, LOOK + DAY]
