"""A repeated request gets the reply to the recorded request that it resembles most."""

import json
from collections.abc import Sequence
from typing import Any

import pytest
import trio

from mnemosyne.domain.session.address import Address
from mnemosyne.domain.session.events import CLIENT_LEFT
from mnemosyne.domain.wire.messages import MESSAGES
from mnemosyne.services.recorded_replies import Replay, open_replay
from tests.not_none import not_none
from tests.services.talking import assistant, body, talking, user

AGENTS = 20


async def replies(replay: Replay, *prompts: str) -> list[str]:
    """The replies to first requests of a client of another version."""
    found = [await replay.find(body([user(prompt)], system="Another version."), MESSAGES) for prompt in prompts]
    return [json.loads(each.body or b"")["content"][0]["text"] for each in found if each is not None]


async def test_sub_agents_in_another_order_get_their_own_replies() -> None:
    async with talking() as talk:
        await talk.ask(body([user("Do all.")]), reply="All")
        for number in range(AGENTS):
            agent = ("x-claude-code-agent-id", f"agent-{number}")
            await talk.ask(body([user(f"Do part {number}.")]), agent, reply=f"{number}")
    replay = await open_replay(talk.archive, str(talk.stream), None, lambda done, total: None)
    backwards = [str(number) for number in reversed(range(AGENTS))]
    assert await replies(replay, *(f"Do part {each}." for each in backwards)) == backwards
    assert await replies(replay, "Do all.") == ["All"]


async def test_parallel_sub_agents_with_the_same_task_each_get_their_own_reply() -> None:
    async with talking() as talk:
        for number in range(3):
            agent = ("x-claude-code-agent-id", f"agent-{number}")
            await talk.ask(body([user("Do a part.")]), agent, reply=f"{number}")
    replay, got = await open_replay(talk.archive, str(talk.stream), None, lambda done, total: None), list[str]()

    async def repeat() -> None:
        got.extend(await replies(replay, "Do a part."))

    async with trio.open_nursery() as nursery:
        for _ in range(3):
            nursery.start_soon(repeat)
    assert sorted(got) == ["0", "1", "2"]
    assert replay.unsent == []


async def test_request_that_is_not_recorded_takes_the_reply_of_no_other() -> None:
    async with talking() as talk:
        await talk.ask(body([user("Do all.")]), reply="All")
        await talk.ask(body([user("Do a part.")], tools=[]), ("x-claude-code-agent-id", "a"), reply="Part")
    replay = await open_replay(talk.archive, str(talk.stream), None, lambda done, total: None)
    assert await replies(replay, "What is the title of this?", "Do all.", "Do a part.") == ["All", "All", "Part"]


async def test_first_request_of_a_conversation_is_in_a_gap_although_those_of_others_are_recorded() -> None:
    """Conversations without a call yet are told apart by their prompts."""
    agents = [("x-claude-code-agent-id", f"agent-{number}") for number in (1, 2)]
    async with talking() as talk:
        await talk.ask(body([user("What is the title of this?")], tools=[]), reply="Title")
        await talk.ask(body([user("Do part 1.")]), agents[0], reply="1")
        await talk.ask(body([user("Do part 2."), assistant("2"), user("More.")]), agents[1], reply="More")
    replay = await open_replay(talk.archive, str(talk.stream), None, lambda done, total: None)
    assert await replies(replay, "Do part 2.", "Do part 1.") == ["2", "1"]
    assert (len(replay.matches), replay.unknown) == (2, 0)


async def test_request_that_is_sent_twice_takes_no_reply_of_a_later_one() -> None:
    said = [user("Go"), assistant("1"), user("Go"), assistant("2"), user("Go")]
    async with talking() as talk:
        for number in (1, 2, 3):
            await talk.ask(body(said[: 2 * number - 1]), reply=f"{number}")
    replay = await open_replay(talk.archive, str(talk.stream), None, lambda done, total: None)
    now = [body(said[: 2 * number - 1], system="Another version.") for number in (1, 2, 2, 3)]
    found = [not_none(await replay.find(each, MESSAGES)) for each in now]
    assert [json.loads(each.body or b"")["content"][0]["text"] for each in found] == ["1", "2", "2", "3"]


@pytest.mark.parametrize("prompt", ["What is the title of this?", "Do all."])
async def test_request_with_other_tools_and_another_prompt_gets_no_recorded_reply(prompt: str) -> None:
    async with talking() as talk:
        await talk.ask(body([user("Do all.")]), reply="All")
    replay = await open_replay(talk.archive, str(talk.stream), None, lambda done, total: None)
    found = await replay.find(body([user(prompt)], tools=[]), MESSAGES)
    assert (found is not None, replay.unknown) == ((True, 0) if prompt == "Do all." else (False, 1))
    assert await replies(replay, "Do all.") == ["All"]


