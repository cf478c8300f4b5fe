"""The strict validator: every breach of the Messages API's rules that one request alone can show.

Pure: a decoded body and its headers in, breaches out. The names R0 to R11 are used in tests and reports:

====  =====================================================================================================
R0    the body has the fields and types that every request needs
R1    order of roles: a user first, system messages only where the API takes them
R2    each `tool_use` is answered in the next user turn, first thing, exactly once
R3    no empty text, no empty message
R4    cache markers: at most four, long before short, only on blocks that may carry one
R5    tools: unique names, a choice that exists, no forced choice or prefill where the model refuses it
R6    thinking blocks: complete, in assistant messages, and first in a turn under manual thinking
R7    a beta field and its `anthropic-beta` name travel together
R8    at most 32 MB
R9    the billing entry of `system` comes first and alone
R11   tools that messages add or remove: their form, their names, and models that take them
====  =====================================================================================================

R10 (tools never change within a session) needs memory and lives in `sessions.py`; whether a signature fits its
conversation needs a key and lives in `signatures.py`.

Source: Messages API documentation (messages, tool use, prompt caching, extended thinking, mid-conversation system
messages, errors). Two users in a row are *not* a breach: the API merges them, and a real client sends them.
"""

import itertools
from collections.abc import Callable, Iterator

from mnemosyne_lab.provider import models
from mnemosyne_lab.provider.reading import (
    Body,
    Headers,
    Json,
    as_list,
    blocks,
    is_server_result,
    messages,
    only_sets_effort,
)
from mnemosyne_lab.provider.rules_features import beta_breaches, billing_breaches, thinking_breaches, tool_breaches
from mnemosyne_lab.provider.rules_markers import Violation, marker_breaches
from mnemosyne_lab.provider.rules_pairing import empty_text_breaches, pairing_breaches
from mnemosyne_lab.provider.rules_tool_changes import tool_change_breaches

__all__ = ["LARGEST_BODY", "Violation", "too_large", "violations"]

LARGEST_BODY = 32 * 1024 * 1024
"""Bytes."""


def violations(body: Body, headers: Headers, *, counting: bool = False) -> list[Violation]:
    """Every breach in one request, in the order of the rules.

    `counting` says that the body is meant for count_tokens, which takes no generation fields. Raises nothing: a body
    of the wrong shape is a breach of R0.
    """
    shape = list(_shape(body, counting))
    if shape:
        return shape
    found: list[Violation] = []
    for check in _CHECKS:
        found.extend(check(body, headers))
    return found


def too_large(size: int) -> Violation | None:
    """R8, from the size of the encoded body in bytes."""
    if size <= LARGEST_BODY:
        return None
    return Violation("R8", "Request exceeds the maximum size of 32 MB", "")


def _shape(body: Body, counting: bool) -> Iterator[Violation]:
    if not isinstance(body, dict):
        yield Violation("R0", "The request body must be a JSON object", "")
        return
    if not isinstance(body.get("model"), str) or not body["model"]:
        yield Violation("R0", "model: Field required", "model")
    if not counting and not _is_count(body.get("max_tokens")):
        yield Violation("R0", "max_tokens: Input should be an integer of 0 or more", "max_tokens")
    if not isinstance(body.get("messages"), list) or not body["messages"]:
        yield Violation("R0", "messages: at least one message is required", "messages")
        return
    for number, message in enumerate(body["messages"]):
        yield from _message_shape(message, f"messages.{number}")
    for field, kind, name in (("tools", list, "a list"), ("system", (str, list), "a string or a list of text blocks")):
        if body.get(field) is not None and not isinstance(body[field], kind):
            yield Violation("R0", f"{field}: Input should be {name}", field)
    for number, tool in enumerate(as_list(body.get("tools"))):
        if not isinstance(tool, dict) or not isinstance(tool.get("name"), str | None):
            yield Violation("R0", f"tools.{number}: Input should be a tool definition", f"tools.{number}")
    for number, entry in enumerate(as_list(body.get("system"))):
        if not isinstance(entry, dict) or entry.get("type") != "text" or not isinstance(entry.get("text"), str):
            yield Violation("R0", f"system.{number}: Input should be a text block", f"system.{number}")


