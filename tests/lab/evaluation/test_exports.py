"""An export is read as its client's conversations, whatever was sent upstream for them."""

import json
from pathlib import Path

import pytest
import trio

from mnemosyne.domain.wire.normal_form import content_blocks
from mnemosyne.services.exporting import export
from mnemosyne_lab.evaluation.exports import conversations
from mnemosyne_lab.evaluation.reading import recording
from tests.actors.support import CODEC, StoppableLog
from tests.domain.wire.dialects import PROMPT, WRITTEN, Written
from tests.http.managing import Client, look, model_says, open_stage, recall, text, think
from tests.http.test_dialects import talk
from tests.services.talking import Plain, rich_session, talking


async def test_each_conversation_has_its_messages_and_turns_and_side_calls_are_omitted(tmp_path: Path) -> None:
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


@pytest.mark.parametrize("written", WRITTEN, ids=lambda written: written.dialect.name)
async def test_conversation_in_any_dialect_is_converted_to_messages(written: Written, tmp_path: Path) -> None:
    log = StoppableLog()
    await talk(written, log, streamed=True)
    (stream,) = await log.streams()
    await trio.Path(tmp_path / "s").write_bytes(b"".join([line async for line in export(Plain(log), stream, CODEC)]))
    (found,) = conversations(tmp_path / "s", CODEC)
    said = [message for message in found["messages"] if message["role"] != "system"]
    assert [message["role"] for message in said] == ["user", "assistant"] * 3 + ["user"]
    kinds = [
        [block["type"] for block in content_blocks(message["content"]) if block["type"] != "thinking"]
        for message in said
    ]
    assert kinds[:4] == [["text"], ["text", "tool_use"], ["tool_result"], ["tool_use", "tool_use"]]
    assert kinds[4:] == [["tool_result", "tool_result"], ["text"], ["text"]]
    assert (PROMPT in json.dumps(found["head"]["system"])) or PROMPT in json.dumps(found["messages"][0])
    assert [turn["usage"] for turn in found["turns"]] == [{"input": 12, "cache_write": 0, "cache_read": 100}] * 4
    ends = [found["messages"][turn["msg"] - 1]["role"] for turn in found["turns"]]
    assert ends == ["user"] * 4
    assert recording("here", found).requests[-1].messages == len(found["messages"])


async def test_a_managed_turn_has_no_usage_because_its_client_sent_another_request(
    tmp_path: Path,
) -> None:
    replies = [model_says(think(), look(at="this")), model_says(recall()), model_says(think(), text("It is there."))]
    async with open_stage({"replies": replies}) as stage:
        client = Client(stage.url)
        await client.work("Where is it?")
        (stream,) = await stage.log.streams()
        lines = [line async for line in export(Plain(stage.log), stream, CODEC)]
    await trio.Path(tmp_path / "s").write_bytes(b"".join(lines))
    (found,) = conversations(tmp_path / "s", CODEC)
    assert found["messages"] == json.loads(client.bodies[-1])["messages"]
    assert [turn["usage"] for turn in found["turns"]] == [None, None]
