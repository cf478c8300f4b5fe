"""Sessions are loaded when they get a message and unloaded when they are idle."""

import gc
import weakref

import pytest
import trio

from mnemosyne.actors import registry
from mnemosyne.actors.messages import Identity
from mnemosyne.actors.registry import IDLE_SECONDS, PAUSE_SECONDS, SHORTEST_PAUSE, SWEEP_SECONDS
from mnemosyne.adapters.postgres.journal import GroupJournal
from mnemosyne.domain.objects.fidelity import Fidelity
from mnemosyne.domain.ports import Append, Envelope
from mnemosyne.domain.session.decide import Gap
from mnemosyne.domain.session.directory import stream_of
from mnemosyne.domain.session.ledger_events import TurnAccounted
from mnemosyne.domain.session.round_events import SessionEdited
from tests.actors.support import (
    CODEC,
    IDENTITY,
    OK,
    STREAM,
    StoppableLog,
    begin,
    events_of,
    of_turns,
    open_process,
    rebuilt,
    reply,
    turns,
)
from tests.domain.remembered import created, degraded, remembered
from tests.domain.session_events import assessed
from tests.not_none import not_none


async def test_idle_session_is_unloaded_and_reloaded_unchanged(
    log: StoppableLog, autojump_clock: trio.testing.MockClock
) -> None:
    async with open_process(log) as process:
        await process.turn("u1")
        under_way = process.open("u1", "ok", "u2")
        await under_way.note_begun()
        await trio.sleep(IDLE_SECONDS - SWEEP_SECONDS)
        assert process.registry.awake == 1
        await trio.sleep(3 * SWEEP_SECONDS)
        assert process.registry.awake == 0
        await under_way.note_finished(OK, reply("ok"))
        assert process.registry.awake == 1
        await process.turn("u1", "ok", "u2", "ok", "u3")
    events = await events_of(log)
    assert turns(events) == ["main 1", "main 2", "main 3"]
    assert len(of_turns(events)) == 2 + 6
    await rebuilt(log, log)


async def test_tokens_of_windows_are_summed_by_fidelity(log: StoppableLog, monkeypatch: pytest.MonkeyPatch) -> None:
    memory = remembered(*(created(each, 1) for each in ("in", "out")), degraded("out", Fidelity.EVICTED))
    async with open_process(log) as process:
        monkeypatch.setattr(process.registry, "_list_assessed", lambda: [(memory, assessed(9))] * 2)
        objects, shown, full, usable = process.registry.sum_windows()
    assert (objects, full, usable) == ({"L0": 2, "L4": 2}, {"L0": 2_000, "L4": 2_000}, 200_000)
    assert shown == {"L0": 2_000, "L4": 0}


async def test_paused_sessions_are_unloaded_sooner_above_the_memory_limit(
    mock_clock: trio.testing.MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registry, "BYTES_HELD", 1_000_000)
    log, much = StoppableLog(), "x" * 300_000
    async with open_process(log) as process:
        for number in range(3):
            await process.turn(f"{number} {much}", session=f"long {number}")
        under_way = process.open(much, session="under way")
        await under_way.note_begun()
        await process.turn("u1", session="short")
        assert process.registry.awake == 5
        for seconds in (PAUSE_SECONDS, SWEEP_SECONDS):
            assert process.registry.awake == 5
            mock_clock.jump(seconds)
            await trio.testing.wait_all_tasks_blocked()
        awake = [name for name in NAMES if stream_of("t", name) in process.registry._awake]
        assert awake == ["long 1", "long 2", "under way", "short"]  # of those that pause the oldest went
        await process.turn(f"0 {much}", "ok", "u2", session="long 0")
        await under_way.note_finished(OK, reply("ok"))
    assert turns(await events_of(log, stream_of("t", "long 0"))) == ["main 1", "main 2"]


async def test_new_sessions_unload_others_at_once_when_much_is_held(
    mock_clock: trio.testing.MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    for limit in ("BYTES_HELD", "MOST_BYTES_HELD"):
        monkeypatch.setattr(registry, limit, 1_000_000)
    log, much = StoppableLog(), "x" * 300_000
    async with open_process(log) as process:
        for number in range(9):
            await process.turn(f"{number} {much}", session=f"long {number}")
            mock_clock.jump(SHORTEST_PAUSE + 1)
            held = sum(loaded.actor.bytes_held for loaded in process.registry._awake.values())
            assert held < 1_000_000 + 2 * 300_000
        await process.turn(f"0 {much}", "ok", "u2", session="long 0")
    assert turns(await events_of(log, stream_of("t", "long 0"))) == ["main 1", "main 2"]


async def test_unloaded_session_frees_its_bodies_at_once(autojump_clock: trio.testing.MockClock) -> None:
    gc.disable()  # it comes rarely to a server
    try:
        async with open_process(StoppableLog()) as process:
            await process.turn("u1")
            (awake,) = process.registry._awake.values()
            held = [weakref.ref(each) for each in (awake.actor, awake.actor.state, awake.actor.state.memory)]
            del awake
            await trio.sleep(IDLE_SECONDS + 2 * SWEEP_SECONDS)
            assert process.registry.awake == 0
            assert [each() for each in held] == [None, None, None]
    finally:
        gc.enable()


NAMES = ("long 0", "long 1", "long 2", "under way", "short")


async def test_a_failed_actor_is_replaced_and_others_live_on(log: StoppableLog) -> None:
    other = Identity(stream=stream_of("t", "other"), tenant="t", external_id="other")
    async with open_process(log) as process:
        untouched, asked = process.registry.ask(other, begin("v1"))
        await asked.wait()
        failing, _ = process.registry.ask(IDENTITY, begin("u1"))
        log.poisoned = ZeroDivisionError("a bug")
        await trio.testing.wait_all_tasks_blocked()
        log.poisoned = None
        assert process.registry.awake == 1
        await process.turn("u1")
        assert process.registry.ask(IDENTITY, begin("u1"))[0] is not failing
        assert process.registry.ask(other, begin("v1"))[0] is untouched


async def test_a_last_turn_is_accounted_although_a_person_s_change_was_recorded_before_its_account(
    log: StoppableLog, autojump_clock: trio.testing.MockClock
) -> None:
    async with open_process(log, GroupJournal(log, CODEC)) as process:
        await process.turn("u1")
        await trio.testing.wait_all_tasks_blocked()
        before = await events_of(log)
        edited = SessionEdited(at=9, title="The login")
        await log.append(Append(STREAM, len(before), (Envelope(edited, "c"),)))
        await trio.sleep(2 * SWEEP_SECONDS)
    kinds = [type(event) for event in (await events_of(log))[len(before) :]]
    assert TurnAccounted not in map(type, before)
    assert (kinds[0], kinds.count(TurnAccounted)) == (SessionEdited, 1)


async def test_gaps_add_up_until_they_are_taken_and_a_returned_one_keeps_its_start() -> None:
    async with open_process(StoppableLog()) as process:
        process.registry.note_gap(STREAM, Gap(since=3, turns=1, reason="away"))
        taken = not_none(process.registry.take_gap(STREAM))
        process.registry.note_gap(STREAM, Gap(since=7, turns=2, reason="full"))
        process.registry.note_gap(STREAM, taken)  # it could not be recorded
        assert process.registry.take_gap(STREAM) == Gap(since=3, turns=3, reason="away")
        assert process.registry.take_gap(STREAM) is None
