"""The operations on the memory beyond sessions: one table for the API, the agents' tools, the commands and
the pages. Each is a function from a call to an answer in JSON.
"""

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Any

import attrs

from mnemosyne.domain.knowledge.decide import EntryDraft
from mnemosyne.domain.knowledge.events import Provenance
from mnemosyne.domain.knowledge.kinds import PREFERENCES, EntryKind, EntrySource, Scope
from mnemosyne.domain.session.decision_inputs import GROUNDINGS
from mnemosyne.errors import BadOption, NotFound
from mnemosyne.services import pins, session_edits, trash
from mnemosyne.services.knowledge import (
    KnowledgeService,
    WriteReport,
    WriteStamp,
    describe,
    describe_write,
    parse_member,
)
from mnemosyne.services.provenance import find_provenance, find_words, read_reply_words
from mnemosyne.services.sessions import Archive
from mnemosyne.services.unstructuring import members
from mnemosyne.times import is_time, render_day

Arguments = Mapping[str, Any]

LISTED = 1000
"""Default limit of entries in one answer."""

MOST_LISTED = 10_000
"""Maximum number of entries in one answer."""

MOST_RECALLED = 50

MOST_SIMILAR = 3
"""Maximum number of similar entries shown to an agent that saves one, so that it can update one of them instead."""

LONGEST_NOTE = 300
"""Characters of a reply that is kept; the detail has a longer one in full."""

PREFERENCE_KINDS = ", ".join(each.value for each in EntryKind if each in PREFERENCES)

NOTE = "It applies to new sessions, not to running ones."


@attrs.frozen
class ApiCall:
    """A call of an operation: the memory as the named project sees it, and the arguments."""

    knowledge: KnowledgeService
    archive: Archive
    given: Arguments
    stamp: WriteStamp

    def find_kind(self) -> EntryKind | None:
        kind = self.given.get("kind")
        return None if kind is None else parse_member(EntryKind, kind, "kind")

    def find_scope(self) -> Scope | None:
        scope = self.given.get("scope")
        return None if scope is None else parse_member(Scope, scope, "scope")

    def find_time(self, name: str) -> int | None:
        """A time argument, in µs of UTC."""
        text = self.given.get(name)
        return None if text is None else parse_api_time(name, text)

    async def find_provenance(self) -> Provenance | None:
        """The turn of the session argument. Raises NotFound."""
        return await find_provenance(self.archive, *map(self.given.get, ("session", "turn", "branch")))

    async def find_text(self, source: Provenance | None) -> tuple[str, str]:
        """The content and the detail. Without a content, they are the words of the reply of the turn. Raises
        BadOption, NotFound.
        """
        if "content" in self.given:
            return self.given["content"], self.given.get("detail", "")
        if source is None:
            raise BadOption("Give the content, or the session of the reply to keep.")
        words = await read_reply_words(self.archive, source)
        line = " ".join(words.split())
        return (words, "") if len(line) <= LONGEST_NOTE else (f"{line[:LONGEST_NOTE].rstrip()}…", words)


Answer = Callable[[ApiCall], Awaitable[Any]]


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
class ApiOperation(Operation):
    """An operation with its place in the API. If it ``writes``, a browser's cookie does not authorize it."""

    method: str
    path: str


@attrs.frozen(kw_only=True)
class KnowledgeOperation(ApiOperation):
    """An operation on the memory beyond sessions."""

    answer: Answer


def check_arguments(operation: Operation, arguments: Arguments) -> None:
    """Check a call's arguments, as models send some that no schema permits. Raises BadOption with a sentence that they
    can act on.
    """
    missing = [each for each in operation.required if not str(arguments.get(each, "")).strip()]
    if missing:
        raise BadOption(f"{operation.name} needs {' and '.join(missing)}.")
    for name, value in arguments.items():
        if name not in operation.properties:
            raise BadOption(
                f"{operation.name} has no parameter {name!r}; its parameters: {', '.join(operation.properties)}."
            )
        kind = operation.properties[name]["type"]
        if type(value) is not _TYPES[kind]:
            raise BadOption(f"{name} of {operation.name} must have the type {kind}, not {value!r:.60}.")
        names = operation.properties[name].get("enum", [value])
        if value not in names:
            raise BadOption(f"{name} of {operation.name} must be one of {', '.join(names)}, not {value!r:.60}.")
        most = operation.properties[name].get("maximum", LARGEST)
        if isinstance(value, int) and kind == "integer" and not 1 <= value <= most:
            raise BadOption(f"{name} of {operation.name} must be from 1 to {most}.")


