"""The extractive helper: a rendition made of parts of the text itself, without a model.

Pure, deterministic and total: any text has one, within the budget to the character, in about the time it takes to
read the text. Nothing is written but the marks of what was cut (``rendering.py``), so it can invent nothing.
"""

from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate

from mnemosyne.domain.objects.losses import Declared
from mnemosyne.domain.summaries.extractive import code, data, diffs, listings, logs, prose
from mnemosyne.domain.summaries.extractive.rendering import WORDS, longest_mark, render
from mnemosyne.domain.summaries.extractive.selecting import REPEATED, Selection, items_of, weights_of
from mnemosyne.domain.summaries.extractive.units import TextUnit, is_numbered, lines_of, units_of, without_reminder
from mnemosyne.domain.summaries.extractive.way import Way
from mnemosyne.domain.summaries.renditions import ProposedRendition, RenditionRequest
from mnemosyne.domain.text.entities import key_entities, without_colours

NAME = "extractive"
"""What a rendition's ``helper`` says."""

MINIMUM_CHARS = 16
"""From this target on, the text is a true one; below, there is no room to say what was cut, and it is empty."""

_SAMPLE_LINES = 48
_KEY_ENTITIES = 8
_PROSE_NAMES = (".md", ".rst", ".txt", ".mdx")
_CODE_TOOLS = frozenset({"Read", "read", "Write", "Edit", "MultiEdit", "view"})


def summarize(request: RenditionRequest) -> ProposedRendition:
    """A rendition of at most ``target_chars`` characters; the text itself if it is that short already."""
    text = without_colours(request.text)
    lines = lines_of(without_reminder(text))
    numbered = is_numbered(lines)
    way = _way(request, lines, numbered=numbered)
    if len(text) <= request.target_chars:
        return ProposedRendition(text, _declared(way, text, whole=True, holds=True))
    if request.target_chars < MINIMUM_CHARS:
        return ProposedRendition("", _declared(way, text, whole=False, holds=False))
    units = units_of(lines, request.target_chars, numbered=numbered, sentences=way.sentences)
    weights = weights_of(units, way)
    selection = Selection(units, items_of(units), weights, longest_mark(units, numbered=numbered))
    budget = request.target_chars - WORDS
    selection.keep_first(_protected(request.protected, units, weights), budget)
    selection.fill(budget)
    framing = (way.frame, way.frame * REPEATED)
    frame = [kept for kept, weight in zip(selection.kept, weights, strict=False) if weight in framing]
    rendered = render(units, selection.kept, numbered=numbered)
    return ProposedRendition(rendered, _declared(way, rendered, whole=False, holds=bool(frame) and all(frame)))


def way_of(request: RenditionRequest) -> str:
    """The name of the way by which the request's text is cut down."""
    lines = lines_of(without_reminder(without_colours(request.text)))
    return _way(request, lines, numbered=is_numbered(lines)).name


def _way(request: RenditionRequest, lines: Sequence[str], *, numbered: bool) -> Way:
    key = (request.source_key or "").lower()
    if key.endswith(_PROSE_NAMES):
        return prose.WAY
    if numbered:
        return data.WAY if key.endswith((".json", ".jsonl")) else code.WAY
    some = [line for line in lines[:: len(lines) // _SAMPLE_LINES + 1] if line]
    if any(line.startswith("@@ -") for line in lines[:_SAMPLE_LINES]) and _share(diffs.WAY, some) >= diffs.WAY.share:
        return diffs.WAY
    if (
        some
        and some[0].lstrip()[:1] in ("{", "[")
        and some[-1][-1] in "}]"
        and _share(data.WAY, some) >= data.WAY.share
    ):
        return data.WAY
    if request.source_tool in _CODE_TOOLS and _share(code.WAY, some) >= code.WAY.share:
        return code.WAY
    for way in (logs.WAY, listings.WAY, code.WAY):
        if _share(way, some) >= way.share:
            return way
    return prose.WAY


def _share(way: Way, lines: Sequence[str]) -> float:
    return sum(map(way.fits, lines)) / len(lines) if lines else 0.0


def _protected(protected: Sequence[str], units: Sequence[TextUnit], weights: Sequence[float]) -> list[int]:
    """The units that hold the first occurrence of each snippet; of a name, the one of most structure."""
    if not protected:
        return []
    texts = [f"{unit.text or ''}{'' if unit.lines == 0 else chr(10)}" for unit in units]
    ends = list(accumulate(map(len, texts)))
    text = "".join(texts)
    found: list[int] = []
    for snippet in protected:
        places: list[range] = []
        at = text.find(snippet) if snippet else -1
        while at >= 0 and len(places) < 32:
            first, last = bisect_right(ends, at), bisect_right(ends, at + len(snippet) - 1)
            places.append(range(first, last + 1))
            at = text.find(snippet, at + len(snippet))
        if places:
            found += max(places, key=lambda place: max(weights[i] for i in place))
    return found


def _declared(way: Way, text: str, *, whole: bool, holds: bool) -> Declared:
    return Declared(
        dropped=() if whole else (way.drops,),
        can_answer=(way.holds,) if holds and way.holds else (),
        fault_when=() if whole else (way.restore_for,),
        key_entities=key_entities(text, _KEY_ENTITIES),
    )
