"""The message history that an agent keeps; like any Messages API client, it sends all of it with each request."""

import json
from collections.abc import Mapping, Sequence
from copy import deepcopy
from typing import Any, Protocol

from mnemosyne.domain.wire.blocks import is_call, is_result
from mnemosyne.errors import BadTurn

Json = dict[str, Any]
Content = str | Sequence[Mapping[str, Any]]
"""A text or a list of Messages API blocks."""

MARK = {"type": "ephemeral"}
"""The cache marker: the provider caches the prompt up to the marked block."""


class SdkMessage(Protocol):
    """A message object of the vendor's library."""

    def to_dict(self) -> Mapping[str, Any]:
        """Return the message as JSON values."""


class AgentHistory:
    """The conversation so far. ``messages`` continues an earlier history, in the Messages API's format."""

    def __init__(
        self,
        system: Content | None = None,
        tools: Sequence[Mapping[str, Any]] = (),
        messages: Sequence[Mapping[str, Any]] = (),
    ) -> None:
        self.system = None if system is None else _blocks(system)
        self.tools: list[Json] = deepcopy([dict(tool) for tool in tools])
        self.messages: list[Json] = [{**message, "content": _blocks(message["content"])} for message in messages]

    def copy(self) -> "AgentHistory":
        """Return an independent copy."""
        return AgentHistory(self.system, self.tools, self.messages)

    def add_user(self, content: Content) -> None:
        """Add user content after any tool results already there. Raises BadTurn if it is empty."""
        blocks = _blocks(content)
        if not blocks:
            raise BadTurn("The user message is empty: pass a text or at least one block, or skip the call.")
        self._add("user", blocks)

    def add_result(self, call: str, content: Content, *, is_error: bool) -> None:
        """Add a call's result. Raises BadTurn if the call is not waiting for one."""
        waiting = self.list_open_calls()
        if call not in waiting:
            raise BadTurn(
                f"Call {call!r} is not waiting for a result; open calls: {', '.join(waiting) or 'none'}. Pass each "
                "result once, after the assistant message that contains the call."
            )
        result: Json = {"type": "tool_result", "tool_use_id": call, "content": _blocks(content)}
        self._add_results([result | ({"is_error": True} if is_error else {})])

    def add_assistant(self, content: Content) -> None:
        """Add the model's reply."""
        if blocks := _blocks(content):
            self._add("assistant", blocks)

    def list_open_calls(self) -> list[str]:
        """Return the ids of the calls that have no result yet."""
        calls: list[str] = []
        for message in self.messages[-2:]:
            calls += [block["id"] for block in message["content"] if is_call(block)]
            answered = {block["tool_use_id"] for block in message["content"] if is_result(block)}
            calls = [call for call in calls if call not in answered]
        return calls

    def body(self, fields: Mapping[str, Any]) -> bytes:
        """Return the JSON of a request with the whole history; ``fields`` are its other members.

        Raises BadTurn if it is not the model's turn.
        """
        if waiting := self.list_open_calls():
            raise BadTurn(f"Calls without a result: {', '.join(waiting)}. Add each result with tool_result first.")
        if not self.messages or self.messages[-1]["role"] != "user":
            raise BadTurn("It is not the model's turn: add a user message with user_says first.")
        return self._write(fields, self.messages)

    def least_body(self, fields: Mapping[str, Any]) -> bytes:
        """Return the smallest possible request: system prompt, tools and all messages since the last prompt."""
        prompts = [number for number, message in enumerate(self.messages) if _is_prompt(message)]
        return self._write(fields, self.messages[prompts[-1] if prompts else 0 :])

    def _write(self, fields: Mapping[str, Any], messages: Sequence[Json]) -> bytes:
        body: Json = {**fields}
        if self.tools:
            body["tools"] = self.tools
        if self.system:
            body["system"] = _mark(self.system)
        last = {**messages[-1], "content": _mark(messages[-1]["content"])}
        body["messages"] = [*messages[:-1], last]
        return json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass")

    def _add_results(self, results: list[Json]) -> None:
        """Insert the results before the user message's other blocks, as the API requires."""
        blocks = self.messages.pop()["content"] if self.messages[-1]["role"] == "user" else []
        earlier = [block for block in blocks if is_result(block)]
        self._add("user", [*earlier, *results, *blocks[len(earlier) :]])

    def _add(self, role: str, blocks: list[Json]) -> None:
        if self.messages and self.messages[-1]["role"] == role:
            self.messages[-1]["content"] += blocks
        else:
            self.messages.append({"role": role, "content": blocks})


def message_of(message: Mapping[str, Any] | SdkMessage) -> Json:
    """Return a reply as JSON values, from a mapping or a vendor library's object."""
    return dict(message if isinstance(message, Mapping) else message.to_dict())


def _blocks(content: Content) -> list[Json]:
    if isinstance(content, str):
        return [{"type": "text", "text": content}] if content else []
    return deepcopy([dict(block) for block in content])


def _mark(blocks: list[Json]) -> list[Json]:
    return [*blocks[:-1], {**blocks[-1], "cache_control": MARK}]


def _is_prompt(message: Json) -> bool:
    return message["role"] == "user" and any(not is_result(block) for block in message["content"])
