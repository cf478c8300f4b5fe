"""The content of a session's page, and the same content as a self-contained HTML file."""

from collections.abc import Mapping, Sequence
from importlib.resources import files
from typing import Any

import attrs
from jinja2 import Environment, PackageLoader

from mnemosyne import __version__
from mnemosyne.domain.objects.fidelity import Fidelity
from mnemosyne.http.inspector.formatting import FILTERS
from mnemosyne.http.inspector.happenings import Happening, list_happenings
from mnemosyne.services.context_map import Span
from mnemosyne.services.map_chart import KEY, map_chart
from mnemosyne.services.money_curve import money_chart
from mnemosyne.services.observing import NOTHING, Observations, observe
from mnemosyne.services.overviews import SessionOverview
from mnemosyne.services.read_models import ReadModels
from mnemosyne.services.session_view import SessionView, read_session_view, read_sources
from mnemosyne.services.sessions import Archive

_WORDLESS = "A session"

SHOWN_TURNS = 100
SHOWN_LEFT = 100
"""Number of rows listed; the map shows all."""

LATE_TURNS = 10
"""Number of last turns whose events are listed."""


async def read_shown(
    archive: Archive,
    models: ReadModels,
    overview: SessionOverview,
    branch: str | None,
    *,
    seen: Observations,
    budget: int | None = None,
    every_turn: bool = False,
) -> Mapping[str, Any]:
    """Return the values of a session's page; only the last turns unless ``every_turn``. Raises NotFound, LogFailed."""
    stream = overview.stream
    view = await read_session_view(models, stream, branch, budget)
    evicted = _list_evicted(view)
    missed = {miss.object for miss in view.misses}
    named = {
        span.object for span in (*evicted[:SHOWN_LEFT], *(span for span in view.map.spans if span.object.id in missed))
    }
    observed = await observe(archive, stream, view.branch, view.total.turns, seen)
    return {
        "view": view,
        "overview": overview,
        "observed": observed,
        "checkpoints": sorted(observed.checkpoints, key=lambda point: (point.branch, point.turn)),
        "map_svg": map_chart([*view.before, view.map]),
        "money_svg": money_chart(view.money),
        "left": evicted[:SHOWN_LEFT],
        "left_in_all": len(evicted),
        "turns": view.turns if every_turn else view.turns[-SHOWN_TURNS:],
        "sources": {} if view.forgotten else await read_sources(archive, stream, named),
        "happenings": await read_happenings(archive, view),
    }


async def read_happenings(archive: Archive, view: SessionView) -> Sequence[Happening]:
    """Describe the session's latest events on all branches, since the last ``LATE_TURNS`` turns of the shown one."""
    versions = (turn.version for turn in view.turns[-LATE_TURNS:] if turn.version is not None)
    first = next(versions, None)
    return () if first is None else list_happenings(await archive.events.read(view.stream, after=first - 1))


def _list_evicted(view: SessionView) -> list[Span]:
    """List the objects that the context no longer shows in full, largest first."""
    last = view.map.turns[-1].turn if view.map.turns else 0
    spans = [span for span in view.map.standing_at(last) if span.fidelity is not Fidelity.FULL]
    return sorted(spans, key=lambda span: -span.object.tokens)


def session_report(shown: Mapping[str, Any], *, redacted: bool) -> str:
    """Render the values of ``read_shown`` as an HTML file; ``redacted`` omits all texts and the names of folders and
    files.
    """
    environment = Environment(
        loader=PackageLoader("mnemosyne.http.inspector"), autoescape=True, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters.update(FILTERS)
    environment.globals["map_key"] = KEY
    values = _without_words(shown) if redacted else shown
    return environment.get_template("report.html").render(
        **values, style=read_styles(), version=__version__, redacted=redacted, alone=True
    )


def read_styles() -> str:
    """Return the pages' style sheets as one text, for self-contained files."""
    static = files("mnemosyne.http.inspector") / "static"
    return "\n".join(static.joinpath(name).read_text(encoding="utf-8") for name in ("charts.css", "page.css"))


def _without_words(shown: Mapping[str, Any]) -> Mapping[str, Any]:
    overview = attrs.evolve(shown["overview"], title=_WORDLESS, project=None, name="")
    return {**shown, "overview": overview, "sources": {}, "observed": NOTHING, "checkpoints": ()}
