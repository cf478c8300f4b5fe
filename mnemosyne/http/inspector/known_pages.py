"""What is known beyond sessions: what holds, or held at a time, where it is from, and what the next session is told."""

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode

from quart import request

from mnemosyne.domain.knowledge.kinds import EntryKind, Scope
from mnemosyne.domain.knowledge.recalling import PlacedEntry
from mnemosyne.http.inspector.page_context import Decide, PageContext, View
from mnemosyne.services.knowledge import WriteStamp
from mnemosyne.services.memory_api import ApiCall
from mnemosyne.services.memory_operations import BY_NAME, PLACE, check_arguments
from mnemosyne.times import parse_day, render_day

ENDED_SHOWN = 50
"""So many entries that hold no longer are shown, the last first."""


async def show_entries(page_context: PageContext) -> tuple[str, Mapping[str, Any]]:
    """What is known of ``?project=``, as of ``?day=``, what ``?q=`` finds, and what a session is told that begins with
    ``?prompt=``.
    """
    asked = {name: request.args.get(name, "").strip() for name in ("project", "day", "q", "prompt")}
    projects = [each.key for each in await page_context.places() if each.scope is Scope.PROJECT]
    project = asked["project"] or (projects[0] if projects else "")
    knowledge = page_context.knowledge_of(project or None)
    day = parse_day(asked["day"]) if asked["day"] else None
    at = page_context.now() if day is None else day
    entries = await knowledge.list_entries(at, known_at=day)
    if asked["q"]:
        found = {each.entry.id for each in await knowledge.recall(asked["q"], at, limit=ENDED_SHOWN)}
        entries = [each for each in entries if each.entry.id in found]
    ended = [
        each for each in await knowledge.list_history() if each.entry.valid_until is not None and not each.entry.erased
    ]
    block = await knowledge.compose_block(asked["prompt"], at, render_day)
    return "known.html", {
        **asked,
        "project": project,
        "projects": projects,
        "entries": _group(entries),
        "count": len(entries),
        "ended": list(reversed(ended))[:ENDED_SHOWN],
        "block": block,
        "now": page_context.now(),
        "kinds": [each.value for each in EntryKind],
        "scopes": [each.value for each in Scope],
    }


def _group(entries: list[PlacedEntry]) -> list[tuple[str, list[PlacedEntry]]]:
    """By kind, in the order of the kinds."""
    found = [(kind.value, [each for each in entries if each.entry.kind is kind]) for kind in EntryKind]
    return [(kind, of_kind) for kind, of_kind in found if of_kind]


VIEWS: Mapping[str, View] = {"/-/known": show_entries}


# What a person decides


def _deciding(operation: str, **renamed: str) -> Decide:
    """What a form does that calls an operation; ``renamed`` are the arguments that it calls by names of its own."""

    async def decide(page_context: PageContext, form: Mapping[str, str], **of_path: str) -> str:
        called, told, project = BY_NAME[operation], {**form, **of_path}, form.get("project", "")
        names = {name: renamed.get(name, name) for name in called.properties.keys() - PLACE.keys()}
        given = {name: told[own] for name, own in names.items() if own in told}
        check_arguments(called, given)
        stamp = WriteStamp(page_context.now(), page_context.new_id())
        await called.answer(ApiCall(page_context.knowledge_of(project or None), page_context.archive, given, stamp))
        return f"/-/known?{urlencode({'project': project})}" if project else "/-/known"

    return decide


DECISIONS: Mapping[str, Decide] = {
    "/-/known/remember": _deciding("addMemory", content="text"),
    "/-/known/entry/<id>/update": _deciding("updateMemory", content="text"),
    "/-/known/entry/<id>/confirm": _deciding("confirmMemory"),
    "/-/known/entry/<id>/forget": _deciding("forgetMemory"),
    "/-/known/write/<write>/undo": _deciding("undoWrite"),
}
