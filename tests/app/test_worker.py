"""What is derived is a process's of its own: whatever becomes of it, turns go on, and it comes to the same tables."""

import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import psycopg
import pytest
import trio

from mnemosyne.adapters.postgres.leading import LOCK
from mnemosyne.adapters.postgres.projection_store import PostgresProjections
from mnemosyne.app.storage import open_database, open_views
from mnemosyne.domain.session.input_events import HelperAsked
from mnemosyne.projections.catalog import ALL
from tests.adapters.endpoint import open_endpoint
from tests.adapters.log_support import query, until
from tests.app.home import Home, Served, at_home
from tests.cli.support import MNEMOSYNE, ended
from tests.http.evicting import DECIDED, exchange
from tests.http.managing import Client, Stage, recall, text, think
from tests.http.test_epochs import SMALL, TOOLS, answer, read
from tests.http.test_helped_answers import QUESTION, SENTENCE, composed
from tests.projections.support import dump_of, rebuilt_dump
from tests.waiting import DEADLINE

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="processes are found by way of /proc")

DONE = text("It is there.")


async def converse(client: Client, turns: int = 2) -> None:
    """Turns go on: each is answered, with what the client's own tools said in between."""
    for number in range(turns):
        assert (await client.work(f"Where is it now, the {number}th?"))["content"][-1] == DONE


async def caught_up(served: Served) -> None:
    await served.until_told(state="working", events_behind=0, seconds_behind=0.0)


async def until_behind(served: Served) -> None:
    """Wait until something on record is not derived. A busy database does not say at once, and a turn does not wait
    long until it is on record.
    """
    with trio.fail_after(DEADLINE):
        while True:
            if (await served.told()).get("events_behind"):
                return
            await trio.sleep(0.05)  # it does not tell by itself


async def assert_as_rebuilt(home: Home) -> None:
    """The tables are what a rebuild would make of the log."""
    async with open_database(home.config) as database:
        store, log = PostgresProjections(database), open_views(database)
        for each in ALL:
            assert await dump_of(store, each) == await rebuilt_dump(log, each), each.name
        assert query(database.dsn, "select count(*) from mnemosyne.object_texts") != [(0,)]


async def test_turns_continue_without_the_worker_which_catches_up_and_ends_with_its_server(
    tmp_path: Path, dsn: str
) -> None:
    async with at_home(tmp_path, dsn) as home:
        async with home.served("manage") as served:
            last = await _kill_and_stop(home, served)
            os.kill(last, signal.SIGSTOP)
        assert served.process.returncode == 0
        assert ended(last)


async def _kill_and_stop(home: Home, served: Served) -> int:
    """Its worker, stopped and killed while turns go on; the last one it has."""
    client = Client(served.url, session="s")
    await converse(client)
    await caught_up(served)

    first = served.worker
    assert first is not None
    os.kill(first, signal.SIGSTOP)
    await converse(client)
    assert (await served.told())["events_behind"] > 0
    os.kill(first, signal.SIGCONT)
    await caught_up(served)

    os.kill(first, signal.SIGKILL)
    await converse(client)
    await served.until_told(state="working", restarts=1)
    last = served.worker
    assert last is not None
    assert last != first
    await caught_up(served)
    home.assert_lawful()
    await assert_as_rebuilt(home)
    return last


@pytest.mark.soak
async def test_a_late_worker_processes_earlier_events(tmp_path: Path, dsn: str) -> None:
    async with at_home(tmp_path, dsn) as home:
        async with home.served():
            pass  # the schema is there
        with psycopg.connect(dsn, autocommit=True) as other:
            other.execute("select pg_advisory_lock(%s)", (LOCK,))
            async with home.served("manage") as served:
                await served.until_told(state="standing by")
                await converse(Client(served.url, session="s"))
                await until_behind(served)
                other.close()
                await caught_up(served)
                await assert_as_rebuilt(home)


@asynccontextmanager
async def alone(home: Home) -> AsyncIterator[trio.Process]:
    """A worker without a server."""
    with (home.folder / "worker").open("ab") as errors:
        process = await trio.lowlevel.open_process(
            [*MNEMOSYNE, "worker"], stdin=subprocess.DEVNULL, stderr=errors, env=home.environ
        )
    try:
        yield process
    finally:
        process.terminate()
        with trio.CancelScope(shield=True), trio.fail_after(DEADLINE):
            await process.wait()


async def test_one_of_many_workers_works_and_another_takes_its_place_when_it_ends_with_a_server_that_is_killed(
    tmp_path: Path, dsn: str
) -> None:
    async with at_home(tmp_path, dsn) as home:
        async with home.served() as one:
            await one.until_told(state="working")
            async with home.served() as two:
                await two.until_told(state="standing by")
                async with alone(home) as process:
                    await until(lambda: "Another worker keeps" in (home.folder / "worker").read_text())
                    assert query(dsn, HOLDERS) == [(1,)]
                assert process.returncode == 0
                worker = one.worker
                assert worker is not None
                one.process.kill()
                assert await trio.to_thread.run_sync(ended, worker)
                await two.until_told(state="working")
        async with alone(home):
            await until(lambda: query(dsn, HOLDERS) == [(1,)])


HOLDERS = "select count(*) from pg_locks where locktype = 'advisory' and granted"


async def test_a_helper_that_the_worker_asks_answers_the_model_s_question(tmp_path: Path, dsn: str) -> None:
    async with at_home(tmp_path, dsn) as home, open_endpoint(composed()) as endpoint:
        options = ["--helper", "openai", "--helper-model", "small", "--helper-url", f"{endpoint.url}/v1"]
        async with home.served("manage", "--manage-window", str(SMALL), *options) as served:
            await served.until_told(state="working")
            client = Client(served.url, session="s", tools=TOOLS)
            stage = cast("Stage", SimpleNamespace(standin=home.standin))
            for number in range(4):
                replies = [think(), read(f"/docs/notes_{number}.md")], [think(), text("Done.")]
                await exchange(client, stage, f"Read it, {number}.", *replies, holds="" if number else DECIDED)
            assert DECIDED not in str(home.standin.messages[-1].json()["messages"])

            answer(stage, [recall(QUESTION)], [text("So.")])
            assert (await client.turn(text("Go on.")))["content"][-1] == text("So.")
            assert SENTENCE in str(home.standin.messages[-1].json()["messages"][-1]["content"])
        home.assert_lawful()
        (asked,) = [event for event in await home.events("s") if isinstance(event, HelperAsked)]
        assert [each.text for each in asked.sentences] == [SENTENCE]


@pytest.mark.soak
async def test_a_managed_conversation_that_goes_on_under_another_name_is_known_without_a_worker(
    tmp_path: Path, dsn: str
) -> None:
    async with at_home(tmp_path, dsn) as home:
        async with home.served():
            pass  # the schema is there
        with psycopg.connect(dsn, autocommit=True) as other:
            other.execute("select pg_advisory_lock(%s)", (LOCK,))
            async with home.served("manage") as served:
                client = Client(served.url, session="s")
                await converse(client)
                gone_on = Client(served.url, session="t", history=client.history)
                await converse(gone_on)
                assert query(dsn, "select count(distinct originator_id) from mnemosyne.stored_events") == [(1,)]
                home.assert_lawful()
