"""A long session for measurements: its request bodies, turn by turn, and the replies.

If the recorded Claude Code sessions are beside the repository (../shared/data/sessions), the history joins all of them
to one of 2,375 turns; otherwise it is generated from a fixed seed. The cache marker is on the last message, as Claude
Code sets it, and previous messages become plain again, as strings if possible. System prompt and tools, which the
recordings lack, are generated: 48 KB.
"""

import json
import random
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any

import attrs

from benchmarks.recordings import FIRST, SESSIONS, list_raw
from tests.replay.message_streams import MARKER, as_string, blocks_of, dumps, mark

RECORDED = SESSIONS / FIRST
SYSTEM_BYTES, TOOL_BYTES, TOOLS = 16_000, 2_000, 16
SEED = 2_375
SYNTHETIC_TURNS, QUICK_TURNS = 2_375, 60

RECORDED_KIND, SYNTHETIC_KIND, QUICK_KIND = "recorded", "synthetic", "quick"
"""Kinds of history: recorded, generated with the same length, or short."""

Message = dict[str, Any]


@attrs.frozen
class History:
    """A whole history. Request t, from 1, has ``messages[: 2 * t - 1]``; the reply to it is the message after them."""

    kind: str
    messages: Sequence[Message] = attrs.field(repr=False)
    _plain: tuple[bytes, ...] = attrs.field(repr=False)
    _rest: bytes = attrs.field(repr=False)

    @property
    def turns(self) -> int:
        return len(self.messages) // 2

    def body(self, turn: int, user_id: str | None = None) -> bytes:
        """The body of a turn's request; ``user_id`` is a member of its ``metadata``, behind all else, as clients have
        it.
        """
        count = 2 * turn - 1
        shown = b",".join([*self._plain[: count - 1], dumps(mark(self.messages[count - 1]))])
        body = b'{"model":"benchmark","messages":[' + shown + self._rest
        return body if user_id is None else body[:-1] + b',"metadata":' + dumps({"user_id": user_id}) + b"}"

    def reply(self, turn: int) -> Message:
        """The assistant's message that answers a turn."""
        return self.messages[2 * turn - 1]

    def unique_bytes(self, turns: int) -> int:
        """The JSON bytes of the distinct content: each block, the system prompt's blocks and each tool."""
        blocks = (block for message in self.messages[: 2 * turns] for block in blocks_of(message))
        head: Mapping[str, list[Message]] = json.loads(b'{"messages":[' + self._rest)
        return sum(map(len, set(map(dumps, (*blocks, *head["system"], *head["tools"])))))


def kind_of(quick: bool) -> str:
    """Which history there is to measure with."""
    return QUICK_KIND if quick else RECORDED_KIND if RECORDED.is_file() else SYNTHETIC_KIND


@cache
def history(kind: str) -> History:
    """The history of a kind; each process makes it once."""
    if kind == RECORDED_KIND:
        messages = [message for session in list_raw(FIRST) for message in session["messages"]]
    else:
        messages = list(_made_up(QUICK_TURNS if kind == QUICK_KIND else SYNTHETIC_TURNS))
    return History(kind, messages, tuple(dumps(as_string(message)) for message in messages), _rest())


def _made_up(turns: int) -> Iterator[Message]:
    """Turns similar to the recorded ones: a short text, a tool call, and a result of mostly a few KB."""
    rng = random.Random(SEED)
    words = ["".join(rng.choices("etaoinshrdlucmfwypvbgkjqxz", k=rng.randint(2, 9))) for _ in range(4_000)]

    def text(size: int) -> str:
        return " ".join(rng.choices(words, k=size // 6))

    content: list[Message] = [{"type": "text", "text": text(200)}]
    for number in range(turns):
        yield {"role": "user", "content": content}
        call = {"type": "tool_use", "id": f"toolu_{number}", "name": "tool_1", "input": {"command": text(160)}}
        yield {"role": "assistant", "content": [{"type": "text", "text": text(300)}, call]}
        size = min(60_000, int(rng.lognormvariate(7.5, 1.2)))
        content = [{"type": "tool_result", "tool_use_id": f"toolu_{number}", "content": text(size)}]


def _rest() -> bytes:
    rng = random.Random(SEED)

    def text(size: int) -> str:
        return "".join(rng.choices("etaoin shrdlu cmfwyp vbgkjqxz", k=size))

    system = [{"type": "text", "text": text(SYSTEM_BYTES), "cache_control": MARKER}]
    schema = {"type": "object", "properties": {"command": {"type": "string", "description": text(100)}}}
    tools = [
        {"name": f"tool_{number}", "description": text(TOOL_BYTES), "input_schema": schema} for number in range(TOOLS)
    ]
    return b'],"system":' + dumps(system) + b',"tools":' + dumps(tools) + b',"max_tokens":32000,"stream":true}'
