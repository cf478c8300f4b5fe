"""An agent's own history, as a client of the Messages API keeps it: every request says all of it."""

import json
from collections.abc import Mapping, Sequence
from copy import deepcopy
from typing import Any, Protocol

from mnemosyne.domain.wire.blocks import is_call, is_result
from mnemosyne.errors import BadTurn

Json = dict[str, Any]
Content = str | Sequence[Mapping[str, Any]]
"""A text, or blocks of the Messages API."""

MARK = {"type": "ephemeral"}
"""Marks what the provider is to cache up to here, as clients do."""


class SdkMessage(Protocol):
    """A message as the vendor's library gives it."""

    def to_dict(self) -> Mapping[str, Any]:
        """It as JSON values."""
        ...


class AgentHistory:
    """What was said so far. ``messages`` is what an earlier one left, in the shape of the Messages API."""

    def __init__(
        self,
        system: Content | None = None,
        tools: Sequence[Mapping[str, Any]] = (),
        messages: Sequence[Mapping[str, Any]] = (),
    ) -> None:
        self.system = None if system is None else _blocks(system)
        self.tools: list[Json] = deepcopy([dict(each) for each in tools])
        self.messages: list[Json] = [{**each, "content": _blocks(each["content"])} for each in messages]

    def copy(self) -> "AgentHistory":
        """The same history, to go another way with."""
        return AgentHistory(self.system, self.tools, self.messages)

    def add_user(self, content: Content) -> None:
        """The user says this, behind results that are there already. Raises BadTurn where there is nothing in it."""
        blocks = _blocks(content)
        if not blocks:
            raise BadTurn("The user says nothing: there is neither a text nor a block. Leave it out, or say something.")
        self._add("user", blocks)

    def add_result(self, call: str, content: Content, *, is_error: bool) -> None:
        """A call got this. Raises BadTurn for a call that does not wait for its result."""
        waiting = self.list_open_calls()
        if call not in waiting:
            raise BadTurn(
                f"No call {call!r} waits for a result; {', '.join(waiting) or 'none'} does. A result follows the "
                "assistant's message that has the call, once."
            )
        result: Json = {"type": "tool_result", "tool_use_id": call, "content": _blocks(content)}
        self._add_results([result | ({"is_error": True} if is_error else {})])

    def add_assistant(self, content: Content) -> None:
        """The model said this."""
        if blocks := _blocks(content):
            self._add("assistant", blocks)

    def list_open_calls(self) -> list[str]:
        """The ids of calls that have no result yet."""
        calls: list[str] = []
        for message in self.messages[-2:]:
            calls += [block["id"] for block in message["content"] if is_call(block)]
            answered = {block["tool_use_id"] for block in message["content"] if is_result(block)}
            calls = [each for each in calls if each not in answered]
        return calls

    def body(self, fields: Mapping[str, Any]) -> bytes:
        """The request that says all of it. ``fields`` are its further members. Raises BadTurn where it is not the
        model's turn.
        """
        if waiting := self.list_open_calls():
            raise BadTurn(f"Calls without a result: {', '.join(waiting)}. Give each with tool_result first.")
        if not self.messages or self.messages[-1]["role"] != "user":
            raise BadTurn("It is not the model's turn: say something with user_says first.")
        return self._write(fields, self.messages)

    def least_body(self, fields: Mapping[str, Any]) -> bytes:
        """The least that any request says: system prompt, tools, and what was said since the user last spoke."""
        spoken = [number for number, each in enumerate(self.messages) if _is_prompt(each)]
        return self._write(fields, self.messages[spoken[-1] if spoken else 0 :])

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
        """They stand before all else in a message."""
        said = self.messages.pop()["content"] if self.messages[-1]["role"] == "user" else []
        earlier = [block for block in said if is_result(block)]
        self._add("user", [*earlier, *results, *said[len(earlier) :]])

    def _add(self, role: str, blocks: list[Json]) -> None:
        if self.messages and self.messages[-1]["role"] == role:
            self.messages[-1]["content"] += blocks
        else:
            self.messages.append({"role": role, "content": blocks})


def message_of(message: Mapping[str, Any] | SdkMessage) -> Json:
    """A reply as JSON values, whoever brings it."""
    return dict(message if isinstance(message, Mapping) else message.to_dict())


def _blocks(content: Content) -> list[Json]:
    if isinstance(content, str):
        return [{"type": "text", "text": content}] if content else []
    return deepcopy([dict(block) for block in content])


def _mark(blocks: list[Json]) -> list[Json]:
    return [*blocks[:-1], {**blocks[-1], "cache_control": MARK}]


def _is_prompt(message: Json) -> bool:
    return message["role"] == "user" and any(not is_result(block) for block in message["content"])
