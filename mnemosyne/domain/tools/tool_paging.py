"""Paging of tool schemas, an experiment that is off by default (`docs/adr/0015-paging-tool-schemas.md`).

A client sends its tools with every request, and many of them are never called. From a branch's first request on, the
largest of those keep only their name and one line, with a schema that accepts anything; the model requests the whole
definition with the memory tool ``memory_tool``, and gets it as a result at the end of the context. The form in which a
tool is sent depends only on the client's tools and the branch's budget, so it never changes later and breaks neither
cache nor signatures. That is why sizes are counted in bytes here and not by an estimator, which learns.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import attrs

from mnemosyne.domain.objects.faults import LIMITS
from mnemosyne.domain.text.stubs import plain
from mnemosyne.domain.tools.memory_tools import TOOL
from mnemosyne.domain.wire import json_spans, json_values
from mnemosyne.domain.wire.blocks import MARKER
from mnemosyne.domain.wire.reply import as_json
from mnemosyne.domain.wire.transcript import Transcript

BYTES_PER_TOKEN = 3
"""An approximation for a definition's JSON: from 2.8 to 4 by model. A plain rule that never changes."""

LONGEST_LINE = 100
"""How many characters of a tool's description are kept."""

WORTH = 400
"""The minimum number of bytes that paging a tool must save: below, one request for it costs more than paging saves."""

LARGEST = LIMITS.tokens * BYTES_PER_TOKEN
"""Maximum bytes of a definition. A larger one would fit in no turn, so it is always sent in full."""

COMMON = frozenset(["bash", "shell", "read", "edit", "multiedit", "apply_patch", "write", "grep", "glob", "toolsearch"])
"""Names, in lower case, of tools that are always sent in full: nearly every session of a coding agent calls them, so
that requesting them costs more than their definitions. ``ToolSearch`` is how Claude Code itself pages tools.
"""

_DEFINITION = ("name", "description", "input_schema")
_KNOWN = frozenset({*_DEFINITION, "type", MARKER, "eager_input_streaming"})
"""With other members a tool may mean something that its one line does not. The provider does not compare deferred
tools: one that appears in mid-session must not displace another.
"""

_ANYTHING = {"type": "object", "additionalProperties": True}


def tools_of(read: Transcript) -> bytes:
    """Return the JSON array of the tools in a client's request; empty without tools."""
    return read.raw[slice(*read.member_range("tools"))]


def page_tools(tools: bytes, budget: int) -> bytes:
    """Page some of a client's tools: those that save most (the first of equals), until the rest fits the budget in
    tokens.

    COMMON tools are never paged. Anything but an array of tools is returned unchanged. The provider's tools, and those
    that are deferred or have unknown members, neither count nor change.

    Invariant: a tool that is not paged keeps its bytes, and so does everything around it; names and order do not
    change.
    """
    ranges = json_spans.elements(tools, 0) or ()
    measured = [_measure(tools[start:end]) for start, end in ranges]
    over = sum(tool.size for tool in measured) - budget * BYTES_PER_TOKEN
    parts: dict[int, bytes] = {}
    for number in sorted(range(len(measured)), key=lambda number: (-measured[number].saved, number)):
        if over <= 0 or not measured[number].saved:
            break
        parts[number] = measured[number].paged
        over -= measured[number].saved
    at, sent = 0, []
    for number, (start, end) in enumerate(ranges):
        if number in parts:
            sent += [tools[at:start], parts[number]]
            at = end
    return b"".join((*sent, tools[at:]))


def loads_tools_itself(tools: bytes) -> bool:
    """Return whether a client pages its tools by itself: it defers some, and has a tool that loads them. The provider
    checks and reads loaded definitions, so they are left to the client.
    """
    parsed = [
        tool for start, end in json_spans.elements(tools, 0) or () if isinstance(tool := _parse(tools[start:end]), dict)
    ]
    return any(tool.get("defer_loading") is True or _searches_tools(tool) for tool in parsed)


def _searches_tools(tool: Mapping[str, Any]) -> bool:
    return str(tool.get("name")).lower() == "toolsearch" or str(tool.get("type")).startswith("tool_search_tool")


def definitions(tools: bytes) -> Mapping[str, str]:
    """Return the client's own definitions by name, each as JSON without markers. Tools of the provider have none."""
    values = _each(tools)
    return {value["name"]: _definition(value).decode("utf-8") for value in values if _is_the_clients(value)}


def tokens(definition: str) -> int:
    """Return the approximate number of tokens of a definition."""
    return -(-len(definition.encode("utf-8")) // BYTES_PER_TOKEN)


@attrs.frozen
class _Tool:
    """A tool's full size in bytes, its paged form, and how many bytes that saves; 0 if the tool must not be paged.
    Markers do not count, because clients move them.
    """

    size: int = 0
    paged: bytes = b""
    saved: int = 0


def _measure(raw: bytes) -> _Tool:
    tool = _parse(raw)
    if not _is_the_clients(tool) or not tool.keys() <= _KNOWN:
        return _Tool()
    small = {**tool, "description": _line(tool["description"]), "input_schema": _ANYTHING}
    size = len(_definition(tool))
    saved = size - len(_definition(small))
    if saved < WORTH or size > LARGEST or tool["name"].lower() in COMMON:
        return _Tool(size)
    return _Tool(size, as_json(small), saved)


def _each(tools: bytes) -> Iterator[Any]:
    """Yield the values in a JSON array; none if it is not an array."""
    return (_parse(tools[start:end]) for start, end in json_spans.elements(tools, 0) or ())


def _parse(raw: bytes) -> Any:
    try:
        return json_values.read(raw)
    except (ValueError, RecursionError):
        return None


def _is_the_clients(tool: Any) -> bool:
    """Return whether the client runs and defines this tool, in the form that every provider knows."""
    return (
        isinstance(tool, dict)
        and isinstance(tool.get("name"), str)
        and isinstance(tool.get("description"), str)
        and isinstance(tool.get("input_schema"), dict)
        and tool.get("type", "custom") == "custom"
    )


def _definition(tool: Mapping[str, Any]) -> bytes:
    return as_json({key: tool[key] for key in _DEFINITION})


def _line(description: str) -> str:
    return f"{plain(description, LONGEST_LINE)} [cut short: before the first call get all of it with {TOOL}]"
