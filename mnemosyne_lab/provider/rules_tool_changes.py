"""Rule R11: tools that a system message in mid-conversation adds or removes.

Source: Messages API documentation (mid-conversation system messages and tool changes). Where such a message may stand
is R1. The API also limits how many tools may be added; only the limit on their size is checked here.
"""

from collections.abc import Iterator

import orjson

from mnemosyne_lab.provider import models
from mnemosyne_lab.provider.reading import (
    Body,
    Headers,
    Json,
    Placed,
    as_dict,
    as_list,
    betas,
    blocks,
    is_server_result,
    list_placed,
    messages,
    tools,
)
from mnemosyne_lab.provider.rules_markers import Violation

INLINE = "inline-tools-2026-09-15"
"""The beta for definitions in messages; it also covers changes by reference."""
_BY_REFERENCE = "mid-conversation-tool-changes-2026-07-01"
_CHANGES = {"tool_addition", "tool_removal"}
_MOST_BYTES = 4_194_304
"""Of all definitions in messages."""


def tools_in_messages(body: Body) -> dict[str, Json]:
    """The tools that messages define, by name."""
    return {str(tool.get("name")): tool for _, tool in _list_defined(body)}


def _list_defined(body: Body) -> Iterator[tuple[Placed, dict[str, Json]]]:
    for item in list_placed(body):
        tool = as_dict(item.block.get("tool"))
        if item.type == "tool_addition" and tool.get("type") == "tool_definition":
            yield item, as_dict(tool.get("definition"))


def tool_change_breaches(body: Body, headers: Headers) -> Iterator[Violation]:
    """Every breach of R11, and of R7 where the beta is missing."""
    changes = [item for item in list_placed(body) if item.type in _CHANGES]
    if not changes:
        return
    sent = betas(headers)
    if INLINE not in sent and (_BY_REFERENCE not in sent or tools_in_messages(body)):
        text = f"messages.content.tool_addition: Extra inputs are not permitted (it needs the anthropic-beta {INLINE})"
        yield Violation("R7", text, "messages.content.tool_addition")
    if not models.find(str(body.get("model"))).changes_tools:
        yield Violation("R11", f"{changes[0].path}: this model does not take tool changes", changes[0].path)
    known = {str(tool.get("name")): tool for tool in tools(body)}
    said = messages(body)
    for item in changes:
        yield from _check_place(item, said)
        yield from _check_change(item, known)
    size = sum(len(orjson.dumps(tool)) for tool in tools_in_messages(body).values())
    if size > _MOST_BYTES:
        text = f"available_tools_limit_exceeded: the tool definitions in messages have {size} bytes"
        yield Violation("R11", text, changes[0].path)


def _check_place(item: Placed, said: list[dict[str, Json]]) -> Iterator[Violation]:
    if item.role != "system":
        yield Violation("R11", f"{item.path}: `{item.type}` blocks may only be in system messages", item.path)
        return
    if said[item.message].get("clear_at") == "next_user_message":
        yield Violation("R11", f"{item.path}: a turn-scoped system message supports text blocks only", item.path)
    before = next((each for each in reversed(said[: item.message]) if each.get("role") != "system"), {})
    content = blocks(before.get("content"))
    if before.get("role") == "assistant" and content and is_server_result(content[-1]):
        yield Violation("R11", f"{item.path}: tools cannot change while a turn is paused", item.path)


def _check_change(item: Placed, known: dict[str, Json]) -> Iterator[Violation]:
    """Check one change, and note a definition among the ``known`` tools."""
    tool = as_dict(item.block.get("tool"))
    kind, path = tool.get("type"), f"{item.path}.{item.type}.tool"
    if kind == "tool_reference":
        if str(tool.get("name")) not in known:
            text = f"{path}: tool_reference_unresolved: no tool is named {tool.get('name')!r}"
            yield Violation("R11", text, path)
    elif kind == "tool_definition" and item.type == "tool_addition":
        yield from _check_definition(item, as_dict(tool.get("definition")), known, f"{path}.definition")
    elif kind not in {"mcp_tool_reference", "mcp_toolset_reference"}:
        yield Violation("R11", f"{path}: `{kind}` is not supported in `{item.type}`", path)


def _check_definition(item: Placed, tool: dict[str, Json], known: dict[str, Json], path: str) -> Iterator[Violation]:
    name, kind = tool.get("name"), tool.get("type", "custom")
    if not isinstance(name, str) or not name or (kind == "custom" and not isinstance(tool.get("input_schema"), dict)):
        yield Violation("R11", f"{path}: name and input_schema are required", path)
        return
    if name in known and _family(known[name]) != _family(tool):
        yield Violation("R11", f"{path}: tool_name_conflict: {name} names a tool of another type", path)
    marked = [isinstance(each.get("cache_control"), dict) for each in (item.block, tool)]
    if all(marked) or (any(marked) and tool.get("defer_loading")):
        text = f"{path}: cache_control goes on the block or in the definition, and on neither if it is deferred"
        yield Violation("R11", text, path)
    known[name] = tool


def _family(tool: dict[str, Json]) -> str:
    """A tool's type without its date."""
    return str(tool.get("type", "custom")).rstrip("0123456789_")


def rewrites_head(body: Body) -> bool:
    """Whether the first definition in a message changes the start of the prompt: no tool of the list is loaded."""
    return bool(tools_in_messages(body)) and all(
        as_dict(tool).get("defer_loading") for tool in as_list(body.get("tools"))
    )
