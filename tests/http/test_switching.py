r"""Conversations that are managed only for a while, and unusual clients and tools.

The strict provider signs thinking against the history that it received, from the proxy or the client, so each test
here also checks that thinking is never sent in another history than its own.
"""

import json
from collections.abc import Sequence
from uuid import UUID

import pytest
import trio

from mnemosyne.actors.messages import UpstreamPlan
from mnemosyne.actors.turn import Turn
from mnemosyne.domain.ports import Recorded
from mnemosyne.domain.session.events import Event, TurnBegan, TurnFinished, TurnInterrupted
from mnemosyne.domain.session.ledger_events import TurnAccounted
from mnemosyne.domain.session.round_events import Mode
from mnemosyne_lab.provider.server import open_standin
from tests.actors.support import STREAM, StoppableLog
from tests.http.managing import (
    LOOK,
    Client,
    Json,
    Stage,
    assert_prefixes,
    bare_stage,
    look,
    model_says,
    open_stage,
    open_talk,
    recall,
    results,
    script,
    text,
    think,
)
from tests.http.test_managed import LOOP
from tests.profiles import rarely
from tests.waiting import until

MODE = "x-mnemosyne-mode"
OWN_LOOP = {"replies": [model_says(think("I look."), look(at="it")), model_says(think("Well."), text("It is there."))]}
"""What the model does without memory tools."""


async def exchanges(stage: Stage, client: Client, mode: str | None, count: int = 2) -> None:
    """This many exchanges in a mode that the client asks for, or without one."""
    client.headers = {MODE: mode} if mode else {}
    for number in range(count):
        managed = mode in (None, "manage") and "memory_query" in json.dumps((stage.upstream or [{}])[-1].get("tools"))
        stage.standin.script = script(LOOP if managed or not stage.upstream else OWN_LOOP)
        message = await client.work(f"Where is it in mode {mode}, {number}?")
        assert message["content"][-1] == text("It is there.")


@pytest.mark.parametrize(("asked", "server"), [("off", Mode.MANAGE), *rarely([("observe", Mode.OBSERVE)])])
async def test_client_that_stops_and_restarts_managing_is_observed_and_served(asked: str, server: Mode) -> None:
    async with open_talk(mode=server, breaks=["R10"]) as (stage, client):
        for mode in ("manage", asked, "manage", asked, "manage"):
            await exchanges(stage, client, mode)
        assert [each.mode for each in await stage.modes()] == [Mode.MANAGE, Mode.BYPASS]
        managed = [body for body in stage.upstream if len(body["tools"]) > 1]
        assert_prefixes(managed)
        bypassed = stage.upstream[len(managed) :]
        assert all(body["tools"] == [LOOK] for body in bypassed)
        assert_prefixes(bypassed)
        assert json.dumps(bypassed[-1]["messages"]).count('"thinking"') > 10  # the part after the switch stays


async def no_answer(turn: Turn) -> None:
    """The session's actor gives no answer in time."""


async def test_managed_conversation_stays_managed_through_servers_that_only_observe() -> None:
    async with open_standin() as standin:
        log = StoppableLog()
        client = Client()
        standin.script = script(LOOP)
        for mode in (Mode.MANAGE, Mode.OBSERVE, Mode.OBSERVE, Mode.MANAGE):
            async with open_stage(standin=standin, log=log, mode=mode) as stage:
                stage.join(client)
                assert (await client.work(f"{mode}?"))["content"][-1] == text("It is there.")
        assert [each.status for each in standin.messages if each.status != 200] == []
        assert [each.mode for each in await stage.modes()] == [Mode.MANAGE]
        assert_prefixes(stage.upstream)


async def test_late_switch_off_takes_effect_with_the_next_request(monkeypatch: pytest.MonkeyPatch) -> None:
    async with open_talk(breaks=["R10"]) as (stage, client):
        await exchanges(stage, client, "manage", 1)
        client.headers = {MODE: "off"}
        stage.standin.script = script(OWN_LOOP)
        with monkeypatch.context() as hurried:
            hurried.setattr(Turn, "_ask", no_answer)
            await client.turn(text("And now?"))
        assert [each.mode for each in await stage.modes()] == [Mode.MANAGE]
        for _ in range(2):
            assert "error" not in await client.turn(*(results(client.history[-1]) or [text("And then?")]))
        assert [each.mode for each in await stage.modes()] == [Mode.MANAGE, Mode.BYPASS]


@pytest.mark.parametrize("then", [None, UpstreamPlan()], ids=["no answer", "as it came"])
async def test_turn_sent_by_fallback_after_an_outdated_proposal_is_recorded(
    monkeypatch: pytest.MonkeyPatch, then: UpstreamPlan | None
) -> None:
    asked = Turn._ask
    answers: list[UpstreamPlan | None] = []

    async def asked_once(turn: Turn) -> UpstreamPlan | None:
        answers.append(then if answers else await asked(turn))
        return answers[-1]

    async with bare_stage({"reply": {"content": [text("Yes.")]}}) as stage:
        client = stage.client()
        await client.turn(text("One."))
        await stage.events_until(TurnAccounted)
        with monkeypatch.context() as patched:
            patched.setattr(Turn, "_ask", asked_once)
            await stage.switch(on=True, stream=await stage.stream())  # another process writes
            await client.turn(text("Two."))
        assert len(answers) == 2
        await client.turn(text("Three."))
        events = await stage.events_until(TurnFinished, 3)
        assert [event.turn for event in events] == [1, 2, 3]
        began = await stage.events_of(TurnBegan)
        assert [event.turn for event in began] == [1, 2, 3]


