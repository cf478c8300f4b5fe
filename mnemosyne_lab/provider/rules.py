"""The strict validator: every violation of the Messages API's rules that one request alone can show.

Pure: a decoded body and its headers in, violations out. The names R0 to R11 are used in tests and reports:

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

The latter rules are in `rules_features.py`, with R10 (tools never change within a session), which needs memory; whether
a signature fits its conversation needs a key and lives in `signatures.py`.

Source: Messages API documentation (messages, tool use, prompt caching, extended thinking, mid-conversation system
messages, errors). Two users in a row are *not* a violation: the API merges them, and a real client sends them.
"""

import itertools
from collections import Counter
from collections.abc import Iterator

import attrs

from mnemosyne_lab.provider import models
from mnemosyne_lab.provider.reading import (
    Body,
    Headers,
    Json,
    MessageRun,
    Violation,
    as_dict,
    as_list,
    blocks,
    is_server_result,
    list_placed,
    messages,
    only_sets_effort,
    refuse,
    tools,
    turns,
)
from mnemosyne_lab.provider.rules_features import (
    beta_violations,
    billing_violations,
    thinking_violations,
    tool_change_violations,
    tool_violations,
)

LARGEST_BODY = 32 * 1024 * 1024
"""Bytes."""


def violations(body: Body, headers: Headers, *, counting: bool = False) -> list[Violation]:
    """Every violation in one request, in the order of the rules.

    `counting` says that the body is meant for count_tokens, which takes no generation fields. Raises nothing: a body
    of the wrong shape is a violation of R0.
    """
    return list(_check_shape(body, counting)) or [
        *_check_roles(body),
        *_check_pairs(body),
        *_check_texts(body),
        *_check_markers(body),
        *tool_violations(body),
        *tool_change_violations(body, headers),
        *thinking_violations(body),
        *beta_violations(body, headers),
        *billing_violations(body),
    ]


def too_large(size: int) -> Violation | None:
    """R8, from the size of the encoded body in bytes."""
    if size <= LARGEST_BODY:
        return None
    return Violation("R8", "Request exceeds the maximum size of 32 MB", "")


# R0


def _check_shape(body: Body, counting: bool) -> Iterator[Violation]:
    if not isinstance(body, dict):
        yield Violation("R0", "The request body must be a JSON object", "")
        return
    if not isinstance(body.get("model"), str) or not body["model"]:
        yield refuse("R0", "model", "Field required")
    if not counting and not _is_count(body.get("max_tokens")):
        yield refuse("R0", "max_tokens", "Input should be an integer of 0 or more")
    if not isinstance(body.get("messages"), list) or not body["messages"]:
        yield refuse("R0", "messages", "at least one message is required")
        return
    for number, message in enumerate(body["messages"]):
        yield from _check_message(message, f"messages.{number}")
    for field, kind, name in (("tools", list, "a list"), ("system", (str, list), "a string or a list of text blocks")):
        if body.get(field) is not None and not isinstance(body[field], kind):
            yield refuse("R0", field, f"Input should be {name}")
    for number, tool in enumerate(as_list(body.get("tools"))):
        if not isinstance(tool, dict) or not isinstance(tool.get("name"), str | None):
            yield refuse("R0", f"tools.{number}", "Input should be a tool definition")
    for number, entry in enumerate(as_list(body.get("system"))):
        if not isinstance(entry, dict) or entry.get("type") != "text" or not isinstance(entry.get("text"), str):
            yield refuse("R0", f"system.{number}", "Input should be a text block")


def _check_message(message: Json, path: str) -> Iterator[Violation]:
    if not isinstance(message, dict):
        yield refuse("R0", path, "Input should be a message")
        return
    if message.get("role") not in ("user", "assistant", "system"):
        yield refuse("R0", f"{path}.role", "Input should be 'user', 'assistant' or 'system'")
    content = message.get("content")
    if not isinstance(content, str | list):
        yield refuse("R0", f"{path}.content", "Input should be a string or a list of blocks")
    for index, block in enumerate(as_list(content)):
        where = f"{path}.content.{index}"
        if not isinstance(block, dict) or not isinstance(block.get("type"), str):
            yield refuse("R0", where, "Input should be an object with a type")
            continue
        for field in _TEXT_FIELDS.get(block["type"], ()):
            if not isinstance(block.get(field), str):
                yield Violation("R0", f"{where}.{block['type']}.{field}: Field required", f"{where}.{field}")
        if block["type"] == "tool_use" and not isinstance(block.get("input"), dict):
            yield Violation("R0", f"{where}.tool_use.input: Input should be an object", f"{where}.input")


