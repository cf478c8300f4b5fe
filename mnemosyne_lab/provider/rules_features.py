"""Rules R5 to R7 and R9 to R11: tools, thinking, beta fields, the billing entry, and changes of tools.

R11 is about tools that a system message in mid-conversation adds or removes; where such a message may stand is R1. The
API also limits how many tools may be added; only the limit on their size is checked here.

Source: Messages API documentation (tool use, extended thinking, beta headers, mid-conversation system messages and tool
changes) and the gateway notes of Claude Code.
"""

import hashlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping

import orjson

from mnemosyne_lab.provider import models
from mnemosyne_lab.provider.reading import (
    Body,
    Headers,
    Json,
    MessageRun,
    Placed,
    Violation,
    as_dict,
    as_list,
    betas,
    blocks,
    is_server_result,
    list_placed,
    messages,
    only_sets_effort,
    refuse,
    session_key,
    tools,
    turns,
)

BILLING = "x-anthropic-billing-header:"
"""How the entry begins that the API takes off `system` before the model reads it."""
INLINE = "inline-tools-2026-09-15"
"""The beta for definitions in messages; it also covers changes by reference."""
_BY_REFERENCE = "mid-conversation-tool-changes-2026-07-01"
_MOST_BYTES = 4_194_304
"""Of all definitions in messages."""
_THINKING = {"thinking", "redacted_thinking"}


# R5


def tool_violations(body: Body) -> Iterator[Violation]:
    names = Counter(tool["name"] for tool in tools(body) if tool.get("name"))
    choosable = names.keys() | tools_in_messages(body).keys()
    for name, count in names.items():
        if count > 1:
            yield refuse("R5", "tools", f"Tool names must be unique, but {name} occurs {count} times")
    if tools(body) and all(tool.get("defer_loading") for tool in tools(body)):
        yield refuse("R5", "tools", "at least one tool must not be deferred")
    model = models.find(body["model"])
    choice = as_dict(body.get("tool_choice"))
    kind = choice.get("type")
    if kind == "tool" and choice.get("name") not in list(choosable):
        yield refuse("R5", "tool_choice", f"Tool '{choice.get('name')}' not found in provided tools")
    if choice and not choosable and kind != "none":
        yield refuse("R5", "tool_choice", "may only be specified while providing tools")
    if kind in ("any", "tool") and model.refuses_forced_tools:
        yield refuse("R5", "tool_choice", f"'{kind}' is not supported by this model")
    said = turns(body)
    if said and said[-1].role == "assistant" and model.version >= (4, 6) and not _is_paused(said[-1]):
        text = "This model does not support assistant message prefill. The conversation must end with a user message."
        yield Violation("R5", text, f"messages.{said[-1].first}")


def _is_paused(turn: MessageRun) -> bool:
    """A turn that the API paused is sent back as it is and continued; it ends with a server tool's block."""
    last = turn.content[-1].block if turn.content else {}
    return last.get("type") in {"server_tool_use", "mcp_tool_use"} or is_server_result(last)


# R6


def thinking_violations(body: Body) -> Iterator[Violation]:
    for item in list_placed(body):
        if item.type in _THINKING | {"server_tool_use", "mcp_tool_use"} and item.role != "assistant":
            yield refuse("R6", item.path, f"`{item.type}` blocks may only be in assistant messages")
        needed = {"thinking": ("thinking", "signature"), "redacted_thinking": ("data",)}
        for field in needed.get(item.type, ()):
            if not isinstance(item.block.get(field), str):
                yield Violation("R6", f"{item.path}.{item.type}.{field}: Field required", f"{item.path}.{field}")
    if _thinking(body).get("type") == "enabled":
        yield from _check_manual_thinking(turns(body))


