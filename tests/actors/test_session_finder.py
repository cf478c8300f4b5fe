"""A request is put to the session that it belongs to, whatever name it comes under, and whoever answers in time."""

import attrs
import pytest
import trio

from mnemosyne.actors.messages import ArrivedRequest, Identity
from mnemosyne.adapters.plain.directory import PlainDirectory
from mnemosyne.domain.session.directory import stream_of
from mnemosyne.domain.session.round_events import Mode
from mnemosyne.domain.wire.messages import MESSAGES
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


async def test_sub_agents_that_nest_belong_to_the_root_session() -> None:
    log = StoppableLog()
    async with open_process(log) as process:
        for own, parent in (("root", None), ("child", "root"), ("grandchild", "child"), ("deeper", "grandchild")):
            assert await root_of(process, own, parent) == "root"
        assert await root_of(process, "another", None) == "another"


async def test_a_server_started_anew_knows_from_the_log_who_called_whom() -> None:
    log = StoppableLog()
    for own, parent in (("root", None), ("child", "root"), ("grandchild", "child")):
        async with open_process(log) as process:
            assert await root_of(process, own, parent) == "root"
            await process.opener.open_turn(of_opencode(own, parent), request(f"from {own}"), MESSAGES).note_begun()
    assert turns(await events_of(log, stream_of("t", "root"))) == ["main 1", "agent-1 1", "agent-2 1"]


async def test_what_the_operator_said_last_stands_while_the_directory_does_not_answer(
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


async def root_of(process: Process, own: str, parent: str | None) -> str:
    """The session that a request of a client's session belongs to."""
    arrived = ArrivedRequest(
        at=1, headers=of_opencode(own, parent), raw=request("x"), correlation_id="c", dialect=MESSAGES
    )
    return (await process.opener.finder.identity_of(arrived)).external_id


def of_opencode(own: str, parent: str | None) -> tuple[tuple[str, str], ...]:
    named = (("user-agent", "opencode/1.18.33"), ("x-session-id", own))
    return (*named, ("x-parent-session-id", parent)) if parent else named


async def test_opencodes_nested_sub_agents_are_branches_of_one_session() -> None:
    log = StoppableLog()
    async with open_process(log) as process:
        for own, parent in (("root", None), ("child", "root"), ("grandchild", "child")):
            turn = process.opener.open_turn(of_opencode(own, parent), request(f"from {own}"), MESSAGES)
            await turn.note_begun()
    assert turns(await events_of(log, stream_of("t", "root"))) == ["main 1", "agent-1 1", "agent-2 1"]


async def test_a_history_that_goes_on_under_another_name_belongs_to_the_managed_session_that_it_left() -> None:
    async with open_process(StoppableLog()) as process:
        await manage(process, LONG)
        assert await named(process, "fork", LONG, "Yes.", "go on") == IDENTITY
        assert (await named(process, "other", "Something else.", "No.", "go on")).external_id == "other"


async def test_one_that_may_go_on_from_another_s_history_is_not_settled_while_nobody_can_say() -> None:
    log = StoppableLog()
    async with open_process(log, patience=attrs.evolve(PATIENT, database=0.0, loading=0.0)) as process:
        log.away = True
        assert not (await named(process, "fork", LONG, "Yes.", "go on")).is_known
        assert (await named(process, "new", LONG)).is_known, "it holds nothing that a model said"
        log.away = False


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
