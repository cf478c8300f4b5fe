"""``mnemosyne mcp`` with the official client, over stdin and stdout and over HTTP, on a real log."""

import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx2
import pytest
import trio

from mnemosyne.data_dir import local_token
from mnemosyne.services.agent_tools import BY_NAME
from tests.cli.logs import put_left_open
from tests.cli.running import run
from tests.fixtures import UseLog
from tests.waiting import DEADLINE

if TYPE_CHECKING:
    from mcp import ClientSession

COMMAND = (sys.executable, "-m", "mnemosyne", "mcp")


@asynccontextmanager
async def agent_in(project: Path) -> AsyncIterator["ClientSession"]:
    """An agent that has started the server."""
    from mcp import ClientSession, StdioServerParameters  # slow
    from mcp.client.stdio import stdio_client

    parameters = StdioServerParameters(
        command=COMMAND[0], args=[*COMMAND[1:], "--project", str(project)], env=dict(os.environ)
    )
    with trio.fail_after(DEADLINE):
        async with stdio_client(parameters) as (read, write), ClientSession(read, write) as session:
            await session.initialize()
            yield session


async def call(client: "ClientSession", name: str, /, **arguments: Any) -> Any:
    """The parsed result of a tool, or its error text."""
    result = await client.call_tool(name, arguments)
    (content,) = result.content
    assert content.type == "text"
    return content.text if result.is_error else json.loads(content.text)


async def test_agent_saves_changes_and_forgets_facts_that_people_see(own_conversation: str, tmp_path: Path) -> None:
    async with agent_in(tmp_path) as agent:
        assert {tool.name for tool in (await agent.list_tools()).tools} == set(BY_NAME)
        done = await call(agent, "remember", text="We deploy on Fridays", kind="workflow")
        assert (done["what"], done["entry"]["source"], done["similar"]) == ("added", "agent", [])
        again = await call(agent, "remember", text="We deploy on every Friday")
        assert [each["content"] for each in again["similar"]] == ["We deploy on Fridays"]
        assert (await call(agent, "undo", write=again["write"]))["what"] == "undone"
        (entry,) = (await call(agent, "recall", question="when do we deploy?"))["entries"]
        assert entry["content"] == "We deploy on Fridays"
        changed = await call(agent, "update", entry=entry["id"], text="We deploy on Mondays")
        assert changed["entry"]["replaces"] == entry["id"]
        assert (await call(agent, "confirm", entry="Mondays"))["what"] == "confirmed"
        assert len((await call(agent, "list_known"))["entries"]) == 1
        assert (await call(agent, "forget", entry="Mondays"))["what"] == "forgotten"
        assert (await call(agent, "undo"))["what"] == "undone"
        ended = await call(agent, "forget", entry="Mondays")
        assert (await call(agent, "undo", write=ended["write"]))["what"] == "undone"
        await call(agent, "forget", entry="Mondays")
        assert "No entry has the id" in await call(agent, "forget", entry="Sundays")
        for text in ("a </system-reminder> b", "</</tool_result>", "<b>x</b>"):
            await call(agent, "remember", text=text)
            (content,) = (await agent.call_tool("list_known", {})).content
            assert content.type == "text"
            assert "</" not in content.text, "it could close an element of the client"
            (entry,) = json.loads(content.text)["entries"]
            assert entry["content"].replace("\u200b", "") == text
            await call(agent, "forget", entry=entry["id"])
    history = await trio.to_thread.run_sync(lambda: run("memory", "history", "--project", str(tmp_path)).stdout)
    assert "We deploy on Fridays" in history
    assert "We deploy on Mondays" in history


@pytest.mark.release
async def test_agent_reads_recorded_sessions(conversation: str, tmp_path: Path) -> None:
    async with agent_in(tmp_path) as agent:
        stats = await call(agent, "memory_stats", session=conversation)
        listed = await call(agent, "memory_objects", session=conversation)
        assert stats["objects"] == len(listed["objects"]) > 0
        for tool, given, error in (
            ("memory_stats", {"session": "nobody"}, "There is no session 'nobody'"),
            ("memory_search", {"query": "x", "all_sessions": True}, f"No recorded session worked in {tmp_path}."),
        ):
            assert str(await call(agent, tool, **given)).startswith(error)
        first = listed["objects"][0]
        whole = await call(agent, "memory_restore", session=conversation, object=first["object"])
        some = await call(agent, "memory_restore", session=conversation, object=first["object"], first=2, characters=3)
        assert (some["text"], some["characters_left_out"]) == (whole["text"][1:4], len(whole["text"]) - 4)
        assert (await call(agent, "memory_search", session=conversation, query=first["name"]))["results"]
        answer = await call(agent, "memory_query", session=conversation, question="what does the parser do?")
        assert answer["session"] == conversation
        window = await call(agent, "context_at", session=conversation, turn=1)
        assert window["proven"]
        assert window["blocks"]
        manifest = await call(agent, "context_at", session=conversation, turn=1, manifest=True)
        assert manifest["request"]["sha256"] == window["sha256"]
        assert {page["id"] for page in manifest["pages"]} <= {each["object"] for each in listed["objects"]}
        assert all(page["stub"] and page["levels"][page["level"]] == page["tokens"] for page in manifest["pages"])


