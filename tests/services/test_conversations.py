"""An export is read as the conversations that its client held, whatever went upstream for them."""

import json
from pathlib import Path

import trio

from mnemosyne.services.conversations import conversations
from mnemosyne.services.exporting import export
from tests.actors.support import CODEC
from tests.http.managing import Client, look, open_stage, recall, said, text, think
from tests.services.talking import Plain, rich_session, talking


async def test_each_conversation_has_its_messages_and_its_turns_and_side_calls_are_none(tmp_path: Path) -> None:
    async with talking() as talk:
        await rich_session(talk)
        lines = [line async for line in export(talk.archive, talk.stream, CODEC)]
    await trio.Path(tmp_path / "s").write_bytes(b"".join(lines))
    found = {each["name"].rpartition(" ")[2]: each for each in conversations(tmp_path / "s", CODEC)}
    assert list(found) == ["main", "fork-1", "agent-1", "successor-1"]
    assert [turn["msg"] for turn in found["main"]["turns"]] == [1, 3, 5, 7, 9]
    assert [turn["msg"] for turn in found["fork-1"]["turns"]] == [1, 3, 5]
    assert len(found["main"]["messages"]) == 9
    assert found["main"]["turns"][1]["ts"] == "1970-01-01T00:00:03+00:00"
    assert found["main"]["turns"][1]["usage"] == {"input": 7, "cache_write": 0, "cache_read": 0}


async def test_what_the_provider_counted_of_a_managed_turn_is_not_the_size_of_what_its_client_sent(
    tmp_path: Path,
) -> None:
    replies = [said(think(), look(at="this")), said(recall()), said(think(), text("It is there."))]
    async with open_stage({"replies": replies}) as stage:
        client = Client(stage.url)
        await client.work("Where is it?")
        (stream,) = await stage.log.streams()
        lines = [line async for line in export(Plain(stage.log), stream, CODEC)]
    await trio.Path(tmp_path / "s").write_bytes(b"".join(lines))
    (found,) = conversations(tmp_path / "s", CODEC)
    assert found["messages"] == json.loads(client.bodies[-1])["messages"]
    assert [turn["usage"] for turn in found["turns"]] == [None, None]
