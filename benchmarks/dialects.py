"""What the same conversation costs in each dialect, as a ratio to the Messages API: processor time of the serving
process, and what is added to the first byte.

The provider is the strict stand-in; what it takes itself is measured without us and taken off.
"""

import http.client
import json
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import attrs
import trio

from benchmarks.harness import Group, Part, Row, Server, serve_process, single, spread
from benchmarks.load import SESSION_HEADER, Address
from benchmarks.processes import wait_until_quiet
from benchmarks.variants import OURS, data_dir

TURNS, QUICK_TURNS = 60, 4
BEFORE, QUICK_BEFORE = 30, 2
"""Exchanges that the conversation has already."""

SAID = "def add(first: int, second: int) -> int:  # line {} of part {}\n"
SYSTEM = "You are an agent that helps with software. " * 300
TOOLS = 12
GOAL = 1.1

Body = dict[str, Any]


@attrs.frozen
class Spoken:
    """A dialect: where it is asked, how the whole body is written, and how a reply is shown in the next request."""

    name: str
    path: str
    write: Callable[[Sequence[Body]], Body]
    user: Callable[[str], Body]
    assistant: Callable[[str], Body]
    echo: Callable[[Sequence[Body]], Sequence[Body]]
    """What the next request shows of a reply, from the events of its stream."""


def _messages(history: Sequence[Body]) -> Body:
    tools = [{"name": name, "description": words, "input_schema": schema} for name, words, schema in _tools()]
    system = [{"type": "text", "text": SYSTEM, "cache_control": {"type": "ephemeral"}}]
    return {"model": "claude-opus-5-5", "max_tokens": 1_000, "system": system, "tools": tools, "messages": history}


def _chat(history: Sequence[Body]) -> Body:
    tools = [
        {"type": "function", "function": {"name": name, "description": words, "parameters": schema}}
        for name, words, schema in _tools()
    ]
    return {"model": "gpt-5.5", "tools": tools, "messages": [{"role": "system", "content": SYSTEM}, *history]}


def _responses(history: Sequence[Body]) -> Body:
    tools = [
        {"type": "function", "name": name, "description": words, "parameters": schema}
        for name, words, schema in _tools()
    ]
    return {"model": "gpt-5.5", "store": False, "instructions": SYSTEM, "tools": tools, "input": history}


def _tools() -> Iterator[tuple[str, str, Body]]:
    schema = {"type": "object", "properties": {"path": {"type": "string", "description": "A path. " * 20}}}
    for number in range(TOOLS):
        yield f"tool_{number}", f"Does number {number} of what is to be done. " * 30, schema


def _text(role: str, kind: str) -> Callable[[str], Body]:
    return lambda words: {"role": role, "content": [{"type": kind, "text": words}]}


def _plain(role: str) -> Callable[[str], Body]:
    return lambda words: {"role": role, "content": words}


def _echo_of_messages(events: Sequence[Body]) -> Sequence[Body]:
    deltas = [each["delta"].get("text", "") for each in events if each.get("type") == "content_block_delta"]
    return [_text("assistant", "text")("".join(deltas))]


def _echo_of_chat(events: Sequence[Body]) -> Sequence[Body]:
    deltas = [each["choices"][0]["delta"].get("content") or "" for each in events if each.get("choices")]
    return [_plain("assistant")("".join(deltas))]


def _echo_of_responses(events: Sequence[Body]) -> Sequence[Body]:
    (output,) = (each["response"]["output"] for each in events if each.get("type") == "response.completed")
    return list(output)


MESSAGES = "Messages"
DIALECTS = (
    Spoken(MESSAGES, "/v1/messages", _messages, _text("user", "text"), _text("assistant", "text"), _echo_of_messages),
    Spoken("Chat Completions", "/v1/chat/completions", _chat, _plain("user"), _plain("assistant"), _echo_of_chat),
    Spoken(
        "Responses",
        "/v1/responses",
        _responses,
        _text("user", "input_text"),
        _text("assistant", "output_text"),
        _echo_of_responses,
    ),
)


