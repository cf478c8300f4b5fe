r"""The dialects as the judge reads them: requests and replies of each in the form of the Messages API.

Written from the APIs' documentation; nothing is shared with the proxy's code. The stand-in reads messages in the same
way.
"""

import gzip
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import attrs

from mnemosyne_lab.provider.openai_messages import read_chat_message, read_input, read_item, read_parts
from tests.http.managing import bare

# The Messages API: a strict reader of its replies

Json = dict[str, Any]

MEMORY_TOOLS = frozenset({"memory_query", "memory_restore", "memory_release", "memory_search", "memory_tool"})
"""The names that no client may ever see in a call."""

BILLING = "x-anthropic-billing-header:"
THINKING = ("thinking", "redacted_thinking")

_DELTAS = {
    "text_delta": ("text", "text"),
    "thinking_delta": ("thinking", "thinking"),
    "signature_delta": ("thinking", "signature"),
    "input_json_delta": ("tool_use", "partial_json"),
    "citations_delta": ("text", "citation"),
}


@attrs.define
class ReadReply:
    """A reply as a strict client reads it. ``message`` holds the part that arrived."""

    status: int
    message: Json = attrs.field(factory=dict)
    faults: list[str] = attrs.field(factory=list)
    usages: list[Json] = attrs.field(factory=list)
    error: str | None = None
    """The type of an error, which arrived as a body or an event."""
    ended: bool = False

    @property
    def content(self) -> list[Json]:
        """The blocks that arrived completely."""
        content: list[Json] = self.message.get("content", [])
        return content


def read_reply(status: int, headers: Mapping[str, str], raw: bytes, *, cut: bool = False) -> ReadReply:
    reply = ReadReply(status)
    if headers.get("content-encoding") == "gzip":
        raw = gzip.decompress(raw)
    if headers.get("content-type", "").startswith("text/event-stream"):
        _Stream(reply).read(raw, cut=cut)
    elif (found := read_whole(reply, raw, cut=cut)) is not None:
        reply.message, reply.usages = found, [found.get("usage", {})]
    return reply


def read_whole(reply: ReadReply, raw: bytes, *, cut: bool) -> Json | None:
    """The body of a reply that is not streamed; None if it is an error, or no JSON."""
    try:
        found: Json = json.loads(raw)
    except ValueError:
        if not cut:
            reply.faults.append("the body is not JSON")
        return None
    if found.get("error") is not None or reply.status != 200:
        reply.error = str(found.get("error", {}).get("type"))
        return None
    reply.ended = not cut
    return found


def read_events(reply: ReadReply, raw: bytes, *, cut: bool) -> Iterator[Json]:
    """The events of a stream. The end mark of OpenAI's streams is an event of the type ``done``."""
    frames = raw.split(b"\n\n")
    if frames.pop() and not cut:
        reply.faults.append("the stream ends within a frame")
    for frame in frames:
        lines = [line for line in frame.split(b"\n") if line and not line.startswith(b":")]
        fields = dict(line.split(b": ", 1) for line in lines)
        if fields.get(b"data") == b"[DONE]":
            yield {"type": "done"}
        elif fields:
            try:
                event = json.loads(fields[b"data"])
            except (KeyError, ValueError):
                reply.faults.append(f"a frame without an event: {frame[:80]!r}")
                continue
            if fields.get(b"event", b"").decode() != event.get("type", ""):
                reply.faults.append(f"an event is named {fields.get(b'event')!r} and is {event.get('type')!r}")
            yield event