REFUSALS = {
    "by name": "tools.1.custom: `memory_query` is not allowed for this account.",
    "by number": "tools.4.custom.input_schema: JSON schema is invalid.",
}


@pytest.mark.parametrize(("message", "stream"), [*zip(REFUSALS.values(), (True, False), strict=True)], ids=REFUSALS)
async def test_branch_continues_without_memory_tools_if_the_provider_refuses_them(message: str, stream: bool) -> None:
    refusal = {"when": {"tool": "memory_query"}, "reply": {"failure": {"status": 400, "message": message}}}
    async with open_talk(refusal, OWN_LOOP, breaks=["R10"], stream=stream) as (stage, client):
        for prompt in ("Where is it?", "And the other?"):
            assert (await client.work(prompt))["content"][-1] == text("It is there.")
        assert [each.status for each in stage.standin.messages] == [400, *[200] * 4]
        assert all(body["tools"] == [LOOK] for body in stage.upstream[1:])
        assert_prefixes(stage.upstream[1:])
        assert [(each.mode, each.why) for each in await stage.modes()] == [
            (Mode.MANAGE, "it was asked for"),
            (Mode.BYPASS, "the provider refuses the memory tools"),
        ]
        assert [(each.turn, each.round) for each in await stage.rounds()] == [(1, 1), (1, 2), (2, 1), (3, 1), (4, 1)]


@pytest.mark.parametrize("session", [True, False], ids=["this session", "all"])
async def test_switch_off_during_a_hidden_round_takes_effect_with_the_next_request(session: bool) -> None:
    async with open_talk(LOOP, breaks=["R10"]) as (stage, client):
        await client.turn(text("Where is it?"))
        managed = len(stage.upstream)
        slow = model_says(look(at="that"), pace={"first": 0.5})
        stage.standin.script = script({"replies": [model_says(), model_says(), model_says(recall("again?")), slow]})
        async with trio.open_nursery() as nursery:
            message: Json = {}

            async def keep_working() -> None:
                message.update(await client.turn(*results(client.history[-1])))

            nursery.start_soon(keep_working)
            await until(lambda: sum(bool(each.body) for each in stage.standin.messages) == managed + 2)
            await stage.switch(on=False, stream=await stage.stream() if session else None)
        assert [block["name"] for block in message["content"] if block["type"] == "tool_use"] == ["Look"]
        managed = len(stage.upstream)
        assert all("memory_query" in json.dumps(body["tools"]) for body in stage.upstream)
        stage.standin.script = script(OWN_LOOP)
        await client.turn(*results(message))
        await client.work("And now?")
        assert all(body["tools"] == [LOOK] for body in stage.upstream[managed:])


class SlowToRead(StoppableLog):
    """A log in which one session cannot be read until the test allows it."""

    def __init__(self) -> None:
        super().__init__()
        self.asked, self.let = trio.Event(), trio.Event()

    async def read(self, stream: UUID, *, after: int = 0, upto: int | None = None) -> Sequence[Recorded[Event]]:
        if stream == STREAM:
            self.asked.set()
            await self.let.wait()
        return await super().read(stream, after=after, upto=upto)


async def disconnect_before_dispatch(stage: Stage, log: SlowToRead) -> Client:
    """A client that disconnected while its first request waited for a slow log; the record says so."""
    client = stage.client(history=[{"role": "user", "content": [text("Start.")]}])
    async with trio.open_nursery() as user:
        user.start_soon(client.send)
        await log.asked.wait()
        user.cancel_scope.cancel()
    awake = stage.process.registry._awake[STREAM]
    await until(lambda: awake.actor.mailbox.waiting == 2)  # the request that would have been sent, and that none was
    log.let.set()
    await stage.process.journal.committed.beyond(0)
    await stage.events_until(TurnInterrupted)
    return client


@pytest.mark.parametrize("goes_on", [(), ("[Request interrupted by user]", "Start otherwise.")], ids=["again", "else"])
async def test_request_that_was_never_sent_decides_nothing_about_its_conversation(goes_on: tuple[str, ...]) -> None:
    log = SlowToRead()
    async with open_stage({"reply": model_says(think("Hm."), text("Yes."))}, log=log) as stage:
        client = await disconnect_before_dispatch(stage, log)
        client.history += [{"role": "user", "content": [text(words)]} for words in goes_on]
        client.history.append({"role": "assistant", "content": (await client.send())["content"]})
        await client.turn(text("And now?"))
        assert [each.mode for each in await stage.modes()] == [Mode.MANAGE]
        assert len(stage.upstream) == 2
        assert_prefixes(stage.upstream)
