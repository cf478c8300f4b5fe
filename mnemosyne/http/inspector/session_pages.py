"""The pages of a session and of its turns."""

import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlencode
from uuid import UUID

import attrs
from quart import Response, jsonify, request

from mnemosyne.domain.history import context_view
from mnemosyne.domain.history.change_actors import Actor, ChosenChanges
from mnemosyne.domain.history.time_travel import TurnPlace, place_of
from mnemosyne.domain.knowledge.kinds import Scope
from mnemosyne.domain.session.decide import StartManaging, SwitchManaging
from mnemosyne.domain.session.decision_inputs import GROUNDINGS
from mnemosyne.errors import BadOption, LogFailed, NotFound
from mnemosyne.http.inspector.page_context import Decide, LongPage, LongView, PageContext, View
from mnemosyne.http.inspector.rendered import FIRST_LINES, render, render_beginning
from mnemosyne.http.inspector.session_report import SHOWN_ITEMS, draw_page, page_as_json, read_shown, read_window
from mnemosyne.services import (
    comparing,
    contexts,
    manifests,
    overviews,
    session_edits,
    session_view,
    switching,
    turn_view,
)
from mnemosyne.services.conversation_view import ConversationItem, read_content, read_conversation
from mnemosyne.services.knowledge import WriteStamp
from mnemosyne.services.map_chart import MapLinks, map_chart
from mnemosyne.services.memory_operations import BY_NAME, ApiCall
from mnemosyne.services.session_view import read_session_view
from mnemosyne.services.simulated import draw_branch
from mnemosyne.services.status_line import read_status_line
from mnemosyne.services.turn_positions import find_checkpoint, find_position
from mnemosyne.times import parse_time

MAIN = "main"
"""The default branch of an address."""


async def show_session(page_context: PageContext, stream: UUID) -> LongPage:
    """Show one session; ``?branch=`` selects the branch whose context is drawn, ``?since=``, ``?until=`` and ``?by=``
    select the changes that are listed.
    """
    branch, chosen = request.args.get("branch"), _choose_changes(page_context.now())
    if branch is not None:
        await session_view.require_session_branch(page_context.models, stream, branch)
    overview = await _read_overview(page_context, stream)
    is_json, every_turn = _wants_json(), "all" in request.args

    async def read() -> Mapping[str, Any]:
        shown = await read_shown(
            page_context.archive,
            page_context.models,
            overview,
            branch,
            seen=page_context.observations,
            known=page_context.turns,
            budgets=page_context.budgets,
            chosen=chosen,
        )
        return page_as_json(shown) if is_json else draw_page(shown, every_turn=every_turn, linked=True)

    return LongPage(
        stream=stream,
        template="session.html",
        values={
            "overview": overview,
            "status": overview.status(page_context.now()).value,
            "grounding": await session_edits.read_grounding(page_context.archive, stream),
            "groundings": GROUNDINGS,
            "switched_on": await page_context.archive.directory.is_switched_on(stream),
            "actors": [each.value for each in Actor],
        },
        rest="session_body.html",
        read=read,
    )


def _wants_json() -> bool:
    return request.path.endswith(".json")


def _choose_changes(now: int) -> ChosenChanges | None:
    """The changes that a request asks for; None if for none in particular. Raises BadOption."""
    since, until, by = (request.args.get(name, "") for name in ("since", "until", "by"))
    if not (since or until or by):
        return None
    if by not in ("", *(each.value for each in Actor)):
        raise BadOption(f"{by!r} is not an actor; choose one of {', '.join(each.value for each in Actor)}.")
    return ChosenChanges(
        since=parse_time(since, now) if since else 0,
        until=parse_time(until, now, is_end=True) if until else None,
        by=Actor(by) if by else None,
    )


async def _read_overview(page_context: PageContext, stream: UUID) -> overviews.SessionOverview:
    archive, models, openings = page_context.archive, page_context.models, page_context.openings
    return await overviews.read_overview(archive, models, stream, openings=openings)


async def show_window(page_context: PageContext, stream: UUID) -> LongPage:
    """Show what fills the window at ``?turn=``, by default the last turn; ``?all`` lists every item."""
    turn = request.args.get("turn", "").strip()
    branch, place = await _place(page_context, stream, turn or "1")
    most = sys.maxsize if "all" in request.args else SHOWN_ITEMS

    async def read() -> Mapping[str, Any]:
        at = place if turn else TurnPlace(round=1)
        shown = await read_window(page_context.archive, stream, branch, at, page_context.turns, most)
        if not _wants_json():
            return shown
        if shown["contents"] is None:
            raise shown["no_contents"]
        return manifests.contents_as_json(shown["contents"])

    values = {"stream": stream, "branch": branch, "turn": turn}
    return LongPage(stream=stream, template="window.html", values=values, rest="window_body.html", read=read)


