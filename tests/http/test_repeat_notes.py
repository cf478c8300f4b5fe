"""A model that repeats one call gets a one-line note where the setting asks for it, and never otherwise."""

import json

import pytest

from tests.http.managing import Client, Json, look, model_says, open_talk, text
from tests.replay.test_managed import reviewed

LINE = "[Not the user's words: Look was called 3 times with the same answer.]"
ASKS: Json = {"replies": [*[model_says(look(at="it"))] * 4, model_says(text("There."))]}


async def works(client: Client, answers: list[str]) -> None:
    """An exchange in which the calls get these results."""
    message = await client.turn(text("Go."))
    for answer in answers:
        (call,) = [block["id"] for block in message["content"] if block["type"] == "tool_use"]
        message = await client.turn({"type": "tool_result", "tool_use_id": call, "content": answer})
    assert message["stop_reason"] == "end_turn"


@pytest.mark.parametrize(
    ("wanted", "answers", "result"),
    [
        (True, ["no", "no", "no", "no"], [False, False, False, True, True]),
        (True, ["no", "yes", "no", "yes"], [False] * 5),
        (False, ["no", "no", "no", "no"], [False] * 5),
    ],
)
async def test_third_identical_result_gets_a_note_and_keeps_it(
    wanted: bool, answers: list[str], result: list[bool]
) -> None:
    """The client never sees it; the sent request is recorded byte for byte, and a replay decides the same."""
    async with open_talk(ASKS, tell_repeats=wanted) as (stage, client):
        await works(client, answers)
        sent = [json.dumps(each["messages"]) for each in stage.upstream]
        assert [LINE in each for each in sent] == result
        assert [each.count(LINE) for each in sent] == [int(each) for each in result]
        if any(result):
            assert stage.upstream[3]["messages"][-1]["content"][-1]["text"] == LINE
        assert LINE not in json.dumps(client.history)
        assert len(await stage.rounds()) == len(result)
    assert (await reviewed(stage.log)).differences == []
