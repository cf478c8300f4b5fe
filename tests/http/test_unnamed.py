"""Conversations that their client does not name: equal first words do not join two into one session."""

import json

import pytest

from mnemosyne.domain.session.directory import operator_stream
from mnemosyne.domain.session.events import SessionStarted, TurnBegan
from mnemosyne_lab.provider.server import open_standin
from tests.actors.support import StoppableLog, events_of
from tests.http.managing import Client, Json, Stage, open_stage, recall, script, text
from tests.http.test_epochs import TOOLS, answer

HELLO = "hi"
QUESTION = "what is the code of the vault"
FAILING = script({"reply": {"failure": {"status": 400}}})


def unnamed(stage: Stage, key: str = "k", *, history: list[Json] | None = None) -> Client:
    return stage.client(tools=TOOLS, session="", headers={"x-api-key": key}, history=history or [])


async def send_text(stage: Stage, client: Client, words: str, reply: str) -> Json:
    answer(stage, [text(reply)])
    return await client.turn(text(words))


async def list_begun(stage: Stage) -> list[list[str]]:
    """The turns begun in each session: branch, turn and attempt, in order; sessions in their order."""
    sessions = []
    for stream in await stage.log.streams():
        if stream != operator_stream("t"):
            events = await events_of(stage.log, stream)
            assert isinstance(events[0], SessionStarted)
            begun = [f"{each.branch} {each.turn}.{each.attempt}" for each in events if isinstance(each, TurnBegan)]
            sessions.append((events[0].at, begun))
    return [begun for _, begun in sorted(sessions)]


@pytest.mark.parametrize(
    ("keys", "replies"),
    [
        (("k", "k"), ("Hello, A.", "Hello, B.")),
        (("k", "k"), ("Hello.", "Hello.")),
        (("k", "other"), ("Hello.", "Hello.")),
    ],
    ids=["replies differ", "replies equal", "keys differ"],
)
async def test_conversations_with_the_same_first_words_are_separate_sessions(
    keys: tuple[str, str], replies: tuple[str, str]
) -> None:
    async with open_stage() as stage:
        one, two = (unnamed(stage, key) for key in keys)
        await send_text(stage, one, HELLO, replies[0])
        await send_text(stage, two, HELLO, replies[1])
        for number in range(2):
            await send_text(stage, one, f"A says {number}", f"To A {number}.")
            await send_text(stage, two, f"B says {number}", f"To B {number}.")
        assert await list_begun(stage) == [["main 1.1", "main 2.1", "main 3.1"]] * 2


async def test_conversation_with_the_same_first_words_reads_nothing_from_the_other() -> None:
    async with open_stage() as stage:
        one, two = unnamed(stage), unnamed(stage)
        await send_text(stage, one, HELLO, "Hello, A.")
        await send_text(stage, two, HELLO, "Hello, B.")
        await send_text(stage, one, "The code of the vault is heliotrope. We decided to keep it.", "Noted: heliotrope.")
        answer(stage, [recall(QUESTION)], [text("Done.")])
        await two.turn(text("Well?"))
        assert "tool_result" in json.dumps(stage.upstream[-1]["messages"][-1])
        assert "heliotrope" not in json.dumps(stage.upstream[-1]["messages"])


async def test_unanswered_first_request_is_retried_in_its_session_by_the_same_client() -> None:
    async with open_stage() as stage:
        stage.standin.script = FAILING
        client = unnamed(stage)
        await client.turn(text(HELLO))
        assert client.replies[-1].status == 400
        client.history.clear()
        await send_text(stage, client, HELLO, "Hello.")
        await send_text(stage, client, "more", "Yes.")
        assert await list_begun(stage) == [["main 1.1", "main 1.2", "main 2.1"]]
        await send_text(stage, unnamed(stage), HELLO, "Hello.")
        assert len(await list_begun(stage)) == 2, "what was answered is not tried again"


async def test_another_client_cannot_retry_a_request() -> None:
    async with open_stage() as stage:
        stage.standin.script = FAILING
        await unnamed(stage).turn(text(HELLO))
        await send_text(stage, unnamed(stage, "other"), HELLO, "Hello.")
        assert await list_begun(stage) == [["main 1.1"], ["main 1.1"]]


async def test_restarted_server_finds_the_session_whose_history_continues() -> None:
    async with open_standin({"rules": []}) as standin:
        log = StoppableLog()
        async with open_stage(log=log, standin=standin) as stage:
            clients = [unnamed(stage) for _ in range(3)]
            for number, client in enumerate(clients):
                await send_text(stage, client, HELLO, f"Hello, {number}.")
        async with open_stage(log=log, standin=standin) as stage:
            for number, client in enumerate(clients):
                stage.join(client)
                await send_text(stage, client, f"more {number}", "Yes.")
            assert await list_begun(stage) == [["main 1.1", "main 2.1"]] * 3
