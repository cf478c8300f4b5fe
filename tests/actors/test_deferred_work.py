"""The real actor enters every billed turn into the ledger, without delaying any turn."""

import json
import threading
from collections.abc import Sequence
from functools import partial
from typing import Any
from uuid import UUID

import attrs
import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from mnemosyne.actors.messages import ArrivedRequest, Begin, Begun, CompleteDeferred, Finish
from mnemosyne.actors.session import PAUSE_SECONDS, SessionActor
from mnemosyne.actors.threads import run_in_thread
from mnemosyne.adapters.postgres.batches import Committed, EncodedAppend
from mnemosyne.adapters.postgres.journal import JournalTicket
from mnemosyne.domain.cost.prices import Tokens, tokens_of
from mnemosyne.domain.objects.events import ObjectCreated, TurnAssessed
from mnemosyne.domain.ports import Append
from mnemosyne.domain.session.address import Address
from mnemosyne.domain.session.events import Event, TurnFinished, TurnInterrupted
from mnemosyne.domain.session.ledger_events import TurnAccounted
from mnemosyne.domain.session.round_events import Mode, RoundFinished
from mnemosyne.domain.session.state import Session, evolve
from mnemosyne.domain.wire.chat import CHAT
from mnemosyne.domain.wire.reply import Reply
from mnemosyne.errors import ContentMissing, LogUnavailable
from mnemosyne_lab.provider.cache import PromptCache
from tests.actors.support import CODEC, OK, StoppableLog, Teller, events_of, interrupt, open_actor, open_process, reply
from tests.domain import recorded
from tests.http.managing import Client, Json, bare_stage, look, model_says, open_stage, recall, text
from tests.plain.log import PlainLog
from tests.services.talking import talking
from tests.waiting import DEADLINE, until

USAGE = {"input_tokens": 3, "output_tokens": 7, "cache_creation_input_tokens": 40, "cache_read_input_tokens": 0}


def accounted(events: Sequence[Event]) -> list[TurnAccounted]:
    return [event for event in events if isinstance(event, TurnAccounted)]


def answered(address: Address, usage: dict[str, Any], status: int = 200, error: str | None = None) -> Finish:
    said = attrs.evolve(reply("ok"), usage=usage, error_type=error)
    return Finish(at=9, address=address, status=status, reply=said, correlation_id="c")


async def complete_deferred(teller: Teller) -> None:
    """Wait until the actor has done its deferred work: it does that before the next message."""
    await teller.actor.mailbox.post(CompleteDeferred()).wait()


async def test_finished_turn_is_accounted_with_the_provider_s_usage(log: StoppableLog) -> None:
    async with open_actor(log) as teller:
        await teller.tell(answered(await teller.begin("one " * 100), USAGE | {"cache_creation_input_tokens": 300}))
        await complete_deferred(teller)
    (event,) = accounted(await events_of(log))
    assert (event.branch, event.turn, event.attempt, event.mode) == ("main", 1, 1, Mode.OBSERVE)
    assert (event.began, event.at) == (1, 9)
    assert (event.actual.input, event.actual.write_5m, event.actual.output, event.assumed) == (3, 300, 7, False)
    assert event.shadow.prompt == 303


