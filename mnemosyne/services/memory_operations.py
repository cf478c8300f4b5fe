"""The operations of the API: each with its path and its arguments, as the API's own description tells them."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

import attrs

from mnemosyne.domain.knowledge.kinds import EntryKind, EntrySource, Scope
from mnemosyne.services import memory_api as api
from mnemosyne.services.memory_api import PREFERENCE_KINDS, ApiCall

MOST_LISTED = 10_000
"""Entries of one answer."""


@attrs.frozen(kw_only=True)
class ApiOperation:
    """``properties`` are its arguments as JSON Schema, those of its path among them. ``needs_token``: it writes, and a
    browser's cookie is not enough.
    """

    method: str
    path: str
    name: str
    summary: str
    answer: Callable[[ApiCall], Awaitable[Any]]
    properties: Mapping[str, dict[str, Any]] = {}
    required: Sequence[str] = ()
    needs_token: bool = True


_TEXT = {"type": "string"}
_ID = {"type": "string", "description": "The id of an entry."}
_TIME = {"type": "string", "description": "A date or time of ISO 8601, or µs of UTC since 1970 as answers tell it."}
_KIND = {"type": "string", "description": f"One of {', '.join(each.value for each in EntryKind)}."}
_PREFERENCE = {"type": "string", "description": f"One of {PREFERENCE_KINDS}."}
_SCOPE = {"type": "string", "enum": [each.value for each in Scope]}
_COUNT = {"type": "integer", "minimum": 1, "maximum": MOST_LISTED}

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
    "as_of": {**_TIME, "description": f"What was true and known then. {_TIME['description']}"},
    "true_at": {**_TIME, "description": f"What was true then. {_TIME['description']}"},
    "known_at": {**_TIME, "description": f"What we would have said then. {_TIME['description']}"},
    "limit": _COUNT,
}
_SOURCE = {
    "session": {"type": "string", "description": "The session that it is from, if it is on record."},
    "turn": {"type": "integer", "minimum": 1, "description": "Which turn of that; by default the last one."},
}
_WRITING = {**WRITER, **_SOURCE, "content": _TEXT, "detail": {**_TEXT, "description": "More, told only to who asks."}}
_ADDING = {
    **_WRITING,
    "summary": {**_TEXT, "description": "A shorter line, told to sessions in place of the content."},
    "scope": _SCOPE,
    "valid_from": _TIME,
}
_UPDATING = {**_WRITING, "id": _ID, "valid_from": _TIME}
_ASKING = {
    "query": _TEXT,
    "limit": {"type": "integer", "minimum": 1, "maximum": 50},
    "kind": _KIND,
    "ended": {"type": "boolean", "description": "Also what holds no longer."},
}


def _operation(method: str, path: str, name: str, summary: str, answer: Any, **more: Any) -> ApiOperation:
    properties = {**PLACE, **more.pop("properties", {})}
    return ApiOperation(
        method=method, path=path, name=name, summary=summary, answer=answer, properties=properties, **more
    )


OPERATIONS: tuple[ApiOperation, ...] = (
    _operation(
        "GET",
        "/memories",
        "listMemories",
        "What holds, the nearest scope first; or what held, or was believed, at another time.",
        api.list_entries,
        properties={**_LISTING, "kind": _KIND},
        needs_token=False,
    ),
    _operation(
        "POST",
        "/memories",
        "addMemory",
        "Save a sentence for future sessions. One that is known already is skipped.",
        api.add_entries,
        properties={**_ADDING, "kind": _KIND},
        required=("content",),
    ),
    _operation(
        "POST",
        "/memories/search",
        "searchMemories",
        "The entries that answer a question best, also those that are believed too little to be told unasked.",
        api.recall_entries,
        properties=_ASKING,
        required=("query",),
        needs_token=False,
    ),
    _operation(
        "GET",
        "/recall",
        "recall",
        "The same for a question in the address.",
        api.recall_entries,
        properties=_ASKING,
        required=("query",),
        needs_token=False,
    ),
    _operation(
        "GET",
        "/memories/{id}",
        "showMemory",
        "An entry, with what it said before and after.",
        api.show_entry,
        properties={"id": _ID},
        required=("id",),
        needs_token=False,
    ),
    _operation(
        "PUT",
        "/memories/{id}",
        "updateMemory",
        "Have an entry say something else: it ends, and another one takes its place.",
        api.update_entry,
        properties=_UPDATING,
        required=("id", "content"),
    ),
    _operation(
        "DELETE",
        "/memories/{id}",
        "forgetMemory",
        "End an entry. It stays on record.",
        api.forget_entry,
        properties={"id": _ID},
        required=("id",),
    ),
    _operation(
        "POST",
        "/memories/{id}/confirm",
        "confirmMemory",
        "Say that an entry is still true.",
        api.confirm_entry,
        properties={"id": _ID},
        required=("id",),
    ),
    _operation(
        "POST",
        "/memories/{id}/links",
        "linkMemories",
        "Say that two entries of one scope belong together.",
        api.link_entries,
        properties={"id": _ID, "other": _ID, "relation": _TEXT},
        required=("id", "other"),
    ),
    _operation(
        "GET",
        "/preferences",
        "listPreferences",
        "How somebody wants things done.",
        api.list_preferences,
        properties={**_LISTING, "kind": _PREFERENCE},
        needs_token=False,
    ),
    _operation(
        "POST",
        "/preferences",
        "addPreference",
        "Have a preference known, in all projects unless a scope says otherwise.",
        api.add_preference,
        properties={**_ADDING, "kind": _PREFERENCE},
        required=("content", "kind"),
    ),
    _operation(
        "PUT",
        "/preferences/{id}",
        "updatePreference",
        "Have a preference say something else.",
        api.of_preferences(api.update_entry),
        properties=_UPDATING,
        required=("id", "content"),
    ),
    _operation(
        "DELETE",
        "/preferences/{id}",
        "forgetPreference",
        "End a preference. It stays on record.",
        api.of_preferences(api.forget_entry),
        properties={"id": _ID},
        required=("id",),
    ),
    _operation(
        "POST",
        "/preferences/{id}/confirm",
        "confirmPreference",
        "Say that a preference is still true.",
        api.of_preferences(api.confirm_entry),
        properties={"id": _ID},
        required=("id",),
    ),
    _operation(
        "GET",
        "/block",
        "showBlock",
        "What a session is told that begins now with this prompt; its text is null for nothing.",
        api.show_block,
        properties={"prompt": _TEXT},
        needs_token=False,
    ),
    _operation(
        "POST",
        "/undo",
        "undoWrite",
        "Take a write back, whatever it was but an erasure; by default the last one.",
        api.undo_write,
        properties={"write": _TEXT},
    ),
    _operation(
        "POST",
        "/erase",
        "eraseMemories",
        "Take the words of every entry that has this id, or these words, out of the log for good.",
        api.erase_entries,
        properties={"matching": _TEXT},
        required=("matching",),
    ),
)
"""Export and import are not among them: their bodies are lines of JSON."""
