"""What is known beyond sessions: what holds, or held at a time, where it is from, and what the next session is told."""

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode

from quart import request

from mnemosyne.domain.knowledge.decide import EntryDraft
from mnemosyne.domain.knowledge.kinds import EntryKind, EntrySource, Scope
from mnemosyne.domain.knowledge.recalling import PlacedEntry
from mnemosyne.http.inspector.holdings import Decide, Holdings, View
from mnemosyne.services.knowledge import KnowledgeDesk, WriteMoment, parse_member
from mnemosyne.times import parse_day, render_day

ENDED_SHOWN = 50
"""So many entries that hold no longer are shown, the last first."""


async def show_entries(holdings: Holdings) -> tuple[str, Mapping[str, Any]]:
    """What is known of ``?project=``, as of ``?day=``, what ``?q=`` finds, and what a session is told that begins with
    ``?prompt=``.
    """
    asked = {name: request.args.get(name, "").strip() for name in ("project", "day", "q", "prompt")}
    projects = [each.key for each in await holdings.places() if each.scope is Scope.PROJECT]
    project = asked["project"] or (projects[0] if projects else "")
    desk = holdings.desk_of(project or None)
    day = parse_day(asked["day"]) if asked["day"] else None
    at = holdings.now() if day is None else day
    entries = await desk.list_entries(at, known_at=day)
    if asked["q"]:
        found = {each.entry.id for each in await desk.recall(asked["q"], at, limit=ENDED_SHOWN)}
        entries = [each for each in entries if each.entry.id in found]
    ended = [each for each in await desk.list_history() if each.entry.valid_until is not None and not each.entry.erased]
    block = await desk.compose_block(asked["prompt"], at, render_day)
    return "known.html", {
        **asked,
        "project": project,
        "projects": projects,
        "entries": _group(entries),
        "count": len(entries),
        "ended": list(reversed(ended))[:ENDED_SHOWN],
        "block": block,
        "now": holdings.now(),
        "kinds": [each.value for each in EntryKind],
        "scopes": [each.value for each in Scope],
    }


def _group(entries: list[PlacedEntry]) -> list[tuple[str, list[PlacedEntry]]]:
    """By kind, in the order of the kinds."""
    found = [(kind.value, [each for each in entries if each.entry.kind is kind]) for kind in EntryKind]
    return [(kind, of_kind) for kind, of_kind in found if of_kind]


VIEWS: Mapping[str, View] = {"/-/known": show_entries}


# What a person decides


async def remember(holdings: Holdings, form: Mapping[str, str]) -> str:
    """Have something known."""
    draft = EntryDraft(
        kind=parse_member(EntryKind, form.get("kind", EntryKind.FACT.value), "kind"),
        content=form.get("text", ""),
        detail=form.get("detail", ""),
        source=EntrySource.USER,
    )
    scope = parse_member(Scope, form.get("scope", Scope.PROJECT.value), "scope")
    await _desk(holdings, form).remember(scope, draft, _moment(holdings))
    return _page(form)


async def update(holdings: Holdings, form: Mapping[str, str], entry: str) -> str:
    """Have an entry say something else."""
    await _desk(holdings, form).update(entry, form.get("text", ""), _moment(holdings))
    return _page(form)


async def confirm(holdings: Holdings, form: Mapping[str, str], entry: str) -> str:
    """Say that an entry is still true."""
    await _desk(holdings, form).confirm(entry, _moment(holdings))
    return _page(form)


async def forget(holdings: Holdings, form: Mapping[str, str], entry: str) -> str:
    """End an entry."""
    await _desk(holdings, form).forget(entry, _moment(holdings))
    return _page(form)


async def undo(holdings: Holdings, form: Mapping[str, str], write: str) -> str:
    """Take a write back."""
    await _desk(holdings, form).undo(write, _moment(holdings))
    return _page(form)


def _desk(holdings: Holdings, form: Mapping[str, str]) -> KnowledgeDesk:
    return holdings.desk_of(form.get("project") or None)


def _moment(holdings: Holdings) -> WriteMoment:
    return WriteMoment(holdings.now(), holdings.new_id())


def _page(form: Mapping[str, str]) -> str:
    project = form.get("project", "")
    return f"/-/known?{urlencode({'project': project})}" if project else "/-/known"


DECISIONS: Mapping[str, Decide] = {
    "/-/known/remember": remember,
    "/-/known/entry/<entry>/update": update,
    "/-/known/entry/<entry>/confirm": confirm,
    "/-/known/entry/<entry>/forget": forget,
    "/-/known/write/<write>/undo": undo,
}
