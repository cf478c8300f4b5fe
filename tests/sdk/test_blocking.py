"""The session for threads without trio, and the example agent that uses it."""

import asyncio  # noqa: TID251 (a user's program may use it)
import gc
import json
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
import trio

from mnemosyne import SyncSession
from mnemosyne.errors import BadConfiguration, BadTurn
from mnemosyne_lab.provider.server import open_standin
from tests.http.managing import model_says, text
from tests.sdk.talking import MODEL, verify
from tests.waiting import DEADLINE

ROOT = Path(__file__).parents[2]
REPLY: dict[str, Any] = {
    "type": "message",
    "role": "assistant",
    "model": MODEL,
    "id": "msg_1",
    "stop_reason": "end_turn",
}
WELCOME = {"reply": {"text": "Welcome."}}
REPLY |= {"content": [{"type": "text", "text": "Hello."}], "usage": {"input_tokens": 9, "output_tokens": 2}}


def test_a_thread_without_trio_talks_forks_and_closes(
    dsn: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with SyncSession("plain", dsn=dsn, data_dir=tmp_path) as session:
        session.user_says("hello")
        assert session.context_for(MODEL, 100_000).request["messages"][-1]["content"][0]["text"] == "hello"
        assert session.assistant_says(REPLY) is None
        other = session.fork()
        other.user_says("and again")
        assert len(other.context_for(MODEL, 100_000).request["messages"]) == 3
        other.close()
        assert session.query("what is said?") is not None
    session.close()
    assert caplog.messages == [], "the fork's pending turn was abandoned, and closing did not wait for it"
    with pytest.raises(BadTurn, match="'plain' is closed"):
        session.context_for(MODEL, 100_000)
    assert trio.run(verify, dsn, tmp_path, "plain").verdict == "ok"


def test_an_unusable_database_is_reported_at_once(tmp_path: Path) -> None:
    with pytest.raises(BadConfiguration, match="dsn"):
        SyncSession(dsn="no dsn at all", data_dir=tmp_path)


def test_an_unclosed_session_warns_and_is_closed(dsn: str, tmp_path: Path) -> None:
    held = [SyncSession("left", dsn=dsn, data_dir=tmp_path)]
    (thread,) = (each for each in threading.enumerate() if each.name == "mnemosyne left")
    with pytest.warns(ResourceWarning, match="left: a session was not closed"):
        held.clear()
    assert not thread.is_alive()
    gc.collect()


def test_an_asyncio_program_can_call_it_in_threads(dsn: str, tmp_path: Path) -> None:
    async def talk() -> list[str]:
        session = await asyncio.to_thread(SyncSession, "aio", dsn=dsn, data_dir=tmp_path)
        ticks = asyncio.create_task(asyncio.sleep(0, "the loop went on"))
        session.user_says("hello")
        context = await asyncio.to_thread(session.context_for, MODEL, 100_000)
        assert await asyncio.to_thread(session.assistant_says, REPLY) is None
        await asyncio.to_thread(session.close)
        return [await ticks, context.request["messages"][0]["content"][0]["text"]]

    assert asyncio.run(talk()) == ["the loop went on", "hello"]
    assert trio.run(verify, dsn, tmp_path, "aio").verdict == "ok"


LEFT_OPEN = """
import json, sys, mnemosyne
dsn, folder, model, reply = sys.argv[1:]
session = mnemosyne.SyncSession("left", dsn=dsn, data_dir=folder)
session.user_says("hello")
session.context_for(model, 100_000)
session.assistant_says(json.loads(reply))
session.user_says("and then?")
session.context_for(model, 100_000)
"""


@pytest.mark.release
def test_a_program_that_exits_without_closing_has_everything_recorded(dsn: str, tmp_path: Path) -> None:
    command = [sys.executable, "-W", "always", "-c", LEFT_OPEN, dsn, str(tmp_path), MODEL, json.dumps(REPLY)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=DEADLINE, check=False)
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    assert "left: a session was not closed" in done.stderr
    assert "Traceback" not in done.stderr
    verified = trio.run(verify, dsn, tmp_path, "left")
    assert (verified.verdict, verified.turns) == ("ok", 2)


@pytest.mark.release
async def test_the_example_agent_runs_as_written(dsn: str, tmp_path: Path) -> None:
    (tmp_path / "ports.txt").write_text("The billing service listens on port 7443.\n")
    read = {"type": "tool_use", "name": "read_file", "input": {"path": "ports.txt"}}
    missing = {"type": "tool_use", "name": "read_file", "input": {"path": "/etc/passwd"}}
    asked = {"type": "tool_use", "name": "memory_query", "input": {"question": "which port?"}}
    replies = [model_says(read, missing), model_says(asked), model_says(text("It is 7443."))]
    async with open_standin({"rules": [{"when": {"prompt": "port"}, "replies": replies}, WELCOME]}) as standin:
        environ = {**os.environ, "ANTHROPIC_BASE_URL": standin.url, "ANTHROPIC_API_KEY": "k"}
        environ |= {"MNEMOSYNE_DSN": dsn, "MNEMOSYNE_DATA_DIR": str(tmp_path / "data"), "PYTHONPATH": str(ROOT)}
        with trio.fail_after(DEADLINE):
            done = await trio.run_process(
                [
                    sys.executable,
                    "-W",
                    "error::ResourceWarning",
                    str(ROOT / "examples/agent.py"),
                    "which port has billing?",
                    "thanks",
                ],
                capture_stdout=True,
                capture_stderr=True,
                env=environ,
                cwd=tmp_path,
                check=False,
            )
        assert (done.returncode, done.stdout) == (0, b"It is 7443.\nWelcome.\n"), done.stderr.decode()
        assert b"listens on port 7443" in done.stderr
        assert standin.violations == []
        results = standin.messages[1].json()["messages"][-1]["content"]
        assert [each.get("is_error", False) for each in results] == [False, True]


def test_importing_mnemosyne_does_not_import_the_sdk() -> None:
    program = "import sys, mnemosyne; sys.exit('mnemosyne.sdk' in sys.modules)"
    subprocess.run([sys.executable, "-c", program], check=True, timeout=DEADLINE)
    with pytest.raises(AttributeError, match="no attribute 'Sessions'"):
        __import__("mnemosyne").Sessions  # noqa: B018