@pytest.mark.parametrize(("model", "is_read"), [("gpt-6.2-sol", True), ("gpt-5.1", True), ("own-model", False)])
async def test_the_model_of_an_observed_conversation_decides_the_rules_of_its_cache(model: str, is_read: bool) -> None:
    messages: list[Json] = [{"role": "user", "content": "word " * 2_000}]
    answer = {"role": "assistant", "content": "Done."}
    tools = [{"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}]
    async with talking() as talk:
        for count in (2_002, 2_005, 2_008):
            raw = json.dumps({"model": model, "tools": tools, "messages": messages}).encode()
            request = ArrivedRequest(at=count, headers=(), raw=raw, correlation_id="c", dialect=CHAT)
            begun = await talk.actor.mailbox.post(Begin(request=request)).wait()
            assert isinstance(begun, Begun)
            body = {"choices": [{"message": answer, "finish_reason": "stop"}], "usage": {"prompt_tokens": count}}
            await talk.finish_with(begun.address, CHAT.read_reply(json.dumps(body).encode()))
            messages += [answer, {"role": "user", "content": "More."}]
        await talk.actor.mailbox.post(CompleteDeferred()).wait()
        events = [each.envelope.event for each in await talk.archive.events.read(talk.stream)]
    assert [each.expected.read > 1_900 for each in accounted(events)] == [False, is_read, is_read]


async def test_only_the_last_request_of_a_growing_conversation_is_cached() -> None:
    long = "word " * 2_000
    async with open_actor(PlainLog(CODEC)) as teller:
        said: list[str] = [long]
        for number in range(6):
            address = await teller.begin(*said)
            last = teller.actor.bytes_held
            await teller.tell(answered(address, {}, 529, "overloaded_error"))  # nothing to account
            await teller.tell(answered(await teller.begin(*said), USAGE))
            said += [f"{number}", long]
        side = await teller.begin(long * 6, max_tokens=1)
        await teller.tell(answered(side, USAGE))
        await complete_deferred(teller)
        assert teller.actor.bytes_held < last + len(long) * 7  # the side call's


async def test_only_billed_replies_of_conversations_are_accounted(log: StoppableLog) -> None:
    part = Reply(b"{}", False, "msg", "m", None, {"input_tokens": 250, "output_tokens": 1}, None)
    title = recorded.dumps({"model": "m", "messages": [{"role": "user", "content": "A title?"}]})
    async with open_actor(log) as teller:
        for status, error in ((529, "overloaded_error"), (400, "invalid_request_error")):
            await teller.tell(answered(await teller.begin("one"), {}, status, error))
        await teller.tell(answered(await teller.begin(raw=title), USAGE))
        arrivals = ((part, 200), (None, None), (None, 200), (attrs.evolve(part, usage={}), 200))
        for arrived, state in arrivals:
            end = interrupt(await teller.begin("one " * 100), arrived)
            await teller.tell(attrs.evolve(end, at=9, status=state))
        await complete_deferred(teller)
    (event,) = accounted(await events_of(log))
    assert (event.branch, event.attempt, event.actual.input) == ("main-2", 1, 250)


async def test_ledger_continues_after_a_restart(log: StoppableLog) -> None:
    texts = [f"{number} " + "words " * 2_000 for number in range(5)]
    for turn in (1, 2, 3):
        async with open_actor(log) as teller:
            await teller.tell(answered(await teller.begin(*texts[: 2 * turn - 1]), {}))
            await complete_deferred(teller)
            state = teller.actor.state
        folded = Session()
        for event in await events_of(log):
            folded = evolve(folded, event)
        assert state.ledger == folded.ledger
    assert [event.turn for event in accounted(await events_of(log))] == [1, 2, 3]


class LosingLog(PlainLog):
    """A log that holds no longer the contents of ``lost``, as when a file of an archive is gone."""

    lost: frozenset[bytes] = frozenset()

    def lose(self) -> None:
        self.lost = frozenset(digest for held in self._contents.values() for digest in held)

    async def fetch(self, stream: UUID, digests: Sequence[bytes]) -> dict[bytes, bytes]:
        if self.lost.intersection(digests):
            raise ContentMissing("its file is gone")
        return await super().fetch(stream, digests)


async def test_a_turn_is_accounted_although_the_previous_body_cannot_be_read() -> None:
    log, long = LosingLog(CODEC), "word " * 2_000
    async with open_actor(log) as teller:
        await teller.tell(answered(await teller.begin(long, model="gpt-5.1"), USAGE))
        await complete_deferred(teller)
    log.lose()
    async with open_actor(log) as teller:
        await teller.tell(answered(await teller.begin(long, "ok", "two", model="gpt-5.1"), USAGE))
        await complete_deferred(teller)
    assert [event.turn for event in accounted(await events_of(log))] == [1, 2]


class FullLog(PlainLog):
    """A log that refuses accounts for a while: its queue is full, as when the database is unavailable for long."""

    is_full = True

    def submit(self, append: Append) -> JournalTicket:
        if self.is_full and any(isinstance(each.event, TurnAccounted) for each in append.envelopes):
            raise LogUnavailable("the queue is full")
        return super().submit(append)


async def test_deferred_account_is_written_before_the_next_turn_begins() -> None:
    log = FullLog(CODEC)
    async with open_actor(log) as teller:
        await teller.tell(answered(await teller.begin("one " * 100), USAGE))
        await complete_deferred(teller)
        assert accounted(await events_of(log)) == []
        log.is_full = False
        await teller.tell(answered(await teller.begin("one " * 100, "ok", "two"), USAGE))
        await complete_deferred(teller)
    assert [event.turn for event in accounted(await events_of(log))] == [1, 2]


def assessed(actor: SessionActor) -> int:
    """The last turn of the main branch whose objects were made."""
    return actor.state.memory.view_of("main").measure.turn


async def test_deferred_work_starts_after_the_awaited_record_is_durable(log: StoppableLog) -> None:
    async with open_process(log) as process:
        log.hang()
        turn = process.open("one " * 100)
        await wait_all_tasks_blocked()
        (actor,) = (each.actor for each in process.registry._awake.values())
        assert (actor.state.branches["main"].turns, assessed(actor)) == (1, 0)
        log.flowing.set()
        await turn.note_begun()
        await wait_all_tasks_blocked()
        assert assessed(actor) == 1


async def test_deferred_work_runs_before_a_message_that_awaits_no_record(log: StoppableLog) -> None:
    async with open_process(log) as process:
        log.hang()
        process.open("one " * 100)
        await wait_all_tasks_blocked()
        (actor,) = (each.actor for each in process.registry._awake.values())
        process.open("two", agent="other")
        await wait_all_tasks_blocked()
        assert (len(actor.state.branches), assessed(actor)) == (2, 1)
        log.flowing.set()


class WatchedLog(StoppableLog):
    """A log that keeps the names of the events in each transaction."""

    def __init__(self) -> None:
        super().__init__()
        self.transactions: list[set[str]] = []

    async def commit(self, batch: Sequence[EncodedAppend]) -> Committed:
        self.transactions.append({event.topic for append in batch for event in append.events})
        return await super().commit(batch)


async def test_account_of_a_continued_conversation_is_committed_with_the_end_of_its_turn() -> None:
    log = WatchedLog()
    async with open_process(log) as process:
        for texts in (["one"], ["one", "ok", "two"], ["one", "ok", "two", "ok", "three"]):
            turn = process.open(*texts)
            await turn.note_begun()
            await turn.note_finished(OK, attrs.evolve(reply("ok"), usage=USAGE | {"cache_creation_input_tokens": 400}))
            await wait_all_tasks_blocked()
        ended, account = (CODEC.names_of((each,))[0] for each in (TurnFinished, TurnAccounted))
        assert [account in names for names in log.transactions if ended in names] == [False, True, True]


# Managed branches, against the strict stand-in, which bills by the same rules


async def test_all_rounds_of_a_managed_turn_are_in_its_account() -> None:
    async with open_stage({"replies": [model_says(recall()), model_says(look()), model_says(text("Done."))]}) as stage:
        client = Client(stage.url)
        await client.work("Look at it. " + "Words to fill the cache with. " * 300)
        await stage.events_until(TurnAccounted, 2)
        events = await stage.events()
    billed = [event.usage for event in events if isinstance(event, RoundFinished)]
    entered = accounted(events)
    assert sum(event.rounds for event in entered) == len(billed) == 3
    assert sum(event.actual.output for event in entered) == sum(usage["output_tokens"] for usage in billed)
    assert sum(event.actual.read for event in entered) == sum(usage["cache_read_input_tokens"] for usage in billed)
    assert all(event.mode is Mode.MANAGE and not event.assumed for event in entered)
    assert entered[0].shadow.prompt < entered[0].actual.prompt


async def test_refused_failed_and_cancelled_requests_are_in_no_account() -> None:
    """Whatever the client saw of them: the account is the sum of what the provider counted."""
    busy = {"failure": {"status": 529, "headers": [["x-should-retry", "false"]]}}
    refused = {"failure": {"status": 400, "message": "tools.1.custom.name: no"}}
    silent = model_says(text("Well,"), pace={"first": 3600})
    rules: list[Json] = [
        {"when": {"request": 2}, "reply": busy},
        {"when": {"request": 4}, "reply": refused},
        {"when": {"request": 6}, "reply": silent},
        {"when": {"rounds": 0, "request": 1}, "reply": model_says(recall())},
        {"reply": model_says(text("Done."))},
    ]
    async with bare_stage(*rules) as stage:
        client = Client(stage.url)
        filler = "Words to fill the cache with. " * 300
        assert "error" in await client.turn(text(f"Look at it. {filler}"))  # request 1 is billed, 2 is not
        await client.send()
        client.history.append({"role": "assistant", "content": [text("Done.")]})
        await client.turn(text(f"And now? {filler}"))  # request 4 is refused, 5 replaces it
        async with trio.open_nursery() as nursery:
            nursery.start_soon(client.turn, text("Go on."))
            await until(lambda: sum(bool(each.body) for each in stage.standin.messages) == 6)
            nursery.cancel_scope.cancel()
        await stage.events_until(TurnInterrupted)
        await client.send()
        await stage.events_until(TurnAccounted, 4)
        events = await stage.events()
    entered = accounted(events)
    billed = [tokens_of(event.usage) for event in events if isinstance(event, RoundFinished)]
    assert [each.status for each in stage.standin.messages] == [200, 529, 200, 400, 200, None, 200]
    assert [(each.turn, each.attempt, each.rounds, each.assumed) for each in entered] == [
        (1, 1, 1, False),
        (1, 2, 1, False),
        (2, 1, 1, False),
        (3, 2, 1, False),
    ]
    assert sum((each.actual for each in entered), Tokens()) == sum(filter(None, billed), Tokens())
    assert entered[1].shadow == Tokens()


async def test_simulated_cache_of_an_observed_session_matches_the_provider() -> None:
    replies = [*[model_says(look())] * 4, model_says(text("Done."))]
    async with open_stage({"replies": replies}, mode=Mode.OBSERVE) as stage:
        await Client(stage.url).work("Look at it. " + "Words to fill the cache with. " * 300)
        await stage.events_until(TurnAccounted, 5)
        entered = accounted(await stage.events())
    assert entered[-1].actual.read > 0
    for event in entered:
        assert event.shadow.prompt == event.expected.prompt == event.actual.prompt
        assert abs(event.shadow.read - event.actual.read) * 100 <= event.actual.prompt
        assert (event.shadow.read > 0) is (event.actual.read > 0)


async def test_managing_stops_when_the_provider_bills_against_its_rules(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    ask = PromptCache.request
    monkeypatch.setattr(PromptCache, "request", lambda *given: (ask(*given)[0], lambda: None))  # its writes are lost
    async with open_stage({"replies": [*[model_says(look())] * 8, model_says(text("Done."))]}, breaks=["R10"]) as stage:
        client = Client(stage.url)
        await client.work("Look at it. " + "Words to fill the cache with. " * 300)
        modes = await stage.modes()
        assert [each.violation.rule for each in stage.standin.violations if each.violation.rule != "R10"] == []
    assert [event.mode for event in modes] == [Mode.MANAGE, Mode.BYPASS]
    assert "times what its cache's rules let us expect" in modes[1].why
    assert [record.levelname for record in caplog.records if "should no longer be managed" in record.message] == [
        "WARNING"
    ]


def texts_in(events: Sequence[Event]) -> list[str]:
    return [event.stub for event in events if isinstance(event, ObjectCreated)]


PROMPTS = ["User: Set the limit.", "User: And the other."]


async def test_all_that_an_observed_client_sent_becomes_objects_when_it_pauses(
    log: StoppableLog, autojump_clock: MockClock
) -> None:
    """Nothing happens while a reply is awaited, and each pause makes objects once."""
    async with open_process(log) as process:
        await process.turn("Set the limit.")
        await trio.sleep(PAUSE_SECONDS - 1)
        assert texts_in(await events_of(log)) == []
        await trio.sleep(2)
        assert texts_in(await events_of(log)) == PROMPTS[:1]
        turn = process.open("Set the limit.", "ok", "And the other.")
        await trio.sleep(60)
        assert texts_in(await events_of(log)) == [PROMPTS[0], "Assistant: ok"]
        await turn.note_finished(OK, attrs.evolve(reply("ok"), usage=USAGE | {"cache_creation_input_tokens": 400}))
        await trio.sleep(60)
    events = await events_of(log)
    assert texts_in(events) == [PROMPTS[0], "Assistant: ok", PROMPTS[1]]
    measured = [attrs.evolve(event, open_from=0) for event in events if isinstance(event, TurnAssessed)]
    assert [event.turn for event in measured] == [1, 1, 2, 2]
    assert (measured[0], measured[2]) == (measured[1], measured[3])  # as estimated before the reply


@pytest.mark.parametrize(("mode", "count"), [(Mode.OBSERVE, 1), (Mode.MANAGE, 0)])
async def test_a_server_that_ends_makes_the_last_objects_of_observed_sessions(mode: Mode, count: int) -> None:
    """Objects of a managed session decide what leaves, so they wait for its next request."""
    async with open_stage({"reply": model_says(text("Done."))}, mode=mode) as stage:
        await Client(stage.url).work("Set the limit.")
        await stage.events_until(TurnAccounted, 1)
        await stage.process.registry.finish()
        (awake,) = stage.process.registry._awake.values()
        assert [each.stub for each in awake.actor.state.memory.objects.values()] == PROMPTS[:count]


async def test_turns_go_on_while_objects_of_another_session_are_made(log: StoppableLog) -> None:
    """Also for a request that is sent again: the objects of its turn are made later."""
    words, other_is_done = "words and more of them " * 4_000, threading.Event()
    async with trio.open_nursery() as nursery, open_actor(log) as teller:
        nursery.start_soon(partial(run_in_thread, other_is_done.wait, in_thread=True, deferred=True))
        await wait_all_tasks_blocked()
        for _ in range(2):
            await teller.tell(answered(await teller.begin(words), USAGE))
        assert not [event for event in await events_of(log) if isinstance(event, TurnAssessed)]
        other_is_done.set()
        await complete_deferred(teller)
    events = await events_of(log)
    assert [(event.turn, event.content[0] > 0) for event in events if isinstance(event, TurnAssessed)] == [(1, True)]
    assert [event.attempt for event in accounted(events)] == [1, 2]


async def test_who_needs_the_objects_of_a_session_does_not_wait_for_those_of_others(log: StoppableLog) -> None:
    """A request that may be managed from now on would go out unplanned, and rewrite the provider's cache later."""
    other_is_done = threading.Event()
    async with trio.open_nursery() as nursery, open_actor(log) as teller:
        nursery.start_soon(partial(run_in_thread, other_is_done.wait, in_thread=True, deferred=True))
        await wait_all_tasks_blocked()
        await teller.tell(answered(await teller.begin("words and more of them " * 4_000), USAGE))
        with trio.move_on_after(DEADLINE) as waiting:
            await complete_deferred(teller)
        assessed = [event.turn for event in await events_of(log) if isinstance(event, TurnAssessed)]
        other_is_done.set()
    assert (assessed, waiting.cancelled_caught) == ([1], False)


async def test_attempts_are_accounted_in_the_order_in_which_they_ended_while_objects_wait(log: StoppableLog) -> None:
    """Each account continues the simulated cache of the session, which all branches share."""
    other_is_done = threading.Event()
    async with trio.open_nursery() as nursery, open_actor(log) as teller:
        await teller.tell(answered(await teller.begin("one"), USAGE))
        await complete_deferred(teller)
        nursery.start_soon(partial(run_in_thread, other_is_done.wait, in_thread=True, deferred=True))
        await wait_all_tasks_blocked()
        agent = await teller.begin("words and more of them " * 4_000, agent="a")
        await teller.tell(attrs.evolve(answered(agent, USAGE), at=10))
        quick = await teller.begin("one", "ok", "two")
        await teller.tell(attrs.evolve(answered(quick, USAGE), at=11))
        other_is_done.set()
        await complete_deferred(teller)
    assert [(event.branch, event.at) for event in accounted(await events_of(log))] == [
        ("main", 9),
        (agent.branch, 10),
        ("main", 11),
    ]
