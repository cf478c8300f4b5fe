"""The texts of a session's objects: search and reading.

Objects that the index does not have yet, or all if it does not answer, are searched here.
"""

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import zip_longest
from typing import TypeVar

import attrs
import trio

from mnemosyne.actors.actor_services import ActorServices
from mnemosyne.actors.bodies import Bodies
from mnemosyne.domain.objects.aggregate import MemoryObject, is_searched
from mnemosyne.domain.objects.fidelity import Fidelity
from mnemosyne.domain.objects.full_text import Attachment, full_text, list_attached
from mnemosyne.domain.objects.memory import Memory
from mnemosyne.domain.recall.object_search import MOST_LOOKED_AT, PassageHit, find_passages, text_in_index
from mnemosyne.domain.recall.retrieval import RELEVANT
from mnemosyne.domain.summaries.forms import RecordedForm, extract
from mnemosyne.errors import ContentForgotten, ContentMissing

log = logging.getLogger(__name__)

Result = TypeVar("Result")

MOST_COMPARED = 2_000_000
"""Size in bytes of the newest objects whose words are compared here instead of by the index: that takes a second of a
thread, and longer on a busy machine. The work bounds an answer; time limits bound only external services.
"""

LARGE = 100_000
"""Size in bytes above which content is read in a thread."""


class ObjectTexts:
    def __init__(self, bodies: Bodies, outside: ActorServices) -> None:
        self._bodies = bodies
        self._outside = outside

    # Search

    async def search(
        self, query: str, among: Mapping[str, MemoryObject], in_order: Iterable[str], least: float = RELEVANT
    ) -> Sequence[PassageHit]:
        """The passages of some objects that match a query best, best first; none if they are less relevant than
        ``least``. ``in_order`` are the ids of these and other objects, in order of creation.
        """
        newest_first = [among[key] for key in reversed([*in_order]) if key in among]
        searched = [each.id for each in newest_first if is_searched(each)]
        found = await self._outside.search(query, searched, MOST_LOOKED_AT, least) if searched else None
        if found is None:
            return await self._compare(query, newest_first, least)
        if not found.missing:
            return found.passages
        # The index adds objects in order of creation, so it is the newest ones that are missing.
        unknown = [among[key] for key in searched[: found.missing]]
        pairs = zip_longest(found.passages, await self._compare(query, unknown, RELEVANT if found.passages else least))
        return [each for pair in pairs for each in pair if each is not None]

    async def _compare(self, query: str, newest_first: Sequence[MemoryObject], least: float) -> Sequence[PassageHit]:
        contents = await self.read(newest_first, MOST_COMPARED)
        found = await in_thread(lambda: find_passages(query, _texts(newest_first, contents), least))
        return [attrs.evolve(each, score=0.0) for each in found]  # a sum over words is no share: results omit it

    # Reading

    async def read(self, objects: Iterable[MemoryObject], most: int) -> Mapping[str, bytes]:
        """The contents of objects by id, as many as have at most ``most`` bytes together; unreadable objects are
        omitted.
        """
        chosen: list[MemoryObject] = []
        for each in objects:
            if each.size <= most:
                chosen.append(each)
                most -= each.size
        without = {each.id: b"" for each in chosen if not each.holds_content}
        return {**without, **await self._contents([each for each in chosen if each.holds_content])}

    async def _contents(self, objects: Sequence[MemoryObject]) -> Mapping[str, bytes]:
        """The content of each readable object, in one read. Raises TooSlowError."""
        with trio.fail_after(self._outside.patience.contents):
            try:
                found = await self._bodies.read_all_stored(each.content for each in objects)
                return {each.id: found[each.content] for each in objects}
            except (ContentForgotten, ContentMissing) as error:
                if len(objects) == 1:
                    log.info("object %s is not quoted: %s", objects[0].id, type(error).__name__)
                    return {}
        half = len(objects) // 2  # one of them is missing: find it
        return {**await self._contents(objects[:half]), **await self._contents(objects[half:])}

    async def read_at(self, each: MemoryObject, fidelity: Fidelity) -> tuple[str, tuple[Attachment, ...]]:
        """An object's text at a fidelity, and its images and documents. Raises TooSlowError, ContentForgotten,
        LogFailed.
        """
        if not each.holds_content:
            return each.stub, ()
        with trio.fail_after(self._outside.patience.contents):
            if fidelity is not Fidelity.FULL:
                return (await self._bodies.content(each.renditions[fidelity].text)).decode(), ()
            content = await self._bodies.read_stored(each.content)
        return _in_full(content) if len(content) < LARGE else await in_thread(lambda: _in_full(content))

    async def extract(self, object_id: str, known: Memory, at: int) -> RecordedForm | None:
        """The L1 of an object that has none yet; None if it can have none. Raises TooSlowError, ContentForgotten,
        LogFailed.
        """
        each = known.objects[object_id]
        with trio.fail_after(self._outside.patience.contents):
            content = await self._bodies.read_stored(each.content)
        return await in_thread(lambda: extract(each, known, content, at))


def _in_full(content: bytes) -> tuple[str, tuple[Attachment, ...]]:
    return full_text(content), list_attached(content)


def _texts(objects: Iterable[MemoryObject], contents: Mapping[str, bytes]) -> dict[str, str]:
    """The texts of objects, without unreadable ones."""
    texts: dict[str, str] = {}
    for each in objects:
        try:
            if each.id in contents:
                texts[each.id] = text_in_index(each, contents[each.id])
        except ValueError:
            log.info("object %s is not searched: it cannot be read", each.id)
    return texts


async def in_thread(work: Callable[[], Result]) -> Result:
    """Do slow work in a thread."""
    return await trio.to_thread.run_sync(work)