class _Stream:
    def __init__(self, reply: ReadReply) -> None:
        self._reply = reply
        self._open: Json | None = None
        self._json = ""
        self._next = 0
        self._told_end = False

    def read(self, raw: bytes, *, cut: bool) -> None:
        for event in read_events(self._reply, raw, cut=cut):
            self._take(event)
        if not self._reply.ended and self._reply.error is None and not cut:
            self._fault("the stream ends without message_stop")

    def _fault(self, words: str) -> None:
        self._reply.faults.append(words)

    def _take(self, event: Json) -> None:
        kind = event["type"]
        if self._reply.ended or self._reply.error is not None:
            self._fault(f"{kind} after the end")
        if kind not in ("message_start", "ping", "error") and not self._reply.message:
            self._fault(f"{kind} before message_start")
        match kind:
            case "message_start" if self._reply.message:
                self._fault("a second message_start")
            case "message_start":
                self._reply.message = {**event["message"], "content": []}
                self._reply.usages.append(event["message"].get("usage", {}))
                if event["message"].get("content") != []:
                    self._fault("message_start has content")
            case "content_block_start":
                self._start(event)
            case "content_block_delta":
                self._delta(event)
            case "content_block_stop":
                self._stop(event)
            case "message_delta":
                if self._open is not None:
                    self._fault("message_delta within a block")
                self._told_end = True
                self._reply.message.update(event["delta"])
                self._reply.usages.append(event.get("usage", {}))
            case "message_stop":
                self._reply.ended = True
                if not self._told_end or self._open is not None:
                    self._fault("message_stop without message_delta, or within a block")
            case "error":
                self._reply.error = str(event["error"]["type"])
            case "ping":
                pass
            case _:
                self._fault(f"an unknown event: {kind}")

    def _start(self, event: Json) -> None:
        if self._open is not None or self._told_end:
            self._fault("a block begins within a block, or after message_delta")
        if event["index"] != self._next:
            self._fault(f"block {event['index']} where {self._next} comes next")
        self._next = event["index"] + 1
        self._open, self._json = dict(event["content_block"]), ""

    def _delta(self, event: Json) -> None:
        delta = event["delta"]
        expected = _DELTAS.get(delta["type"])
        if self._open is None or event["index"] != self._next - 1 or expected is None:
            self._fault(f"a delta that belongs to no block: {delta}")
            return
        kind, key = expected
        if self._open["type"] != kind:
            self._fault(f"{delta['type']} in a block of type {self._open['type']}")
        elif key == "partial_json":
            self._json += delta[key]
        elif key == "citation":
            self._open.setdefault("citations", []).append(delta[key])
        else:
            self._open[key] = self._open.get(key, "") + delta[key]

    def _stop(self, event: Json) -> None:
        if self._open is None or event["index"] != self._next - 1:
            self._fault("a block ends that is not open")
            return
        if self._open["type"] == "tool_use":
            self._open["input"] = read_input(self._json)
        self._reply.content.append(self._open)
        self._open = None


def blocks_of(content: Any) -> list[Json]:
    return [{"type": "text", "text": content}] if isinstance(content, str) else list(content)


def messages_of(body: Json) -> list[Json]:
    """The messages with their content as blocks."""
    return [{**message, "content": blocks_of(message["content"])} for message in body["messages"]]


def frame_of(body: Json) -> list[Json]:
    """Tools and the system prompt without its billing entry, without markers."""
    system = [each for each in blocks_of(body.get("system") or []) if not each["text"].startswith(BILLING)]
    return [bare(piece) for piece in (*body.get("tools", []), *system)]


def prompt_of(body: Json) -> list[str]:
    """The prompt as the provider caches it, piece by piece."""
    pieces: list[Any] = frame_of(body)
    for message in messages_of(body):
        options = {key: value for key, value in message.items() if key != "content"}
        if not message["content"]:
            pieces.append(options)
        pieces += [{**options, "block": block} for block in message["content"]]
    return [json.dumps(bare(piece)) for piece in pieces]


def is_hidden(block: Json) -> bool:
    """Whether a block is a call that the client must not see."""
    return block.get("type") == "tool_use" and block.get("name") in MEMORY_TOOLS


def attachments_in(content: Sequence[Json]) -> Iterator[Json]:
    """Images and documents, including those within results."""
    for block in content:
        if block.get("type") in ("image", "document"):
            yield bare(block)
        elif isinstance(block.get("content"), list):
            yield from attachments_in(block["content"])


# The dialects


@attrs.frozen(kw_only=True, eq=False)
class Spoken:
    """A dialect. ``shown`` joins several rounds as a client sees them, ``kept`` is the part of it that the client
    keeps.
    """

    path: str
    begun: bytes
    """The beginning of a stream before the model's first text; empty if it is withheld until then."""
    places: Mapping[str, str | int] = {}
    """Where the stand-in has the places in a stream that have a name in the Messages API."""
    asked: Callable[[Json], Json]
    read: Callable[..., ReadReply]
    shown: Callable[[Sequence[Json]], list[Json]] = list
    kept: Callable[[Sequence[Json]], list[Json]] = list
    is_begun: Callable[[Sequence[Json], Sequence[Json]], bool] = lambda some, said: some == said[: len(some)]
    """Whether the content shown to the client is a beginning of the model's content."""


def spoken_at(target: str) -> Spoken | None:
    """The dialect in which a path asks for a reply; None for other paths."""
    path = target.partition("?")[0]
    return next((each for each in SPOKEN if path.endswith(each.path)), None)