def _message_shape(message: Json, path: str) -> Iterator[Violation]:
    if not isinstance(message, dict):
        yield Violation("R0", f"{path}: Input should be a message", path)
        return
    if message.get("role") not in ("user", "assistant", "system"):
        yield Violation("R0", f"{path}.role: Input should be 'user', 'assistant' or 'system'", f"{path}.role")
    content = message.get("content")
    if not isinstance(content, str | list):
        yield Violation("R0", f"{path}.content: Input should be a string or a list of blocks", f"{path}.content")
    for index, block in enumerate(as_list(content)):
        where = f"{path}.content.{index}"
        if not isinstance(block, dict) or not isinstance(block.get("type"), str):
            yield Violation("R0", f"{where}: Input should be an object with a type", where)
            continue
        for field in _TEXT_FIELDS.get(block["type"], ()):
            if not isinstance(block.get(field), str):
                yield Violation("R0", f"{where}.{block['type']}.{field}: Field required", f"{where}.{field}")
        if block["type"] == "tool_use" and not isinstance(block.get("input"), dict):
            yield Violation("R0", f"{where}.tool_use.input: Input should be an object", f"{where}.input")


_TEXT_FIELDS = {"text": ("text",), "tool_use": ("id", "name"), "tool_result": ("tool_use_id",)}


def _is_count(value: Json) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _roles(body: Body, headers: Headers) -> Iterator[Violation]:
    said = [(number, message) for number, message in enumerate(messages(body)) if not only_sets_effort(message)]
    if messages(body)[0]["role"] == "system":
        yield Violation("R1", "messages.0: the first message must not have the role system", "messages.0")
    spoken = [(number, message) for number, message in said if message["role"] != "system"]
    if not spoken or spoken[0][1]["role"] != "user":
        first = spoken[0][0] if spoken else 0
        yield Violation("R1", f"messages.{first}: first message must use the user role", f"messages.{first}")
    for before, (number, message) in itertools.pairwise(spoken):
        if message["role"] == "assistant" == before[1]["role"]:
            text = f"messages.{number}: roles must alternate, but two assistant messages follow each other"
            yield Violation("R1", text, f"messages.{number}")
    refused = models.find(body["model"]).refuses_system_messages
    for position, (number, message) in enumerate(said):
        if message["role"] != "system":
            continue
        path = f"messages.{number}"
        if refused:
            yield Violation("R1", f"{path}: this model does not take messages with the role system", path)
        # System messages that follow each other are judged together.
        earlier = [each for _, each in said[:position] if each["role"] != "system"]
        later = next((each for _, each in said[position + 1 :] if each["role"] != "system"), None)
        if not _may_precede_system(earlier[-1] if earlier else None):
            yield Violation("R1", f"{path}: a system message must follow a user message", path)
        if later is not None and later["role"] != "assistant":
            yield Violation("R1", f"{path}: a system message must be last or be followed by an assistant message", path)
        for block in blocks(message["content"]):
            if block.get("type") not in {"text", "tool_addition", "tool_removal"}:
                yield Violation("R1", f"{path}: a system message holds text only, not {block.get('type')}", path)


def _may_precede_system(message: dict[str, Json] | None) -> bool:
    if message is None:
        return False
    if message["role"] == "user":
        return True
    content = blocks(message["content"])
    return message["role"] == "assistant" and bool(content) and is_server_result(content[-1])


def _markers(body: Body, headers: Headers) -> Iterator[Violation]:
    return marker_breaches(body)


_CHECKS: tuple[Callable[[Body, Headers], Iterator[Violation]], ...] = (
    _roles,
    pairing_breaches,
    empty_text_breaches,
    _markers,
    tool_breaches,
    tool_change_breaches,
    thinking_breaches,
    beta_breaches,
    billing_breaches,
)
