"""The extractive helper: a rendition made of parts of the text itself, without a model.

Pure, deterministic and total: any text has one within the budget. Apart from marks for cuts (``rendering.py``) and
the names of speakers, it contains only text of its source, so it invents nothing.
"""

from collections.abc import Iterator
from itertools import islice

from mnemosyne.domain.objects.events import Losses
from mnemosyne.domain.summaries.extractive.rendering import COUNT, lines_cut, render
from mnemosyne.domain.summaries.extractive.selecting import CUT, Selection
from mnemosyne.domain.summaries.extractive.units import MARK, units_of
from mnemosyne.domain.summaries.renditions import ProposedRendition, RenditionRequest
from mnemosyne.domain.text.entities import key_entities, without_colours
from mnemosyne.domain.text.parts import PartRole, TextPart
from mnemosyne.domain.text.stubs import plain, render_count

NAME = "extractive/10"
"""The ``helper`` of its renditions. The number changes with what is kept of a text; recorded ones never change."""

MINIMUM_CHARS = 16
"""Below this target there is no room for the mark of a cut, and the text is empty."""

_KEY_ENTITIES = 8
_LONGEST_ABOUT = 48
_NAMES = 3
_SHORTEST_NAME, _LONGEST_NAME = 4, 40
_MOST_LOOKED_AT = 400
"""Specifics of the full content that are searched for missing names."""


def summarize(request: RenditionRequest) -> ProposedRendition:
    """A rendition of at most ``target_chars`` characters; the text itself if it is that short already."""
    text = without_colours(request.text)
    if len(text) <= request.target_chars:
        return ProposedRendition(text, Losses(key_entities=key_entities(text, _KEY_ENTITIES)))
    if request.target_chars < MINIMUM_CHARS:
        return ProposedRendition("", Losses(dropped=("everything",), fault_when=("anything of it",)))
    units = units_of(request.parts or (TextPart(PartRole.RESULT, text),), request.target_chars)
    selection = Selection(units)
    selection.fill(request.target_chars - COUNT)
    rendered = _render_within(selection, request.target_chars) or _beginning(text, request.target_chars)
    return ProposedRendition(rendered, _declare(request, text, rendered, lines_cut(units, selection.kept)))


def _render_within(selection: Selection, target: int) -> str:
    """Drop the units that were kept last until the rendition fits; return an empty text if none remains."""
    kept, order = selection.kept, selection.order
    rendered = render(selection.units, kept)
    while order and (excess := len(rendered) - target) > 0:
        while order and excess > 0:
            index = order.pop()
            kept[index] = False
            excess -= len(selection.units[index].text) + CUT
        rendered = render(selection.units, kept)
    return rendered if order else ""


def _beginning(text: str, target: int) -> str:
    """Return the first whole words of a text of which no unit fits: a part of a path would be another path."""
    start = text.strip()[: target - CUT]
    return f"{start[: len(start.rstrip()) - len(start.split()[-1])]}{MARK}" if start else MARK


def _declare(request: RenditionRequest, full: str, text: str, cut: int) -> Losses:
    """Declare the omitted lines and the names that only the full content has."""
    about = plain(_about(request.source_key or ""), _LONGEST_ABOUT)
    rest = f"the exact text of {about}" if about else "the exact text"
    return Losses(
        dropped=(render_count(cut, "line"),) if cut else ("parts of lines",),
        fault_when=(*filter(None, [", ".join(islice(_missing(full, text), _NAMES))]), rest),
        key_entities=key_entities(text, _KEY_ENTITIES),
    )


def _about(key: str) -> str:
    """Return the subject of a source key: of a path, the file name."""
    if key[:1] in ("[", "{"):
        return ""
    return key if " " in key else key.rstrip("/").rpartition("/")[2] or key


def _missing(full: str, text: str) -> Iterator[str]:
    """Yield the most significant names of the full content that the rendition lacks."""
    for name in key_entities(full, _MOST_LOOKED_AT):
        fits = _SHORTEST_NAME <= len(name) <= _LONGEST_NAME and name == plain(name, _LONGEST_NAME)
        if fits and "," not in name and name not in text:
            yield name
