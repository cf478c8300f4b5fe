"""The operations on the memory beyond sessions: one table for the API, the agents' tools, the commands and
the pages.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

import attrs

from mnemosyne.domain.knowledge.kinds import EntryKind, EntrySource, Scope
from mnemosyne.errors import BadOption
from mnemosyne.services import memory_api as api
from mnemosyne.services.memory_api import PREFERENCE_KINDS, ApiCall, Arguments

MOST_LISTED = 10_000
"""Maximum number of entries in one answer."""

MOST_RECALLED = 50


@attrs.frozen(kw_only=True)
class Operation:
    """An operation that programs, commands, pages or models call by name; ``properties`` are its arguments as JSON
    Schema.
    """

    name: str
    summary: str
    properties: Mapping[str, dict[str, Any]] = {}
    required: Sequence[str] = ()
    writes: bool = False

    @property
    def schema(self) -> dict[str, Any]:
        """Its arguments as a JSON Schema."""
        return {
            "type": "object",
            "properties": dict(self.properties),
            "required": list(self.required),
            "additionalProperties": False,
        }


@attrs.frozen(kw_only=True)
class KnowledgeOperation(Operation):
    """An operation on the memory beyond sessions, with its place in the API. If it ``writes``, a browser's cookie does
    not authorize it.
    """

    method: str
    path: str
    answer: Callable[[ApiCall], Awaitable[Any]]


def check_arguments(operation: Operation, arguments: Arguments) -> None:
    """Check a call's arguments, as models send some that no schema permits. Raises BadOption with a sentence that they
    can act on.
    """
    missing = [each for each in operation.required if not str(arguments.get(each, "")).strip()]
    if missing:
        raise BadOption(f"{operation.name} needs {' and '.join(missing)}.")
    for name, value in arguments.items():
        if name not in operation.properties:
            raise BadOption(f"{operation.name} knows no {name!r}; it takes {', '.join(operation.properties)}.")
        kind = operation.properties[name]["type"]
        if type(value) is not _TYPES[kind]:
            raise BadOption(f"{name} of {operation.name} is to be of type {kind}, not {value!r:.60}.")
        names = operation.properties[name].get("enum", [value])
        if value not in names:
            raise BadOption(f"{name} of {operation.name} is to be one of {', '.join(names)}, not {value!r:.60}.")
        most = operation.properties[name].get("maximum", LARGEST)
        if isinstance(value, int) and kind == "integer" and not 1 <= value <= most:
            raise BadOption(f"{name} of {operation.name} is to be from 1 to {most}.")


LARGEST = 10**9
"""Upper limit of a turn's number."""

_TYPES: Mapping[str, type] = {"string": str, "integer": int, "boolean": bool, "array": list}

_TEXT = {"type": "string"}
_ID = {"type": "string", "description": "The id of an entry, or words that it alone has."}
TIME = "date-time"
"""The format of a time: a date or time of ISO 8601, or µs of UTC since 1970 as answers give it."""
_KIND = {"type": "string", "description": f"One of {', '.join(each.value for each in EntryKind)}."}
_PREFERENCE = {"type": "string", "description": f"One of {PREFERENCE_KINDS}."}
_SCOPE = {"type": "string", "enum": [each.value for each in Scope], "description": "Where it holds."}
_COUNT = {"type": "integer", "minimum": 1, "maximum": MOST_LISTED, "description": "At most so many."}


def _time(description: str) -> dict[str, Any]:
    return {"type": "string", "format": TIME, "description": description}


_BEGINS = _time("True from then on; by default from now on.")

PLACE: Mapping[str, dict[str, Any]] = {
    "project": {
        "type": "string",
        "description": "The absolute path of a folder of the project; without one, what holds in every project.",
    }
}
"""Whose memory it is; an argument of every operation."""

WRITER: Mapping[str, dict[str, Any]] = {
    "source": {
        "type": "string",
        "enum": [EntrySource.USER.value, EntrySource.AGENT.value],
        "description": "Who says so; by default user.",
    }
}

_LISTING = {
    "scope": _SCOPE,
    "as_of": _time("What was true and known then."),
    "true_at": _time("What was true then, as it is known now."),
    "known_at": _time("What was believed then."),
    "limit": _COUNT,
}
SOURCE: Mapping[str, dict[str, Any]] = {
    "session": {"type": "string", "description": "The session that it is from, if its id is known."},
    "turn": {"type": "integer", "minimum": 1, "description": "Which turn of that; by default the last one."},
}
_WRITING = {**WRITER, **SOURCE, "content": _TEXT, "detail": {**_TEXT, "description": "More, told only to who asks."}}
_ADDING = {
    **_WRITING,
    "summary": {**_TEXT, "description": "A shorter line, told to sessions in place of the content."},
    "scope": _SCOPE,
    "valid_from": _BEGINS,
}
_UPDATING = {**_WRITING, "id": _ID, "valid_from": _BEGINS}
_ASKING = {
    "query": _TEXT,
    "limit": {**_COUNT, "maximum": MOST_RECALLED},
    "kind": _KIND,
    "ended": {"type": "boolean", "description": "Also what holds no longer."},
}