def _turns(_: Sequence[Server], quick: bool) -> list[Row]:
    rows: list[Row] = []
    for mode in ("observe", "manage"):
        used: dict[str, float] = {}
        for each in DIALECTS:
            with _server(mode) as (provider, ours):
                direct = _play(provider, each, quick)
                _play(ours.address, each, quick=True)  # what a server does once in its life is none of a turn's
                trio.run(wait_until_quiet, [ours])
                begun = ours.cpu_seconds()
                through = _play(ours.address, each, quick, session="measured")
                trio.run(wait_until_quiet, [ours])
                used[each.name] = (ours.cpu_seconds() - begun) / len(through)
            added = [(one - other) * 1000 for one, other in zip(through, direct, strict=True)]
            rows.append(spread(f"added first byte, {mode}", each.name, "ms", added))
            rows.append(single(f"CPU of the serving process a turn, {mode}", each.name, "ms", used[each.name] * 1000))
        rows += [
            single(f"CPU of the serving process, {mode}", f"{name} ÷ {MESSAGES}", "ratio", one / used[MESSAGES], GOAL)
            for name, one in used.items()
            if name != MESSAGES
        ]
    return rows


@contextmanager
def _server(mode: str) -> Iterator[tuple[Address, Server]]:
    """The stand-in, and a server of ours in front of it for all dialects."""
    with ExitStack() as stack:
        base = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="mnemosyne-benchmark-")))
        standin = (sys.executable, "-m", "mnemosyne_lab.provider", "--port", "0")
        provider, _ = stack.enter_context(serve_process(standin, base / "provider"))
        url, own = f"http://{provider.host}:{provider.port}", base / "ours"
        upstreams = ("--upstream", url, "--upstreams", f"all={url}", "--mode", mode)
        serve = (sys.executable, "-m", "mnemosyne", "serve", "--port", "0", "--data-dir", str(data_dir(own)))
        address, pid = stack.enter_context(serve_process((*serve, *upstreams), own))
        yield provider, Server(OURS, address, pid, own)


def _play(address: Address, spoken: Spoken, quick: bool, session: str = "first") -> list[float]:
    """The conversation; seconds to the first byte of each turn."""
    history: list[Body] = []
    for number in range(QUICK_BEFORE if quick else BEFORE):
        history += [spoken.user(_words(number)), spoken.assistant(f"I have read part {number}.")]
    connection, taken = http.client.HTTPConnection(address.host, address.port, timeout=60), list[float]()
    for number in range(QUICK_TURNS if quick else TURNS):
        history.append(spoken.user(_words(1_000 + number)))
        seconds, events = _ask(connection, spoken, {**spoken.write(history), "stream": True}, session)
        taken.append(seconds)
        history += spoken.echo(events)
    connection.close()
    return taken


def _words(part: int) -> str:
    return "".join(SAID.format(line, part) for line in range(30))


def _ask(
    connection: http.client.HTTPConnection, spoken: Spoken, body: Body, session: str
) -> tuple[float, Sequence[Body]]:
    """Seconds to the first byte of a reply, and the events of its stream. Raises RuntimeError where it is refused."""
    headers: Mapping[str, str] = {
        "Content-Type": "application/json",
        "Authorization": "Bearer none",
        "X-Api-Key": "none",
        "Anthropic-Version": "2023-06-01",
        SESSION_HEADER: session,
    }
    data = json.dumps(body).encode()
    began = time.perf_counter()
    connection.request("POST", spoken.path, data, headers)
    reply = connection.getresponse()
    first = reply.read1(1)
    seconds = time.perf_counter() - began
    text = (first + reply.read()).decode()
    if reply.status != http.HTTPStatus.OK:
        raise RuntimeError(f"{spoken.name}: {reply.status} {text[:300]}")
    told = [line.removeprefix("data: ") for line in text.splitlines() if line.startswith("data: ")]
    return seconds, [json.loads(each) for each in told if each != "[DONE]"]


GROUP = Group("dialects", (), (Part("turns", _turns),))
