"""How much a local server of one slot has to read over 200 turns: with the client alone, and through us.

*New* is what the client alone has it read, whose history only grows: each token once. What is read beyond that was read
before. Every request to the server counts, hidden rounds too.
"""

import json
import random
import re
import sys
import tempfile
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from operator import add
from pathlib import Path
from typing import Any

import attrs

from benchmarks.harness import Group, Part, Row, Server, serve_process, single
from benchmarks.load import SESSION_HEADER
from benchmarks.variants import data_dir
from mnemosyne.domain.tools.memory_tools import RESTORE
from mnemosyne_lab.provider import Standin, from_data, open_standin
from mnemosyne_lab.provider.prefix_cache import LocalServer
from tests.clients.provider import in_a_thread

Body = dict[str, Any]

EXCHANGES, QUICK_EXCHANGES = 40, 6
ROUNDS = 5
"""Requests of an exchange: four calls, one after the other, and the answer."""

WINDOWS = (64_000, 32_000, 16_000, 8_000)
TRIES = 4
"""Sessions that are begun where this machine is too busy to manage the first."""

SECONDS_PER_1K = 1.0
GOAL = 1.05

SYSTEM = "You are an agent that helps with software, and this is what you know of it. " * 60
TOOLS = ("Read", "Grep", "Edit", "Run")
WORDS = ("def", "return", "value", "session", "window", "token", "if", "for", "self", "name", "open", "path", "line")


@attrs.frozen
class Client:
    """How an agent of one dialect asks. ``write`` makes a body of a session's name, history, and number of prompts."""

    name: str
    path: str
    write: Callable[[str, Sequence[Body], int], Body]
    said: Callable[[Body], Body]
    """The message that the history keeps of a reply."""
    results: Callable[[Body, str], Sequence[Body]]
    """What answers the calls of such a message with this text; nothing if there are none."""


def _chat(session: str, history: Sequence[Body], number: int) -> Body:
    tools = [{"type": "function", "function": {"name": name, **_told(session, "parameters")}} for name in TOOLS]
    return {"model": "tiny", "tools": tools, "messages": [{"role": "system", "content": session + SYSTEM}, *history]}


def _messages(session: str, history: Sequence[Body], number: int, *, line: bool) -> Body:
    accounts = f"x-anthropic-billing-header: cc_version=2.1.329.{number:03x}; cc_entrypoint=cli; cch={number:05x};"
    system = [{"type": "text", "text": text} for text in ([accounts] if line else []) + [session + SYSTEM]]
    tools = [{"name": name, **_told(session, "input_schema")} for name in TOOLS]
    return {"model": "tiny", "max_tokens": 1_000, "system": system, "tools": tools, "messages": history}


def _told(session: str, schema: str) -> Body:
    fields = {"file_path": {"type": "string"}, "offset": {"type": "integer"}}
    return {"description": session + "What it is for, and how. " * 20, schema: {"type": "object", "properties": fields}}


def _chat_results(said: Body, text: str) -> Sequence[Body]:
    calls = said.get("tool_calls") or ()
    return [{"role": "tool", "tool_call_id": call["id"], "content": text} for call in calls]


def _messages_results(said: Body, text: str) -> Sequence[Body]:
    calls = [each for each in said["content"] if each["type"] == "tool_use"]
    answers = [{"type": "tool_result", "tool_use_id": call["id"], "content": text} for call in calls]
    return [{"role": "user", "content": answers}] if answers else []


def _said_in_messages(reply: Body) -> Body:
    return {"role": "assistant", "content": reply["content"]}


CHAT = Client(
    "Chat Completions", "/v1/chat/completions", _chat, lambda reply: dict(reply["choices"][0]["message"]), _chat_results
)
PLAIN, LINED = (
    Client(name, "/v1/messages", partial(_messages, line=line), _said_in_messages, _messages_results)
    for name, line in (("Messages", False), ("Messages, accounts line", True))
)


@attrs.frozen
class Read:
    """What a server had to read of each prompt, in tokens, and the seconds that all of it took. ``prompts`` are their
    sizes, where they are told.
    """

    tokens: Sequence[int]
    seconds: float
    prompts: Sequence[int] = ()