LARGEST = 10**9
"""Upper limit of a turn's number."""

_TYPES: Mapping[str, type] = {"string": str, "integer": int, "boolean": bool, "array": list}

_TEXT: dict[str, Any] = {"type": "string"}
_ID: dict[str, Any] = {"type": "string", "description": "The id of an entry, or words that only one entry contains."}
TIME = "date-time"
"""The format of a time: a date or time of ISO 8601, or µs of UTC since 1970 as answers give it."""
_KIND = {"type": "string", "description": f"One of {', '.join(each.value for each in EntryKind)}."}
_PREFERENCE = {"type": "string", "description": f"One of {PREFERENCE_KINDS}."}
_SCOPE = {"type": "string", "enum": [each.value for each in Scope], "description": "The scope of the entry."}
_COUNT = {"type": "integer", "minimum": 1, "maximum": MOST_LISTED, "description": "Maximum number of entries."}


def _time(description: str) -> dict[str, Any]:
    return {"type": "string", "format": TIME, "description": description}


_BEGINS = _time("The time from which it is true; default: now.")

PLACE: Mapping[str, dict[str, Any]] = {
    "project": {
        "type": "string",
        "description": "The absolute path of a folder of the project; without it, entries of all projects.",
    }
}
"""Whose memory it is; an argument of every operation."""

WRITER: Mapping[str, dict[str, Any]] = {
    "source": {
        "type": "string",
        "enum": [EntrySource.USER.value, EntrySource.AGENT.value],
        "description": "The author; default: user.",
    }
}

_LISTING = {
    "scope": _SCOPE,
    "as_of": _time("Entries that were true and recorded at this time."),
    "true_at": _time("Entries that were true at this time, as recorded until now."),
    "known_at": _time("Entries that were recorded at this time."),
    "limit": _COUNT,
}
SOURCE: Mapping[str, dict[str, Any]] = {
    "session": {"type": "string", "description": "The session in which it was stated."},
    "turn": {"type": "integer", "minimum": 1, "description": "The turn of that session; default: the last one."},
    "branch": {"type": "string", "description": "The branch of that session; default: the last active one."},
}
_WRITING = {**WRITER, **SOURCE, "content": _TEXT, "detail": {**_TEXT, "description": "Details, shown only on request."}}
_ADDING = {
    **_WRITING,
    "summary": {**_TEXT, "description": "A shorter line, given to sessions instead of the content."},
    "scope": _SCOPE,
    "valid_from": _BEGINS,
}
_UPDATING = {**_WRITING, "id": _ID, "valid_from": _BEGINS}
_ASKING = {
    "query": _TEXT,
    "limit": {**_COUNT, "maximum": MOST_RECALLED},
    "kind": _KIND,
    "ended": {"type": "boolean", "description": "Include entries that have ended."},
}


OPERATIONS: list[KnowledgeOperation] = []
"""All operations, in the order of the API's description. Export and import are not among them: their bodies are lines
of JSON.
"""


_IN_PATH = re.compile(r"\{(\w+)\}")


def _operation(
    place: str,
    name: str,
    summary: str,
    properties: Mapping[str, dict[str, Any]],
    required: Sequence[str] = (),
    *,
    writes: bool | None = None,
) -> Callable[[Answer], Answer]:
    """Add an operation to the table: the decorated function answers it. ``place`` is its method and its path, whose
    arguments are required. All but ``GET`` write by default.
    """
    method, path = place.split()

    def add(answer: Answer) -> Answer:
        OPERATIONS.append(
            KnowledgeOperation(
                method=method,
                path=path,
                name=name,
                summary=summary,
                properties={**PLACE, **properties},
                required=(*_IN_PATH.findall(path), *required),
                writes=method != "GET" if writes is None else writes,
                answer=answer,
            )
        )
        return answer

    return add


@_operation(
    "GET /memories",
    "listMemories",
    "List current entries, the nearest scope first; or those true or known at another time.",
    {**_LISTING, "kind": _KIND},
)
async def _list_entries(call: ApiCall) -> Any:
    return await _list(call, frozenset(EntryKind))


