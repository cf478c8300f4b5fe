"""The pages of sessions: all of them, one, and one of its turns."""

from collections.abc import Mapping
from typing import Any
from uuid import UUID

import attrs
from quart import Response, jsonify, request

from mnemosyne.domain.history.context_view import compare
from mnemosyne.domain.history.time_travel import TurnPlace, history_of, place_of
from mnemosyne.errors import LogFailed
from mnemosyne.http.inspector.holdings import Holdings, View
from mnemosyne.http.inspector.session_report import read_happenings, read_shown
from mnemosyne.services import contexts, manifests, overviews, read_models, turn_view, windows
from mnemosyne.services.observing import observe, plan_as_json
from mnemosyne.services.session_view import read_session_view
from mnemosyne.services.status_line import read_status_line

SHOWN_SESSIONS = 50


async def show_sessions(holdings: Holdings) -> tuple[str, Mapping[str, Any]]:
    """All sessions, the last active first; ``?q=`` chooses, ``?all`` shows more than the first."""
    wanted = request.args.get("q", "").strip()
    limit = None if "all" in request.args else SHOWN_SESSIONS
    found = await overviews.list_overviews(
        holdings.archive, holdings.models, openings=holdings.openings, limit=limit, matching=wanted or None
    )
    return "sessions.html", {"sessions": found, "wanted": wanted, "limit": limit}


async def show_session(holdings: Holdings, session: str) -> tuple[str, Mapping[str, Any]]:
    """One session; ``?branch=`` chooses which of its windows is drawn."""
    stream = await read_models.find(holdings.models, session)
    branch = request.args.get("branch")
    if not request.path.endswith(".json"):
        shown = await read_shown(
            holdings.archive,
            holdings.models,
            stream,
            branch,
            openings=holdings.openings,
            seen=holdings.observations,
            budget=holdings.session_budget,
            every_turn="all" in request.args,
        )
        return "session.html", shown
    overview = await overviews.read_overview(holdings.archive, holdings.models, stream, openings=holdings.openings)
    view = await read_session_view(holdings.models, stream, branch, holdings.session_budget)
    observed = await observe(holdings.archive, stream, view.branch, view.total.turns, holdings.observations)
    return "session.html", {
        "verdict": view.verdict,
        "overview": overview,
        "view": view,
        "goal": observed.goal,
        "happenings": await read_happenings(holdings.archive, view),
        "plan": plan_as_json(observed.plan),
        "repetitions": observed.repetitions,
        "checkpoints": observed.checkpoints,
    }


async def show_objects(holdings: Holdings, session: str) -> tuple[str, Mapping[str, Any]]:
    """What a branch of a session remembers now."""
    listing = await windows.list_objects(
        holdings.archive,
        holdings.models,
        session,
        request.args.get("branch", "main"),
        None,
        wanted=lambda kind, stale: True,
        now=holdings.now(),
        settings=holdings.settings,
    )
    return "objects.html", {"stream": listing.stream, "window": listing.window, "standings": listing.standings}


async def show_turn(holdings: Holdings, session: str, turn: str) -> tuple[str, Mapping[str, Any]]:
    """A turn: what went upstream; with ``?sent=client``, what the client sent."""
    stream, branch, place = await _place(holdings, session, turn)
    view = await turn_view.read_turn_view(holdings.archive, holdings.models, stream, branch, place, holdings.blocks)
    left_out = 0 if "all" in request.args or request.path.endswith(".json") else max(0, len(view.blocks) - SHOWN_BLOCKS)
    return "turn.html", {"view": view, "branch": branch, "place": turn, "left_out": left_out}


async def show_block(holdings: Holdings, session: str, turn: str, number: int) -> tuple[str, Mapping[str, Any]]:
    """One block of a turn's request, as JSON text."""
    stream, branch, place = await _place(holdings, session, turn)
    data = await turn_view.read_block(holdings.archive, stream, branch, place, number, holdings.blocks)
    return "block.html", {
        "text": data[:SHOWN_BYTES].decode("utf-8", "replace"),
        "size": len(data),
        "shown": SHOWN_BYTES,
    }