def _standin(_: Sequence[Server], quick: bool) -> list[Row]:
    """Chat Completions in windows of several sizes, and Claude Code, whose first line changes with each prompt."""
    exchanges = QUICK_EXCHANGES if quick else EXCHANGES
    rows: list[Row] = []
    with in_a_thread(partial(open_standin, local=LocalServer(seconds_per_1k=SECONDS_PER_1K)), "the slot") as standin:
        standin.script = from_data({"rules": [{"replies": [*map(_call, range(ROUNDS - 1)), {"text": "It is there."}]}]})

        def rows_of(client: Client, grown: Client, windows: Sequence[int]) -> Iterator[Row]:
            new = _play(standin, standin.url, grown, exchanges)
            for window in windows:
                fitting = sum(prompt <= window for prompt in new.prompts)
                yield single("requests that fit", f"{client.name}, client alone, {window:,}", "", fitting)
            alone = new if client is grown else _play(standin, standin.url, client, exchanges)
            yield from _rows(f"{client.name}, client alone", alone, new)
            yield from _rows(f"{client.name}, observe", _through(standin, client, exchanges, "--mode", "observe"), new)
            for window in windows:
                options = ("--mode", "manage", "--manage-window", str(window))
                read = _through(standin, client, exchanges, *options)
                yield from _rows(f"{client.name}, manage, {window:,}", read, new, GOAL)

        rows += rows_of(CHAT, CHAT, WINDOWS[:1] if quick else WINDOWS)
        rows += rows_of(LINED, PLAIN, WINDOWS[:1])
    return rows


def _rows(variant: str, read: Read, new: Read, goal: float | None = None) -> list[Row]:
    return [
        single("read ÷ new", variant, "ratio", sum(read.tokens) / sum(new.tokens), goal),
        single("read", variant, "tokens", sum(read.tokens)),
        single("prefill", variant, "s", read.seconds),
    ]


def _call(number: int) -> Body:
    """What the model calls in each exchange: another piece of what it was asked for."""
    path = {"$find": r"src/part_\d+\.py"}
    return {"content": [{"type": "tool_use", "name": "Read", "input": {"file_path": path, "offset": number * 100}}]}


def _through(standin: Standin, client: Client, exchanges: int, *options: str) -> Read:
    """The same with a server of ours in between."""
    with _serving(standin.url, *options) as url:
        return _play(standin, url, client, exchanges, managed="manage" in options)


@contextmanager
def _serving(url: str, *options: str) -> Iterator[str]:
    """A server of ours for every dialect, in front of a local one; its URL."""
    with ExitStack() as stack:
        base = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="mnemosyne-benchmark-")))
        own = base / "ours"
        serve = (sys.executable, "-m", "mnemosyne", "serve", "--port", "0", "--data-dir", str(data_dir(own)))
        where = ("--upstream", url, "--upstreams", f"local={url}", "--tariff", "local")
        address, _ = stack.enter_context(serve_process((*serve, *where, *options), own))
        yield f"http://{address.host}:{address.port}"


def _play(standin: Standin, url: str, client: Client, exchanges: int, *, managed: bool = False) -> Read:
    """A session from its first request to its last, and what the slot had to read for it. Raises RuntimeError where it
    is to be ``managed``, and the machine is too busy for its first request to wait for that.
    """
    for attempt in range(TRIES):
        for _ in _talk(url, client, f"before-{attempt}", 1):
            pass  # now another head is in the slot, and what our server does once in its life is done
        asked = len(standin.messages)
        for _ in _talk(url, client, f"measured-{attempt}", exchanges):
            if managed and RESTORE.encode() not in standin.messages[-1].body:
                break
        else:
            timings = [_timings(bytes(each.payload)) for each in standin.messages[asked:]]
            tokens, held, milliseconds = zip(*timings, strict=True)
            return Read(tokens, sum(milliseconds) / 1000, list(map(add, tokens, held)))
    raise RuntimeError("this machine is too busy: no session's first request could wait for us")


def _talk(url: str, client: Client, session: str, exchanges: int) -> Iterator[None]:
    """The session, request by request."""
    history: list[Body] = []
    for number in range(exchanges):
        history.append({"role": "user", "content": f"What does src/part_{number}.py do, and who needs it?"})
        for round_ in range(ROUNDS):
            said = client.said(_ask(url + client.path, session, client.write(session, history, number)))
            history += [said, *client.results(said, _file(number, round_))]
            yield


def _file(number: int, round_: int) -> str:
    """A piece of a file, of 10 to 120 lines."""
    chance = random.Random(number * ROUNDS + round_)
    return "\n".join(" ".join(chance.choices(WORDS, k=8)) for _ in range(chance.choice((10, 20, 40, 60, 120))))


def _ask(url: str, session: str, body: Body) -> Body:
    headers: Mapping[str, str] = {
        "Content-Type": "application/json",
        "Authorization": "Bearer none",
        "Anthropic-Version": "2023-06-01",
        SESSION_HEADER: session,
    }
    request = urllib.request.Request(url, json.dumps(body).encode(), dict(headers))
    with urllib.request.urlopen(request, timeout=60) as reply:
        return dict(json.load(reply))


def _timings(payload: bytes) -> tuple[int, int, float]:
    """Tokens that a reply's prompt had read for it, tokens that the slot held of it, and milliseconds."""
    found = [re.findall(rb'"%s":([\d.]+)' % name, payload)[-1] for name in (b"prompt_n", b"cache_n", b"prompt_ms")]
    return int(found[0]), int(found[1]), float(found[2])


GROUP = Group("prefill", (), (Part("standin", _standin),), by_default=False)
"""Not where nothing is named: it took 27 minutes on a busy machine."""