async def _list(call: ApiCall, kinds: frozenset[EntryKind]) -> Any:
    both = call.find_time("as_of")
    known_at = call.find_time("known_at") or both
    at = call.find_time("true_at") or known_at or call.stamp.at
    found = await call.knowledge.list_entries(
        at,
        scope=call.find_scope(),
        kind=call.find_kind(),
        known_at=known_at,
    )
    wanted = [each for each in found if each.entry.kind in kinds]
    shown = wanted[: call.given.get("limit", LISTED)]
    return {"entries": [describe(each, at) for each in shown], "left_out": len(wanted) - len(shown)}


@_operation(
    "POST /memories",
    "addMemory",
    "Save a sentence for future sessions. Duplicates are skipped. A helper model finds the claims of a plain text."
    " Without `content`, the reply of the turn is kept as a note.",
    {**_ADDING, "kind": _KIND},
)
async def _add_entry(call: ApiCall) -> Any:
    if "content" in call.given and call.given.keys() <= {"content", *PLACE, *WRITER}:
        learned = await call.knowledge.learn(call.given["content"], call.stamp)
        if learned:
            return _report(call, learned[0]) | {"entries": [describe_write(each, call.stamp.at) for each in learned]}
    return await _add(call, call.find_kind() or EntryKind.FACT, call.find_scope() or Scope.PROJECT)


async def _add(call: ApiCall, kind: EntryKind, scope: Scope) -> Any:
    provenance = await call.find_provenance()
    content, detail = await call.find_text(provenance)
    draft = EntryDraft(
        kind=kind,
        content=content,
        source=call.knowledge.source if "content" in call.given else EntrySource.AGENT,
        summary=call.given.get("summary", ""),
        detail=detail,
        valid_from=call.find_time("valid_from"),
        provenance=provenance,
    )
    if draft.source is not EntrySource.AGENT:
        return _report(call, await call.knowledge.remember(scope, draft, call.stamp))
    similar = await call.knowledge.recall(content, call.stamp.at, limit=MOST_SIMILAR) if content.strip() else ()
    report = _report(call, await call.knowledge.remember(scope, draft, call.stamp))
    return report | {"similar": [describe(each, call.stamp.at) for each in similar]}


@_operation("GET /recall", "recall", "The same, with the question in the address.", _ASKING, ("query",))
@_operation(
    "POST /memories/search",
    "searchMemories",
    "Find the entries that best answer a question, unconfirmed ones included.",
    _ASKING,
    ("query",),
    writes=False,
)
async def _recall_entries(call: ApiCall) -> Any:
    kind = call.find_kind()
    found = await call.knowledge.recall(
        call.given["query"],
        call.stamp.at,
        limit=call.given.get("limit", 10),
        kinds=() if kind is None else (kind,),
        ended=call.given.get("ended", False),
    )
    return {"entries": [describe(each, call.stamp.at) for each in found]}


@_operation("GET /memories/{id}", "showMemory", "Show an entry with its earlier and later versions.", {"id": _ID})
async def _show_entry(call: ApiCall) -> Any:
    """With the bytes of the requests that contain the words; without an id, all entries."""
    wanted = call.given.get("id")
    entries = []
    for each in await call.knowledge.list_history(wanted):
        words = None if wanted is None else await find_words(call.archive, each.entry)
        entries.append(
            describe(each, call.stamp.at) | ({} if words is None else {"words": members(words, "start end")})
        )
    return {"entries": entries}


@_operation(
    "PUT /memories/{id}", "updateMemory", "Replace an entry: it ends, and a new one begins.", _UPDATING, ("content",)
)
async def _update_entry(call: ApiCall) -> Any:
    done = await call.knowledge.update(
        call.given["id"],
        call.given["content"],
        call.stamp,
        detail=call.given.get("detail"),
        valid_from=call.find_time("valid_from"),
        provenance=await call.find_provenance(),
    )
    return _report(call, done)


@_operation("DELETE /memories/{id}", "forgetMemory", "End an entry. It stays on record.", {"id": _ID})
async def _forget_entry(call: ApiCall) -> Any:
    return _report(call, await call.knowledge.forget(call.given["id"], call.stamp))


