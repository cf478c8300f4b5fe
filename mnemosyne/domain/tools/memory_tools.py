"""The tools that the proxy adds to a request: their definitions, and how their calls are parsed.

Calls come from the model. An invalid one is refused with a text that tells the model what to do; parsing never raises.
``memory_calls`` decides what a call may do, and ``memory_results`` writes its result. The definitions are data and are
never reworded: they are part of the prefix that the provider caches and signs.
"""

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from typing import Any, TypeVar

import attrs

from mnemosyne.domain.objects.fidelity import Fidelity
from mnemosyne.domain.objects.ids import MARK
from mnemosyne.domain.objects.kinds import ObjectKind
from mnemosyne.domain.text.stubs import plain
from mnemosyne.domain.wire import json_values
from mnemosyne.domain.wire.dialect import Dialect

Default = TypeVar("Default", int, None)

QUERY, RESTORE, RELEASE, SEARCH = "memory_query", "memory_restore", "memory_release", "memory_search"

TOOL = "memory_tool"
"""Only if the client's own tools are paged (``tool_paging``)."""

_STRING = {"type": "string"}
_ANY: dict[str, Any] = {}
"""The schema of an optional argument: any value; ``parse`` interprets it. A type would cost tokens."""


def _tool(name: str, description: str, required: Sequence[str], properties: Mapping[str, Any]) -> dict[str, Any]:
    schema = {"type": "object", "properties": dict(properties), "required": list(required)}
    return {"name": name, "description": description, "input_schema": schema}


TOOLS: tuple[dict[str, Any], ...] = (
    _tool(
        QUERY,
        "Marks like #abc1234 stand for what left your context. If one stands for what you need, ask, by id or not,"
        " rather than guess (quotes, cheap); else do not.",
        ("question",),
        {"question": _STRING, "scope": _ANY, "max_tokens": _ANY},
    ),
    _tool(
        RESTORE,
        "See an object again: target L0 (all), L1 (a third) or L2 (less).",
        ("object_id", "reason"),
        {"object_id": _STRING, "target": _ANY, "reason": _ANY},
    ),
    _tool(
        RELEASE,
        "Free objects you need no more.",
        ("object_ids", "reason"),
        {"object_ids": {"type": "array", "items": _STRING}, "reason": _ANY},
    ),
    _tool(SEARCH, "Find ids of objects by words.", ("query",), {"query": _STRING, "kind": _ANY, "limit": _ANY}),
)
"""Their definitions as sent, after the client's own. Together they weigh less than 300 tokens of the older tokenizer
(``tests/domain/tools/test_memory_tools.py`` measures).
"""


@cache
def tools_json(dialect: Dialect) -> tuple[bytes, ...]:
    """Return the definitions as the bytes that are sent in every request of every branch in a dialect."""
    return tuple(json.dumps(dialect.write_tool(tool), separators=(",", ":")).encode() for tool in TOOLS)


@cache
def find_offer(dialect: Dialect) -> bytes | None:
    """Return the element that adds the tools behind the cached head; None if the dialect has none."""
    return None if dialect.behind is None else dialect.behind.write(map(dialect.write_tool, TOOLS))


def is_offer(element: bytes, dialect: Dialect) -> bool:
    """Return whether an element of a history adds the tools, as this or an earlier version defines them."""
    is_addition = dialect.behind is not None and element.startswith(dialect.behind.beginning)
    return is_addition and any(b'"name":"%s"' % name.encode() in element for name in NAMES)


TOOL_JSON = json.dumps(
    _tool(
        TOOL, "All of a tool's definition, where its description says it is cut short.", ("name",), {"name": _STRING}
    ),
    separators=(",", ":"),
).encode()
"""The definition of the fifth tool, which follows them if a tool of the client is paged."""

NAMES: frozenset[str] = frozenset({QUERY, RESTORE, RELEASE, SEARCH, TOOL})

RECALLING: frozenset[str] = frozenset({QUERY, RESTORE, SEARCH})
"""Tools that return remembered content."""


def collides(tool_names: Iterable[str]) -> bool:
    """Return whether a client has a tool with the name of a memory tool; its branch is then only observed."""
    return not NAMES.isdisjoint(tool_names)


# Calls

LONGEST_QUESTION = 2_000
"""Maximum length of a question or a search, in characters."""