def _check_manual_thinking(said: list[MessageRun]) -> Iterator[Violation]:
    """Under manual thinking the turn that is still answering tools must have begun with thinking."""
    if not said or said[-1].role != "user" or not said[-1].holds("tool_result"):
        return
    first: MessageRun | None = None
    for turn in reversed(said):
        if turn.role == "user" and not turn.holds("tool_result"):
            break
        if turn.role == "assistant":
            first = turn
    if first and first.content and first.content[0].type not in _THINKING:
        path = first.content[0].path
        text = (
            f"{path}.type: Expected `thinking` or `redacted_thinking`, but found `{first.content[0].type}`. When "
            "`thinking` is enabled, a final `assistant` message must start with a thinking block."
        )
        yield Violation("R6", text, path)


# R7


def _edits(body: Body, prefix: str) -> bool:
    edits = as_list(as_dict(body.get("context_management")).get("edits"))
    return any(str(as_dict(edit).get("type", "")).startswith(prefix) for edit in edits)


def _thinking(body: Body) -> dict[str, Json]:
    """The members of ``thinking`` that are not null."""
    return {name: value for name, value in as_dict(body.get("thinking")).items() if value is not None}


_BETAS: tuple[tuple[str, str, Callable[[Body], bool]], ...] = (
    ("context_management", "context-management-2025-06-27", lambda body: _edits(body, "clear_")),
    ("context_management.edits.compact", "compact-2026-01-12", lambda body: _edits(body, "compact_")),
    ("compaction", "compact-2026-09-04", lambda body: body.get("compaction") is not None),
    ("thread", "message-threads-2026-08-12", lambda body: body.get("thread") is not None),
    ("thinking.block_binding", "thinking-binding-controls-2026-08-01", lambda body: "block_binding" in _thinking(body)),
    (
        "thinking.display",
        "thinking-display-updates-2026-08-18",
        lambda body: _thinking(body).get("display") == "updates",
    ),
    ("safeguards", "dangerous-tool-use-2026-09-03", lambda body: body.get("safeguards") is not None),
    ("messages.output_config", "per-turn-control-2026-07-01", lambda body: any(map(only_sets_effort, messages(body)))),
)
"""Fields that only a beta understands, the beta, and whether a body has the field."""


def beta_violations(body: Body, headers: Headers) -> Iterator[Violation]:
    sent = betas(headers)
    for field, beta, is_in in _BETAS:
        if is_in(body) and beta not in sent:
            yield _refuse_extra(field, beta)
    if sum(name.lower() == "anthropic-beta" for name, _ in headers) > 1:
        yield refuse("R7", "anthropic-beta", "send one header with comma-separated names")


def _refuse_extra(field: str, beta: str) -> Violation:
    return refuse("R7", field, f"Extra inputs are not permitted (it needs the anthropic-beta {beta})")


# R9


def billing_violations(body: Body) -> Iterator[Violation]:
    for number, entry in enumerate(blocks(body.get("system"))):
        text = entry["text"]
        path = f"system.{number}" if isinstance(body.get("system"), list) else "system"
        begins = text.startswith(BILLING)
        if begins and number:
            yield refuse("R9", path, "the billing entry must be the first of `system`")
        if ("\n" in text.strip() or path == "system") if begins else BILLING in text.splitlines():
            yield refuse("R9", path, "the billing entry must be an entry of its own")


# R11


def tools_in_messages(body: Body) -> dict[str, Json]:
    """The tools that messages define, by name."""
    found: dict[str, Json] = {}
    for item in list_placed(body):
        tool = as_dict(item.block.get("tool"))
        if item.type == "tool_addition" and tool.get("type") == "tool_definition":
            definition = as_dict(tool.get("definition"))
            found[str(definition.get("name"))] = definition
    return found


def rewrites_head(body: Body) -> bool:
    """Whether the first definition in a message changes the start of the prompt: no tool of the list is loaded."""
    listed = as_list(body.get("tools"))
    return bool(tools_in_messages(body)) and all(as_dict(tool).get("defer_loading") for tool in listed)


