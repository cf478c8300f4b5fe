"""Rules R5, R6, R7 and R9: tools, thinking, beta fields and the billing entry.

Source: Messages API documentation (tool use, extended thinking, beta headers) and the gateway notes of Claude Code.
"""

from collections import Counter
from collections.abc import Callable, Iterator

import attrs

from mnemosyne_lab.provider import models
from mnemosyne_lab.provider.reading import (
    Body,
    Headers,
    MessageRun,
    as_dict,
    as_list,
    betas,
    blocks,
    is_server_result,
    list_placed,
    messages,
    only_sets_effort,
    tools,
    turns,
)
from mnemosyne_lab.provider.rules_markers import Violation
from mnemosyne_lab.provider.rules_tool_changes import tools_in_messages

BILLING = "x-anthropic-billing-header:"
"""How the entry begins that the API takes off `system` before the model reads it."""
_ASSISTANT_ONLY = {"thinking", "redacted_thinking", "tool_use", "server_tool_use", "mcp_tool_use"}
_THINKING = {"thinking", "redacted_thinking"}


def tool_breaches(body: Body, headers: Headers) -> Iterator[Violation]:
    names = Counter(tool["name"] for tool in tools(body) if tool.get("name"))
    choosable = names.keys() | tools_in_messages(body).keys()
    for name, count in names.items():
        if count > 1:
            yield Violation("R5", f"tools: Tool names must be unique, but {name} occurs {count} times", "tools")
    if tools(body) and all(tool.get("defer_loading") for tool in tools(body)):
        yield Violation("R5", "tools: at least one tool must not be deferred", "tools")
    model = models.find(body["model"])
    choice = as_dict(body.get("tool_choice"))
    kind = choice.get("type")
    if kind == "tool" and choice.get("name") not in choosable:
        text = f"tool_choice: Tool '{choice.get('name')}' not found in provided tools"
        yield Violation("R5", text, "tool_choice")
    if choice and not choosable and kind != "none":
        yield Violation("R5", "tool_choice: may only be specified while providing tools", "tool_choice")
    if kind in {"any", "tool"} and model.refuses_forced_tools:
        yield Violation("R5", f"tool_choice: '{kind}' is not supported by this model", "tool_choice")
    said = turns(body)
    if said and said[-1].role == "assistant" and model.version >= (4, 6) and not _is_paused(said[-1]):
        text = "This model does not support assistant message prefill. The conversation must end with a user message."
        yield Violation("R5", text, f"messages.{said[-1].first}")


def _is_paused(turn: MessageRun) -> bool:
    """A turn that the API paused is sent back as it is and continued; it ends with a server tool's block."""
    last = turn.content[-1].block if turn.content else {}
    return last.get("type") in {"server_tool_use", "mcp_tool_use"} or is_server_result(last)


def thinking_breaches(body: Body, headers: Headers) -> Iterator[Violation]:
    for item in list_placed(body):
        if item.type in _ASSISTANT_ONLY - {"tool_use"} and item.role != "assistant":
            text = f"{item.path}: `{item.type}` blocks may only be in assistant messages"
            yield Violation("R6", text, item.path)
        for kind, fields in (("thinking", ("thinking", "signature")), ("redacted_thinking", ("data",))):
            for field in fields:
                if item.type == kind and not isinstance(item.block.get(field), str):
                    yield Violation("R6", f"{item.path}.{kind}.{field}: Field required", f"{item.path}.{field}")
    if as_dict(body.get("thinking")).get("type") == "enabled":
        yield from _manual_thinking(turns(body))


def _manual_thinking(said: list[MessageRun]) -> Iterator[Violation]:
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


@attrs.frozen
class _Pair:
    """A field that only a beta understands."""

    field: str
    beta: str
    present: Callable[[Body], bool]


def _edits(body: Body, prefix: str) -> bool:
    edits = as_list(as_dict(body.get("context_management")).get("edits"))
    return any(str(as_dict(edit).get("type", "")).startswith(prefix) for edit in edits)


_PAIRS: tuple[_Pair, ...] = (
    _Pair("context_management", "context-management-2025-06-27", lambda body: _edits(body, "clear_")),
    _Pair("context_management.edits.compact", "compact-2026-01-12", lambda body: _edits(body, "compact_")),
    _Pair("compaction", "compact-2026-09-04", lambda body: body.get("compaction") is not None),
    _Pair("thread", "message-threads-2026-08-12", lambda body: body.get("thread") is not None),
    _Pair(
        "thinking.block_binding",
        "thinking-binding-controls-2026-08-01",
        lambda body: as_dict(body.get("thinking")).get("block_binding") is not None,
    ),
    _Pair(
        "thinking.display",
        "thinking-display-updates-2026-08-18",
        lambda body: as_dict(body.get("thinking")).get("display") == "updates",
    ),
    _Pair("safeguards", "dangerous-tool-use-2026-09-03", lambda body: body.get("safeguards") is not None),
    _Pair(
        "messages.output_config",
        "per-turn-control-2026-07-01",
        lambda body: any(map(only_sets_effort, messages(body))),
    ),
)


def beta_breaches(body: Body, headers: Headers) -> Iterator[Violation]:
    sent = betas(headers)
    for pair in _PAIRS:
        if pair.present(body) and pair.beta not in sent:
            text = f"{pair.field}: Extra inputs are not permitted (it needs the anthropic-beta {pair.beta})"
            yield Violation("R7", text, pair.field)
    if sum(name.lower() == "anthropic-beta" for name, _ in headers) > 1:
        yield Violation("R7", "anthropic-beta: send one header with comma-separated names", "anthropic-beta")


def billing_breaches(body: Body, headers: Headers) -> Iterator[Violation]:
    for number, entry in enumerate(blocks(body.get("system"))):
        text = entry["text"]
        path = f"system.{number}" if isinstance(body.get("system"), list) else "system"
        if not text.startswith(BILLING):
            if BILLING in text.splitlines():
                yield Violation("R9", f"{path}: the billing entry must be an entry of its own", path)
            continue
        if number:
            yield Violation("R9", f"{path}: the billing entry must be the first of `system`", path)
        if "\n" in text.strip() or path == "system":
            yield Violation("R9", f"{path}: the billing entry must be an entry of its own", path)
