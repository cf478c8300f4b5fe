"""The pages about the whole log: sessions and their cost, search, total savings, and the server with its settings."""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any, get_args

from quart import request

from mnemosyne.domain.recall.object_search import Filter
from mnemosyne.http.inspector.page_context import Decide, PageContext, View
from mnemosyne.services import asking, overviews, read_models, search, usage
from mnemosyne.services.agents import read_agents
from mnemosyne.services.savings import Balance, list_caveats, read_savings
from mnemosyne.times import utc

RESULTS = 20
SHOWN_SESSIONS = 50


async def show_sessions(page_context: PageContext) -> tuple[str, Mapping[str, Any]]:
    """Show all sessions and their total cost. ``?q=`` filters them, ``?order=`` sorts them, ``?all`` removes the limit,
    and ``?by=`` adds the cost by day, project, model, client or agent.
    """
    wanted = request.args.get("q", "").strip()
    order = _choose(request.args.get("order"), get_args(overviews.Order))
    by = _choose(request.args.get("by"), ("", *get_args(usage.Grouping)))
    limit = None if "all" in request.args else SHOWN_SESSIONS
    archive, models, openings = page_context.archive, page_context.models, page_context.openings
    whole = None if wanted or by == "project" else limit
    found = await overviews.list_overviews(
        archive, models, openings=openings, limit=whole, matching=wanted or None, order=order
    )
    only = {each.stream for each in found} if wanted else None
    projects = {each.stream: each.project for each in found}
    days = await usage.read_usage(models, "day", None, only=only)
    saved = await read_savings(models)
    agents = {key: str(agent) for key, agent in (await read_agents(models, archive)).items()} if by == "agent" else None
    spent = await usage.read_usage(models, by, None, projects=projects, agents=agents, only=only) if by else None
    return "sessions.html", {
        "sessions": found[:limit],
        "wanted": wanted,
        "order": order,
        "by": by,
        "limit": limit,
        "now": page_context.now(),
        "largest": max((use.nanodollars for use in spent.groups.values()), default=0) if spent else 0,
        "saved": sum((each for stream, each in saved.sessions.items() if only is None or stream in only), Balance()),
        "periods": _add_up_periods(days, page_context.now()),
        "spent": spent and sorted(spent.groups.items(), key=lambda group: _place_of(spent, *group), reverse=True),
    }


def _choose(wanted: str | None, known: Sequence[str]) -> Any:
    return wanted if wanted in known else known[0]


def _add_up_periods(days: usage.Usage, now: int) -> Mapping[str, usage.Consumption]:
    """The usage in total, today and in the last seven days."""
    today = utc(now).astimezone().date()
    since = {"Spent": "", "Today": today.isoformat(), "Last 7 days": (today - timedelta(days=6)).isoformat()}
    return {
        name: sum((use for day, use in days.groups.items() if str(day) >= first), usage.Consumption())
        for name, first in since.items()
    }


def _place_of(spent: usage.Usage, group: object, use: usage.Consumption) -> tuple[int | str, ...]:
    """Days are in order, other groups by cost."""
    return (str(group),) if spent.by == "day" else (use.price or 0, use.replies)


async def show_search(
    page_context: PageContext, form: Mapping[str, str] | None = None
) -> tuple[str, Mapping[str, Any]]:
    """Search for ``?q=`` in all sessions, in the sessions of ``?project=``, or in ``?session=``, which also answers.
    Only a ``form`` asks the helper model, which costs money.
    """
    given = request.args if form is None else form
    question, session, project = (given.get(name, "").strip() for name in ("q", "session", "project"))
    shown: dict[str, Any] = {"question": question, "session": session, "project": project, "found": None}
    if not question:
        return "search.html", shown
    index = await page_context.index()
    if session:
        stream = await read_models.find(page_context.models, session)
        found = await search.search(page_context.archive, index, stream, question, Filter(), RESULTS)
        compose = page_context.compose(stream, question)
        asked = None if form is None else compose
        answer = await asking.ask(page_context.archive, index, stream, question, Filter(), None, asked)
        shown |= {"stream": stream, "answer": answer, "may_ask": form is None and compose is not None}
    else:
        found = await search.search_sessions(
            page_context.archive, index, question, Filter(), RESULTS, folder=project or None
        )
    return "search.html", {**shown, "found": found}


async def show_savings(page_context: PageContext) -> tuple[str, Mapping[str, Any]]:
    """Show each session's cost with and without managing, last active first; ``?all`` shows all sessions."""
    found = await read_savings(page_context.models)
    limit = None if "all" in request.args else SHOWN_SESSIONS
    listed = await overviews.list_overviews(
        page_context.archive, page_context.models, openings=page_context.openings, limit=limit, whole=True
    )
    return "savings.html", {
        "found": found,
        "total": found.total,
        "caveats": list_caveats(found.total),
        "titles": {each.stream: each.label for each in listed if each.stream in found.sessions},
    }


async def show_server(page_context: PageContext) -> tuple[str, Mapping[str, Any]]:
    """Show database, index, disk, versions and settings."""
    return "server.html", {"health": await page_context.health(), "settings": page_context.shown}


VIEWS: Mapping[str, View] = {
    "/-/": show_sessions,
    "/-/search": show_search,
    "/-/savings": show_savings,
    "/-/server": show_server,
}
DECISIONS: Mapping[str, Decide] = {"/-/search": show_search}
