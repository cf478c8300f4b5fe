"""The content of a session's page, and the same content as a self-contained HTML file."""

from collections.abc import Mapping, Sequence
from importlib.resources import files
from typing import Any
from uuid import UUID

import attrs
from jinja2 import Environment, PackageLoader

from mnemosyne import __version__
from mnemosyne.domain.history.change_actors import ChosenChanges
from mnemosyne.domain.history.time_travel import TurnPlace
from mnemosyne.domain.history.window_contents import list_contents, name_object
from mnemosyne.domain.objects.fidelity import Fidelity
from mnemosyne.errors import ContentForgotten, LogFailed, NotFound
from mnemosyne.http.inspector.formatting import FILTERS
from mnemosyne.http.inspector.happenings import Happening, list_happenings
from mnemosyne.services import manifests
from mnemosyne.services.agents import read_agent_uses
from mnemosyne.services.budgets import Budgets
from mnemosyne.services.cache_misses import describe_misses, read_misses, reading_as_json
from mnemosyne.services.context_map import Span
from mnemosyne.services.map_chart import KEY, MapLinks, map_chart
from mnemosyne.services.money_curve import money_chart
from mnemosyne.services.observing import NOTHING, Observations, observe, plan_as_json
from mnemosyne.services.overviews import HelperTexts, SessionOverview
from mnemosyne.services.read_models import ReadModels
from mnemosyne.services.session_view import SessionView, read_session_view
from mnemosyne.services.sessions import Archive
from mnemosyne.services.turn_view import KnownTurns

_WORDLESS, _NAMELESS = "A session", "redacted"

SHOWN_TURNS = 100
SHOWN_LEFT = 100
"""Number of rows listed; the map shows all."""

SHOWN_ITEMS = 12
"""Number of rows listed of each kind of content."""

MOST_CHOSEN = 1_000
"""Number of events listed when they were chosen by time or actor."""

LATE_TURNS = 10
"""Number of last turns whose events are listed."""


async def read_shown(
    archive: Archive,
    models: ReadModels,
    overview: SessionOverview,
    branch: str | None,
    *,
    seen: Observations,
    known: KnownTurns | None = None,
    budgets: Budgets | None = None,
    chosen: ChosenChanges | None = None,
) -> Mapping[str, Any]:
    """Return the contents of a session's page. Raises NotFound, LogFailed."""
    stream = overview.stream
    view = await read_session_view(models, stream, branch, budgets)
    known = known or KnownTurns()
    events, history = await known.read(archive, stream)
    return {
        **await read_window(archive, stream, view.branch, TurnPlace(round=1), known),
        "view": view,
        "agents": await read_agent_uses(archive, models, stream),
        "overview": overview,
        "observed": await observe(archive, stream, view.branch, view.total.turns, seen),
        "readings": await read_misses(archive, stream, events, history, known=known.readings),
        "objects": {} if view.forgotten else history.objects,
        "chosen": chosen,
        "happenings": await read_happenings(archive, view, chosen),
    }


def draw_page(shown: Mapping[str, Any], *, every_turn: bool = False, linked: bool = False) -> Mapping[str, Any]:
    """Return the values of the page with the contents ``shown``; only the last turns unless ``every_turn``. The bands
    of the map link to pages if ``linked``.
    """
    view, objects = shown["view"], shown["objects"]
    links, evicted = MapLinks(objects, f"/-/session/{view.stream}" if linked else ""), _list_evicted(view)
    return {
        **shown,
        "checkpoints": sorted(shown["observed"].checkpoints, key=lambda point: (point.branch, point.turn)),
        "map_svg": map_chart([*view.before, view.map], links=links),
        "cache_misses": describe_misses(shown["readings"]),
        "money_svg": money_chart(view.money),
        "left": evicted[:SHOWN_LEFT],
        "left_in_all": len(evicted),
        "turns": view.turns if every_turn else view.turns[-SHOWN_TURNS:],
        "sources": {each: name_object(made) for each, made in objects.items()},
    }


def page_as_json(shown: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the contents of a session's page for programs."""
    contents, observed = shown["contents"], shown["observed"]
    return {
        "verdict": shown["view"].verdict,
        "window": None if contents is None else manifests.contents_as_json(contents),
        **{name: shown[name] for name in ("view", "agents", "happenings")},
        "plan": plan_as_json(observed.plan),
        "repetitions": observed.repetitions,
        "checkpoints": observed.checkpoints,
        "cache_misses": [reading_as_json(each) for each in shown["readings"] if each.causes],
    }


async def read_window(
    archive: Archive, stream: UUID, branch: str, place: TurnPlace, known: KnownTurns, most: int = SHOWN_ITEMS
) -> Mapping[str, Any]:
    """Return the values for the contents of the window at a turn, or the reason if there are none."""
    try:
        events, history = await known.read(archive, stream)
        attempt = history.at(branch, place)
        manifest = await manifests.manifest_of(archive, stream, events, history, attempt, known.blocks)
    except (NotFound, ContentForgotten, LogFailed) as error:
        return {"contents": None, "no_contents": error}
    return {"contents": list_contents(manifest), "last_turn": history.line(branch).last, "most": most}


async def read_happenings(archive: Archive, view: SessionView, chosen: ChosenChanges | None) -> Sequence[Happening]:
    """Describe the chosen events of the session; by default the latest on all branches, since the last ``LATE_TURNS``
    turns of the shown one.
    """
    if chosen is not None:
        return list_happenings(await archive.events.read(view.stream), chosen, MOST_CHOSEN)
    versions = (turn.version for turn in view.turns[-LATE_TURNS:] if turn.version is not None)
    first = next(versions, None)
    return () if first is None else list_happenings(await archive.events.read(view.stream, after=first - 1))


def _list_evicted(view: SessionView) -> list[Span]:
    """List the objects that the context no longer shows in full, largest first."""
    last = view.map.turns[-1].turn if view.map.turns else 0
    spans = [span for span in view.map.standing_at(last) if span.fidelity is not Fidelity.FULL]
    return sorted(spans, key=lambda span: -span.object.tokens)


def session_report(shown: Mapping[str, Any], *, redacted: bool) -> str:
    """Render the contents of a session's page as an HTML file; ``redacted`` omits all texts and the names of folders
    and files.
    """
    environment = Environment(
        loader=PackageLoader("mnemosyne.http.inspector"), autoescape=True, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters.update(FILTERS)
    environment.globals["map_key"] = KEY
    values = _without_words(draw_page(shown)) if redacted else draw_page(shown)
    return environment.get_template("report.html").render(
        **values, style=read_styles(), version=__version__, redacted=redacted, alone=True
    )


def read_styles() -> str:
    """Return the pages' style sheets as one text, for self-contained files."""
    static = files("mnemosyne.http.inspector") / "static"
    return "\n".join(static.joinpath(name).read_text(encoding="utf-8") for name in ("charts.css", "page.css"))


def _without_words(shown: Mapping[str, Any]) -> Mapping[str, Any]:
    overview, view = (
        attrs.evolve(shown["overview"], title=_WORDLESS, texts=HelperTexts(), project=None, name=""),
        shown["view"],
    )
    objects = {
        name: attrs.evolve(made, source_key=made.source_key and _NAMELESS, stub=_NAMELESS)
        for name, made in shown["objects"].items()
    }
    return {
        **shown,
        "overview": overview,
        "map_svg": map_chart([*view.before, view.map], links=MapLinks(objects)),
        "sources": {},
        "cache_misses": None,
        "observed": NOTHING,
        "checkpoints": (),
    }
