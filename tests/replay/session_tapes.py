"""Sessions as JSON Lines, one per line: ``{name, agent, model, system, tools, messages, turns, resets}``.

``messages`` is the whole history, as if the client had never shortened it; request ``k`` contains the first
``turns[k]["msg"]`` of them, and the next message is its reply. ``resets`` lists where the client dropped its history:
from there on, a request begins with the client's summary, followed by the later messages.

The requests are built as Claude Code 2.1.329 sends them: the last message marked for the cache, and a message of one
text before it as a string.
"""

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

from mnemosyne.domain.wire.blocks import is_call
from mnemosyne.domain.wire.messages import MESSAGES
from tests.replay import message_streams as wire
from tests.replay.message_streams import MARKER, STREAM, Json, as_string, blocks_of, dumps, mark
from tests.replay.tapes import Arrives, Headers, Step, Tape, TapedReply, tape

MODEL = "claude-opus-5-5"
SYSTEM = "You are an agent. " * 300
"""The system prompt for recordings without one."""

SECOND = 1_000_000
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def tape_of(session: Any) -> Tape:
    session = {"tools": [], "resets": [], "system": None, **session}
    return tape(session["name"], partial(_steps, session))


def requests(session: Mapping[str, Any], limit: int | None = None, *, resets: bool = False) -> Iterator[bytes]:
    """The bodies of a session's requests; with ``resets``, shortened where the client shortened its history."""
    windows = _windows(session) if resets else [_Window(0, list(session["messages"]))]
    system = dumps([{"type": "text", "text": session["system"] or SYSTEM, "cache_control": MARKER}])
    rest = b'],"system":' + system + b',"tools":' + dumps(session["tools"]) + b',"max_tokens":128000,"stream":true}'
    start = b'{"model":' + dumps(MODEL) + b',"messages":['
    for turn in session["turns"][:limit]:
        if turn["msg"]:
            window = next(window for window in reversed(windows) if turn["msg"] >= window.since)
            yield start + window.render(turn["msg"]) + rest


class _Window:
    """The history between two resets; ``since`` is the first number of messages that a request in it has."""

    def __init__(self, since: int, messages: Sequence[Json], dropped: int = 0) -> None:
        self.since = since
        self._messages = messages
        self._dropped = dropped
        self._plain = [dumps(as_string(message)) for message in messages]

    def render(self, count: int) -> bytes:
        """The messages of a request when the whole history has ``count`` messages."""
        last = count - self._dropped - 1
        return b",".join([*self._plain[:last], dumps(mark(self._messages[last]))])


def _windows(session: Mapping[str, Any]) -> list[_Window]:
    messages = session["messages"]
    windows = [_Window(0, messages)]
    for reset in session["resets"]:
        at = reset["before_msg"]
        if reset["kind"] != "compact" or not reset["summary"]:
            continue  # content removed by a microcompact is not recorded
        summary = [{"type": "text", "text": reset["summary"]}]
        if messages[at]["role"] == "user":  # roles alternate: summary and user text are one message
            first = {"role": "user", "content": [*summary, *blocks_of(messages[at])]}
            windows.append(_Window(at + 1, [first, *messages[at + 1 :]], at))
        else:
            windows.append(_Window(at, [{"role": "user", "content": summary}, *messages[at:]], at - 1))
    return windows


def _steps(session: Json) -> Iterator[Step]:
    turns = [turn for turn in session["turns"] if turn["msg"]]
    headers = _headers(session)
    for number, (turn, body) in enumerate(zip(turns, requests(session, resets=True), strict=True)):
        at = _time(turn.get("ts"), number)
        key = str(number + 1)
        yield Arrives(key, at, MESSAGES, headers, body)
        if turn["msg"] < len(session["messages"]):
            message = _answer(session, turn, number)
            yield TapedReply(key, at, STREAM, wire.stream_of_message(message))


def _headers(session: Json) -> Headers:
    """The headers that name the session: Claude Code's own, or the proxy's for another client."""
    if session.get("agent", "").startswith("claude-code"):
        return (("User-Agent", "claude-cli/2.1.329"), ("X-Claude-Code-Session-Id", session["name"]))
    return (("User-Agent", session.get("agent", "")), ("X-Mnemosyne-Session", session["name"]))


def _time(stamp: str | None, number: int) -> int:
    """µs of UTC; a session without times takes a second for each turn, from 0."""
    if stamp is None:
        return number * SECOND
    return (datetime.fromisoformat(stamp).astimezone(UTC) - _EPOCH) // timedelta(microseconds=1)


def _answer(session: Json, turn: Json, number: int) -> Json:
    content = blocks_of(session["messages"][turn["msg"]])
    calls = any(map(is_call, content))
    return {
        "id": f"msg_{session['name']}_{number + 1}",
        "type": "message",
        "role": "assistant",
        "model": session.get("model") or MODEL,
        "content": content,
        "stop_reason": "tool_use" if calls else "end_turn",
        "usage": _usage(turn.get("usage") or {}),
    }


_USAGE = {
    "input": "input_tokens",
    "cache_write": "cache_creation_input_tokens",
    "cache_read": "cache_read_input_tokens",
}


def _usage(recorded: Json) -> Json:
    """The usage without the output, which was recorded before the stream ended."""
    return {name: recorded[ours] for ours, name in _USAGE.items() if isinstance(recorded.get(ours), int)}