async def show_turn(page_context: PageContext, stream: UUID, turn: str) -> LongPage:
    """Show a turn's request as sent upstream or, with ``?sent=client``, as sent by the client."""
    archive, models = page_context.archive, page_context.models
    branch, place = await _place(page_context, stream, turn)
    found = await find_position(archive, models, stream, branch, place)
    most = sys.maxsize if "all" in request.args or _wants_json() else SHOWN_BLOCKS

    async def read() -> Mapping[str, Any]:
        view = await turn_view.read_turn_view(archive, models, stream, branch, place, page_context.turns)
        return {"view": view, "left_out": max(0, len(view.blocks) - most)}

    values = {"found": found, "branch": branch, "place": turn, "by_client": place.round is None}
    return LongPage(stream=stream, template="turn.html", values=values, rest="turn_body.html", read=read)


async def _read_block(page_context: PageContext, stream: UUID, turn: str, part: str, number: int) -> bytes:
    branch, place = await _place(page_context, stream, turn)
    return await turn_view.read_block(page_context.archive, stream, branch, place, part, number, page_context.turns)


async def show_block(
    page_context: PageContext, stream: UUID, turn: str, part: str, number: int
) -> tuple[str, Mapping[str, Any]]:
    """Show one block of a turn's request or reply, rendered, or with ``?raw`` as JSON; long ones are truncated."""
    data = await _read_block(page_context, stream, turn, part, number)
    args = {name: value for name, value in request.args.items() if name != "raw"}
    return "block.html", {
        "number": number,
        "text": data[:SHOWN_BYTES].decode("utf-8", "replace"),
        "rendered": None if "raw" in request.args else render(read_content(data)),
        "size": len(data),
        "shown": SHOWN_BYTES,
        "query": urlencode(args),
    }


async def download_block(page_context: PageContext, stream: UUID, turn: str, part: str, number: int) -> Response:
    """Return the whole block as a JSON download."""
    data = await _read_block(page_context, stream, turn, part, number)
    return _as_download(data, f"{str(stream)[:8]}-{turn.replace('/', '-')}-block-{number}.json")


def _as_download(data: bytes, name: str) -> Response:
    response = Response(data, content_type="application/json")
    response.headers["Content-Disposition"] = f'attachment; filename="{name}"'
    return response


SHOWN_BLOCKS = 400
"""Number of last blocks listed of a request; more would take seconds."""

SHOWN_BYTES = 64 * 1024
"""Bytes shown of a block; the whole block can be downloaded."""


async def show_difference(page_context: PageContext, stream: UUID, turn: str, other: str) -> LongPage:
    """Show the changes of the context between two turns, as sent upstream or, with ``?sent=client``, as sent by the
    client.
    """
    archive, known = page_context.archive, page_context.turns
    branch, by_client = request.args.get("branch", MAIN), request.args.get("sent") == "client"
    places = [_place_in(name) for name in (turn, other)]
    for place in places:
        await find_position(archive, page_context.models, stream, branch, place)

    async def read() -> Mapping[str, Any]:
        _, history = await known.read(archive, stream)
        attempts = [history.at(branch, place) for place in places]
        before, after = [await contexts.context_of(archive, stream, history, each, known.blocks) for each in attempts]
        objects = context_view.objects_of(after.client or after.view, history.list_places(branch))
        found = context_view.compare(before.view, after.view)
        return {"found": found} if _wants_json() else {"found": found, "objects": objects}

    values = {"stream": stream, "branch": branch, "before": turn, "after": other, "by_client": by_client}
    return LongPage(stream=stream, template="difference.html", values=values, rest="difference_body.html", read=read)


async def download_body(page_context: PageContext, stream: UUID, turn: str) -> Response:
    """Return the bytes of a request, with their SHA-256 in the header ``X-Sha256``."""
    branch, place = await _place(page_context, stream, turn)
    _, history = await page_context.turns.read(page_context.archive, stream)
    rebuilt = await contexts.rebuild(page_context.archive, stream, history, history.at(branch, place))
    if not rebuilt.proven:
        raise LogFailed(f"The rebuilt request differs from the one sent, so it is withheld: {rebuilt.difference}.")
    response = _as_download(rebuilt.body, f"{str(stream)[:8]}-{branch}-{turn.replace('/', '-')}.json")
    response.headers["X-Sha256"] = rebuilt.sha256.hex()
    return response


