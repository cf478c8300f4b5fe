"""Managed turns as their actor sees them: concurrent, abandoned, refused, and next to another process."""

from collections.abc import Sequence
from hashlib import sha256
from typing import Any

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st
from trio.testing import MockClock

from mnemosyne.actors.messages import (
    Answer,
    AnswerCalls,
    ArrivedRequest,
    Begin,
    Begun,
    Finish,
    Message,
    NextRound,
    Prepare,
    RoundEnd,
    UpstreamPlan,
)
from mnemosyne.actors.tools import Answers, MemoryToolExecutor
from mnemosyne.actors.turn import Turn
from mnemosyne.domain.history import time_travel
from mnemosyne.domain.session.address import Address
from mnemosyne.domain.session.events import TurnFinished
from mnemosyne.domain.session.input_events import SettingsTaken
from mnemosyne.domain.session.round_events import Mode, RoundBegan, RoundFinished
from mnemosyne.domain.session.state import Session
from mnemosyne.domain.window.request_settings import WINDOW_HEADER
from mnemosyne.domain.window.situation import find_limit
from mnemosyne.domain.wire.messages import MESSAGES
from mnemosyne.domain.wire.reply import HiddenCall, Reply
from mnemosyne.replay.deciding import review
from tests.actors.support import (
    IDENTITY,
    LONG,
    OK,
    STREAM,
    Process,
    StoppableLog,
    assembled,
    events_of,
    headers,
    interrupt,
    open_process,
    request,
)
from tests.domain.recorded import dumps
from tests.plain.archive import MemoryArchive
from tests.profiles import examples

CALL = {"type": "tool_use", "id": "h1", "name": "memory_query", "input": {"question": "what?"}}
HIDDEN = HiddenCall("h1", "memory_query", '{"question":"what?"}')


def replied(*content: dict[str, Any], stop_reason: str = "end_turn", error: str | None = None) -> Reply:
    usage = {"input_tokens": 10, "output_tokens": 1}
    message = {
        "id": "msg",
        "model": "m",
        "role": "assistant",
        "content": list(content),
        "stop_reason": stop_reason,
        "usage": usage,
    }
    return Reply(
        body=dumps(message),
        complete=True,
        message_id="msg",
        model="m",
        stop_reason=stop_reason,
        usage=usage,
        error_type=error,
    )


def arrived(*texts: str, **members: Any) -> ArrivedRequest:
    return arrived_with(headers(), request(*texts, **members))


def arrived_with(named: tuple[tuple[str, str], ...], raw: bytes) -> ArrivedRequest:
    return ArrivedRequest(at=1, headers=named, raw=raw, correlation_id="c", wanted=Mode.MANAGE, dialect=MESSAGES)


def calls(address: Address) -> AnswerCalls:
    end = RoundEnd(reply=replied(CALL, stop_reason="tool_use"), calls=(HIDDEN,))
    return AnswerCalls(at=5, address=address, round=end, correlation_id="c")


async def post(process: Process, message: Message) -> Answer:
    _, asked = process.registry.ask(IDENTITY, message)
    return await asked.wait()


async def begun(process: Process, asking: ArrivedRequest) -> Address:
    """A turn whose upstream request the actor decides."""
    proposed = await post(process, Prepare(request=asking))
    assert isinstance(proposed, UpstreamPlan)
    assert proposed.proposal is not None
    answer = await post(process, Begin(request=asking, outgoing=proposed.proposal))
    assert isinstance(answer, Begun)
    return answer.address


async def test_parallel_requests_keep_the_settings_that_they_began_with(monkeypatch: pytest.MonkeyPatch) -> None:
    """An agent's request without a header begins while the main agent's with its own window runs."""
    limits: list[int | None] = []

    def find(window: int | None, model: str | None, session: Session) -> int:
        limits.append(window)
        return find_limit(window, model, session)

    monkeypatch.setattr("mnemosyne.actors.rounds.find_limit", find)
    log = StoppableLog()
    async with open_process(log, window=90_000) as process:
        smaller = (*headers(), (WINDOW_HEADER, "20000"))
        main = await begun(process, arrived_with(smaller, request(LONG)))
        agent = await begun(process, arrived_with(headers(agent="a"), request("Look.")))
        for address in (main, agent):
            await post(process, calls(address))
    assert main.branch != agent.branch
    assert limits == [20_000, 90_000]
    assert [event.window for event in await events_of(log, STREAM) if isinstance(event, SettingsTaken)] == limits
    found = await review(MemoryArchive(log), str(STREAM))
    assert (limits[2:], found.differences, found.skipped) == ([20_000, 90_000], [], [])


async def assert_rebuilt(log: StoppableLog) -> None:
    """Check that every recorded round is rebuilt to the sent bytes."""
    recorded = await log.read(STREAM)
    history = time_travel.history_of("s", recorded)
    for each in recorded:
        event = each.envelope.event
        if isinstance(event, RoundBegan):
            body = await assembled(log, time_travel.body_of(history, each.version))
            assert sha256(body).digest() == event.sha256


