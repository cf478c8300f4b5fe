"""A request goes to the session that it belongs to, under any name and however slowly sessions answer."""

import json
from contextlib import AsyncExitStack
from typing import Any
from uuid import UUID

import attrs
import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from mnemosyne.actors.messages import ArrivedRequest, Identity
from mnemosyne.actors.threads import ReadAlone
from mnemosyne.actors.turn import Turn
from mnemosyne.domain.session.directory import stream_of
from mnemosyne.domain.session.round_events import Mode, SessionEdited
from mnemosyne.domain.wire import transcript
from mnemosyne.domain.wire.messages import MESSAGES
from mnemosyne.domain.wire.reply import Reply
from mnemosyne.domain.wire.transcript import TranscriptReading
from tests.actors.support import (
    IDENTITY,
    LONG,
    OK,
    PATIENT,
    Process,
    StoppableLog,
    events_of,
    headers,
    open_process,
    reply,
    request,
    turns,
)
from tests.domain.recorded import dumps
from tests.plain.directory import PlainDirectory


@pytest.mark.parametrize("restart", [False, True])
async def test_nested_sub_agents_are_branches_of_the_root_session(log: StoppableLog, restart: bool) -> None:
    async with AsyncExitStack() as stack:
        for own, parent in (("root", None), ("child", "root"), ("grandchild", "child")):
            if restart or own == "root":
                await stack.aclose()
                process = await stack.enter_async_context(open_process(log))
            assert await root_of(process, own, parent) == "root"
            await process.opener.open_turn(of_opencode(own, parent), request(f"from {own}"), MESSAGES).note_begun()
        assert await root_of(process, "another", None) == "another"
    assert turns(await events_of(log, stream_of("t", "root"))) == ["main 1", "agent-1 1", "agent-2 1"]


async def test_last_operator_switch_applies_while_the_directory_is_silent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with open_process(StoppableLog(), patience=attrs.evolve(PATIENT, database=0.0)) as process:
        finder = process.opener.finder
        said: list[int | None] = []

        async def off_since(directory: PlainDirectory, tenant: str) -> int | None:
            if not said:
                await trio.sleep_forever()
            return said.pop()

        monkeypatch.setattr(PlainDirectory, "off_since", off_since)
        assert await finder.off_since() is None
        for word in (7, None):
            said.append(word)
            assert [await finder.off_since() for _ in range(3)] == [word] * 3


async def test_session_whose_name_has_an_unpaired_surrogate_can_be_closed(log: StoppableLog) -> None:
    """A name is recorded without unpaired surrogates, which the database cannot store."""
    async with open_process(log) as process:
        turn = process.opener.open_turn(of_opencode("s\ud83d", None), request("Go on."), MESSAGES)
        await turn.note_begun()
        await process.opener.finder.end("s\ud83d", 5, "c")
        recorded = await events_of(log, (await turn.identity()).stream)
    assert [each.at for each in recorded if isinstance(each, SessionEdited) and each.closed] == [5]


async def root_of(process: Process, own: str, parent: str | None) -> str:
    """The session that a request of a client's session belongs to."""
    arrived = ArrivedRequest(
        at=1, headers=of_opencode(own, parent), raw=request("x"), correlation_id="c", dialect=MESSAGES
    )
    return (await process.opener.finder.identity_of(arrived)).external_id


def of_opencode(own: str, parent: str | None) -> tuple[tuple[str, str], ...]:
    named = (("user-agent", "opencode/1.18.33"), ("x-session-id", own))
    return (*named, ("x-parent-session-id", parent)) if parent else named


async def test_history_under_another_name_belongs_to_its_managed_session() -> None:
    async with open_process(StoppableLog()) as process:
        await manage(process, LONG)
        assert await named(process, "fork", LONG, "Yes.", "go on") == IDENTITY
        assert (await named(process, "other", "Something else.", "No.", "go on")).external_id == "other"