async def give_manifest(page_context: PageContext, stream: UUID, turn: str) -> Response:
    """Return the manifest of a request, a list of everything the model could see, as JSON."""
    branch, place = await _place(page_context, stream, turn)
    events, history = await page_context.turns.read(page_context.archive, stream)
    found = await manifests.manifest_of(page_context.archive, stream, events, history, history.at(branch, place))
    return jsonify(manifests.manifest_as_json(found))


async def _place(page_context: PageContext, stream: UUID, turn: str) -> tuple[str, TurnPlace]:
    """Resolve ``TURN[.ATTEMPT][-ROUND]`` of ``?branch=``, or a checkpoint's name, which includes its branch.

    The default round is the first sent upstream, unless ``?sent=client``. The default branch is always ``main``, so
    that a saved address keeps pointing to the same turn.
    """
    if not turn[:1].isdecimal():
        point = await find_checkpoint(page_context.archive, stream, turn)
        return point.branch, TurnPlace(point.turn, round=1)
    return request.args.get("branch", MAIN), _place_in(turn)


def _place_in(turn: str) -> TurnPlace:
    place = place_of(turn.replace("-", "/"))
    if place.round is None and request.args.get("sent") != "client":
        return TurnPlace(place.turn, place.attempt, 1)
    return place


async def show_line(page_context: PageContext, stream: UUID) -> tuple[str, Mapping[str, Any]]:
    """Show a session's status for its client's status line."""
    seen, budgets = page_context.observations, page_context.budgets
    line = await read_status_line(page_context.archive, page_context.models, stream, seen, budgets)
    return "line.html", attrs.asdict(line, recurse=False)


# The conversation of a branch, a part at a time

SHOWN_MESSAGES = 80
SHOWN_PROMPTS = 300

_LINES = {"client": 3, "thinking": 6}
"""Number of first lines of items that readers rarely need."""


