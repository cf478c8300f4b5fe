"""Tools of an agent's host: they declare what they read and changed, and write objects that the model can find."""

from base64 import b64encode
from pathlib import Path

import pytest

from mnemosyne.app.storage import open_storage
from mnemosyne.config import load
from mnemosyne.domain.objects.aggregate import MemoryObject
from mnemosyne.domain.objects.events import Link, LinkRelation, Supersession
from mnemosyne.errors import NotFound
from mnemosyne.replay import deciding
from mnemosyne.services import memories, sessions
from tests.domain.helper.test_caption import PNG
from tests.http.managing import look, model_says, recall, text
from tests.sdk.talking import open_agent, verify
from tests.sdk.test_session import SEEN, opened


async def read_objects(dsn: str, folder: Path) -> list[MemoryObject]:
    """The objects of the session `agent`, folded from its events, whose decisions a replay takes again."""
    async with open_storage(load({"dsn": dsn, "data_dir": str(folder)}, {})) as storage:
        assert (await deciding.review(storage, "agent")).differences == []
        stream = await sessions.find(storage, "agent")
        return [*memories.fold(await storage.events.read(stream)).memory.objects.values()]


async def test_a_declared_change_makes_what_was_read_of_the_source_stale(dsn: str, tmp_path: Path) -> None:
    calls = [model_says(look(at="users")), model_says(look(at="add")), model_says(text("Done."))]
    async with open_agent({"rules": [{"replies": calls}]}) as agent:
        async with opened(dsn, tmp_path) as session:

            async def wait() -> str:
                return ""

            with pytest.raises(TypeError, match="wait is async"):
                session.tool()(wait)  # type: ignore[arg-type]
            session.user_says("add a user")
            await agent.ask(session)
            session.tool_result(session.open_calls[0], "ada\n" * 600, reads=["db/users"])
            await agent.ask(session)
            session.tool_result(session.open_calls[0], "added\n" * 600, writes=["db/users"])
            await agent.ask(session)
            session.user_says("thanks")
            await agent.ask(session)
        read, changed = [each for each in await read_objects(dsn, tmp_path) if each.source_tool == "Look"]
        assert (read.superseded, read.superseded_by) == (Supersession.EDITED, changed.id)
        assert Link(LinkRelation.DEPENDS_ON, read.id) in changed.links
        assert (await verify(dsn, tmp_path, "agent")).verdict == "ok"


async def test_a_decorated_tool_adds_its_result_with_the_sources_that_its_arguments_name(
    dsn: str, tmp_path: Path
) -> None:
    calls = [model_says(look(at="users")), model_says(look(at="add")), model_says(text("Done."))]
    async with open_agent({"rules": [{"replies": calls}]}) as agent:
        async with opened(dsn, tmp_path) as session:

            @session.tool(reads=["db/{table}"])
            def read_table(table: str = "users") -> str:
                return f"{table}\n" * 600

            @session.tool(writes=["db/{table}"])
            def add_row(table: str) -> str:
                return f"added to {table}\n" * 600

            session.user_says("add a user")
            await agent.ask(session)
            read_table(session.open_calls[0])
            await agent.ask(session)
            add_row(session.open_calls[0], table="users")
            await agent.ask(session)
            session.user_says("thanks")
            await agent.ask(session)
        read, changed = [each for each in await read_objects(dsn, tmp_path) if each.source_tool == "Look"]
        assert (read.superseded, read.superseded_by) == (Supersession.EDITED, changed.id)


async def test_what_a_tool_writes_is_found_restored_and_replaced_by_name(dsn: str, tmp_path: Path) -> None:
    asked = {"replies": [model_says(recall("which tests are flaky?")), model_says(text("Two."))]}
    async with open_agent({"rules": [{"times": 2, **SEEN}, asked]}) as agent:
        async with opened(dsn, tmp_path) as session:
            session.user_says("look")
            await agent.ask(session)
            session.tool_result(session.open_calls[0], "a report\n" * 400, reads=["reports/ci"])
            await agent.ask(session)
            session.user_says("which tests are flaky?")
            old = await session.create_object("flaky tests", "The flaky test is test_clock.")
            new = await session.create_object("flaky tests", "The flaky tests are test_clock and test_pipe.", tool="ci")
            note = await session.annotate(new, "Measured on Monday.")
            await session.link(new, "caused_by", note)
            with pytest.raises(NotFound):
                await session.link(new, "caused_by", "nothing")
            sent = await agent.ask(session)
            assert [b"test_pipe" in each.body for each in sent] == [False, True], "the model's question finds it"
            quoted = {each.object_id: each.text for each in await session.query("which tests are flaky?")}
            assert quoted[new].startswith("The flaky tests are")
            assert (await session.restore(new)).text == "The flaky tests are test_clock and test_pipe."
        objects = {each.id: each for each in await read_objects(dsn, tmp_path)}
        assert objects[old].superseded_by == new
        assert {link.target for link in objects[new].links} == {old, note}
        assert (await verify(dsn, tmp_path, "agent")).verdict == "ok"


async def test_an_attached_image_is_kept_in_full_in_an_object_of_its_own(dsn: str, tmp_path: Path) -> None:
    data = b64encode(PNG).decode()
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": data}}
    async with open_agent({"rules": [SEEN]}) as agent, opened(dsn, tmp_path) as session:
        session.user_says("look at it")
        await agent.ask(session)
        session.tool_result(session.open_calls[0], [image])
        await agent.ask(session)
        session.user_says("thanks")
        await agent.ask(session)
    (seen,) = [each for each in await read_objects(dsn, tmp_path) if each.source_tool == "Look"]
    assert seen.is_pictured
    async with open_storage(load({"dsn": dsn, "data_dir": str(tmp_path)}, {})) as storage:
        stream = await sessions.find(storage, "agent")
        assert data.encode() in await memories.content_of(storage, stream, seen)