_TEXT_FIELDS = {"text": ("text",), "tool_use": ("id", "name"), "tool_result": ("tool_use_id",)}


def _is_count(value: Json) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


# R1


def _check_roles(body: Body) -> Iterator[Violation]:
    said = [(number, message) for number, message in enumerate(messages(body)) if not only_sets_effort(message)]
    if messages(body)[0]["role"] == "system":
        yield refuse("R1", "messages.0", "the first message must not have the role system")
    spoken = [(number, message) for number, message in said if message["role"] != "system"]
    if not spoken or spoken[0][1]["role"] != "user":
        yield refuse("R1", f"messages.{spoken[0][0] if spoken else 0}", "first message must use the user role")
    for before, (number, message) in itertools.pairwise(spoken):
        if message["role"] == "assistant" == before[1]["role"]:
            text = "roles must alternate, but two assistant messages follow each other"
            yield refuse("R1", f"messages.{number}", text)
    refused = models.find(body["model"]).refuses_system_messages
    for number, message in said:
        if message["role"] != "system":
            continue
        path = f"messages.{number}"
        if refused:
            yield refuse("R1", path, "this model does not take messages with the role system")
        # System messages that follow each other are judged together.
        earlier = [each for place, each in spoken if place < number]
        later = [each for place, each in spoken if place > number]
        if not earlier or not _may_precede_system(earlier[-1]):
            yield refuse("R1", path, "a system message must follow a user message")
        if later and later[0]["role"] != "assistant":
            yield refuse("R1", path, "a system message must be last or be followed by an assistant message")
        for block in blocks(message["content"]):
            if block.get("type") not in {"text", "tool_addition", "tool_removal"}:
                yield refuse("R1", path, f"a system message holds text only, not {block.get('type')}")


def _may_precede_system(message: dict[str, Json]) -> bool:
    content = blocks(message["content"])
    return message["role"] == "user" or (bool(content) and is_server_result(content[-1]))


# R2 and R3


def _check_pairs(body: Body) -> Iterator[Violation]:
    said = turns(body)
    counts = Counter(item.block["id"] for item in list_placed(body) if item.type == "tool_use")
    for tool_id, count in counts.items():
        if count > 1:
            yield Violation("R2", f"messages: `tool_use` ids must be unique, but {tool_id} occurs {count} times", "")
    for before, turn, following in zip((None, *said), said, (*said[1:], None), strict=False):
        if turn.role == "assistant":
            yield from _find_unanswered(turn, following)
        else:
            yield from _check_results(turn, before)
    for item in list_placed(body):
        if item.role != {"tool_use": "assistant", "tool_result": "user"}.get(item.type, item.role):
            yield refuse("R2", item.path, f"`{item.type}` blocks are not permitted in {item.role} messages")


def _find_unanswered(turn: MessageRun, following: MessageRun | None) -> Iterator[Violation]:
    asked = [item for item in turn.content if item.type == "tool_use"]
    answered = {item.block.get("tool_use_id") for item in following.content} if following else set()
    missing = [item for item in asked if item.block["id"] not in answered]
    if missing:
        text = (
            "`tool_use` ids were found without `tool_result` blocks immediately after:"
            f" {', '.join(item.block['id'] for item in missing)}. Each `tool_use` block must have a corresponding"
            " `tool_result` block in the next message."
        )
        yield refuse("R2", f"messages.{missing[0].message}", text)
    server = {item.block.get("id") for item in turn.content if item.type == "server_tool_use"}
    resolved = {item.block.get("tool_use_id") for item in turn.content if is_server_result(item.block)}
    if asked and server - resolved and following and any(item.type != "tool_result" for item in following.content):
        text = "while a server tool is unresolved, the user message may hold only `tool_result` blocks"
        yield refuse("R2", f"messages.{following.first}", text)


