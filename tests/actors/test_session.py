"""One session whose actor gets its requests and replies, and whose past is read back from the log."""

import json
from typing import Any

import attrs
import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

from mnemosyne.actors.loaded import Loaded
from mnemosyne.actors.messages import ArrivedRequest, Prepare, UpstreamPlan
from mnemosyne.domain.ports import Append, Envelope
from mnemosyne.domain.session.address import Address
from mnemosyne.domain.session.decide import ForgetSession, Gap, decide
from mnemosyne.domain.session.events import TurnBegan, TurnFinished, TurnRelation
from mnemosyne.domain.session.redaction import redact
from mnemosyne.domain.session.round_events import Mode
from mnemosyne.domain.wire import recipe
from mnemosyne.domain.wire.normal_form import Echo
from mnemosyne.domain.wire.reply import Reply
from mnemosyne.errors import ActorStopped, LogUnavailable, MnemosyneError, UnknownEvent, VersionConflict, copy_error
from tests.actors.support import (
    CODEC,
    LONG,
    SECRET,
    STREAM,
    StoppableLog,
    assembled,
    begin,
    events_of,
    finish,
    interrupt,
    open_actor,
    rebuilt,
    reply_text,
    request,
    turns,
)
from tests.plain.log import PlainLog
from tests.profiles import examples


def last_began(events: list[Any]) -> TurnBegan:
    return [event for event in events if isinstance(event, TurnBegan)][-1]


def last_finished(events: list[Any]) -> TurnFinished:
    return [event for event in events if isinstance(event, TurnFinished)][-1]