async def show_conversation(page_context: PageContext, stream: UUID) -> LongPage:
    """Show the last items of a conversation; those from ``?turn=`` on, or from item ``?at=`` on."""
    branch = request.args.get("branch", "main")
    turn, at = request.args.get("turn", type=int), request.args.get("at", type=int)
    archive, models = page_context.archive, page_context.models
    await session_view.require_session_branch(models, stream, branch)

    async def read() -> Mapping[str, Any]:
        view = await read_conversation(archive, models, stream, branch, page_context.turns, page_context.conversations)
        start = _find_start(view.items, turn, at)
        items = view.items[start : start + SHOWN_MESSAGES]
        prompts = [each for each in view.items if each.kind == "prompt"]
        middle = sum(each.number < start for each in prompts)
        first = max(0, min(middle - SHOWN_PROMPTS // 2, len(prompts) - SHOWN_PROMPTS))
        return {
            "last": view.last,
            "opaque": view.opaque,
            "parent": view.parent,
            "total": len(view.items),
            "start": start,
            "items": [(each, render_beginning(view.read(each), _LINES.get(each.kind, FIRST_LINES))) for each in items],
            "turns": {each.turn: view.turns[each.turn] for each in items},
            "prompts": prompts[first : first + SHOWN_PROMPTS],
            "prompts_in_all": len(prompts),
            "step": SHOWN_MESSAGES,
        }

    values = {"stream": stream, "branch": branch, "overview": await _read_overview(page_context, stream)}
    return LongPage(
        stream=stream, template="conversation.html", values=values, rest="conversation_body.html", read=read
    )


def _find_start(items: Sequence[ConversationItem], turn: int | None, at: int | None) -> int:
    """The number of the first item to show."""
    if turn is not None:
        at = next((each.number for each in items if each.turn >= turn), None)
    last = max(0, len(items) - SHOWN_MESSAGES)
    return last if at is None else max(0, min(at, len(items) - 1))


# A session next to a simulation under another policy


async def show_what_if(page_context: PageContext, stream: UUID) -> LongPage:
    """Show a branch as recorded, and next to it under ``?policy=`` once its simulation ends."""
    branch, policy = request.args.get("branch"), request.args.get("policy", "")
    archive, models, simulations = page_context.archive, page_context.models, page_context.simulations
    if branch is not None:
        await session_view.require_session_branch(models, stream, branch)
    if policy and policy not in simulations.policies:
        raise NotFound(f"Unknown policy {policy!r}; available: {', '.join(simulations.policies)}.")

    async def read() -> Mapping[str, Any]:
        view = await read_session_view(models, stream, branch)
        found = await simulations.simulate(archive, stream, view.branch, policy) if policy else None
        recorded = sum(turn.nanodollars or 0 for turn in view.turns)
        shown = {"branch": view.branch, "recorded": recorded, "found": found}
        if _wants_json():  # programs need no charts
            return shown
        beside = [] if found is None else [draw_branch(found, view.branch)]
        return {
            **shown,
            "map_svg": map_chart([view.map], beside=beside, links=MapLinks(session=f"/-/session/{stream}")),
            "simulated_svg": map_chart(beside, "simulated", [view.map]) if beside else None,
        }

    values = {"stream": stream, "branch": branch, "policy": policy, "policies": simulations.policies}
    return LongPage(stream=stream, template="what_if.html", values=values, rest="what_if_body.html", read=read)


async def show_comparison(page_context: PageContext, stream: UUID) -> tuple[str, Mapping[str, Any]]:
    """Show a session beside the one in ``?with=``; without it, ask for one."""
    wanted = request.args.get("with", "").strip()
    archive, models = page_context.archive, page_context.models
    found = await comparing.read_comparison(archive, models, str(stream), wanted) if wanted else None
    return "comparison.html", {"stream": stream, "wanted": wanted, "found": found}


_BLOCK = "/-/session/<session>/turn/<turn>/<any(block, reply):part>/<int:number>"

VIEWS: Mapping[str, View] = {
    "/-/session/<session>/compare": show_comparison,
    "/-/session/<session>/line": show_line,
    _BLOCK: show_block,
}

LONG_VIEWS: Mapping[str, LongView] = {
    "/-/session/<session>": show_session,
    "/-/session/<session>/window": show_window,
    "/-/session/<session>/turn/<turn>": show_turn,
    "/-/session/<session>/turn/<turn>/to/<other>": show_difference,
    "/-/session/<session>/conversation": show_conversation,
    "/-/session/<session>/what-if": show_what_if,
}


async def _switch(
    command: type[StartManaging | SwitchManaging], page_context: PageContext, form: Mapping[str, str], stream: UUID
) -> str:
    """Switch managing of a session on or off."""
    more = {} if command is StartManaging else {"on": False}
    switched = command(at=page_context.now(), why="on the page", **more)
    await switching.switch_session(page_context.archive, stream, switched, page_context.new_id())
    return f"/-/session/{stream}"


async def _keep(page_context: PageContext, form: Mapping[str, str], stream: UUID, turn: str) -> str:
    """Keep the reply of a turn as a note in the memory of the session's project."""
    branch, place = await _place(page_context, stream, turn)
    folder = Path((await _read_overview(page_context, stream)).project or "")
    is_known = folder.is_absolute()
    knowledge = await page_context.knowledge(folder if is_known else None)
    scope = Scope.PROJECT if is_known else Scope.USER
    given = {"session": str(stream), "turn": place.turn, "branch": branch, "scope": scope.value}
    stamp = WriteStamp(page_context.now(), page_context.new_id())
    await BY_NAME["addMemory"].answer(ApiCall(knowledge, page_context.archive, given, stamp))
    return "/-/known" + (f"?{urlencode({'project': knowledge.project})}" if knowledge.project else "")


async def _edit(page_context: PageContext, form: Mapping[str, str], stream: UUID) -> str:
    """Name, ground, close or open the session, as the form says."""
    stamp = WriteStamp(page_context.now(), page_context.new_id())
    title, grounding, closed = map(form.get, ("title", "grounding", "closed"))
    if grounding not in (None, "", *GROUNDINGS):
        raise BadOption(f"{grounding!r} is not a grounding; choose one of {', '.join(GROUNDINGS)}.")
    is_closed = None if closed is None else closed == "yes"
    await session_edits.edit(
        page_context.archive, str(stream), title=title, closed=is_closed, grounding=grounding, stamp=stamp
    )
    return f"/-/session/{stream}"


DECISIONS: Mapping[str, Decide] = {
    "/-/session/<session>/edit": _edit,
    "/-/session/<session>/turn/<turn>/keep": _keep,
    "/-/session/<session>/manage": partial(_switch, StartManaging),
    "/-/session/<session>/off": partial(_switch, SwitchManaging),
}

DOWNLOADS: Mapping[str, Callable[..., Awaitable[Response]]] = {
    "/-/session/<session>/turn/<turn>/body": download_body,
    f"{_BLOCK}/whole": download_block,
    "/-/session/<session>/turn/<turn>/manifest.json": give_manifest,
}