def _check_results(turn: MessageRun, before: MessageRun | None) -> Iterator[Violation]:
    asked = {item.block.get("id") for item in before.content if item.type == "tool_use"} if before else set()
    seen: set[str] = set()
    other_block = False
    for item in turn.content:
        if item.type != "tool_result":
            other_block = True
            continue
        tool_id = item.block["tool_use_id"]
        if tool_id not in asked:
            text = (
                f"unexpected `tool_use_id` found in `tool_result` blocks: {tool_id}. Each `tool_result` block must have"
                " a corresponding `tool_use` block in the previous message."
            )
            yield refuse("R2", item.path, text)
        elif tool_id in seen:
            text = f"each `tool_use` must have a single result. Found multiple for id: {tool_id}"
            yield refuse("R2", item.path, text)
        elif other_block:
            yield refuse("R2", item.path, "`tool_result` blocks must come before any other block of the message")
        seen.add(tool_id)


def _check_texts(body: Body) -> Iterator[Violation]:
    for number, message in enumerate(messages(body)):
        if message["content"] == [] and not only_sets_effort(message):
            yield refuse("R3", f"messages.{number}", "all messages must have non-empty content")
    for item in list_placed(body):
        if item.type == "text" and not item.block["text"]:
            yield refuse("R3", item.path, "text content blocks must be non-empty")
        elif item.type == "text" and item.role == "user" and not item.block["text"].strip():
            yield refuse("R3", item.path, "text content blocks must contain non-whitespace text")
    for number, entry in enumerate(as_list(body.get("system"))):
        if not entry["text"]:
            yield refuse("R3", f"system.{number}", "text content blocks must be non-empty")


# R4: the order of the prompt is tools, system, messages

MOST_MARKERS = 4


@attrs.frozen
class _Marker:
    path: str
    ttl: str
    block: Body
    inside: bool = False
    """On a block within another block's content."""


def _list_blocks(body: Body) -> Iterator[tuple[str, Json, bool]]:
    """The path of everything that may carry a marker, and whether it is inside another block."""
    for number, tool in enumerate(tools(body)):
        yield f"tools.{number}", tool, False
    for number, entry in enumerate(blocks(body.get("system"))):
        yield f"system.{number}", entry, False
    for number, message in enumerate(messages(body)):
        for index, block in enumerate(blocks(message.get("content"))):
            path = f"messages.{number}.content.{index}"
            for deeper, part in enumerate(as_list(block.get("content"))):
                yield f"{path}.content.{deeper}", part, True
            yield path, block, False
            yield f"{path}.tool.definition", as_dict(block.get("tool")).get("definition"), False


def _list_markers(body: Body) -> Iterator[_Marker]:
    for path, value, inside in _list_blocks(body):
        control = as_dict(value).get("cache_control")
        if isinstance(control, dict):
            yield _Marker(path, str(control.get("ttl") or "5m"), value, inside)


def _check_markers(body: Body) -> Iterator[Violation]:
    found = list(_list_markers(body))
    top = body.get("cache_control")
    ordered = [*found, _Marker("cache_control", str(top.get("ttl") or "5m"), {})] if isinstance(top, dict) else found
    if len(ordered) > MOST_MARKERS:
        text = f"A maximum of {MOST_MARKERS} blocks with cache_control may be provided. Found {len(ordered)}."
        yield Violation("R4", text, "cache_control")
    said = messages(body)
    # The API empties these system messages at the next user message.
    cleared = [f"messages.{n}." for n, each in enumerate(said) if each.get("role") == "system" and each.get("clear_at")]
    for marker in found:
        kind = marker.block.get("type")
        if kind in ("thinking", "redacted_thinking"):
            yield refuse("R4", marker.path, f"cache_control cannot be set on {kind} blocks")
        elif kind == "text" and not str(marker.block.get("text", "")).strip():
            yield refuse("R4", marker.path, "cache_control cannot be set for empty text blocks")
        elif marker.inside:
            yield refuse("R4", marker.path, "cache_control cannot be set inside another block")
        elif marker.path.startswith(tuple(cleared)):
            yield refuse("R4", marker.path, "cache_control cannot be set on a cleared system message")
    short = False
    for marker in ordered:
        if marker.ttl not in {"5m", "1h"}:
            yield refuse("R4", marker.path, "cache_control.ttl should be '5m' or '1h'")
        elif marker.ttl == "1h" and short:
            text = "a ttl='1h' cache_control block must not come after a ttl='5m' cache_control block"
            yield refuse("R4", marker.path, text)
        short = short or marker.ttl == "5m"
    end = f"messages.{len(said) - 1}.content.{len(blocks(said[-1].get('content'))) - 1}"
    if found and found[-1].path == end and found[-1].ttl != ordered[-1].ttl:
        yield refuse("R4", end, "the marker's ttl differs from the top-level cache_control")