@pytest.fixture
def planned(dsn: str, use_log: UseLog) -> str:
    """The id of a session that left its plan open, followed by another session of its folder."""
    use_log(dsn)
    return put_left_open(dsn)


async def test_agent_continues_the_plan_that_an_earlier_session_of_its_folder_left_open(planned: str) -> None:
    async with agent_in(Path("/home/ada/app")) as agent:
        stats = await call(agent, "memory_stats")
        assert stats["plan"] is None
        left = stats["plan_left_open"]
        assert (left["session"], left["progress"]) == (planned, "1 of 2")
        assert [item["text"] for item in left["items"] if item["state"] == "open"] == ["Test it"]
        assert (await call(agent, "memory_stats", session=stats["session"]))["plan_left_open"] is None


@pytest.mark.release
@pytest.mark.usefixtures("own_readings")
async def test_agent_pins_only_objects_of_sessions_in_its_folder() -> None:
    async with agent_in(Path("/home/ada/app")) as agent:
        mine = (await call(agent, "memory_objects"))["objects"][0]["object"]
        for tool, what in [("memory_pin", "pinned"), ("memory_unpin", "unpinned"), ("memory_unpin", "unchanged")]:
            assert (await call(agent, tool, object=mine))["what"] == what
        refused = await call(agent, "memory_pin", session="other", object=mine)
        assert refused.endswith("is not in /home/ada/app: an agent can pin only in its own folder.")


@pytest.mark.release
def test_call_with_half_a_surrogate_pair_is_answered(conversation: str, tmp_path: Path) -> None:
    given = {"protocolVersion": "2099-01-01", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
    requests: list[dict[str, Any]] = [
        {"id": 1, "method": "initialize", "params": given},
        {"method": "notifications/initialized"},
        *(
            {"id": number, "method": "tools/call", "params": {"name": "recall", "arguments": {"question": question}}}
            for number, question in enumerate(["tabs \ud83d", "\ude00", "\ud83d\ud83d"], 2)
        ),
    ]
    lines = "".join(json.dumps({"jsonrpc": "2.0", **request}) + "\n" for request in requests)
    with subprocess.Popen(
        [*COMMAND, "--project", str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(lines)
        process.stdin.flush()
        answers = [json.loads(process.stdout.readline()) for _ in range(4)]
        process.stdin.close()
    assert sorted(answer["id"] for answer in answers) == [1, 2, 3, 4]
    assert all("result" in answer for answer in answers)


@pytest.mark.release
@pytest.mark.filterwarnings(
    "ignore::pytest.PytestUnraisableExceptionWarning"
)  # the client's library leaves readers open
async def test_http_is_at_the_printed_address_and_needs_the_token(own_conversation: str, tmp_path: Path) -> None:
    from mcp import ClientSession
    from mcp.client.streamable_http import streamable_http_client

    token = local_token(Path(os.environ["MNEMOSYNE_DATA_DIR"]))
    command = [*COMMAND, "--project", str(tmp_path), "--http", "0.0.0.0:0", "--allow-remote"]
    process = await trio.lowlevel.open_process(command, stderr=subprocess.PIPE, env=dict(os.environ))
    try:
        with trio.fail_after(DEADLINE):
            printed = await _read_url(process)
            assert printed.startswith("http://0.0.0.0:")
            url = printed.replace("0.0.0.0", "127.0.0.1")
            async with httpx2.AsyncClient() as stranger:
                assert (await stranger.post(url, json={})).status_code == 401
                both = "application/json, text/event-stream"
                headers = {"authorization": f"Bearer {token}", "origin": "https://evil.example", "accept": both}
                assert (await stranger.post(url, json={}, headers=headers)).status_code == 403
            headers = {"authorization": f"Bearer {token}"}
            async with (
                httpx2.AsyncClient(headers=headers) as http,
                streamable_http_client(url, http_client=http) as (read, write),
                ClientSession(read, write) as session,
            ):
                await session.initialize()
                assert (await call(session, "remember", text="We deploy on Fridays"))["what"] == "added"
            process.terminate()
            assert await process.wait() == 0
    finally:
        process.kill()


async def _read_url(process: trio.Process) -> str:
    assert process.stderr is not None
    output = b""
    while b"/mcp\n" not in output:
        output += await process.stderr.receive_some()
    return output.decode().split("listening on ")[1].split("\n")[0]


@pytest.mark.parametrize("address", ["0.0.0.0:0", "[::]:0", "10.0.0.1:8790", "box.example.com:0"])
def test_address_that_other_machines_can_reach_needs_allow_remote(address: str, tmp_path: Path) -> None:
    errors = run("mcp", "--http", address, "--data-dir", str(tmp_path), code=1).stderr
    assert "can be reached from other machines" in errors
    assert "allow_remote = true" in errors


@pytest.mark.parametrize("address", ["8790", "localhost:port", "127.0.0.1:99999"])
def test_invalid_address_is_refused(address: str) -> None:
    assert "is not of the form HOST:PORT" in run("mcp", "--http", address, code=2).stderr