@_operation("POST /memories/{id}/confirm", "confirmMemory", "Confirm that an entry is true.", {"id": _ID})
async def _confirm_entry(call: ApiCall) -> Any:
    return _report(call, await call.knowledge.confirm(call.given["id"], call.stamp))


@_operation(
    "POST /memories/{id}/links",
    "linkMemories",
    "Link two entries of one scope.",
    {"id": _ID, "other": _ID, "relation": {**_TEXT, "description": "The relation; default: relates-to."}},
    ("other",),
)
async def _link_entries(call: ApiCall) -> Any:
    relation = call.given.get("relation", "relates-to")
    return _report(call, await call.knowledge.link(call.given["id"], call.given["other"], relation, call.stamp))


@_operation("GET /preferences", "listPreferences", "List preferences.", {**_LISTING, "kind": _PREFERENCE})
async def _list_preferences(call: ApiCall) -> Any:
    return await _list(call, PREFERENCES)


@_operation(
    "POST /preferences",
    "addPreference",
    "Save a preference, for all projects unless a scope is given.",
    {**_ADDING, "kind": _PREFERENCE},
    ("content", "kind"),
)
async def _add_preference(call: ApiCall) -> Any:
    kind = call.find_kind()
    if kind not in PREFERENCES:
        raise BadOption(f"{call.given['kind']!r} is not a kind of preference; valid are {PREFERENCE_KINDS}.")
    return await _add(call, kind, call.find_scope() or Scope.USER)


def _of_preferences(answer: Answer) -> Answer:
    """The same for an entry that is a preference, named by its id or its words. Raises NotFound for any other."""

    async def answer_preference(call: ApiCall) -> Any:
        wanted = call.given["id"]
        held = [each.entry for each in await call.knowledge.list_entries(call.stamp.at)]
        named = [each for each in held if wanted == each.id or wanted.casefold() in each.content.casefold()]
        if not named or any(each.kind not in PREFERENCES for each in named):
            raise NotFound(f"No active preference has the id or the words {wanted!r}.")
        return await answer(call)

    return answer_preference


for _changes, _name, _summary in (
    ("updateMemory", "updatePreference", "Replace a preference."),
    ("forgetMemory", "forgetPreference", "End a preference. It stays on record."),
    ("confirmMemory", "confirmPreference", "Confirm that a preference is still true."),
):
    _any = next(each for each in OPERATIONS if each.name == _changes)
    _path, _answer = _any.path.replace("/memories", "/preferences"), _of_preferences(_any.answer)
    OPERATIONS.append(attrs.evolve(_any, name=_name, summary=_summary, path=_path, answer=_answer))


@_operation(
    "GET /block",
    "showBlock",
    "Show the text that a new session with this prompt would get; null for none.",
    {"prompt": _TEXT},
)
async def _show_block(call: ApiCall) -> Any:
    block = await call.knowledge.compose_block(call.given.get("prompt", ""), call.stamp.at, render_day)
    return {"text": None, "entries": [], "tokens": 0} if block is None else attrs.asdict(block)


@_operation(
    "POST /undo",
    "undoWrite",
    "Undo a write, except an erasure; by default the last one. Undoing an undo redoes the write.",
    {"write": _TEXT},
)
async def _undo_write(call: ApiCall) -> Any:
    return _report(call, await call.knowledge.undo(call.given.get("write"), call.stamp))


@_operation(
    "POST /erase",
    "eraseMemories",
    "Erase from the log the words of every entry with this id or these words.",
    {"matching": _TEXT},
    ("matching",),
)
async def _erase_entries(call: ApiCall) -> Any:
    return {"erased": await call.knowledge.erase(call.given["matching"], call.stamp)}


@_operation("GET /trash", "listTrash", "List the sessions and entries in the trash, of all projects.", {})
async def _list_trash(call: ApiCall) -> Any:
    return {"trash": [describe_trashed(each) for each in await trash.list_trash(call.archive, call.knowledge.tenant)]}


_REMOVED = {"id": {"type": "string", "description": "A session, or the id of an entry."}}


@_operation(
    "POST /trash/{id}",
    "putIntoTrash",
    "Hide a session or an entry from lists, search and new sessions; after 30 days it is erased.",
    _REMOVED,
)
async def _put_away(call: ApiCall) -> Any:
    done = await trash.put_away(call.archive, call.knowledge.tenant, call.given["id"], call.stamp)
    return {"what": "trashed", **describe_trashed(done)}


