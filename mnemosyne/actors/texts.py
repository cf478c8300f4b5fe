"""The words of a session's objects: which of them say most about a query, and what they say.

What the index of objects does not have yet, or all where it does not answer, is compared here.
"""

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import zip_longest
from typing import TypeVar

import trio

from mnemosyne.actors.actor_services import ActorServices
from mnemosyne.actors.bodies import Bodies
from mnemosyne.domain.objects.aggregate import MemoryObject, is_searched
from mnemosyne.domain.objects.fidelity import Fidelity
from mnemosyne.domain.objects.full_text import Attachment, full_text, list_attached
from mnemosyne.domain.objects.memory import Memory
from mnemosyne.domain.recall.candidates import parts_of_text
from mnemosyne.domain.recall.quoting import MOST_LOOKED_AT, Quotable, Where
from mnemosyne.domain.summaries.forms import Extract, extract
from mnemosyne.domain.text.parts import TextPart, join
from mnemosyne.errors import ContentForgotten, ContentMissing

log = logging.getLogger(__name__)

Result = TypeVar("Result")

MOST_COMPARED = 2_000_000
"""Bytes of objects, the newest, whose words are compared where the index does not: that takes a second of a thread, and
as long as it takes on a machine that is busy. An answer is bounded by its work; time bounds only what others owe us.
"""

LARGE = 100_000
"""Bytes of content from which on reading it is worth a thread."""


class ObjectTexts:
    """Those of one session."""

    def __init__(self, bodies: Bodies, outside: ActorServices) -> None:
        self._bodies = bodies
        self._outside = outside

    # Where objects say something

    async def find_places(self, query: str, among: Mapping[str, MemoryObject], in_order: Iterable[str]) -> list[Where]:
        """Passages of some objects that say most about a query, best first. ``in_order`` are the ids of these, and of
        others, in the order in which they were made.
        """
        newest_first = [among[key] for key in reversed([*in_order]) if key in among]
        searched = [each.id for each in newest_first if is_searched(each)]
        seconds = self._outside.patience.index
        found = await self._outside.search(query, searched, MOST_LOOKED_AT, seconds) if searched else None
        if found is None:
            return await self._compare(query, newest_first)
        by_index = [Where(hit.object, hit.passage.start, hit.passage.end) for hit in found.hits]
        if not found.missing:
            return by_index
        # The index takes objects in as they were made, so it is the newest that it does not have yet.
        unknown = [among[key] for key in searched[: found.missing]]
        pairs = zip_longest(by_index, await self._compare(query, unknown))
        return [each for pair in pairs for each in pair if each is not None]

    async def _compare(self, query: str, newest_first: Sequence[MemoryObject]) -> list[Where]:
        quotable = await self._quotable(newest_first, MOST_COMPARED)
        return await in_thread(lambda: quotable.places(query))

    # What objects say

    async def _quotable(self, objects: Iterable[MemoryObject], most: int) -> Quotable:
        """The texts of what ``read`` tells."""
        return Quotable({key: join(parts) for key, parts in (await self.read(objects, most)).items()})

    async def read(self, objects: Iterable[MemoryObject], most: int) -> Mapping[str, tuple[TextPart, ...]]:
        """What objects say, as many of them as have no more than ``most`` bytes together; what cannot be read says
        nothing.
        """
        chosen: list[MemoryObject] = []
        for each in objects:
            if each.size <= most:
                chosen.append(each)
                most -= each.size
        contents = await self._contents([each for each in chosen if each.places])
        return await in_thread(lambda: _parts(chosen, contents))

    async def _contents(self, objects: Sequence[MemoryObject]) -> Mapping[str, bytes]:
        """The content of each object that can be read, read at once. Raises TooSlowError."""
        with trio.fail_after(self._outside.patience.contents):
            try:
                found = await self._bodies.read_all_stored(each.content for each in objects)
                return {each.id: found[each.content] for each in objects}
            except (ContentForgotten, ContentMissing) as error:
                if len(objects) == 1:
                    log.info("object %s is not quoted: %s", objects[0].id, type(error).__name__)
                    return {}
        half = len(objects) // 2  # one of them is not there: find it
        return {**await self._contents(objects[:half]), **await self._contents(objects[half:])}

    async def read_at(self, each: MemoryObject, fidelity: Fidelity) -> tuple[str, tuple[Attachment, ...]]:
        """What an object says at a fidelity, and the images and documents that belong to it. Raises TooSlowError,
        ContentForgotten, LogFailed.
        """
        if not each.places:
            return each.stub, ()
        with trio.fail_after(self._outside.patience.contents):
            if fidelity is not Fidelity.FULL:
                return (await self._bodies.content(each.renditions[fidelity].text)).decode(), ()
            content = await self._bodies.read_stored(each.content)
        return _in_full(content) if len(content) < LARGE else await in_thread(lambda: _in_full(content))

    async def extract(self, object_id: str, known: Memory, at: int) -> Extract | None:
        """The L1 of an object that has none yet; None if it cannot have one. Raises TooSlowError, ContentForgotten,
        LogFailed.
        """
        each = known.objects[object_id]
        with trio.fail_after(self._outside.patience.contents):
            content = await self._bodies.read_stored(each.content)
        return await in_thread(lambda: extract(each, known, content, at))


def _in_full(content: bytes) -> tuple[str, tuple[Attachment, ...]]:
    return full_text(content), list_attached(content)


def _parts(objects: Iterable[MemoryObject], contents: Mapping[str, bytes]) -> dict[str, tuple[TextPart, ...]]:
    """What objects say, as far as it can be read."""
    said: dict[str, tuple[TextPart, ...]] = {}
    for each in objects:
        try:
            if each.id in contents or not each.places:
                said[each.id] = parts_of_text(each, contents.get(each.id, b""))
        except ValueError:
            log.info("object %s is not quoted: it cannot be read", each.id)
    return said


async def in_thread(work: Callable[[], Result]) -> Result:
    """Do work that takes time while others are served."""
    return await trio.to_thread.run_sync(work)