def tool_change_violations(body: Body, headers: Headers) -> Iterator[Violation]:
    """Every violation of R11, and of R7 where the beta is missing."""
    changes = [item for item in list_placed(body) if item.type in {"tool_addition", "tool_removal"}]
    if not changes:
        return
    sent = betas(headers)
    if INLINE not in sent and (_BY_REFERENCE not in sent or tools_in_messages(body)):
        yield _refuse_extra("messages.content.tool_addition", INLINE)
    if not models.find(str(body.get("model"))).changes_tools:
        yield refuse("R11", changes[0].path, "this model does not take tool changes")
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
        yield refuse("R11", item.path, f"`{item.type}` blocks may only be in system messages")
        return
    if said[item.message].get("clear_at") == "next_user_message":
        yield refuse("R11", item.path, "a turn-scoped system message supports text blocks only")
    before = next((each for each in reversed(said[: item.message]) if each.get("role") != "system"), {})
    content = blocks(before.get("content"))
    if before.get("role") == "assistant" and content and is_server_result(content[-1]):
        yield refuse("R11", item.path, "tools cannot change while a turn is paused")


def _check_change(item: Placed, known: dict[str, Json]) -> Iterator[Violation]:
    """Check one change, and note a definition among the ``known`` tools."""
    tool = as_dict(item.block.get("tool"))
    kind, path = tool.get("type"), f"{item.path}.{item.type}.tool"
    if kind == "tool_reference":
        if str(tool.get("name")) not in known:
            yield refuse("R11", path, f"tool_reference_unresolved: no tool is named {tool.get('name')!r}")
    elif kind == "tool_definition" and item.type == "tool_addition":
        yield from _check_definition(item, as_dict(tool.get("definition")), known, f"{path}.definition")
    elif kind not in ("mcp_tool_reference", "mcp_toolset_reference"):
        yield refuse("R11", path, f"`{kind}` is not supported in `{item.type}`")


def _check_definition(item: Placed, tool: dict[str, Json], known: dict[str, Json], path: str) -> Iterator[Violation]:
    name, kind = tool.get("name"), tool.get("type", "custom")
    if not isinstance(name, str) or not name or (kind == "custom" and not isinstance(tool.get("input_schema"), dict)):
        yield refuse("R11", path, "name and input_schema are required")
        return
    if name in known and _family(known[name]) != _family(tool):
        yield refuse("R11", path, f"tool_name_conflict: {name} names a tool of another type")
    marked = [isinstance(each.get("cache_control"), dict) for each in (item.block, tool)]
    if all(marked) or (any(marked) and tool.get("defer_loading")):
        text = "cache_control goes on the block or in the definition, and on neither if it is deferred"
        yield refuse("R11", path, text)
    known[name] = tool


def _family(tool: dict[str, Json]) -> str:
    """A tool's type without its date."""
    return str(tool.get("type", "custom")).rstrip("0123456789_")


# R10: within one session the tools never change. A change costs the whole prompt cache and every thinking signature
# (Messages API documentation, prompt caching). Real clients may still do it, so it is noted and never refused. Requests
# without tools are side calls and do not count.


class SessionWatch:
    """Remembers the tools of every (session, agent), as a hash for each tool."""

    def __init__(self) -> None:
        self._tools: dict[tuple[str, str], dict[str, bytes]] = {}

    def look(self, tools: Mapping[str, Json], headers: Headers) -> list[Violation]:
        """The violations that these tools, by name, add to what their session sent before."""
        key = session_key(headers)
        now = {
            name: hashlib.sha256(
                orjson.dumps({field: value for field, value in tool.items() if field != "cache_control"})
            ).digest()
            for name, tool in tools.items()
        }
        if key is None or not now:
            return []
        before = self._tools.get(key, now)
        self._tools[key] = now
        changes = {
            "added": now.keys() - before.keys(),
            "removed": before.keys() - now.keys(),
            "reworded": {name for name in now.keys() & before.keys() if now[name] != before[name]},
            "reordered": set() if list(now) == list(before) or now.keys() != before.keys() else {"all"},
        }
        return [
            Violation("R10", f"tools {change} within session {key[0]}: {', '.join(sorted(names))}", "tools")
            for change, names in changes.items()
            if names
        ]
