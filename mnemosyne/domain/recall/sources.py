"""The texts from which a question is answered: tool results, the user's prompts, and the model's conclusions.

The roles and positions of blocks decide. Text that the client added (system prompt, reminders, tool definitions) is not
a source, and neither is the last sentence of an assistant's text before a tool call, which announces the call.
"""

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice

import attrs

from mnemosyne.domain.objects.aggregate import MemoryObject
from mnemosyne.domain.objects.events import BlockPlace
from mnemosyne.domain.objects.full_text import full_parts
from mnemosyne.domain.objects.kinds import KINDS, UNCHANGED, is_inserted, is_operators, keeps_prompt
from mnemosyne.domain.recall.named import is_outdated
from mnemosyne.domain.recall.object_search import PassageHit
from mnemosyne.domain.text.parts import PartRole, TextPart, join
from mnemosyne.domain.text.words import find_last_sentence
from mnemosyne.domain.wire.client_texts import find_reminders

Span = tuple[int, int]

MOST_SOURCES, SOURCES_AGAIN = 30, 100
"""Maximum number of objects that are read to answer a question, and for a helper model's second look (ADR 129)."""

MOST_BYTES = 32_000_000
"""Maximum size of these objects together: as much as the provider accepts in one request."""


@attrs.frozen(kw_only=True)
class Source:
    """The ``text`` of an object and its ``spans`` of characters that may be quoted. ``found`` are the spans of search
    results in it, each with its rank in the search, 0 for the best.
    """

    id: str
    text: str = attrs.field(repr=False)
    spans: Sequence[Span]
    found: Sequence[tuple[int, Span]] = ()


class Announcements:
    """Which of the assistant's texts in a session's ``objects`` precede a tool call, by the order of each branch's
    blocks: in the same message, or in a history without messages of several blocks, before the user's next text.
    """

    def __init__(self, objects: Iterable[MemoryObject]) -> None:
        self._places = sorted(
            (each.branch, place.message, place.block, _author(each, number))
            for each in objects
            for number, place in enumerate(each.places)
        )

    def of(self, obj: MemoryObject) -> frozenset[int]:
        """The indexes into an object's places of such texts."""
        return frozenset(
            number
            for number, place in enumerate(obj.places)
            if _author(obj, number) == _ASSISTANT and self._precedes_call(obj.branch, place)
        )

    def _precedes_call(self, branch: str, place: BlockPlace) -> bool:
        after = bisect_right(self._places, (branch, place.message, place.block, _LAST))
        for other, _, _, author in islice(self._places, after, None):
            if other != branch or author == _OTHER:
                return False
            if author == _CALL:
                return True
        return False


_CALL, _ASSISTANT, _OTHER, _LAST = range(4)


def _author(obj: MemoryObject, number: int) -> int:
    """The author of an object's block. In older logs, no block of a phase with a prompt counts as the assistant's."""
    if not KINDS[obj.kind].is_conversation:
        return _OTHER if is_inserted(obj.tags) and obj.source_tool is None else _CALL
    by_others = is_inserted(obj.tags) or number in obj.by_user or (keeps_prompt(obj.tags) and not obj.by_user)
    return _OTHER if by_others else _ASSISTANT


def may_be_quoted(obj: MemoryObject) -> bool:
    """Whether an object may contain a source."""
    return obj.holds_content and not obj.forgotten and UNCHANGED not in obj.tags and not is_operators(obj.tags)


def read_sources(
    objects: Iterable[MemoryObject],
    contents: Mapping[str, bytes],
    announcements: Announcements,
    hits: Sequence[PassageHit] = (),
) -> list[Source]:
    """The sources of objects, from the JSON of their blocks by id; without missing and unreadable ones. The passages of
    outdated versions rank behind all others.
    """
    objects = list(objects)
    outdated = {each.id for each in objects if is_outdated(each)}
    hits = sorted(hits, key=lambda hit: hit.object in outdated)
    found: list[Source] = []
    for each in objects:
        try:
            parts = full_parts(contents[each.id], each.by_user, announcements.of(each))
        except (KeyError, ValueError):
            continue
        passages = [
            (rank, (hit.passage.start, hit.passage.end)) for rank, hit in enumerate(hits) if hit.object == each.id
        ]
        found.append(Source(id=each.id, text=join(parts), spans=_spans(parts), found=passages))
    return found


def _spans(parts: Sequence[TextPart]) -> list[Span]:
    """The spans of characters that may be quoted. The last sentence of a text before a call may not; adjacent parts
    form one span.
    """
    spans: list[Span] = []
    start = 0
    for part in parts:
        announces = part.role is PartRole.ANNOUNCEMENT
        text = part.text[: find_last_sentence(part.text)] if announces else part.text
        at = start
        for first, last in find_reminders(text):
            _add(spans, (at, start + first))
            at = start + last
        _add(spans, (at, start + len(text)))
        start += len(part.text) + 1
    return spans


def _add(spans: list[Span], more: Span) -> None:
    if more[0] < more[1]:
        first = spans.pop()[0] if spans and spans[-1][1] + 1 == more[0] else more[0]
        spans.append((first, more[1]))


def list_sources(
    hits: Iterable[PassageHit], objects: Mapping[str, MemoryObject], most: int = MOST_SOURCES
) -> list[MemoryObject]:
    """The first objects of a search result that may be quoted, best first, with outdated versions behind the others."""
    found = dict.fromkeys(hit.object for hit in hits if hit.object in objects)
    sources = sorted((objects[key] for key in found), key=is_outdated)
    return [each for each in sources if may_be_quoted(each)][:most]