@examples(25)
@given(
    requests=st.lists(
        st.tuples(st.integers(0, 2), st.sampled_from((8, 9_000, 32_000)), st.booleans()), min_size=2, max_size=5
    ),
    order=st.randoms(use_true_random=False),
)
def test_concurrent_turns_and_attempts_are_rebuilt_and_reloaded(
    requests: Sequence[tuple[int, int, bool]], order: Any
) -> None:
    async def story() -> None:
        log = StoppableLog()
        async with open_process(log) as process:
            texts = (LONG, "an answer", "and more", "another", "and yet more")
            await begun(process, arrived(LONG))
            addresses = [
                await begun(
                    process, arrived(*texts[: 2 * turn + 1], max_tokens=limit, **({"x": "y" * 300} if odd else {}))
                )
                for turn, limit, odd in requests
            ]
            order.shuffle(addresses)
            for address in addresses:
                answer = await post(process, calls(address))
                assert isinstance(answer, UpstreamPlan)
                assert answer.proposal is not None
                body = answer.proposal.body
                next_ = NextRound(at=6, address=address, body=body, request=b"", correlation_id="c")
                assert await post(process, next_) is not None
        await assert_rebuilt(log)
        async with open_process(log) as process:
            await begun(process, arrived(*texts, "yes", "go on"))
        await assert_rebuilt(log)

    trio.run(story)


async def test_refused_turn_is_dropped() -> None:
    async with open_process(StoppableLog()) as process:
        address = await begun(process, arrived(LONG))
        refusal = replied(error="overloaded_error")
        end = Finish(at=2, address=address, status=529, reply=refusal, correlation_id="c")
        actor, asked = process.registry.ask(IDENTITY, end)
        assert actor.rounds.under_way(address) is not None
        await asked.wait()
        assert actor.rounds.under_way(address) is None


async def test_late_end_of_a_turn_does_not_change_the_next_turn_s_reply(log: StoppableLog) -> None:
    texts = (LONG, "an answer", "and more")
    async with open_process(log) as process:
        first = await begun(process, arrived(LONG))
        second = await begun(process, arrived(*texts))
        await post(process, calls(first))
        for address in (first, second):
            await post(process, interrupt(address, None))
        going_on = await proposed_for(process, *texts, "yes", "go on")
    async with open_process(log) as process:
        assert await proposed_for(process, *texts, "yes", "go on") == going_on


async def proposed_for(process: Process, *texts: str) -> bytes:
    answer = await post(process, Prepare(request=arrived(*texts)))
    assert isinstance(answer, UpstreamPlan)
    assert answer.proposal is not None
    return answer.proposal.body


async def test_end_of_a_managed_turn_is_recorded_after_another_process_wrote(log: StoppableLog) -> None:
    async with open_process(log) as process, open_process(log) as other:
        turn = managed(process)
        await turn.prepare()
        await turn.note_begun()
        await other.turn("another conversation", agent="x")
        whole = replied({"type": "text", "text": "Yes."})
        await turn.note_ended(OK, whole, whole, ())
    ended = {event.branch for event in await events_of(log) if isinstance(event, TurnFinished)}
    assert ended == {"main", "agent-1"}


async def test_abandoned_round_is_not_recorded_as_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    asked, let, answer = trio.Event(), trio.Event(), MemoryToolExecutor.answer

    async def slowly(*given: Any, **named: Any) -> Answers:
        asked.set()
        await let.wait()
        return await answer(*given, **named)

    monkeypatch.setattr(MemoryToolExecutor, "answer", slowly)
    log = StoppableLog()
    async with open_process(log) as process:
        turn = managed(process)
        await turn.prepare()
        await turn.note_begun()
        async with trio.open_nursery() as client:
            client.start_soon(turn.answer, replied(CALL, stop_reason="tool_use"), (HIDDEN,))
            await asked.wait()
            client.cancel_scope.cancel()
        let.set()
        await turn.note_interrupted(None, None, "the client left")
    rounds = [type(event) for event in await events_of(log) if isinstance(event, RoundBegan | RoundFinished)]
    assert rounds == [RoundBegan, RoundFinished]


async def test_title_request_does_not_make_a_managed_conversation_observed(
    log: StoppableLog, autojump_clock: MockClock
) -> None:
    async with open_process(log) as process:
        await managed(process).prepare()
        titled = {"output_config": {"format": {"type": "json_schema", "schema": {}}}}
        title = {"model": "m", "messages": [{"role": "user", "content": "A title?"}], **titled}
        assert (await managed(process, dumps(title)).prepare()).body is None
        process.registry.discard(STREAM, process.registry.ask(IDENTITY, calls(Address("main", 9, 9)))[0])
        log.away = True
        thought = {"type": "thinking", "thinking": "Hm.", "signature": "signed against what we sent"}
        history = [
            {"role": "user", "content": LONG},
            {"role": "assistant", "content": [thought, {"type": "text", "text": "Yes."}]},
            {"role": "user", "content": "Go on."},
        ]
        sent = (
            await managed(process, dumps({"model": "m", "tools": [{"name": "n"}], "messages": history})).prepare()
        ).body
        log.away = False
    assert sent is not None
    assert b"signed against" not in sent


async def test_fallback_keeps_thinking_that_the_provider_requires(autojump_clock: MockClock) -> None:
    thought = {"type": "thinking", "thinking": "Hm.", "signature": "bound to nothing"}
    call = {"type": "tool_use", "id": "t1", "name": "n", "input": {}}
    history = [
        {"role": "user", "content": LONG},
        {"role": "assistant", "content": [thought, call]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1", "content": "done"}]},
    ]
    thinking = {"thinking": {"type": "enabled", "budget_tokens": 1024}}
    log = StoppableLog()
    log.away = True
    async with open_process(log) as process:
        raw = dumps({"model": "claude-sonnet-4-5", "tools": [{"name": "n"}], "messages": history, **thinking})
        assert (await managed(process, raw).prepare()).body is None
        log.away = False


def managed(process: Process, raw: bytes | None = None) -> Turn:
    return process.opener.open_turn(headers(), raw or request(LONG), MESSAGES, Mode.MANAGE)
