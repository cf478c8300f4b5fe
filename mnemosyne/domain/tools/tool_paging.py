"""Paging of tool schemas, an experiment that is off by default (`docs/adr/0015-paging-tool-schemas.md`).

A client's tools are sent with every request, and many of them are never called. From a branch's first request on, the
largest of those keep their name and one line, with a schema that takes anything; the model asks for the whole
definition with the memory tool ``memory_tool``, and gets it as a result, at the end of the window. What is sent of a
tool follows from the client's tools and the branch's budget alone, so nothing changes later, and neither cache nor
signatures break. That is why sizes are counted in bytes here, and no estimator is asked, which learns.
"""

import json
from collections.abc import Collection, Iterator, Mapping
from typing import Any

import attrs

from mnemosyne.domain.cost.tokens import Estimator, features_of_tools
from mnemosyne.domain.objects.faults import LIMITS
from mnemosyne.domain.text.stubs import plain
from mnemosyne.domain.tools.memory_tools import TOOL, TOOL_JSON
from mnemosyne.domain.wire import json_spans, json_values
from mnemosyne.domain.wire.blocks import MARKER
from mnemosyne.domain.wire.reply import as_json
from mnemosyne.domain.wire.transcript import Transcript

BYTES_PER_TOKEN = 3
"""About, of a definition's JSON: from 2.8 to 4 by model. A plain rule that never changes."""

LONGEST_LINE = 100
"""Characters of a tool's description that stay."""

WORTH = 400
"""Bytes that paging a tool must save: below, asking for it once costs more than it can bring."""

LARGEST = LIMITS.tokens * BYTES_PER_TOKEN
"""Bytes of a definition. A larger one could not be had in any turn, so it always stands in full."""

COMMON = frozenset(["bash", "shell", "read", "edit", "multiedit", "apply_patch", "write", "grep", "glob", "toolsearch"])
"""Names, in lower case, of tools that always stand in full: nearly every session of a coding agent calls them, so that
asking costs more than their definitions. ``ToolSearch`` is how Claude Code itself pages tools.
"""

_DEFINITION = ("name", "description", "input_schema")
_KNOWN = frozenset({*_DEFINITION, "type", MARKER, "eager_input_streaming"})
"""With other members a tool may mean something that its one line does not. Those that are deferred are not compared by
the provider: one that comes in mid-session must not push another out."""

_ANYTHING = {"type": "object", "additionalProperties": True}


def tools_of(read: Transcript) -> bytes:
    """The JSON array of the tools in a client's request; empty if there is none."""
    spans = ((member.value_start, member.value_end) for member in read.members if member.key == "tools")
    return next((read.raw[start:end] for start, end in spans), b"")


def page_tools(tools: bytes, budget: int) -> bytes:
    """The JSON array of a client's tools with some of them paged: those that save most, the first of equals, until what
    is sent takes no more than about so many tokens; none of the COMMON ones. What is no array of tools stays as it is.
    A tool of the provider's, or one that is deferred or has other members that we do not know, neither counts nor
    changes.

    Law: a tool that is not paged keeps its bytes, and so does everything around it; names and order are the client's.
    """
    ranges = json_spans.elements(tools, 0) or ()
    found = [_look_at(tools[start:end]) for start, end in ranges]
    over = sum(each.size for each in found) - budget * BYTES_PER_TOKEN
    parts: dict[int, bytes] = {}
    for number in sorted(range(len(found)), key=lambda number: (-found[number].saved, number)):
        if over <= 0 or not found[number].saved:
            break
        parts[number] = found[number].paged
        over -= found[number].saved
    at, sent = 0, []
    for number, (start, end) in enumerate(ranges):
        if number in parts:
            sent += [tools[at:start], parts[number]]
            at = end
    return b"".join((*sent, tools[at:]))


def loads_tools_itself(tools: bytes) -> bool:
    """Whether a client pages its tools by itself: it defers some, and has a tool that loads them. The provider checks
    and reads what is loaded as a definition, so that is left to the client.
    """
    found = [
        each for start, end in json_spans.elements(tools, 0) or () if isinstance(each := _parse(tools[start:end]), dict)
    ]
    return any(each.get("defer_loading") is True or _searches_tools(each) for each in found)


def _searches_tools(tool: Mapping[str, Any]) -> bool:
    return str(tool.get("name")).lower() == "toolsearch" or str(tool.get("type")).startswith("tool_search_tool")


@attrs.frozen(kw_only=True)
class PagingForecast:
    """What paging all that may be paged does to a request: how many ``tools`` its client has, the names of those that
    would be ``paged``, about how many tokens are ``saved`` (what ``memory_tool`` takes is subtracted), and which of
    them were ``called``: each of these would have been asked for first, and again after each rewrite.
    ``is_the_clients`` says that the client pages its tools by itself; nothing is paged then.
    """

    tools: int
    paged: tuple[str, ...]
    saved: int
    called: tuple[str, ...]
    is_the_clients: bool


def forecast_paging(read: Transcript, called: Collection[str]) -> PagingForecast:
    """What paging would do to such a request of a session that called these tools."""
    tools, model = tools_of(read), read.fields.model
    is_the_clients = loads_tools_itself(tools)
    sent = tools if is_the_clients else page_tools(tools, 0)
    whole, kept = (list(_each(each)) for each in (tools, sent))
    paged = tuple(before["name"] for before, after in zip(whole, kept, strict=True) if before != after)
    saved = features_of_tools(whole, model) - features_of_tools([*kept, json.loads(TOOL_JSON)], model)
    return PagingForecast(
        tools=len(whole),
        paged=paged,
        saved=Estimator.of(model).tokens(saved) if paged else 0,
        called=tuple(name for name in paged if name in called),
        is_the_clients=is_the_clients,
    )


def definitions(tools: bytes) -> Mapping[str, str]:
    """The client's own definitions by name, each as JSON without markers. Built-in tools of the provider have none."""
    found = _each(tools)
    return {each["name"]: _definition(each).decode("utf-8") for each in found if _is_the_clients(each)}


def tokens(definition: str) -> int:
    """About how many tokens a definition has."""
    return -(-len(definition.encode("utf-8")) // BYTES_PER_TOKEN)


@attrs.frozen
class _Tool:
    """What a tool counts in full, what would be sent in its place, and how many bytes that saves; 0 for a tool that is
    not to be paged. Markers do not count: clients move them.
    """

    size: int = 0
    paged: bytes = b""
    saved: int = 0


def _look_at(raw: bytes) -> _Tool:
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
    """The values in a JSON array; none if it is no array."""
    return (_parse(tools[start:end]) for start, end in json_spans.elements(tools, 0) or ())


def _parse(raw: bytes) -> Any:
    try:
        return json_values.read(raw)
    except (ValueError, RecursionError):
        return None


def _is_the_clients(tool: Any) -> bool:
    """Whether it is a tool that the client runs and defines, in the form that every provider knows."""
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
