"""The work of planning a request does not grow with the session; it is counted, not timed."""

import json
from collections.abc import Callable
from typing import Any

import pytest
import trio

from mnemosyne.actors.actor_services import ActorServices
from mnemosyne.actors.messages import (
    ArrivedRequest,
    Begin,
    Begun,
    CompleteDeferred,
    Finish,
    Prepare,
    UpstreamPlan,
)
from mnemosyne.actors.session import SessionActor
from mnemosyne.adapters.plain.log import PlainLog
from mnemosyne.domain.session.decision_inputs import ServerSettings
from mnemosyne.domain.session.round_events import EpochBegan, Mode
from mnemosyne.domain.window import epochs, situation
from mnemosyne.domain.window.situation import candidates_of
from mnemosyne.domain.wire.messages import MESSAGES
from mnemosyne.domain.wire.reply import Reply
from tests.actors.support import CODEC, IDENTITY, PATIENT, events_of, headers, salt
from tests.domain.recorded import dumps

WINDOW = 8_000
MODEL = "claude-opus-5-5"
SAID = {"role": "user", "content": [{"type": "text", "text": "Read all of it, and change what is wrong."}]}


class Counted:
    """How often something was done, request by request."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.done: dict[str, int] = {}
        self.rows: list[dict[str, int]] = []
        for module, name in ((situation, "features_of_message"), (situation, "_size"), (situation, "is_kept")):
            monkeypatch.setattr(module, name, self._counting(name, getattr(module, name)))
        self._candidates(monkeypatch)

    def _counting(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def counting(*given: Any) -> Any:
            self.done[name] = self.done.get(name, 0) + 1
            return function(*given)

        return counting

    def _candidates(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def counting(*given: Any) -> Any:
            found = candidates_of(*given)
            self.done["candidates"] = self.done.get("candidates", 0) + len(found)
            return found

        monkeypatch.setattr(epochs, "candidates_of", counting)

    def note(self) -> None:
        self.rows.append(self.done)
        self.done = {}

    def most(self, name: str, first: int, last: int) -> int:
        return max(row.get(name, 0) for row in self.rows[first:last])

    def mean(self, name: str, first: int, last: int) -> float:
        return sum(row.get(name, 0) for row in self.rows[first:last]) / (last - first)


async def played(turns: int, counted: Counted) -> PlainLog:
    """A managed session in which every turn reads another file and then changes it."""
    log = PlainLog(CODEC)
    actor = SessionActor(
        IDENTITY,
        event_log=log,
        contents=log,
        journal=log,
        new_salt=salt,
        settings=ServerSettings(window=WINDOW),
        outside=ActorServices(patience=PATIENT),
    )
    messages = [dumps(SAID)]
    async with trio.open_nursery() as nursery:
        nursery.start_soon(actor.run)
        for number in range(turns):
            await _turn(actor, number, messages)
            counted.note()
            messages += _following(number)
        actor.stop()
    return log


async def _turn(actor: SessionActor, number: int, messages: list[bytes]) -> None:
    raw = b'{"model":"%s","tools":[{"name":"Read"}],"messages":[%s]}' % (MODEL.encode(), b",".join(messages))
    at = 1_700_000_000_000_000 + number * 20_000_000
    asking = ArrivedRequest(at=at, headers=headers(), raw=raw, correlation_id="c", wanted=Mode.MANAGE, dialect=MESSAGES)
    plan = await actor.mailbox.post(Prepare(request=asking)).wait()
    assert isinstance(plan, UpstreamPlan)
    assert plan.proposal is not None
    begun = await actor.mailbox.post(Begin(request=asking, outgoing=plan.proposal)).wait()
    assert isinstance(begun, Begun)
    tokens = len(plan.proposal.body) * 3 // 10
    usage = {"input_tokens": 100, "cache_read_input_tokens": tokens - 100, "output_tokens": 50}
    content = json.loads(_following(number)[0])["content"]
    body = dumps({"id": "msg", "role": "assistant", "content": content, "stop_reason": "tool_use", "usage": usage})
    said = Reply(body, True, "msg", MODEL, "tool_use", usage, None)
    await actor.mailbox.post(Finish(at=at, address=begun.address, status=200, reply=said, correlation_id="c")).wait()
    await actor.mailbox.post(CompleteDeferred()).wait()


def _following(number: int) -> list[bytes]:
    path, id_ = f"/src/part_{number // 2}.py", f"toolu_{number}"
    edit = {"file_path": path, "old_string": f"value_{number} = 1", "new_string": f"value_{number} = 2"}
    name, given = ("Edit", edit) if number % 2 else ("Read", {"file_path": path})
    call = {"type": "tool_use", "id": id_, "name": name, "input": given}
    lines = "".join(f"{line:6}\tvalue_{line} = {id_}\n" for line in range(20))
    result = {"type": "tool_result", "tool_use_id": id_, "content": lines if name == "Read" else "Done."}
    return [dumps({"role": "assistant", "content": [call]}), dumps({"role": "user", "content": [result]})]


def check(counted: Counted, early: tuple[int, int], late: tuple[int, int]) -> None:
    for name in ("features_of_message", "_size", "is_kept", "candidates"):
        assert counted.mean(name, *late) <= 1.5 * counted.mean(name, *early) + 2, name
        assert counted.most(name, *late) <= 1.5 * counted.most(name, *early) + 5, name


async def test_planning_cost_depends_on_the_window_not_on_session_length(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    counted = Counted(monkeypatch)
    log = await played(160, counted)
    assert len([event for event in await events_of(log) if isinstance(event, EpochBegan)]) > 3
    check(counted, (20, 90), (90, 160))


@pytest.mark.soak
async def test_planning_cost_at_turn_2000_equals_turn_100(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    counted = Counted(monkeypatch)
    await played(2_000, counted)
    check(counted, (100, 200), (1_900, 2_000))
