"""Commands that are handed over to a process which is killed, hangs, or has old code."""

import os
import shutil
import signal
import subprocess
from collections.abc import Mapping
from pathlib import Path

import psycopg
import pytest
import trio

import mnemosyne
from tests.cli.logs import OBSERVED_LOG, put_golden
from tests.cli.support import children, ended, environ_for, serving
from tests.cli.test_handover import PROGRAM, do, forkers, hand, taking
from tests.fixtures import UseLog
from tests.golden.sessions import stored
from tests.waiting import DEADLINE


@pytest.fixture
def conversation(dsn: str, use_log: UseLog) -> str:
    """A database with one session; its id."""
    put_golden(dsn, OBSERVED_LOG)
    use_log(dsn, "t")
    return str(stored(OBSERVED_LOG)[0].stream)


async def begin(*arguments: str, environ: Mapping[str, str], dsn: str) -> tuple[trio.Process, int]:
    """A command that waits for a locked table, and the process that runs it."""
    with psycopg.connect(dsn, autocommit=True) as looking, trio.fail_after(DEADLINE):
        while True:
            process = await trio.lowlevel.open_process(
                [*PROGRAM, *arguments], env=environ, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
            )
            while not looking.execute("select from pg_stat_activity where wait_event_type = 'Lock'").fetchall():
                await trio.lowlevel.checkpoint()
            if forked := list(children(forkers()[0])):
                return process, forked[0]
            assert process.stdout is not None
            process.kill()
            await process.wait()
            await process.stdout.aclose()
            while looking.execute("select from pg_stat_activity where wait_event_type = 'Lock'").fetchall():
                await trio.lowlevel.checkpoint()


async def test_command_ends_with_its_caller(conversation: str, dsn: str, tmp_path: Path) -> None:
    async with taking(tmp_path, os.environ) as environ:
        with psycopg.connect(dsn) as held:
            held.execute("lock table mnemosyne.stored_events")
            for number, code in ((signal.SIGINT, 1), (signal.SIGKILL, -signal.SIGKILL)):
                process, forked = await begin("context", conversation, environ=environ, dsn=dsn)
                assert process.stdout is not None
                process.send_signal(number)
                with trio.fail_after(DEADLINE):
                    assert await process.wait() == code
                    assert ended(forked)
                    assert await process.stdout.receive_some() == b""
                await process.stdout.aclose()


async def test_command_runs_itself_if_the_process_hangs_or_dies(conversation: str, tmp_path: Path) -> None:
    async with taking(tmp_path, os.environ) as environ:
        (forker,) = forkers()
        before = await hand("branches", conversation, environ=environ)
        os.kill(forker, signal.SIGSTOP)
        hung = await do("branches", conversation, environ=environ)
        os.kill(forker, signal.SIGCONT)
        os.kill(forker, signal.SIGKILL)
        killed = await do("branches", conversation, environ=environ)
        assert (hung.is_handed, killed.is_handed) == (False, False)
        assert before.result == hung.result == killed.result
        await hand("branches", conversation, environ=environ)


async def test_changed_code_is_used_by_the_next_command(conversation: str, tmp_path: Path) -> None:
    code = tmp_path / "code/mnemosyne"
    shutil.copytree(Path(mnemosyne.__file__).parent, code)
    kept = {name: value for name, value in os.environ.items() if name.startswith("MNEMOSYNE_")}
    environ = environ_for(
        tmp_path, **{**kept, "PYTHONPATH": str(code.parent), "MNEMOSYNE_UPSTREAM": "http://127.0.0.1:9"}
    )
    with serving(environ=environ):
        first = await hand("branches", conversation, environ=environ)
        os.utime(code / "cli/sessions.py")
        changed = await do("branches", conversation, environ=environ)
        await hand("branches", conversation, environ=environ)
    assert not changed.is_handed
    assert first.result == changed.result
    assert first.result[0] == 0
    assert [name for name in os.listdir(environ["MNEMOSYNE_DATA_DIR"]) if ".socket" in name] == []