LONGEST_REASON = 200
"""How many characters of a reason are recorded; the rest is cut."""

MOST_RELEASED = 50
"""Maximum number of objects in one call."""

ANSWER_TOKENS, LEAST_ANSWER, MOST_ANSWER = 800, 50, 1_000
"""Tokens of an answer: the default, and the bounds of the call's own limit."""

SEARCH_HITS, MOST_HITS = 5, 20
"""Hits of a search: the default and the maximum."""


@attrs.frozen
class MemoryQuery:
    """A question, to be answered in at most ``max_tokens``; None: the call gives no limit. ``scope``, if given, says
    where to look: words, or an object's id after a mark.
    """

    question: str
    scope: str | None
    max_tokens: int | None


@attrs.frozen
class MemoryRestore:
    """Show an object at a fidelity: L0, L1 or L2. ``part`` is the number, from 1, of a single image or document in it
    that is wanted; the fidelity is then L0.
    """

    object_id: str
    target: Fidelity
    reason: str
    part: int | None = None


@attrs.frozen
class MemoryRelease:
    """The model no longer needs these objects, each named once."""

    object_ids: tuple[str, ...]
    reason: str


@attrs.frozen
class MemorySearch:
    """Find the objects, of this kind if one is given, that concern these words."""

    query: str
    kind: ObjectKind | None
    limit: int


@attrs.frozen
class MemoryTool:
    """Show the whole definition of the client's tool of this name."""

    name: str


MemoryCall = MemoryQuery | MemoryRestore | MemoryRelease | MemorySearch | MemoryTool


@attrs.frozen
class RefusedCall:
    """A call that was refused. ``text`` tells the model why, and what to do instead; it is sent as an error."""

    text: str


def parse(name: str, input_json: str) -> MemoryCall | RefusedCall:
    """Parse a call from the tool's name and the JSON of its input as the model wrote it. Never raises.

    Ids may have their mark, or be whole marks such as ``[#abc1234 L3]``. Excessive lengths and numbers of ids are
    refused, but a reason is cut and a number is clamped to its bounds.
    """
    reader = _READERS.get(name)
    if reader is None:
        return RefusedCall(f"There is no memory tool {plain(name, 40)}. There are {', '.join(sorted(NAMES))}.")
    try:
        given = json_values.storable(json_values.read_strict(input_json or "{}"))
    except (ValueError, RecursionError):
        return RefusedCall(f"The input of {name} is not whole JSON. Call it again with {_USAGES[name]}.")
    if not isinstance(given, dict):
        return RefusedCall(f"The input of {name} is not a JSON object. Call it again with {_USAGES[name]}.")
    try:
        return reader(given)
    except _Unusable as unusable:
        return RefusedCall(f"{name}: {unusable}")


class _Unusable(Exception):
    """An argument that cannot be used."""


def _query(given: Mapping[str, Any]) -> MemoryQuery:
    scope = given.get("scope")
    return MemoryQuery(
        question=_question(given, QUERY, "question"),
        scope=_check_length(scope, "scope") if isinstance(scope, str) and scope.strip() else None,
        max_tokens=_number(given.get("max_tokens"), None, LEAST_ANSWER, MOST_ANSWER),
    )


def _restore(given: Mapping[str, Any]) -> MemoryRestore:
    named = given.get("object_id")
    one = _PART.fullmatch(named) if isinstance(named, str) and len(named) < 100 else None
    if one is not None:
        return MemoryRestore(_id(one.group(1)), Fidelity.FULL, _reason(given), part=int(one.group(2)))
    return MemoryRestore(_id(named), _target(given.get("target")), _reason(given))


def _release(given: Mapping[str, Any]) -> MemoryRelease:
    ids = given.get("object_ids")
    if isinstance(ids, str):
        ids = re.split(r"[\s,]+(?!L\d\])", ids.strip())
    if not isinstance(ids, list) or not ids:
        raise _Unusable(f"object_ids names no object. Call it again with {_USAGES[RELEASE]}.")
    if len(ids) > MOST_RELEASED:
        raise _Unusable(f"{len(ids):,} ids in one call; release at most {MOST_RELEASED} at once.")
    return MemoryRelease(tuple(dict.fromkeys(_id(name) for name in ids)), _reason(given))


