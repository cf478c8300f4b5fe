"""Views of a Messages API body for scripts, rules, signatures and cache; and what a rule says of a violation.

Pure, and total over any JSON object: a body of the wrong shape gives empty views, because `rules.py` judges shape.
Consecutive messages of one role are one message to the API (Messages API documentation), so `turns` merges them.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

import attrs

Json = Any
"""A decoded JSON value."""
Body = Mapping[str, Json]
"""A decoded request body."""
Headers = Sequence[tuple[str, str]]
"""Header lines in order, names in any case."""

TOKENS_PER_CHARACTER = 0.366
"""Measured on agent traffic with the tokenizer of current models."""


@attrs.frozen
class Violation:
    """One violation: the rule's name (see `rules.py`), the text of the API's error, the place in the body."""

    rule: str
    message: str
    path: str
    code: str | None = None
    status: int = 400


def refuse(rule: str, path: str, text: str) -> Violation:
    """The violation at a path; its message begins with the path."""
    return Violation(rule, f"{path}: {text}", path)


def header(headers: Headers, name: str) -> str | None:
    """The first header line of that name, in any case."""
    return next((value for key, value in headers if key.lower() == name.lower()), None)


def betas(headers: Headers) -> frozenset[str]:
    """The names in all `anthropic-beta` lines."""
    lines = [value for key, value in headers if key.lower() == "anthropic-beta"]
    return frozenset(part.strip() for line in lines for part in line.split(",") if part.strip())


def as_list(value: Json) -> list[Json]:
    """The value when it is a list, else nothing."""
    return value if isinstance(value, list) else []


def as_dict(value: Json) -> dict[str, Json]:
    """The value when it is an object, else an empty one."""
    return value if isinstance(value, dict) else {}


def blocks(content: Json) -> list[dict[str, Json]]:
    """Content as a list of blocks: a string is one text block, entries that are not objects are left out."""
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return [block for block in as_list(content) if isinstance(block, dict)]


def messages(body: Body) -> list[dict[str, Json]]:
    """The messages that are objects, in order."""
    return [message for message in as_list(body.get("messages")) if isinstance(message, dict)]


def tools(body: Body) -> list[dict[str, Json]]:
    """The tool definitions that are objects, in order."""
    return [tool for tool in as_list(body.get("tools")) if isinstance(tool, dict)]


@attrs.frozen
class Placed:
    message: int
    index: int
    role: str
    block: dict[str, Json]

    @property
    def path(self) -> str:
        """The address as the API's error messages write it."""
        return f"messages.{self.message}.content.{self.index}"

    @property
    def type(self) -> str:
        """The block's type, empty when it has none."""
        return str(self.block.get("type", ""))


def list_placed(body: Body) -> Iterator[Placed]:
    """Every content block of every message, with its place."""
    for number, message in enumerate(as_list(body.get("messages"))):
        if isinstance(message, dict):
            role = str(message.get("role", ""))
            for index, block in enumerate(blocks(message.get("content"))):
                yield Placed(number, index, role, block)


@attrs.frozen
class MessageRun:
    """A run of messages with one role, merged as the API merges them. System messages are not turns."""

    role: str
    first: int
    content: tuple[Placed, ...]

    def holds(self, kind: str) -> bool:
        return any(item.type == kind for item in self.content)


def turns(body: Body) -> list[MessageRun]:
    """User and assistant turns in order; adjacent messages of one role are one turn."""
    content = defaultdict[int, list[Placed]](list)
    for item in list_placed(body):
        content[item.message].append(item)
    roles = ((str(as_dict(each).get("role", "")), number) for number, each in enumerate(as_list(body.get("messages"))))
    said = [(role, number) for role, number in roles if role in {"user", "assistant"}]
    runs = [(role, [number for _, number in run]) for role, run in groupby(said, key=lambda each: each[0])]
    return [MessageRun(role, run[0], tuple(item for number in run for item in content[number])) for role, run in runs]


def text_in(value: Json) -> str:
    """All text of a block and of the blocks inside it (keys `text`, `content`, `thinking`), joined by lines."""
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        return "\n".join(text_in(entry) for entry in value)
    if isinstance(value, dict):
        return "\n".join(text_in(value[key]) for key in ("text", "content", "thinking") if key in value)
    return ""


def session_key(headers: Headers) -> tuple[str, str] | None:
    """(session, agent) as the client names them, or nothing when it names no session."""
    names = ("x-claude-code-session-id", "x-session-id", "session-id")
    session = next((said for said in (header(headers, name) for name in names) if said is not None), None)
    if session is None:
        return None
    return session, header(headers, "x-claude-code-agent-id") or header(headers, "thread-id") or ""


def tokens(characters: int) -> int:
    """An estimate: the same count of characters always gives the same count of tokens."""
    return int(characters * TOKENS_PER_CHARACTER)


def is_server_result(block: dict[str, Json]) -> bool:
    """Whether a block is the result of a tool that the provider runs."""
    return str(block.get("type", "")).endswith("_tool_result")


def only_sets_effort(message: dict[str, Json]) -> bool:
    """A system message without content that changes the effort from here on; it may stand anywhere but first."""
    return message.get("role") == "system" and message.get("content") == [] and "output_config" in message
