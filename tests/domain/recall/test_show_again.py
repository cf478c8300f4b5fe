"""An object that a person asked to see again is restored behind the last message of the next request."""

import json
from typing import Any

import pytest

from mnemosyne.domain.objects.decide import Request, decide_all
from mnemosyne.domain.objects.events import ObjectRestored
from mnemosyne.domain.objects.fidelity import Cause, Fidelity
from mnemosyne.domain.objects.memory import Memory
from mnemosyne.domain.recall import show_again
from mnemosyne.domain.recall.show_again import PendingRestore, find_place, find_requested
from mnemosyne.domain.session.state import Session
from mnemosyne.domain.window import upstream_history
from mnemosyne.domain.window.upstream_history import UpstreamHistory
from mnemosyne.domain.wire import transcript
from mnemosyne.domain.wire.chat import CHAT
from mnemosyne.domain.wire.dialect import Dialect
from mnemosyne.domain.wire.dialects import conversation_of
from mnemosyne.domain.wire.messages import MESSAGES
from mnemosyne.domain.wire.responses import RESPONSES
from mnemosyne.domain.wire.transcript import Transcript
from tests.domain.remembered import BRANCH, created, degraded, remembered
from tests.domain.session_events import began

Json = dict[str, Any]


def said(role: str, *texts: str) -> Json:
    return {"role": role, "content": [{"type": "text", "text": text} for text in texts]}


RESULT = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "content": "done"}]}
SYSTEM = said("system", "Today is Monday.")
TALK = [said("user", "Read the notes."), said("assistant", "They are read.")]
NOTES = "The proxy gives up after eight, so make seven retries."


def sent(messages: list[Json], dialect: Dialect = MESSAGES) -> tuple[Transcript, UpstreamHistory]:
    body = json.dumps({"model": "m", "max_tokens": 9, dialect.array: messages}).encode()
    read = transcript.read(body, conversation=conversation_of(dialect, None)).transcript
    return read, upstream_history.begin(read)


def requested(count: int = 1) -> Memory:
    """Objects that a branch shows only as stubs, and that a person asked to restore."""
    objects = [created(f"abc234{number}", 2 * number + 1) for number in range(count)]
    memory = remembered(*objects, *(degraded(each.object, Fidelity.STUB) for each in objects))
    asked = (
        Request(at=1, object=each.object, branch=BRANCH, turn=9, after=Fidelity.FULL, reason="r") for each in objects
    )
    return decide_all(asked, memory)[1]


@pytest.mark.parametrize("last", [said("user", "Thanks."), said("user", "What did we decide?"), RESULT])
def test_objects_are_added_behind_any_last_message(last: Json) -> None:
    session = Session(memory=requested())
    (granted,) = find_requested(session, BRANCH)
    read, history = sent([*TALK, last])
    place = find_place(read, history, kept=2)
    assert place == 2
    restores = [PendingRestore(granted=granted, text=NOTES)]
    turn = began(90, "claude-opus-4-5", kept=2)
    shown = show_again.show_again(history, place, restores, session, turn, cause=Cause.PREFETCH, strict=False)
    grown, (restored,) = shown.history, shown.events
    blocks = json.loads(grown.messages[2])["content"]
    assert blocks[:-1] == last["content"]
    assert NOTES in blocks[-1]["text"]
    assert isinstance(restored, ObjectRestored)
    assert (restored.object, restored.after, restored.cause) == ("abc2340", Fidelity.FULL, Cause.PREFETCH)
    assert grown.messages[:2] == history.messages[:2]


THANKS = said("user", "Thanks.")


@pytest.mark.parametrize(
    ("messages", "kept", "place"),
    [
        ([*TALK, THANKS], 2, 2),
        ([*TALK, THANKS, SYSTEM], 2, 2),
        ([*TALK, THANKS, SYSTEM, SYSTEM], 2, 2),
        ([*TALK, THANKS, SYSTEM], 3, None),
        ([], 0, None),
        (TALK, 0, None),
        ([SYSTEM], 0, None),
    ],
)
def test_place_is_the_last_user_message_if_it_was_not_sent_before(
    messages: list[Json], kept: int, place: int | None
) -> None:
    assert find_place(*sent(messages), kept=kept) == place


def test_requested_restores_respect_the_limits_of_a_turn() -> None:
    gone = remembered(created("abc2340", 1), degraded("abc2340", Fidelity.STUB))
    assert find_requested(Session(memory=gone), BRANCH) == ()
    granted = find_requested(Session(memory=requested(5)), BRANCH)
    assert [each.object.id for each in granted] == ["abc2340", "abc2341", "abc2342"]


def test_there_is_no_place_behind_a_separate_result_element() -> None:
    call = {"id": "t", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    ran: list[Json] = [
        {"role": "user", "content": "Do it."},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "t", "content": "done"},
    ]
    assert find_place(*sent(ran, CHAT), kept=2) is None
    done: list[Json] = [{"role": "assistant", "content": "Done."}, {"role": "user", "content": "Thanks."}]
    assert find_place(*sent([*ran, *done], CHAT), kept=2) == 4
    items: list[Json] = [
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Do it."}]},
        {"type": "function_call", "call_id": "t", "name": "f", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "t", "output": "done"},
    ]
    assert find_place(*sent(items, RESPONSES), kept=2) is None
