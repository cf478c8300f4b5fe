"""The memory page: active and past entries, their sources, and a preview of the prompt block for a session."""

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode

from quart import request

from mnemosyne.domain.knowledge.block import describe_use
from mnemosyne.domain.knowledge.kinds import EntryKind, Scope
from mnemosyne.domain.knowledge.recalling import PlacedEntry
from mnemosyne.http.inspector.page_context import Decide, PageContext, View
from mnemosyne.services.knowledge import WriteStamp
from mnemosyne.services.memory_operations import BY_NAME, PLACE, ApiCall, check_arguments
from mnemosyne.services.trash import list_trash
from mnemosyne.times import parse_day, render_day

ENDED_SHOWN = 50
"""Number of past entries shown, latest first."""


async def show_entries(page_context: PageContext) -> tuple[str, Mapping[str, Any]]:
    """Show the entries of ``?project=`` as of ``?day=``, filtered by ``?q=``, and the prompt block of a session whose
    first prompt is ``?prompt=``.
    """
    arguments = {name: request.args.get(name, "").strip() for name in ("project", "day", "q", "prompt")}
    projects = [each.key for each in await page_context.places() if each.scope is Scope.PROJECT]
    project = arguments["project"] or (projects[0] if projects else "")
    knowledge = page_context.knowledge_of(project or None)
    day = parse_day(arguments["day"]) if arguments["day"] else None
    at = page_context.now() if day is None else day
    entries = await knowledge.list_entries(at, known_at=day)
    if arguments["q"]:
        matches = {match.entry.id for match in await knowledge.recall(arguments["q"], at, limit=ENDED_SHOWN)}
        entries = [placed for placed in entries if placed.entry.id in matches]
    ended = [
        each for each in await knowledge.list_history() if each.entry.valid_until is not None and not each.entry.erased
    ]
    block = await knowledge.compose_block(arguments["prompt"], at, render_day)
    return "known.html", {
        **arguments,
        "project": project,
        "projects": projects,
        "entries": _group(entries),
        "count": len(entries),
        "ended": list(reversed(ended))[:ENDED_SHOWN],
        "undone": (await knowledge.list_undone())[:ENDED_SHOWN],
        "block": block,
        "used": {
            each.entry.id: describe_use(each.entry, each.place.scope, page_context.now()) for each in (*entries, *ended)
        },
        "kinds": [each.value for each in EntryKind],
        "scopes": [each.value for each in Scope],
    }


def _group(entries: list[PlacedEntry]) -> list[tuple[str, list[PlacedEntry]]]:
    """Group the entries by kind, in the order of ``EntryKind``."""
    groups = [(kind.value, [placed for placed in entries if placed.entry.kind is kind]) for kind in EntryKind]
    return [(kind, of_kind) for kind, of_kind in groups if of_kind]


async def show_trash(page_context: PageContext) -> tuple[str, Mapping[str, Any]]:
    """Show the sessions and entries in the trash."""
    return "trash.html", {"trash": await list_trash(page_context.archive, page_context.knowledge_of(None).tenant)}


VIEWS: Mapping[str, View] = {"/-/known": show_entries, "/-/trash": show_trash}


# Forms


def _deciding(operation: str, shown: str = "/-/known", **renamed: str) -> Decide:
    """Return the handler of a form that calls an operation and then goes to the page ``shown``; ``renamed`` maps
    arguments to the form's field names.
    """

    async def decide(page_context: PageContext, form: Mapping[str, str], **of_path: str) -> str:
        called, fields, project = BY_NAME[operation], {**form, **of_path}, form.get("project", "")
        names = {name: renamed.get(name, name) for name in called.properties.keys() - PLACE.keys()}
        given = {name: fields[own] for name, own in names.items() if own in fields}
        check_arguments(called, given)
        stamp = WriteStamp(page_context.now(), page_context.new_id())
        await called.answer(ApiCall(page_context.knowledge_of(project or None), page_context.archive, given, stamp))
        return f"{shown}?{urlencode({'project': project})}" if project else shown

    return decide


DECISIONS: Mapping[str, Decide] = {
    "/-/known/remember": _deciding("addMemory", content="text"),
    "/-/known/entry/<id>/update": _deciding("updateMemory", content="text"),
    "/-/known/entry/<id>/confirm": _deciding("confirmMemory"),
    "/-/known/entry/<id>/forget": _deciding("forgetMemory"),
    "/-/known/entry/<id>/trash": _deciding("putIntoTrash"),
    "/-/trash/<id>/put": _deciding("putIntoTrash", "/-/"),
    "/-/trash/<id>/restore": _deciding("restoreFromTrash", "/-/trash"),
    "/-/known/write/<write>/undo": _deciding("undoWrite"),
}
