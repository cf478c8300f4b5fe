"""Rounds of a turn in the Responses API, as the scripted provider writes them."""

from typing import Any

import attrs
import orjson

from mnemosyne.domain.tools import memory_tools
from mnemosyne_lab.provider.cache import PrefixUse
from mnemosyne_lab.provider.choosing import view_responses
from mnemosyne_lab.provider.reply_openai import OpenAiContext, compose_responses
from mnemosyne_lab.provider.script import Pace, ScriptedReply

Json = dict[str, Any]

OFFERED: Json = {"type": "function", "name": "exec_command", "parameters": {"type": "object"}}
OURS: list[Json] = [
    {"type": "function", "name": name, "parameters": {"type": "object"}} for name in sorted(memory_tools.NAMES)
]


def call(name: str, number: int = 1, **given: Any) -> Json:
    return {"type": "tool_use", "id": f"call_{name}_{number}", "name": name, "input": given}


def text(said: str) -> Json:
    return {"type": "text", "text": said}


def thinking(said: str) -> Json:
    return {"type": "thinking", "thinking": said}


RECALL = call("memory_query", question="login")
RESTORE = call("memory_restore", 2, object_id="#abc1234", reason="needed")
RUN = call("exec_command", 3, cmd="ls")


@attrs.frozen
class Round:
    """The provider's output in the round of this number for a request that offers these tools."""

    content: list[Json]
    number: int = 1
    tools: tuple[Json, ...] = (OFFERED,)
    stop_reason: str | None = None

    def whole(self) -> bytes:
        return orjson.dumps(self._composed().rendering.make_whole(), option=orjson.OPT_INDENT_2)

    def stream(self) -> bytes:
        rendering = self._composed().rendering
        return b"".join(map(rendering.form.encode, rendering.make_events()))

    def _composed(self) -> Any:
        body = {"model": "gpt-5.5", "input": [], "tools": list(self.tools), "include": ["reasoning.encrypted_content"]}
        ids = iter(f"{self.number}{each}" for each in range(100))
        context = OpenAiContext(
            body=body,
            view=view_responses(body, []),
            number=self.number,
            next_id=lambda: next(ids),
            prefix=PrefixUse(total=100 * self.number, cached=40, keep=lambda _: None),
            secret=b"secret",
        )
        scripted = ScriptedReply(content=self.content, stop_reason=self.stop_reason, pace=Pace(characters=7))
        return compose_responses(scripted, context)


def read_stream(raw: bytes) -> Json:
    """The events of a stream as a strict reader sees them: sequence numbers and output indexes have no gaps, each
    item begins and ends once, and the last event contains the content of the others.
    """
    events = [orjson.loads(part.partition(b"data: ")[2]) for part in raw.split(b"\n\n") if b"data: " in part]
    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    items: list[Json] = []
    opened: list[str] = []
    for event in events:
        match event["type"]:
            case "response.output_item.added":
                assert event["output_index"] == len(opened) == len(items)
                opened.append(event["item"]["id"])
            case "response.output_item.done":
                assert event["item"]["id"] == opened[event["output_index"]]
                items.append(event["item"])
            case _ if "output_index" in event:
                assert event["item_id"] == opened[event["output_index"]]
    first, last = events[0]["response"], events[-1]["response"]
    assert (first["id"], first["created_at"]) == (last["id"], last["created_at"])
    assert last["output"] == items
    return dict(last)