@_operation("DELETE /trash/{id}", "restoreFromTrash", "Restore a session or an entry from the trash.", _REMOVED)
async def _take_out(call: ApiCall) -> Any:
    done = await trash.take_out(call.archive, call.knowledge.tenant, call.given["id"], call.stamp)
    return {"what": "restored", **describe_trashed(done)}


@_operation(
    "PUT /sessions/{id}",
    "editSession",
    "Name a session, close or open it, or choose its grounding.",
    {
        "id": {"type": "string", "description": "The session."},
        "title": {**_TEXT, "description": "Its name in lists; empty for the automatic one."},
        "closed": {"type": "boolean", "description": "Whether it is closed."},
        "grounding": {
            **_TEXT,
            "enum": ["", *GROUNDINGS],
            "description": "How it may use evicted content, as in the settings; empty for the server's.",
        },
    },
)
async def _edit_session(call: ApiCall) -> Any:
    title, closed, grounding = map(call.given.get, ("title", "closed", "grounding"))
    done = await session_edits.edit(
        call.archive, call.given["id"], title=title, closed=closed, grounding=grounding, stamp=call.stamp
    )
    what = session_edits.describe_edit(closed, grounding) if done[1] else "unchanged"
    return {"what": what, "id": str(done[0])}


@_operation(
    "POST /sessions/{id}/undo",
    "undoSession",
    "Undo the last change of a session or its pins; a second call redoes it.",
    {"id": {"type": "string", "description": "The session."}},
)
async def _undo_session(call: ApiCall) -> Any:
    stream, change = await session_edits.undo(call.archive, call.given["id"], call.stamp)
    return {"what": f"undone: {change}" if change else "unchanged", "id": str(stream)}


_OF_OBJECT = {
    "id": {**_TEXT, "description": "The id of the object."},
    "session": {**_TEXT, "description": "Its session; needed if several have such an object."},
    "branch": {**_TEXT, "description": "Only in this branch and its later forks; default: in every one."},
    "reason": _TEXT,
}


@_operation(
    "POST /objects/{id}/pin",
    "pinObject",
    "Protect an object from eviction until it is unpinned, or for some turns.",
    {**_OF_OBJECT, "turns": {"type": "integer", "minimum": 1, "description": "For how many turns."}},
)
async def _pin_object(call: ApiCall) -> Any:
    return await _change_pin(call, partial(pins.pin, turns=call.given.get("turns")), "pinned")


@_operation("DELETE /objects/{id}/pin", "unpinObject", "Allow eviction of an object again.", _OF_OBJECT)
async def _unpin_object(call: ApiCall) -> Any:
    return await _change_pin(call, pins.unpin, "unpinned")


async def _change_pin(call: ApiCall, change: Callable[..., Awaitable[pins.Pinning]], what: str) -> Any:
    done = await change(
        call.archive,
        call.given["id"],
        session=call.given.get("session"),
        branch=call.given.get("branch"),
        reason=call.given.get("reason") or f"{what} by the {call.knowledge.source.value}",
        stamp=call.stamp,
    )
    return {"what": what if done.recorded else "unchanged", "id": done.object, "session": str(done.stream)}


def describe_trashed(each: trash.Trashed) -> dict[str, Any]:
    """What is in the trash, as a JSON object; times are µs of UTC."""
    return members(each, "kind id text at until")


def _report(call: ApiCall, done: WriteReport) -> Any:
    return {**describe_write(done, call.stamp.at), "note": NOTE}


BY_NAME = {each.name: each for each in OPERATIONS}


def parse_api_time(name: str, text: str) -> int:
    """µs of UTC, parsed from an ISO 8601 date or time or from a number; UTC is the default zone. Raises BadOption."""
    try:
        at = int(text) if text.isdecimal() else _parse_iso(text)
    except (ValueError, OverflowError):
        at = -1
    if not is_time(at):
        raise BadOption(f"{name}: {text!r} is not a time such as 2026-11-21 or 2026-11-21T10:00:00Z.")
    return at


def _parse_iso(text: str) -> int:
    date = datetime.fromisoformat(text)
    return int((date if date.tzinfo else date.replace(tzinfo=UTC)).timestamp() * 1e6)
