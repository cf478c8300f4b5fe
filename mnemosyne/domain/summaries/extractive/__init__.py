"""The extractive helper: a rendition made of parts of the text itself, without a model.

Pure, deterministic and total: any text has one, within the budget to the character, in about the time it takes to
read the text. Which parts, follows from the role of the text (``roles.py``). Nothing is written but the marks of what
was cut (``rendering.py``) and who speaks, so it can invent nothing.
"""

from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate

from mnemosyne.domain.objects.losses import Declared
from mnemosyne.domain.summaries.extractive import code, data, diffs, failures, listings, logs, plans, prose
from mnemosyne.domain.summaries.extractive.asking import asking
from mnemosyne.domain.summaries.extractive.declaring import declare, lines_cut, tallies
from mnemosyne.domain.summaries.extractive.facets import Extractor, Facet
from mnemosyne.domain.summaries.extractive.rendering import COUNT, longest_mark, render
from mnemosyne.domain.summaries.extractive.roles import TextRole
from mnemosyne.domain.summaries.extractive.sections import SAID, Section, Sections
from mnemosyne.domain.summaries.extractive.selecting import ANYTHING, Selection, items_of
from mnemosyne.domain.summaries.extractive.units import TextUnit
from mnemosyne.domain.summaries.renditions import ProposedRendition, RenditionRequest
from mnemosyne.domain.text.entities import key_entities, without_colours
from mnemosyne.domain.text.parts import ROLE_LABELS, PartRole
from mnemosyne.domain.text.stubs import plain

NAME = "extractive/7"
"""What a rendition's ``helper`` says: it changes with what is kept of the same text. Those on record stay as they were
made. The first, ``extractive``, kept what had most specifics; the second went through all calls of an object at once;
the third knew no reasons, and left the room that marks of cuts did not take; the fourth let brackets and
headings stand for what they are of; the fifth told of each cut how many lines it had; the sixth set two marks beside
each other, and kept what only acknowledges.
"""

MINIMUM_CHARS = 16
"""From this target on, the text is a true one; below, there is no room to say what was cut, and it is empty."""

_KEY_ENTITIES = 8
_LONGEST_ABOUT = 48

_EXTRACTORS: dict[TextRole, Extractor] = {
    TextRole.FAILURE: failures.failures,
    TextRole.TEST_RUN: failures.failures,
    TextRole.LOG: logs.logs,
    TextRole.LISTING: listings.listings,
    TextRole.DIFF: diffs.diffs,
    TextRole.CODE: code.code,
    TextRole.DATA: data.data,
    TextRole.PLAN: plans.plans,
    TextRole.PROSE: prose.prose,
}

_FILLED = frozenset({TextRole.CODE, TextRole.DATA, TextRole.LOG})
"""Roles of texts of which any specific may be asked for: what room is left goes to these."""


def summarize(request: RenditionRequest) -> ProposedRendition:
    """A rendition of at most ``target_chars`` characters; the text itself if it is that short already."""
    text = without_colours(request.text)
    if len(text) <= request.target_chars:
        return ProposedRendition(text, Declared(key_entities=key_entities(text, _KEY_ENTITIES)))
    if request.target_chars < MINIMUM_CHARS:
        return ProposedRendition("", Declared(dropped=("everything",), fault_when=("anything of it",)))
    sections = Sections(request)
    units = sections.units
    facets = _facets(sections)
    selection = Selection(units, longest_mark(units))
    budget = request.target_chars - COUNT
    for index in _find_protected(request.protected, units):
        selection.keep((index,), budget)
    filled = _list_filled(sections)
    items = items_of(units, {n for within in filled.values() for n in within})
    for call, room in selection.share_out(_sizes(sections), budget):
        selection.keep_facets(facets[call], room)
        selection.fill(items, filled[call], room)
        selection.go_on(filled[call], room)
    if not any(selection.kept[:-1]):
        every = list(range(len(units)))
        selection.fill(items_of(units, every), every, budget)
        selection.go_on(every, budget, ANYTHING)
    selection.fill_gaps(budget)
    rendered = _use_rest(
        selection, sections, [each for found in facets.values() for each in found], request.target_chars
    )
    main = _main(sections.found)
    about = plain(_about(request, main), _LONGEST_ABOUT)
    answer = "\n".join(units[n].text or "" for section in sections.found if not section.asks for n in section.within)
    cut = lines_cut(units, selection.kept)
    counted = tallies([facet for found in facets.values() for facet in found], selection.kept)
    said = declare(main.role, about, answer, rendered, counted, cut)
    return ProposedRendition(rendered, said)


