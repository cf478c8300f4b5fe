"""A scripted endpoint of a helper model on loopback. It can fail, and it can answer any task by labels.

An answer by labels has only spans that occur in the request, in the task's own schema.
"""

import json
import re
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any

import attrs
import h11
import trio

from mnemosyne_lab.provider.server import Connection

Json = dict[str, Any]

Answer = tuple[int, bytes] | None
"""Status and body; None closes the connection in the middle of the body."""

USED = 100, 20


def says(path: str, text: str, end: str | None = None) -> Answer:
    """A complete reply with this text, in the dialect of the path. ``end`` is its stop reason, if unusual."""
    into, out = USED
    if path.endswith("/messages"):
        content = [{"type": "text", "text": text}]
        usage = {"input_tokens": into, "output_tokens": out}
        message = {"id": "m", "type": "message", "role": "assistant", "model": "x", "stop_reason": end or "end_turn"}
        return 200, json.dumps({**message, "content": content, "usage": usage}).encode()
    used = {"prompt_tokens": into, "completion_tokens": out}
    choice = {"message": {"content": text}, "finish_reason": end or "stop"}
    return 200, json.dumps({"choices": [choice], "usage": used}).encode()


@attrs.frozen(kw_only=True)
class SentTask:
    """A task as the endpoint sees it: its name, the whole text, the fenced texts, and the schema of the answer."""

    task: str
    text: str
    sections: tuple[str, ...]
    schema: Json


def read_sent(body: Json) -> SentTask:
    """Read the body of a request in either dialect. The first line of the system prompt names the task."""
    messages = body.get("messages", [])
    system = body.get("system") or next((each["content"] for each in messages if each["role"] == "system"), "")
    text = _text_of(next((each["content"] for each in messages if each["role"] == "user"), ""))
    task = re.match(r"Task: ([\w-]+)/\d+\n", _text_of(system))
    fence = re.search(r"^([0-9a-f]{24}) end$", text, re.MULTILINE)
    sections = re.split(rf"^{fence[1]} .*$", text, flags=re.MULTILINE)[1:-1] if fence else ()
    declared = body.get("output_config", {}).get("format", {}).get("schema")
    declared = declared or body.get("response_format", {}).get("json_schema", {}).get("schema", {})
    return SentTask(task=task[1] if task else "", text=text, sections=tuple(sections), schema=declared)


def _text_of(content: Any) -> str:
    return content if isinstance(content, str) else "\n".join(each.get("text", "") for each in content)


@attrs.frozen
class Label:
    """A ``span`` that answers a ``task``, if ``about`` (such as the question) occurs in the request. ``members`` are
    the other members of its item in the answer.
    """

    task: str
    span: str
    about: str = ""
    members: Json = attrs.field(factory=dict)


def answer_by_labels(labels: Iterable[Label]) -> Callable[[str, Json], Answer]:
    """Answer each task with its labelled spans that occur in the request; white space does not matter."""
    by_task: dict[str, list[Label]] = {}
    for each in labels:
        by_task.setdefault(each.task, []).append(each)

    def answer(path: str, body: Json) -> Answer:
        sent = read_sent(body)
        text = _squeeze(sent.text)
        fitting = [
            each for each in by_task.get(sent.task, ()) if _squeeze(each.span) in text and _squeeze(each.about) in text
        ]
        return says(path, json.dumps(_fill("", sent.schema, fitting, sent), ensure_ascii=False))

    return answer


def _squeeze(text: str) -> str:
    return " ".join(text.split())


SPANS = ("text", "quote", "title", "goal", "summary", "caption")
"""The members of answers that a span can be; other strings are empty, unless the label has them."""


def _fill(name: str, schema: Json, labels: Sequence[Label], sent: SentTask) -> Any:
    """A value of this schema with the labels' spans as strings, and numbers of the sections that contain them."""
    if len(labels) == 1 and name in labels[0].members:
        return labels[0].members[name]
    if "enum" in schema:
        return schema["enum"][0]
    match schema.get("type"):
        case "object":
            return {key: _fill(key, each, labels, sent) for key, each in schema.get("properties", {}).items()}
        case "array":
            return [_fill("", schema["items"], [each], sent) for each in labels]
        case "integer" | "number":
            span = _squeeze(labels[0].span) if labels else None
            return next((at for at, each in enumerate(sent.sections, 1) if span and span in _squeeze(each)), 0)
        case "boolean":
            return bool(labels)
        case _:
            return labels[0].span if labels and name in (*SPANS, "") else ""


@attrs.define
class Endpoint:
    """Answers each request by ``answer`` (path and body), and records it: (path, headers, body)."""

    answer: Callable[[str, Json], Answer]
    url: str = ""
    slow: bool = False
    headers: dict[str, str] = attrs.field(factory=dict)
    requests: list[tuple[str, dict[str, str], Json]] = attrs.field(factory=list)
    was_asked: trio.Event = attrs.field(factory=trio.Event)
    released: trio.Event = attrs.field(factory=trio.Event)

    async def serve(self, stream: trio.SocketStream) -> None:
        """Answer one connection. A client that ends during a request resets it."""
        connection = Connection(stream)
        with suppress(trio.BrokenResourceError, h11.RemoteProtocolError):
            while isinstance(head := await connection.next_event(), h11.Request):
                body = await connection.body()
                path = head.target.decode()
                given = json.loads(body) if body else {}
                self.requests.append((path, {k.decode(): v.decode() for k, v in head.headers}, given))
                self.was_asked.set()
                if self.slow:
                    await self.released.wait()
                answer = self.answer(path, given)
                status, payload = answer or (200, b'{"choices": [')
                size = str(len(payload) + (answer is None))
                fields = [("Content-Type", "application/json"), ("Content-Length", size), *self.headers.items()]
                await connection.send(h11.Response(status_code=status, headers=fields))
                await connection.send(h11.Data(data=payload))
                if answer is None:
                    return
                await connection.send(h11.EndOfMessage())
                if not connection.reusable():
                    return


@asynccontextmanager
async def open_endpoint(answer: Callable[[str, Json], Answer]) -> AsyncIterator[Endpoint]:
    endpoint = Endpoint(answer)
    [listener] = await trio.open_tcp_listeners(0, host="127.0.0.1")
    endpoint.url = f"http://127.0.0.1:{listener.socket.getsockname()[1]}"
    async with trio.open_nursery() as nursery:
        nursery.start_soon(trio.serve_listeners, endpoint.serve, [listener])
        yield endpoint
        nursery.cancel_scope.cancel()