def _joined(said: Iterable[Json]) -> list[Json]:
    """Messages in the roles of the Messages API, with neighbours of one role joined."""
    messages: list[Json] = []
    for each in said:
        role = {"developer": "system", "tool": "user"}.get(each["role"], each["role"])
        if messages and messages[-1]["role"] == role:
            messages[-1]["content"].extend(each["content"])
        elif each["content"]:
            messages.append({"role": role, "content": list(each["content"])})
    return messages


# Responses


def _asked_of_responses(body: Json) -> Json:
    rest = {key: value for key, value in body.items() if key not in ("input", "instructions")}
    return {**rest, "system": read_parts(body.get("instructions")), "messages": _joined(map(read_item, body["input"]))}


def _blocks_of_items(items: Sequence[Json]) -> list[Json]:
    return [block for item in items for block in read_item(item)["content"]]


def read_response(status: int, headers: Mapping[str, str], raw: bytes, *, cut: bool = False) -> ReadReply:
    reply = ReadReply(status)
    if not headers.get("content-type", "").startswith("text/event-stream"):
        found = read_whole(reply, raw, cut=cut)
        if found is not None:
            _take_response(reply, found)
            reply.message["content"] = _blocks_of_items(found["output"])
            _read_stop(reply)
        return reply
    items: list[Json] = []
    opened: list[str] = []
    for number, event in enumerate(read_events(reply, raw, cut=cut)):
        if event.get("sequence_number", number) != number:
            reply.faults.append(f"event {event['sequence_number']} where {number} comes next")
        if reply.ended or reply.error is not None:
            reply.faults.append(f"{event['type']} after the end")
        _take_event(reply, event, items, opened)
    reply.message["content"] = _blocks_of_items(items)
    if not (reply.ended or reply.error or cut):
        reply.faults.append("the stream ends without the response's end")
    _read_stop(reply)
    return reply


def _take_event(reply: ReadReply, event: Json, items: list[Json], opened: list[str]) -> None:
    match event["type"]:
        case "response.created" if reply.message:
            reply.faults.append("a second response.created")
        case "response.created":
            reply.message = {"id": event["response"]["id"]}
        case "response.output_item.added":
            if not event["output_index"] == len(opened) == len(items):
                reply.faults.append(f"item {event['output_index']} where {len(items)} comes next")
            opened.append(event["item"]["id"])
        case "response.output_item.done":
            if event["output_index"] != len(items) or opened[-1] != event["item"]["id"]:
                reply.faults.append(f"an item ends that is not open: {event['item']}")
            items.append(event["item"])
        case "response.completed" | "response.incomplete":
            if event["response"]["id"] != reply.message.get("id") or event["response"]["output"] != items:
                reply.faults.append("the last event tells another response than those before it")
            _take_response(reply, event["response"])
        case "response.failed":
            reply.error = str(event["response"]["error"]["code"])
        case "error":
            reply.error = str(event["code"])
        case _ if "item_id" in event and event["item_id"] != opened[event["output_index"]]:
            reply.faults.append(f"an event of no item: {event}")


def _take_response(reply: ReadReply, response: Json) -> None:
    reply.message = {key: response[key] for key in ("id", "object", "model", "status", "incomplete_details")}
    reply.usages.append(_usage(response["usage"], "input_tokens", "output_tokens"))
    reply.ended = True


def _usage(told: Json, before: str, after: str) -> Json:
    return {"input_tokens": told[before], "output_tokens": told[after]}


def _read_stop(reply: ReadReply) -> None:
    """The stop reason, in the terms of the Messages API."""
    called = any(block["type"] == "tool_use" for block in reply.content)
    if reply.ended:
        reply.message["stop_reason"] = "tool_use" if called else "end_turn"


# Chat Completions


def _asked_of_chat(body: Json) -> Json:
    first = next((at for at, each in enumerate(body["messages"]) if each["role"] != "system"), 0)
    system = [text for each in body["messages"][:first] for text in read_parts(each["content"])]
    said = _joined(map(read_chat_message, body["messages"][first:]))
    rest = {key: value for key, value in body.items() if key not in ("messages", "tools")}
    tools = {"tools": [{"name": each["function"]["name"], **each} for each in body["tools"]]} if "tools" in body else {}
    return {**rest, **tools, "system": system, "messages": said}


