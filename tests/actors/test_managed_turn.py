"""Each round of a turn is made of the client's request, the model's earlier replies and their results."""

import json
from typing import Any

import attrs
import pytest

from mnemosyne.actors.managed_turn import ManagedTurn
from mnemosyne.domain.session.round_events import Mode
from mnemosyne.domain.tools.memory_tools import QUERY, TOOLS
from mnemosyne.domain.window import upstream_history
from mnemosyne.domain.window.refusals import Refusal
from mnemosyne.domain.wire import transcript
from mnemosyne.domain.wire.messages import MESSAGES
from mnemosyne.domain.wire.messages_history import write_result
from tests.actors.support import LONG, request
from tests.domain.recorded import dumps

THOUGHT = {"type": "thinking", "thinking": "Where?", "signature": "signed"}
CALL = {"type": "tool_use", "id": "h1", "name": QUERY, "input": {"question": "where?"}}
REPLY = dumps({"role": "assistant", "content": [THOUGHT, CALL]})
RESULTS = {"h1": write_result("h1", "There.", False)}


@pytest.fixture
def turn() -> ManagedTurn:
    read = transcript.read(request(LONG)).transcript
    history = upstream_history.first([read.message_bytes(0)], dialect=MESSAGES)
    return ManagedTurn(
        read=read, history=history, mode=Mode.MANAGE, hour=True, tool_budget=7, by_prefix=False, prior=None
    )


def tools(body: bytes) -> list[str]:
    return [each["name"] for each in json.loads(body)["tools"]]


def messages_of(body: bytes) -> list[Any]:
    return [json.loads(each) for each in map(dumps, json.loads(body)["messages"])]


def test_a_managed_turn_has_the_clients_tools_and_ours(turn: ManagedTurn) -> None:
    assert tools(turn.body(1)) == ["n", *(each["name"] for each in TOOLS)]


def test_round_contains_the_replies_and_results_of_its_own_attempt(turn: ManagedTurn) -> None:
    replied = turn.add_reply(1, REPLY, RESULTS)
    assert replied.results(1) == RESULTS
    assert [each["role"] for each in messages_of(replied.next.body(1))] == ["user", "assistant", "user"]
    assert "There." in str(messages_of(replied.next.body(1))[-1])
    assert messages_of(replied.body(2)) == messages_of(turn.body(2)), "another attempt had no such round"


def test_round_without_thinking_has_the_same_texts(turn: ManagedTurn) -> None:
    messages = ({"role": "user", "content": LONG}, {"role": "assistant", "content": [THOUGHT, CALL]})
    held = attrs.evolve(turn, history=upstream_history.verbatim([dumps(each) for each in messages], MESSAGES))
    assert "signed" in str(messages_of(held.body(1)))
    stripped = held.without(Refusal.THINKING)
    assert stripped.round == turn.round + 1
    assert [each["role"] for each in messages_of(stripped.body(1))] == ["user", "assistant"]
    assert messages_of(stripped.body(1))[-1]["content"] == [CALL]


def test_round_without_tools_is_the_client_s_request_in_a_new_epoch(turn: ManagedTurn) -> None:
    bare = turn.add_reply(1, REPLY, RESULTS).without(Refusal.TOOLS)
    assert tools(bare.body(1)) == ["n"]
    assert messages_of(bare.body(1)) == messages_of(request(LONG))
    assert bare == attrs.evolve(bare, mode=Mode.BYPASS, hour=False, tool_budget=None, round=2, history=bare.history)
    assert bare.history.epoch == turn.history.epoch + 1
    assert not bare.history.replies
