"""A report is a session's rows of one moment, with the thrash index of what was missed."""

from typing import Any
from uuid import UUID

import pytest

from mnemosyne.actors.messages import Finish
from mnemosyne.domain.objects.events import FaultKind, ObjectFaulted
from mnemosyne.domain.ports import Envelope, Recorded
from mnemosyne.domain.session.events import Event
from mnemosyne.domain.wire.reply import Reply
from mnemosyne.errors import NotFound
from mnemosyne.services.reports import ENOUGH_TURNS, Questions, count_questions, read_report
from mnemosyne.services.savings import Balance
from tests.services.answers import Answers
from tests.services.talking import body, plain, talking, user

STREAM = UUID(int=1)
FOUND: dict[tuple[str, str], list[dict[str, Any]]] = {
    ("timeline", "find"): [{"stream": STREAM, "external_id": None, "exact": True}],
    ("timeline", "session"): [{"external_id": None}],
    ("savings", "evicted"): [{"evictions": 2}, {"evictions": 3}],
}


async def test_a_session_without_turns_has_an_empty_report() -> None:
    models = Answers(FOUND)
    found = await read_report(plain(), models, "s")
    assert (found.stream, found.name, found.evictions) == (STREAM, str(STREAM), 5)
    assert (found.total, found.rewrites, found.thrash, found.paging) == (Balance(), [], None, None)
    assert all(each.about == {"stream": STREAM} for each in models.asked[2:])


async def test_there_is_no_thrash_index_if_fault_events_are_lost() -> None:
    faulted = {("savings", "faulted"): [{"branch": "main", "turn": 1, "kind": "explicit", "distance": 1}]}
    found = await read_report(plain(), Answers(FOUND | faulted), "s")
    assert (len(found.faults), found.thrash) == (1, None)


def fault(object_id: str, turn: int, kind: FaultKind, reason: str = "r", branch: str = "main") -> Recorded[Event]:
    event = ObjectFaulted(
        at=turn,
        object=object_id,
        branch=branch,
        turn=turn,
        kind=kind,
        reason=reason,
        distance=1,
        tokens=9,
        avoided_tokens=0,
        latency=1,
    )
    return Recorded(stream=STREAM, version=turn, position=turn, envelope=Envelope(event, "c"))


def test_an_answer_was_enough_unless_its_objects_were_needed_again_soon() -> None:
    recorded = [
        fault("a", 1, FaultKind.MICRO, "which port?"),
        fault("b", 1, FaultKind.MICRO, "which port?"),
        fault("c", 2, FaultKind.MICRO, "why?"),
        fault("a", 9, FaultKind.EXPLICIT),
        fault("c", 2 + ENOUGH_TURNS, FaultKind.IMPLICIT),
        fault("b", 3, FaultKind.EXPLICIT, branch="fork-1"),
    ]
    assert count_questions(recorded) == Questions(answered=2, enough=1)
    assert count_questions([]) == Questions(0, 0)


async def test_a_report_forecasts_tool_paging_for_the_longest_conversation() -> None:
    large = {"type": "object", "properties": {"at": {"type": "string", "description": "Where. " * 300}}}
    tools = [{"name": name, "description": "Looks. " * 60, "input_schema": large} for name in ("Look", "Turn")]
    call = {"role": "assistant", "content": [{"type": "tool_use", "id": "t1", "name": "Turn", "input": {}}]}
    result = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1", "content": "ok"}]}
    async with talking() as talk:
        await talk.ask(body([user("Go.")], tools=tools))
        await talk.ask(body([user("Go."), call, result], tools=tools))
        found = await read_report(talk.archive, Answers(_found(talk.stream)), "s")
    assert found.paging is not None
    assert (found.paging.tools, found.paging.paged, found.paging.called) == (2, ("Look", "Turn"), ("Turn",))
    assert found.paging.saved > 1_000


def _found(stream: UUID) -> dict[tuple[str, str], list[dict[str, Any]]]:
    return {**FOUND, ("timeline", "find"): [{"stream": stream, "external_id": None, "exact": True}]}


async def test_unknown_session_has_no_report() -> None:
    with pytest.raises(NotFound):
        await read_report(plain(), Answers({}), "s")


async def test_a_report_lists_the_attempts_that_the_provider_refused() -> None:
    async with talking() as talk:
        await talk.ask(body([user("Go.")]))
        for status, error in ((400, "invalid_request_error"), (529, "overloaded_error"), (200, "api_error")):
            on = body([user("Go."), {"role": "assistant", "content": "Done."}, user("On.")])
            address = await talk.ask(on, reply=None)
            refusal = Reply(
                body=b"{}", complete=True, message_id=None, model=None, stop_reason=None, error_type=error, usage={}
            )
            end = Finish(at=5, address=address, status=status, reply=refusal, correlation_id="c")
            await talk.actor.mailbox.post(end).wait()
        found = await read_report(talk.archive, Answers(_found(talk.stream)), "s")
    assert [(each.turn, each.attempt, each.status, each.error) for each in found.refused] == [
        (2, 1, 400, "invalid_request_error"),
        (2, 2, 529, "overloaded_error"),
        (2, 3, 200, "api_error"),
    ]
