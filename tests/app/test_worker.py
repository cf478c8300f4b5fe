"""The worker process: turns continue without it, and its tables equal those of a rebuild."""

import base64
import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio

from mnemosyne.adapters.postgres.event_log import PostgresEventLog
from mnemosyne.adapters.postgres.projection_store import PostgresProjections
from mnemosyne.app.storage import event_codec, open_database
from mnemosyne.projections.catalog import ALL
from tests.adapters.log_support import query, until
from tests.app.home import Home, Served, at_home
from tests.cli.support import MNEMOSYNE, ended, mnemosyne
from tests.http.evicting import DECIDED, result
from tests.http.managing import Client, model_says, recall, script, text, think
from tests.http.test_epochs import SMALL, TOOLS, read
from tests.http.test_helped_answers import QUESTION
from tests.projections.support import dump_of, rebuilt_dump
from tests.waiting import DEADLINE

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="processes are found by way of /proc")

DONE = text("It is there.")
LOGIN = "sk-ant-oat01-of-a-login-Zk4"


async def converse(client: Client, turns: int = 1) -> None:
    """Run turns with tool calls; each is answered."""
    for number in range(turns):
        assert (await client.work(f"Where is it now, the {number}th?"))["content"][-1] == DONE


async def caught_up(served: Served) -> None:
    await served.until_worker(state="working", events_behind=0, seconds_behind=0.0)


async def assert_as_rebuilt(home: Home) -> None:
    """The tables equal those that a rebuild makes from the log."""
    async with open_database(home.config) as database:
        store, log = PostgresProjections(database), PostgresEventLog(database, event_codec())
        for each in ALL:
            assert await dump_of(store, each) == await rebuilt_dump(log, each), each.name
        await until(lambda: query(database.dsn, "select count(*) from mnemosyne.object_texts") != [(0,)])


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
    """Stop and kill the worker while turns continue; return the last worker."""
    client = Client(served.url, session="s")
    await converse(client)
    await caught_up(served)

    first = served.worker
    assert first is not None
    os.kill(first, signal.SIGSTOP)
    await converse(client)
    assert (await served.worker_status())["events_behind"] > 0
    os.kill(first, signal.SIGCONT)
    await caught_up(served)

    os.kill(first, signal.SIGKILL)
    await converse(client)
    await served.until_worker(state="working", restarts=1)
    last = served.worker
    assert last is not None
    assert last != first
    await caught_up(served)
    home.assert_lawful()
    await assert_as_rebuilt(home)
    return last


@asynccontextmanager
async def alone(home: Home) -> AsyncIterator[trio.Process]:
    """Run a worker without a server."""
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


@pytest.mark.release
async def test_one_worker_leads_another_takes_over_and_ends_when_its_server_is_killed(tmp_path: Path, dsn: str) -> None:
    async with at_home(tmp_path, dsn) as home, alone(home) as process:
        await until(lambda: query(dsn, HOLDERS) == [(1,)])
        async with home.served() as served:
            await served.until_worker(state="standing by")
            assert query(dsn, HOLDERS) == [(1,)]
            process.terminate()
            await served.until_worker(state="working")
            assert await process.wait() == 0
            worker = served.worker
            assert worker is not None
            served.process.kill()
            assert await trio.to_thread.run_sync(ended, worker)


HOLDERS = "select count(*) from pg_locks where locktype = 'advisory' and granted"


KEY = "sk-ant-api03-of-a-client-Rw7Q2x"


@pytest.mark.release
async def test_a_clients_key_is_used_for_a_helper_and_a_login_is_not_and_neither_is_written_anywhere(
    tmp_path: Path, dsn: str
) -> None:
    async with at_home(tmp_path, dsn) as home:
        reading = [model_says(think(), read("/docs/notes.md")), model_says(think(), text("Done."))]
        recalling = [model_says(recall(QUESTION)), model_says(text("So."))]
        home.standin.script = script(
            {"when": {"model": "claude-opus-*", "prompt": "Read it, "}, "replies": reading},
            {"when": {"model": "claude-opus-*", "prompt": "Go on."}, "replies": recalling},
        )
        options = ["--manage-window", str(SMALL), "--helper", "client", "--log-level", "debug"]
        async with home.served("manage", *options, "--helper-budget-share", "1") as served:
            await served.until_worker(state="working")
            by_login = {"x-api-key": "", "authorization": f"Bearer {LOGIN}"}
            clients = [
                Client(served.url, session=name, tools=TOOLS, headers=shown)
                for name, shown in {"s": {"x-api-key": KEY}, "t": by_login}.items()
            ]
            for client in clients:
                for number in range(4):
                    message = await client.turn(text(f"Read it, {number}."))
                    (call,) = [block for block in message["content"] if block["type"] == "tool_use"]
                    await client.turn(result(call, "" if number else DECIDED))
                assert (await client.turn(text("Go on.")))["content"][-1] == text("So.")
        home.assert_lawful()
        helped = [each for each in home.standin.messages if each.json()["model"] != clients[0].model]
        assert {each.json()["model"] for each in helped} == {"claude-haiku-5-5"}
        assert all(KEY in str(each.headers) and LOGIN not in str(each.headers) for each in helped)
        stored = await _list_stored(home, dsn)
        assert any(DECIDED.encode() in each for each in stored)
        for secret in (KEY.encode(), LOGIN.encode()):
            assert not any(secret in each or secret.hex().encode() in each for each in stored)


async def _list_stored(home: Home, dsn: str) -> list[bytes]:
    """Everything that is written: each file, the rows of each table, and the log in full."""
    tables = "select format('%I.%I', schemaname, tablename) from pg_tables where schemaname like 'mnemosyne%'"
    rows = [str(query(dsn, f"select t::text from {name} t")).encode() for (name,) in query(dsn, tables)]
    exported = await trio.to_thread.run_sync(lambda: mnemosyne("export", "s", environ=home.environ))
    assert exported.returncode == 0, exported.stderr
    files = [each.read_bytes() for each in home.folder.rglob("*") if each.is_file()]
    assert any(b"DEBUG" in each or b"debug" in each for each in files)
    lines = [json.loads(line) for line in exported.stdout.splitlines()]
    contents = [base64.b64decode(line["data"]) for line in lines if "data" in line]
    return [*rows, *contents, exported.stdout.encode(), *files]