def _search(given: Mapping[str, Any]) -> MemorySearch:
    return MemorySearch(
        query=_question(given, SEARCH, "query"),
        kind=_kind(given.get("kind")),
        limit=_number(given.get("limit"), SEARCH_HITS, 1, MOST_HITS),
    )


_READERS: Mapping[str, Callable[[Mapping[str, Any]], MemoryCall]] = {
    QUERY: _query,
    RESTORE: _restore,
    RELEASE: _release,
    SEARCH: _search,
    TOOL: lambda given: MemoryTool(_question(given, TOOL, "name")),
}

_USAGES: Mapping[str, str] = {
    QUERY: '{"question": "…"}',
    RESTORE: f'{{"object_id": "{MARK}abc1234", "reason": "…"}}',
    RELEASE: f'{{"object_ids": ["{MARK}abc1234"], "reason": "…"}}',
    SEARCH: '{"query": "…"}',
    TOOL: '{"name": "…"}',
}


def _question(given: Mapping[str, Any], name: str, key: str) -> str:
    asked = given.get(key)
    if not isinstance(asked, str) or not asked.strip():
        raise _Unusable(f"{key} is empty. Call it again with {_USAGES[name]}.")
    return _check_length(asked, key)


def _check_length(text: str, key: str) -> str:
    if len(text) > LONGEST_QUESTION:
        raise _Unusable(f"{key} has {len(text):,} characters; say it in at most {LONGEST_QUESTION:,}.")
    return text.encode("utf-8", "replace").decode().strip()  # JSON can contain half a character


def _reason(given: Mapping[str, Any]) -> str:
    """Return the reason as far as the model gave one: a memory tool does not require it."""
    reason = given.get("reason")
    return plain(reason, LONGEST_REASON) if isinstance(reason, str) else ""


_NUMBER = re.compile(r"\s*[+-]?\d{1,9}(?:\.\d{0,9})?\s*", re.ASCII)


def _number(given: object, default: Default, least: int, most: int) -> int | Default:
    if isinstance(given, str) and _NUMBER.fullmatch(given):
        given = float(given)
    if isinstance(given, bool) or not isinstance(given, int | float) or given != given:
        return default
    return int(max(least, min(most, given)))


_ID = re.compile(rf"\s*[\[`\"']*{MARK}?(\w{{1,40}})(?:\s+L[0-4])?[\]`\"']*\s*", re.ASCII)

_PART = re.compile(rf"\s*[\[`\"']*({MARK}?\w{{1,40}})\.(\d{{1,4}})[\]`\"']*\s*", re.ASCII)
"""An id with the number of an image or document: ``#abc1234.2``. Refusals mention such ids (``memory_calls``)."""


def _id(given: object) -> str:
    match = _ID.fullmatch(given) if isinstance(given, str) and len(given) < 100 else None
    if match is None:
        shown = plain(given, 40) if isinstance(given, str) else json.dumps(given)[:40]
        raise _Unusable(f"{shown!r} is no object id. Ids look like {MARK}abc1234: copy one from a mark or a search.")
    return match.group(1)


_TARGETS: Mapping[str, Fidelity] = {
    **dict.fromkeys(("l0", "0", "full", "all"), Fidelity.FULL),
    **dict.fromkeys(("l1", "1", "detailed"), Fidelity.DETAILED),
    **dict.fromkeys(("l2", "2", "compact"), Fidelity.COMPACT),
}


_NOT_GIVEN: tuple[object, ...] = (None, "", {})
"""Values with which models express that an argument is absent. Without a type in the schema, a local server's grammar
produces an object.
"""


def _target(given: object) -> Fidelity:
    if given in _NOT_GIVEN:
        return Fidelity.FULL
    target = _TARGETS.get(str(given).strip().lower()) if isinstance(given, str | int) else None
    if target is None:
        raise _Unusable("target is L0 (full), L1 (detailed) or L2 (compact).")
    return target


def _kind(given: object) -> ObjectKind | None:
    if given in _NOT_GIVEN:
        return None
    wanted = given.strip().lower().replace(" ", "_") if isinstance(given, str) else None
    kind = next((known for known in ObjectKind if known.value == wanted), None)
    if kind is None:
        raise _Unusable(f"kind is one of {', '.join(known.value for known in ObjectKind)}; or leave it out.")
    return kind
