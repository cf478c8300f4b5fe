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

R10 (tools never change within a session) needs memory: ``SessionWatch``. Whether a signature fits its conversation
needs a key: `signatures.py`. R11 is about tools that a system message in mid-conversation adds or removes; where
such a message may stand is R1. The API also limits how many tools may be added; only their size is checked here.

Source: Messages API documentation (messages, tool use, prompt caching, extended thinking, mid-conversation system
messages, errors). Two users in a row are *not* a violation: the API merges them, and a real client sends them.
"""

import itertools
from collections import Counter
from collections.abc import Callable, Iterator, Mapping

import attrs
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


BILLING = "x-anthropic-billing-header:"
"""The beginning of the entry that the API removes from `system` before the model reads it."""
INLINE = "inline-tools-2026-09-15"
"""The beta for definitions in messages; it also covers changes by reference."""
_BY_REFERENCE = "mid-conversation-tool-changes-2026-07-01"
_MOST_BYTES = 4_194_304
"""Maximum size of all definitions in messages, in bytes."""
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
    """Whether the API paused the turn: it ends with a server tool's block and is sent back unchanged to continue."""
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
    """Whether the first definition in a message changes the start of the prompt, because no listed tool is loaded."""
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
    """Check one change, and add a definition to the ``known`` tools."""
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
# (Messages API documentation, prompt caching). Real clients may still do it, so it is reported, never refused. Requests
# without tools are side calls and do not count.


class SessionWatch:
    """Remembers the tools of every (session, agent), without their cache markers."""

    def __init__(self) -> None:
        self._tools: dict[tuple[str, str], dict[str, bytes]] = {}

    def look(self, tools: Mapping[str, Json], headers: Headers) -> list[Violation]:
        """The violations of these tools, by name, compared with the last request of their session."""
        key = session_key(headers)
        now = {
            name: orjson.dumps({field: value for field, value in tool.items() if field != "cache_control"})
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
