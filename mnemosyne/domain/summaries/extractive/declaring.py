"""What a rendition says of itself: counted in the full content, so that all of it can be checked there.

``can_answer`` names what is there without exception, ``dropped`` counts what is not, ``fault_when`` says for which
question that would be needed, by names that the rendition lacks.
"""

from collections.abc import Sequence
from itertools import islice, repeat

import attrs

from mnemosyne.domain.objects.losses import Declared
from mnemosyne.domain.summaries.extractive.facets import Facet
from mnemosyne.domain.summaries.extractive.roles import TextRole
from mnemosyne.domain.summaries.extractive.units import TextUnit
from mnemosyne.domain.text.entities import key_entities
from mnemosyne.domain.text.stubs import plain, render_count

_KEY_ENTITIES = 8
_NAMES = 3
_SHORTEST_NAME, _LONGEST_NAME = 4, 40
_MOST_LOOKED_AT = 400
"""Specifics of the full content among which missing names are looked for."""

_NEEDED_FOR = {
    TextRole.FAILURE: "the rest of the output",
    TextRole.TEST_RUN: "the rest of the test output",
    TextRole.LOG: "the rest of the output",
    TextRole.LISTING: "the other entries",
    TextRole.DIFF: "the exact change",
    TextRole.CODE: "exact code",
    TextRole.DATA: "the other values",
    TextRole.PLAN: "the exact wording of the plan",
    TextRole.PROSE: "the exact wording",
}


@attrs.frozen
class Tally:
    """How many of the things of one sort were there, and how many are kept."""

    noun: str
    of: int
    kept: int


def tallies(facets: Sequence[Facet], kept: Sequence[bool]) -> list[Tally]:
    """The tallies of the facets that a reader counts, those of one noun together. An entry counts by its last unit."""
    totals: dict[str, tuple[dict[int, int], dict[int, int]]] = {}
    for facet in facets:
        if facet.told:
            of, there = totals.setdefault(facet.noun, ({}, {}))
            for entry, count in zip(facet.entries, facet.counts or repeat(1), strict=False):
                of[entry[-1]] = count
                if all(kept[number] for number in entry):
                    there[entry[-1]] = count
    return [Tally(noun, sum(of.values()), sum(there.values())) for noun, (of, there) in totals.items() if of]


def declare(role: TextRole, about: str, full: str, text: str, found: Sequence[Tally], lines_cut: int) -> Declared:
    """What a rendition with these tallies declares. ``about`` is what the text is of, ``full`` all of it, and ``text``
    the rendition.
    """
    entities = key_entities(text, _KEY_ENTITIES)
    whole = [tally for tally in found if tally.kept == tally.of]
    partly = [tally for tally in found if tally.kept < tally.of]
    where = f" of {about}" if about else ""
    dropped = [f"{tally.of - tally.kept} of {render_count(tally.of, tally.noun)}" for tally in partly]
    if lines_cut:
        dropped.append(f"{render_count(lines_cut, 'line')} in all")
    missing = ", ".join(_missing(full, text))
    rest = " and ".join(f"the other {_few(tally)}" for tally in partly[:2]) or _NEEDED_FOR[role]
    return Declared(
        dropped=tuple(dropped),
        can_answer=tuple(_all(tally, where) for tally in whole),
        fault_when=tuple(filter(None, (missing, f"{rest}{where}"))),
        key_entities=entities,
    )


def _few(tally: Tally) -> str:
    left = tally.of - tally.kept
    return tally.noun if left == 1 else render_count(left, tally.noun)


def _all(tally: Tally, where: str) -> str:
    return f"the only {tally.noun}{where}" if tally.of == 1 else f"all {render_count(tally.of, tally.noun)}{where}"


def _missing(full: str, text: str) -> list[str]:
    """The most telling names of the full content that the rendition lacks."""
    names = (name for name in key_entities(full, _MOST_LOOKED_AT) if _is_name(name) and name not in text)
    return list(islice(names, _NAMES))


def _is_name(text: str) -> bool:
    return _SHORTEST_NAME <= len(text) <= _LONGEST_NAME and text == plain(text, _LONGEST_NAME) and "," not in text


def lines_cut(units: Sequence[TextUnit], kept: Sequence[bool]) -> int:
    """How many lines of the source are not there."""
    return sum(unit.lines for unit, there in zip(units, kept, strict=False) if not there)