def _operation(method: str, path: str, name: str, summary: str, answer: Any, **more: Any) -> KnowledgeOperation:
    properties = {**PLACE, **more.pop("properties", {})}
    return KnowledgeOperation(
        method=method, path=path, name=name, summary=summary, answer=answer, properties=properties, **more
    )


OPERATIONS: tuple[KnowledgeOperation, ...] = (
    _operation(
        "GET",
        "/memories",
        "listMemories",
        "List current entries, the nearest scope first; or those true or known at another time.",
        api.list_entries,
        properties={**_LISTING, "kind": _KIND},
    ),
    _operation(
        "POST",
        "/memories",
        "addMemory",
        "Save a sentence for future sessions. Duplicates are skipped.",
        api.add_entries,
        properties={**_ADDING, "kind": _KIND},
        required=("content",),
        writes=True,
    ),
    _operation(
        "POST",
        "/memories/search",
        "searchMemories",
        "Find the entries that best answer a question, including those with low confidence.",
        api.recall_entries,
        properties=_ASKING,
        required=("query",),
    ),
    _operation(
        "GET",
        "/recall",
        "recall",
        "The same, with the question in the address.",
        api.recall_entries,
        properties=_ASKING,
        required=("query",),
    ),
    _operation(
        "GET",
        "/memories/{id}",
        "showMemory",
        "Show an entry with its earlier and later versions.",
        api.show_entry,
        properties={"id": _ID},
        required=("id",),
    ),
    _operation(
        "PUT",
        "/memories/{id}",
        "updateMemory",
        "Replace an entry: it ends, and a new one begins.",
        api.update_entry,
        properties=_UPDATING,
        required=("id", "content"),
        writes=True,
    ),
    _operation(
        "DELETE",
        "/memories/{id}",
        "forgetMemory",
        "End an entry. It stays on record.",
        api.forget_entry,
        properties={"id": _ID},
        required=("id",),
        writes=True,
    ),
    _operation(
        "POST",
        "/memories/{id}/confirm",
        "confirmMemory",
        "Confirm that an entry is still true.",
        api.confirm_entry,
        properties={"id": _ID},
        required=("id",),
        writes=True,
    ),
    _operation(
        "POST",
        "/memories/{id}/links",
        "linkMemories",
        "Link two entries of one scope.",
        api.link_entries,
        properties={"id": _ID, "other": _ID, "relation": {**_TEXT, "description": "How; by default relates-to."}},
        required=("id", "other"),
        writes=True,
    ),
    _operation(
        "GET",
        "/preferences",
        "listPreferences",
        "List preferences.",
        api.list_preferences,
        properties={**_LISTING, "kind": _PREFERENCE},
    ),
    _operation(
        "POST",
        "/preferences",
        "addPreference",
        "Save a preference, for all projects unless a scope is given.",
        api.add_preference,
        properties={**_ADDING, "kind": _PREFERENCE},
        required=("content", "kind"),
        writes=True,
    ),
    _operation(
        "PUT",
        "/preferences/{id}",
        "updatePreference",
        "Replace a preference.",
        api.of_preferences(api.update_entry),
        properties=_UPDATING,
        required=("id", "content"),
        writes=True,
    ),
    _operation(
        "DELETE",
        "/preferences/{id}",
        "forgetPreference",
        "End a preference. It stays on record.",
        api.of_preferences(api.forget_entry),
        properties={"id": _ID},
        required=("id",),
        writes=True,
    ),
    _operation(
        "POST",
        "/preferences/{id}/confirm",
        "confirmPreference",
        "Confirm that a preference is still true.",
        api.of_preferences(api.confirm_entry),
        properties={"id": _ID},
        required=("id",),
        writes=True,
    ),
    _operation(
        "GET",
        "/block",
        "showBlock",
        "Show the text that a new session with this prompt would get; null for none.",
        api.show_block,
        properties={"prompt": _TEXT},
    ),
    _operation(
        "POST",
        "/undo",
        "undoWrite",
        "Undo a write, except an erasure; by default the last one.",
        api.undo_write,
        properties={"write": _TEXT},
        writes=True,
    ),
    _operation(
        "POST",
        "/erase",
        "eraseMemories",
        "Erase from the log the words of every entry with this id or these words.",
        api.erase_entries,
        properties={"matching": _TEXT},
        required=("matching",),
        writes=True,
    ),
)
"""Export and import are not among them: their bodies are lines of JSON."""

BY_NAME = {each.name: each for each in OPERATIONS}