async def test_the_body_of_a_long_history_is_sent_unread_if_no_session_is_managed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    bodies = list[bytes]()

    async def read(_: ReadAlone, raw: bytes, conversation: str) -> TranscriptReading:
        bodies.append(raw)
        return transcript.read(raw, conversation=conversation)

    monkeypatch.setattr(ReadAlone, "read", read)
    async with open_process(StoppableLog()) as process:
        for is_read in (False, True):
            turn = process.opener.open_turn(headers(f"s{is_read}"), request(LONG, "Yes.", "go on"), MESSAGES)
            assert (await turn.prepare()).body is None
            assert bool(bodies) == is_read
            await manage(process, "Something else.")
            bodies.clear()


async def test_origin_stays_undecided_while_the_candidates_do_not_answer(log: StoppableLog) -> None:
    async with open_process(log, patience=attrs.evolve(PATIENT, database=0.0, loading=0.0)) as process:
        log.away = True
        assert not (await named(process, "fork", LONG, "Yes.", "go on")).is_known
        assert (await named(process, "new", LONG)).is_known, "it holds nothing that a model said"
        log.away = False


async def test_call_id_decides_between_two_sessions_with_equal_texts() -> None:
    async with open_process(StoppableLog()) as process:
        programs = [await begun(process, "look") for _ in range(2)]
        for number, turn in enumerate(programs):
            said = called(f"toolu_{number}")
            await turn.note_ended(OK, said, said, ())
        for number, turn in enumerate(programs):
            assert await owner_of(process, shown(f"toolu_{number}")) == (await turn.identity()).stream


async def test_early_continuation_is_not_assigned_to_a_session_with_equal_texts() -> None:
    async with open_process(StoppableLog()) as process:
        first, second = [await begun(process, "look") for _ in range(2)]
        said = called("toolu_0")
        await first.note_ended(OK, said, said, ())
        found: list[UUID] = []

        async def look_up() -> None:
            found.append(await owner_of(process, shown("toolu_1")))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(look_up)
            await wait_all_tasks_blocked()
            said = called("toolu_1")
            await second.note_ended(OK, said, said, ())
        assert found == [(await second.identity()).stream]


NAMELESS = (("user-agent", "Anthropic/Python 2.11.0"),)
LOOK: dict[str, Any] = {"type": "tool_use", "name": "look", "input": {"at": "x"}}


async def begun(process: Process, text: str) -> Turn:
    """A turn without a session name, sent and not answered."""
    turn = process.opener.open_turn(NAMELESS, request(text), MESSAGES)
    await turn.prepare()
    turn.note_sent()
    await turn.note_begun()
    return turn


def called(call: str) -> Reply:
    """A reply that calls a tool in common words."""
    message = {"id": "msg", "content": [{"type": "text", "text": "I look."}, {**LOOK, "id": call}]}
    return attrs.evolve(reply("I look."), body=dumps(message), stop_reason="tool_use")


def shown(call: str) -> bytes:
    """The request that answers such a call."""
    result = {"type": "tool_result", "tool_use_id": call, "content": "found"}
    said = [{"type": "text", "text": "I look."}, {**LOOK, "id": call}]
    body = json.loads(request("look"))
    body["messages"] += [{"role": "assistant", "content": said}, {"role": "user", "content": [result]}]
    return dumps(body)


async def owner_of(process: Process, body: bytes) -> UUID:
    """The stream that a request without a name belongs to."""
    arrived = ArrivedRequest(at=1, headers=NAMELESS, raw=body, correlation_id="c", dialect=MESSAGES)
    return (await process.opener.finder.identity_of(arrived)).stream


async def manage(process: Process, text: str) -> None:
    """A managed turn of the session ``s``, answered "Yes."."""
    turn = process.opener.open_turn(headers(), request(text), MESSAGES, Mode.MANAGE, Mode.OBSERVE)
    assert (await turn.prepare()).body is not None
    turn.note_sent()
    await turn.note_begun()
    said = reply("Yes.")
    await turn.note_ended(OK, said, said, ())


async def named(process: Process, session: str, *texts: str) -> Identity:
    arrived = ArrivedRequest(at=1, headers=headers(session), raw=request(*texts), correlation_id="c", dialect=MESSAGES)
    return await process.opener.finder.identity_of(arrived)
