"""What the page of a session shows, and the same as one file to be sent to somebody: it needs no server, and loads
nothing.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import attrs
from jinja2 import Environment, PackageLoader

from mnemosyne import __version__
from mnemosyne.domain.objects.fidelity import Fidelity
from mnemosyne.http.inspector.formatting import FILTERS
from mnemosyne.http.inspector.happenings import Happening, list_happenings
from mnemosyne.http.inspector.styles import read_styles
from mnemosyne.services.context_map import Span
from mnemosyne.services.map_chart import map_chart
from mnemosyne.services.money_curve import money_chart
from mnemosyne.services.observing import NOTHING, Observations, observe
from mnemosyne.services.overviews import SessionOverview
from mnemosyne.services.read_models import ReadModels
from mnemosyne.services.session_view import SessionView, read_session_view, read_sources
from mnemosyne.services.sessions import Archive

_WORDLESS = "A session"

SHOWN_TURNS = 100
SHOWN_LEFT = 100
"""So many of each are listed; the map shows all."""

LATE_TURNS = 10
"""So many turns back it is told event by event what happened."""


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
    """All that the page of a session shows; of many turns the last ones, unless every one is asked for.

    Raises NotFound, LogFailed.
    """
    stream = overview.stream
    view = await read_session_view(models, stream, branch, budget)
    left = _list_evicted(view)
    missed = {each.object for each in view.misses}
    named = {
        each.object for each in (*left[:SHOWN_LEFT], *(span for span in view.map.spans if span.object.id in missed))
    }
    observed = await observe(archive, stream, view.branch, view.total.turns, seen)
    return {
        "view": view,
        "overview": overview,
        "observed": observed,
        "checkpoints": sorted(observed.checkpoints, key=lambda each: (each.branch, each.turn)),
        "map_svg": map_chart([*view.before, view.map]),
        "money_svg": money_chart(view.money),
        "left": left[:SHOWN_LEFT],
        "left_in_all": len(left),
        "turns": view.turns if every_turn else view.turns[-SHOWN_TURNS:],
        "sources": {} if view.forgotten else await read_sources(archive, stream, named),
        "happenings": await read_happenings(archive, view),
    }


async def read_happenings(archive: Archive, view: SessionView) -> Sequence[Happening]:
    """What happened last in a session, on whatever branch, since some turns of the one that is shown."""
    known = (each.version for each in view.turns[-LATE_TURNS:] if each.version is not None)
    first = next(known, None)
    return () if first is None else list_happenings(await archive.events.read(view.stream, after=first - 1))


def _list_evicted(view: SessionView) -> list[Span]:
    """What stands in the window no more as it came, the largest first."""
    last = view.map.turns[-1].turn if view.map.turns else 0
    spans = [each for each in view.map.standing_at(last) if each.fidelity is not Fidelity.FULL]
    return sorted(spans, key=lambda each: -each.object.tokens)


def session_report(shown: Mapping[str, Any], *, redacted: bool) -> str:
    """The file's text, of what ``read_shown`` gives; ``redacted``: without what was said, and without the
    names of folders and files.
    """
    environment = Environment(
        loader=PackageLoader("mnemosyne.http.inspector"), autoescape=True, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters.update(FILTERS)
    told = _without_words(shown) if redacted else shown
    return environment.get_template("report.html").render(
        **told, style=read_styles(), version=__version__, redacted=redacted, alone=True
    )


def _without_words(shown: Mapping[str, Any]) -> Mapping[str, Any]:
    overview = attrs.evolve(shown["overview"], title=_WORDLESS, project=None, name="")
    return {**shown, "overview": overview, "sources": {}, "observed": NOTHING, "checkpoints": ()}