def read_completion(status: int, headers: Mapping[str, str], raw: bytes, *, cut: bool = False) -> ReadReply:
    reply = ReadReply(status)
    if not headers.get("content-type", "").startswith("text/event-stream"):
        found = read_whole(reply, raw, cut=cut)
        if found is not None:
            [choice] = found["choices"]
            _take_frame(reply, found)
            reply.message |= {
                "content": read_chat_message(choice["message"])["content"],
                "finish": choice["finish_reason"],
            }
            _read_stop(reply)
        return reply
    message: Json = {"role": "assistant", "content": "", "tool_calls": []}
    for event in read_events(reply, raw, cut=cut):
        if reply.ended or reply.error is not None:
            reply.faults.append(f"{event} after the end")
        if event.get("type") == "done":
            reply.ended = True
        elif "error" in event:
            reply.error = str(event["error"]["type"])
        else:
            _take_chunk(reply, event, message)
    if "finish" in reply.message:
        reply.ended = reply.error is None  # not every server sends [DONE]
    elif reply.ended or not (reply.error or cut):
        reply.faults.append("the stream ends without a reason")
    if not reply.ended:  # a call may be incomplete
        message["tool_calls"] = []
    reply.message["content"] = read_chat_message(message)["content"]
    _read_stop(reply)
    return reply


def _take_frame(reply: ReadReply, frame: Json) -> None:
    named = {"id": frame["id"], "model": frame["model"]}
    if any(reply.message.get(key, value) != value for key, value in named.items()):
        reply.faults.append(f"a chunk of another completion: {named}")
    reply.message |= named
    if frame.get("usage"):
        reply.usages.append(_usage(frame["usage"], "prompt_tokens", "completion_tokens"))


def _take_chunk(reply: ReadReply, chunk: Json, message: Json) -> None:
    _take_frame(reply, chunk)
    for choice in chunk["choices"]:
        if "finish" in reply.message:
            reply.faults.append("a choice behind its end")
        delta = choice["delta"]
        for key in ("content", "reasoning_content"):
            message[key] = message.get(key, "") + (delta.get(key) or "")
        for piece in delta.get("tool_calls") or ():
            calls = message["tool_calls"]
            if piece["index"] == len(calls):
                calls.append({**piece, "function": {"arguments": "", **piece["function"]}})
            elif piece["index"] == len(calls) - 1:
                calls[-1]["function"]["arguments"] += piece["function"]["arguments"]
            else:
                reply.faults.append(f"a piece of a call that is not open: {piece}")
        if choice.get("finish_reason"):
            reply.message["finish"] = choice["finish_reason"]


def _as_one_message(said: Sequence[Json]) -> list[Json]:
    """Several rounds as one message, without the whitespace between them."""
    words = {
        kind: "".join("".join(str(block[kind]).split()) for block in said if block["type"] == kind)
        for kind in ("thinking", "text")
    }
    shown: list[Json] = [{"type": kind, kind: joined} for kind, joined in words.items() if joined]
    return [*shown, *(block for block in said if block["type"] == "tool_use")]


def _is_begun_as_one_message(some: Sequence[Json], said: Sequence[Json]) -> bool:
    whole = {block["type"]: block for block in said}
    words = [block for block in some if block["type"] != "tool_use"]
    calls = [[block for block in each if block["type"] == "tool_use"] for each in (some, said)]
    begun = [whole.get(each["type"], {}).get(each["type"], "").startswith(each[each["type"]]) for each in words]
    return all(begun) and calls[0] == calls[1][: len(calls[0])]


def _without_thoughts(said: Sequence[Json]) -> list[Json]:
    """The part of a completion that clients send back."""
    return [block for block in said if block["type"] not in THINKING]


MESSAGES = Spoken(path="/messages", begun=b"content_block_start", asked=dict, read=read_reply)
RESPONSES = Spoken(
    path="/responses",
    begun=b"output_item.added",
    places={
        "content_block_start": "response.output_item.added",
        "content_block_delta": "response.function_call_arguments.delta",
        "content_block_stop": "response.output_item.done",
        "message_delta": "response.completed",
    },
    asked=_asked_of_responses,
    read=read_response,
)
CHAT = Spoken(
    path="/chat/completions",
    begun=b"",
    places={"content_block_start": 1, "content_block_delta": 2, "content_block_stop": 3, "message_delta": "finish"},
    asked=_asked_of_chat,
    read=read_completion,
    shown=_as_one_message,
    kept=_without_thoughts,
    is_begun=_is_begun_as_one_message,
)
SPOKEN = (MESSAGES, RESPONSES, CHAT)