async def test_request_in_a_gap_is_answered_from_the_history_of_the_next_recorded_one() -> None:
    said = [user("One"), assistant("1"), user("Two"), assistant("2"), user("Three"), assistant("3"), user("Four")]
    async with talking() as talk:
        await talk.ask(body(said[:1]), reply="1")
        await talk.ask(body(said), reply="4")
    replay = await open_replay(talk.archive, str(talk.stream), None, lambda done, total: None)
    for number in (1, 2, 3, 4):
        found = await replay.find(body(said[: 2 * number - 1], system="Another version."), MESSAGES)
        assert found is not None
        assert json.loads(found.body or b"")["content"] == [{"type": "text", "text": str(number)}]
    assert [(each.attempt.began.turn, each.reply) for each in replay.matches] == [
        (1, None), (2, (3, 4)), (2, (5, 6)), (2, None),
    ]  # fmt: skip
    assert (replay.unsent, replay.unknown) == ([], 0)
    await replay.find(body([*said, assistant("4"), user("Five")]), MESSAGES)
    assert (replay.unknown, replay.unknown_after) == (1, replay.matches[-1])


SYSTEM: dict[str, Any] = {"role": "system", "content": [{"type": "text", "text": "You work in /x."}]}
MARKED = {"type": "text", "text": "Do all.", "cache_control": {"type": "ephemeral"}}


@pytest.mark.parametrize(
    ("model", "prompt", "is_found"), [("m", "Do all.", True), ("m", "No.", False), ("", "", False)]
)
async def test_last_replayed_prompt_may_be_wrapped_differently_for_another_model(
    model: str, prompt: str, is_found: bool
) -> None:
    """As Claude Code 2.1.332 does. Without ``model``, the request has the recorded model and another prompt."""
    async with talking() as talk:
        await talk.ask(body([user("Do all."), SYSTEM]), reply="All")
    replay = await open_replay(talk.archive, str(talk.stream), 1, lambda done, total: None)
    wrapped = [{"role": "user", "content": [{"type": "text", "text": "You work in /x."}, MARKED | {"text": prompt}]}]
    sent = body(wrapped, model=model) if model else body([user("Another."), SYSTEM])
    assert (await replay.find(sent, MESSAGES) is not None) is is_found
    like = replay.unknown_like  # says why it goes to the provider, and stays when a second one does
    await replay.find(body([user("Other.")]), MESSAGES)
    assert (like is None) is is_found
    if like is not None:
        assert like is replay.unknown_like
        assert like.comparison.differs_in("messages")


Messages = Sequence[dict[str, Any]]
BEGIN, STOPPED = user("Begin."), [assistant("Half a"), user("[Interrupted]")]
NEXT: Messages = [{"role": "user", "content": [{"type": "text", "text": "Go on."}]}]
JOINED: Messages = [
    {"role": "user", "content": [{"type": "text", "text": each} for each in ("[Interrupted]", "Go on.")]}
]


@pytest.mark.parametrize(
    ("recorded", "now"), [([*STOPPED, *NEXT], NEXT), (NEXT, [*STOPPED, *NEXT]), ([*STOPPED, *NEXT], JOINED)]
)
async def test_prompt_after_an_interrupted_reply_gets_its_reply(recorded: Messages, now: Messages) -> None:
    """Whether a client keeps such a reply depends on how much it got."""
    async with talking() as talk:
        await talk.interrupt(await talk.ask(body([BEGIN]), reply=None), CLIENT_LEFT)
        await talk.ask(body([BEGIN, *recorded]), reply="Went on")
    replay = await open_replay(talk.archive, str(talk.stream), None, lambda done, total: None)
    await replay.find(body([BEGIN]), MESSAGES)
    found = await replay.find(body([BEGIN, *now]), MESSAGES)
    assert found is not None
    assert b"Went on" in (found.body or b"")
    assert replay.unsent == []


@pytest.mark.parametrize("reason", [CLIENT_LEFT, "the provider's reply broke off"])
async def test_reply_says_whether_its_client_stopped_or_repeated_the_request(reason: str) -> None:
    async with talking() as talk:
        for attempt in (1, 2):
            assert await talk.ask(body([BEGIN]), reply=None) == Address("main", 1, attempt)
            await talk.interrupt(Address("main", 1, attempt), reason)
    replay = await open_replay(talk.archive, str(talk.stream), None, lambda done, total: None)
    found = [await replay.find(body([BEGIN]), MESSAGES) for _ in range(2)]
    stopped = [False, reason == CLIENT_LEFT]
    assert [(each.is_repeated, each.is_stopped) for each in found if each] == list(
        zip([True, False], stopped, strict=True)
    )