async def test_prepared_request_is_parsed_once_when_passed_through(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[ArrivedRequest] = []
    reading = Loaded.read_turn

    async def record(self: Loaded, request: ArrivedRequest, gap: Gap | None = None) -> Any:
        read.append(request)
        return await reading(self, request, gap)

    monkeypatch.setattr(Loaded, "read_turn", record)
    log = PlainLog(CODEC)
    async with open_actor(log) as teller:
        await teller.begin("u1")  # observed, so its branch stays so
        read.clear()
        arrived = begin("u1", "a1", "u2").request
        plan = await teller.actor.mailbox.post(Prepare(request=attrs.evolve(arrived, default=Mode.MANAGE))).wait()
        assert plan == UpstreamPlan()
        await teller.begin("u1", "a1", "u2")
        assert len(read) == 1
        await teller.begin("u1", "a1", "u2")
        assert len(read) == 2
    assert turns(await events_of(log)) == ["main 1", "main 2", "main 2.2"]


async def test_next_actor_continues_the_session(log: StoppableLog) -> None:
    async with open_actor(log) as teller:
        await teller.finish(await teller.begin("u1"), "the answer")
        before = teller.actor.state
    async with open_actor(log) as teller:
        await teller.begin("u1", "the a", "u2")
        salt = teller.actor.state.salt
    began = last_began(await events_of(log))
    assert (began.relation, began.echo, began.echoed_attempt) == (TurnRelation.CONTINUES, Echo.TRIMMED, 1)
    assert began.base == before.branches["main"].body_version
    assert salt == before.salt
    await rebuilt(log, log)


@pytest.mark.parametrize("restart", [False, True])
async def test_the_attempt_that_the_next_request_echoes_is_found(log: StoppableLog, restart: bool) -> None:
    async with open_actor(log) as teller:
        attempts = [await teller.begin("u1") for _ in range(3)]
        await teller.finish(attempts[1], "second")
        await teller.finish(attempts[0], "first")
        await teller.tell(interrupt(attempts[2], None))
        if not restart:
            await teller.begin("u1", "second", "u2")
    if restart:
        async with open_actor(log) as teller:
            await teller.begin("u1", "second", "u2")
    began = last_began(await events_of(log))
    assert (began.echo, began.echoed_attempt) == (Echo.SAME, 2)


async def test_late_reply_to_an_earlier_turn_is_not_assigned_to_the_last(log: StoppableLog) -> None:
    async with open_actor(log) as teller:
        early = await teller.begin("u1")
        last = await teller.begin("u1", "a1", "u2")
        again = await teller.begin("u1")
        await teller.finish(last, "a2")
        await teller.finish(early, "a1")
        await teller.finish(again, "a1 again")
        await teller.begin("u1", "a1", "u2", "a2", "u3")
    assert last_began(await events_of(log)).echo is Echo.SAME


async def test_request_that_does_not_continue_a_turn_is_compared_with_no_reply(log: StoppableLog) -> None:
    async with open_actor(log) as teller:
        await teller.finish(await teller.begin("u1"), "a1")
        await teller.finish(await teller.begin("u1"), "a1 again")
        await teller.begin("u1", "b1", "u2", agent="x")
        side = begin(raw=json.dumps({"messages": json.loads(request("u1", "a1", "u2"))["messages"]}).encode())
        await teller.actor.mailbox.post(side).wait()
    events = await events_of(log)
    assert turns(events) == ["main 1", "main 1.2", "agent-1 1", "side-1 1"]
    assert not any(event.echo for event in events if isinstance(event, TurnBegan))


async def test_agent_begun_during_its_parent_s_first_reply_is_a_fork(log: StoppableLog) -> None:
    async with open_actor(log) as teller:
        first = await teller.begin("u1")
        await teller.begin("u1", "a1", "u2", agent="x")
        await teller.finish(first, "a1")
        await teller.begin("u1", "a1", "u2", "a2", "u3", agent="x")
        await teller.begin("u1", "a1", "v2")
    assert turns(await events_of(log)) == ["main 1", "fork-1 2", "fork-1 3", "main 2"]


async def test_a_long_text_of_a_reply_is_stored_once_and_shared_with_its_echo(log: StoppableLog) -> None:
    async with open_actor(log) as teller:
        await teller.finish(await teller.begin("u1"), LONG)
        before = await log.sizes(STREAM)
        await teller.begin("u1", LONG, "u2")
    after = await log.sizes(STREAM)
    assert after[STREAM].raw_bytes - before[STREAM].raw_bytes < len(LONG)
    began, finished = last_began(await events_of(log)), last_finished(await events_of(log))
    assert set(recipe.decode(began.body).digests) & set(recipe.decode(finished.reply).digests)
    assert await reply_text(log, finished.reply) == LONG


async def test_credentials_are_in_no_event_and_no_content_and_turns_are_rebuilt_without_them(log: StoppableLog) -> None:
    servers = [{"url": "u", "authorization_token": SECRET}]
    async with open_actor(log) as teller:
        await teller.begin("u1", mcp_servers=servers)
    async with open_actor(log) as teller:  # one that has to build on a body whose credential was not kept
        await teller.begin("u1", "a1", "u2", mcp_servers=servers)
        await teller.begin("u1", "a1", "u2", "a2", "u3", mcp_servers=[{"url": "u", "authorization_token": "*" * 20}])
    bodies = await rebuilt(log, log)
    assert all(SECRET.encode() not in body and b"*" * len(SECRET) in body for body in bodies.values())
    for recorded in await log.read(STREAM):
        assert SECRET.encode() not in CODEC.encode(recorded.envelope)[1]
        if isinstance(recorded.envelope.event, TurnBegan):
            found = await log.fetch(STREAM, recipe.decode(recorded.envelope.event.body).digests)
            assert not any(SECRET.encode() in data for data in found.values())


@pytest.mark.parametrize("marked", [True, False])
async def test_request_after_deletion_is_stored_in_full(log: StoppableLog, marked: bool) -> None:
    async with open_actor(log) as teller:
        await teller.finish(await teller.begin(LONG), "a1")
        forgotten = decide(ForgetSession(at=5), teller.actor.state)
        version = teller.actor.state.version
    if marked:
        await log.append(Append(STREAM, version, (Envelope(forgotten[0], "c"),)))
    await log.forget(STREAM, redact)
    async with open_actor(log) as teller:
        await teller.begin(LONG, "a1", "something new")
        await teller.begin(LONG, "a1", "something new", "a2", "u3")
    _, second, third = [event for event in await events_of(log) if isinstance(event, TurnBegan)]
    assert (second.base, second.turn, second.echo) == (0, 2, None if marked else Echo.REWRITTEN)
    assert third.base > 0
    if marked:
        body = recipe.apply(recipe.Recipe(), recipe.decode(second.body))
        assert await assembled(log, body) == request(LONG, "a1", "something new")


async def test_a_session_is_loaded_as_soon_as_the_database_is_back(
    log: StoppableLog, autojump_clock: trio.testing.MockClock
) -> None:
    log.away = True
    async with open_actor(log) as teller, trio.open_nursery() as nursery:
        nursery.start_soon(teller.begin, "u1")
        await trio.sleep(30)
        assert not await PlainLog.read(log, STREAM)
        log.away = False
    assert turns(await events_of(log)) == ["main 1"]


async def test_bodies_that_cannot_be_fetched_are_not_built_on(log: StoppableLog) -> None:
    async with open_actor(log) as teller:
        await teller.begin("u1")
    async with open_actor(log) as teller:
        await trio.testing.wait_all_tasks_blocked()  # loaded
        log.away = True
        address = (await teller.actor.mailbox.post(begin("u1", "a1", "u2")).wait()).address  # type: ignore[union-attr]
        log.away = False
    assert address == Address("main", 2, 1)
    assert last_began(await events_of(log)).base == 0
    await rebuilt(log, log)


async def test_actor_stops_after_a_conflicting_append(log: StoppableLog) -> None:
    async with open_actor(log) as stale:
        first = await stale.begin("u1")
        async with open_actor(log) as other:
            await other.tell(interrupt(first, None))  # nothing to account
        with pytest.raises(VersionConflict):
            await stale.begin("u1", "a1", "u2")
        # Its version matches the log's, but not its state: by chance the next append would fit.
        assert stale.actor.state.version == len(await events_of(log))
        for _ in range(2):
            with pytest.raises(ActorStopped):
                await stale.begin("u1", "a1", "u2", "a2", "u3")
    assert turns(await events_of(log)) == ["main 1"]


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (ZeroDivisionError("a bug"), "an internal error"),
        (UnknownEvent("the log holds session.started.v9"), "the log holds session.started.v9"),
    ],
)
async def test_unreadable_log_stops_only_the_actor_and_gives_waiters_the_reason(
    log: StoppableLog, error: Exception, reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    log.poisoned = copy_error(error)  # the parameter would hold the frames of the actor for all later tests
    async with open_actor(log) as teller:
        with pytest.raises(MnemosyneError, match=reason):
            await teller.begin("u1")
        with pytest.raises(MnemosyneError):
            await teller.begin("u1")
    assert "failed; the next request starts another" in caplog.text or "cannot be read" in caplog.text


async def test_bug_refuses_its_message_and_lets_others_ask_the_next_actor(log: StoppableLog) -> None:
    async with open_actor(log) as teller:
        address = await teller.begin("u1")
        log.poisoned = ZeroDivisionError("a bug")
        teller.actor._memory.bodies._held.clear()
        asked = [teller.actor.mailbox.post(message) for message in (begin("u1"), finish(address, "a1"))]
        with pytest.raises(MnemosyneError, match="an internal error"):
            await asked[0].wait()
        with pytest.raises(ActorStopped):
            await asked[1].wait()


async def test_full_queue_is_reported_and_does_not_change_the_session(log: StoppableLog) -> None:
    async with open_actor(log) as teller:
        await teller.begin("u1")
        before = teller.actor.state

        def full(append: Append) -> Any:
            raise LogUnavailable("the queue is full")

        submit, log.submit = log.submit, full  # type: ignore[method-assign]
        with pytest.raises(LogUnavailable, match="full"):
            await teller.begin("u1", "a1", "u2")
        assert teller.actor.state is before
        log.submit = submit  # type: ignore[method-assign]
        assert await teller.begin("u1", "a1", "u2") == Address("main", 2, 1)
    await rebuilt(log, log)


@examples(60)
@given(st.binary(max_size=120), st.binary(max_size=120))
async def test_any_bytes_are_turns_and_replies(body: bytes, answer: bytes) -> None:
    log = PlainLog(CODEC)
    odd = Reply(answer, True, "\ud800", "\ud800", None, {"n": 10**30, "x": float("nan")}, None)
    async with open_actor(log) as teller:
        address = await teller.begin(raw=body)
        message = finish(address, "")
        assert await teller.tell(type(message)(at=2, address=address, status=200, reply=odd, correlation_id="c"))
        await teller.begin(raw=body + b" ")
        await teller.begin(raw=b'{"model":"\\ud800","messages":[{"role":"user","content":"\\ud800"}]}')
    assert body in (await rebuilt(log, log)).values() or b"*" in b"".join((await rebuilt(log, log)).values())