def _use_rest(selection: Selection, sections: Sections, facets: Sequence[Facet], target: int) -> str:
    """The rendition with what else fits into the room that the marks of cuts did not take."""
    rendered = render(sections.units, selection.kept, numbered=sections.numbered)
    before = selection.kept.copy()
    selection.keep_wanted(facets, selection.cost + target - len(rendered))
    if selection.kept == before:
        return rendered
    again = render(sections.units, selection.kept, numbered=sections.numbered)
    if len(again) <= target:
        return again
    selection.kept[:] = before
    return rendered


def main_role(request: RenditionRequest) -> TextRole:
    """The role of the largest section of the request's text."""
    return _main(Sections(request).found).role


def _main(found: Sequence[Section]) -> Section:
    return max(found, key=lambda section: (not section.asks, len(section.within)))


def _about(request: RenditionRequest, main: Section) -> str:
    about = main.about or request.source_key or ""
    if about[:1] in ("[", "{"):
        return ""
    return about if " " in about else about.rstrip("/").rpartition("/")[2] or about


def _facets(sections: Sections) -> dict[int, list[Facet]]:
    """The facets of each call, those of all that was said under ``SAID``."""
    units, spoken = sections.units, [section for section in sections.found if _is_spoken(section)]
    found: dict[int, list[Facet]] = {section.call: [] for section in sections.found}
    if spoken:
        found[SAID] += _weigh_spoken(sections, spoken)
    for section in sections.found:
        if section.asks and section.asked is not None:
            found[section.call] += asking(
                units, section.within, section.asked, section.first_line, several=len(found) > 1
            )
        elif not _is_spoken(section):
            found[section.call] += [
                *listings.list_sought(units, section.within, section.about),
                *(listings.pages(units, section.within) if section.role is TextRole.PROSE else []),
                *_EXTRACTORS[section.role](units, section.within),
            ]
    return found


def _list_filled(sections: Sections) -> dict[int, list[int]]:
    """Of each call the units of which any specific may be asked for."""
    filled: dict[int, list[int]] = {section.call: [] for section in sections.found}
    for section in sections.found:
        if section.role in _FILLED and not section.asks:
            filled[section.call] += section.within
    return filled


def _sizes(sections: Sections) -> dict[int, int]:
    """The characters of each call with its answer."""
    sizes: dict[int, int] = {}
    for section in sections.found:
        size = sum(len(sections.units[n].text or "") + 1 for n in section.within)
        sizes[section.call] = sizes.get(section.call, 0) + size
    return sizes


def _is_spoken(section: Section) -> bool:
    return section.role is TextRole.PROSE and section.part_role in ROLE_LABELS


def _weigh_spoken(sections: Sections, spoken: Sequence[Section]) -> list[Facet]:
    """What was said is weighed as one text, whoever said it."""
    users = {number for section in spoken if section.part_role is PartRole.USER for number in section.within}
    within = [number for section in spoken for number in section.within]
    return prose.list_prose_facets(sections.units, within, sections.labels, users)


def _find_protected(protected: Sequence[str], units: Sequence[TextUnit]) -> list[int]:
    """The units that hold the first occurrence of each snippet; of a name, the one where it is defined."""
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
            found += max(places, key=lambda place: any(code.SIGNATURE.match(units[i].text or "") for i in place))
    return found