SHOWN_BLOCKS = 400
"""So many blocks of a request are listed, the last; more would take seconds."""

SHOWN_BYTES = 64 * 1024
"""So much of a block is shown; the rest can be downloaded."""


async def show_difference(holdings: Holdings, session: str, turn: str, other: str) -> tuple[str, Mapping[str, Any]]:
    """What changed in the window from one turn to another."""
    stream = await read_models.find(holdings.models, session)
    branch = request.args.get("branch", "main")
    history = history_of(str(stream), await holdings.archive.events.read(stream))
    views = []
    for each in (turn, other):
        rebuilt = await contexts.rebuild(holdings.archive, stream, history, history.at(branch, place_of(each)))
        views.append(await contexts.view_of(holdings.archive, stream, history, rebuilt, holdings.blocks))
    found = compare(*views)
    return "difference.html", {"stream": stream, "branch": branch, "before": turn, "after": other, "found": found}


async def download_body(holdings: Holdings, session: str, turn: str) -> Response:
    """The bytes of a request, with their hash in the header ``Repr-Digest`` (RFC 9530)."""
    stream, branch, place = await _place(holdings, session, turn)
    history = history_of(str(stream), await holdings.archive.events.read(stream))
    rebuilt = await contexts.rebuild(holdings.archive, stream, history, history.at(branch, place))
    if not rebuilt.proven:
        raise LogFailed(f"Nothing is given out, because it would not be what was sent: {rebuilt.difference}.")
    response = Response(rebuilt.body, content_type="application/json")
    name = f"{str(stream)[:8]}-{branch}-{turn.replace('/', '-')}.json"
    response.headers["Content-Disposition"] = f'attachment; filename="{name}"'
    response.headers["X-Sha256"] = rebuilt.sha256.hex()
    return response


async def give_manifest(holdings: Holdings, session: str, turn: str) -> Response:
    """What the model could see in a request, as JSON."""
    stream, branch, place = await _place(holdings, session, turn)
    events = await holdings.archive.events.read(stream)
    history = history_of(str(stream), events)
    found = await manifests.manifest_of(holdings.archive, stream, events, history, history.at(branch, place))
    return jsonify(manifests.manifest_as_json(found))


async def _place(holdings: Holdings, session: str, turn: str) -> tuple[UUID, str, TurnPlace]:
    """Which request is meant: ``TURN[.ATTEMPT][-ROUND]`` of ``?branch=``; without a round the first that went upstream,
    unless what the client sent is asked for. A checkpoint's name says its branch itself.
    """
    stream = await read_models.find(holdings.models, session)
    if not turn[:1].isdecimal():
        history = history_of(str(stream), await holdings.archive.events.read(stream))
        began = history.find("main", turn).began
        return stream, began.branch, TurnPlace(began.turn, round=1)
    place = place_of(turn.replace("-", "/"))
    if place.round is None and request.args.get("sent") != "client":
        place = TurnPlace(place.turn, place.attempt, 1)
    return stream, request.args.get("branch", "main"), place


async def show_line(holdings: Holdings, session: str) -> tuple[str, Mapping[str, Any]]:
    """How a session stands, for its client's status line."""
    stream = await read_models.find(holdings.models, session)
    seen, budget = holdings.observations, holdings.session_budget
    line = await read_status_line(holdings.archive, holdings.models, stream, seen, budget)
    return "line.html", attrs.asdict(line, recurse=False)


VIEWS: Mapping[str, View] = {
    "/-/": show_sessions,
    "/-/session/<session>": show_session,
    "/-/session/<session>/line": show_line,
    "/-/session/<session>/objects": show_objects,
    "/-/session/<session>/turn/<turn>": show_turn,
    "/-/session/<session>/turn/<turn>/block/<int:number>": show_block,
    "/-/session/<session>/turn/<turn>/to/<other>": show_difference,
}

DOWNLOADS = {
    "/-/session/<session>/turn/<turn>/body": download_body,
    "/-/session/<session>/turn/<turn>/manifest.json": give_manifest,
}
