"""Fills the index of objects, in the background: their words first, then what takes longer, the vectors.

Every step goes by what is stored, so it may end at any point and go on in another process. Two processes at once take
turns with the cursors; at worst both embed the same passages, and one's are kept.
"""

import itertools
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

import trio

from mnemosyne.adapters.object_index import WORDS, Cut, Made, PostgresObjectIndex, cut
from mnemosyne.domain import recipe
from mnemosyne.domain.memory_object import ObjectCreated
from mnemosyne.domain.object_search import text_in_index
from mnemosyne.domain.passages import Passage
from mnemosyne.domain.ports import ContentStore, EventLog, Progress
from mnemosyne.domain.recipe import Recipe
from mnemosyne.domain.retrieval import Embedder
from mnemosyne.domain.time_travel import digests_in
from mnemosyne.errors import ContentForgotten, ContentMissing, LogFailed

log = logging.getLogger(__name__)

One = TypeVar("One")
Other = TypeVar("Other")
Result = TypeVar("Result")

OBJECTS = 16
"""Objects that are taken in at once."""

PASSAGES = 4
"""Passages that are embedded at once: with the model a seventh of a second, which a question may have to wait."""

GATHER_SECONDS = 0.3
"""How long after an event the projection is looked at, and how often until it has come so far."""

FIRST_PAUSE, LONGEST_PAUSE = 0.5, 30.0
"""Seconds between attempts while the database is away."""

WAITS = 20
"""How often it is waited for; it may have stopped."""

Report = Callable[[int], None]
"""Hears of how many more objects the words, or the vectors, are there."""


def unheard(objects: int) -> None:
    """For those who do not wait for it."""


class ObjectIndexer:
    """Fills one index from the log and its content."""

    def __init__(
        self, index: PostgresObjectIndex, events: EventLog, contents: ContentStore, *, report: Report = unheard
    ) -> None:
        self.embedded = 0
        """How many passages were embedded."""
        self._index = index
        self._events = events
        self._contents = contents
        self._report = report
        self._thread = trio.CapacityLimiter(1)
        self._last: tuple[Made, str] | None = None

    async def run(self, progress: Progress) -> None:
        """Fill it for as long as this runs, woken by ``progress``."""
        seen, pause, away = 0, FIRST_PAUSE, False
        while True:
            try:
                await self.catch_up()
                pause, away = FIRST_PAUSE, False
                seen = await progress.beyond(seen)
                await self._projected(seen)
                continue
            except LogFailed as error:
                if not away:
                    log.warning("The index of objects waits: %s.", error)
                away = True
            except Exception:
                log.exception("the indexer failed; it starts again")
            await trio.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE)

    async def _projected(self, position: int) -> None:
        for _ in range(WAITS):
            await trio.sleep(GATHER_SECONDS)
            if await self._index.projected() >= position:
                return

    async def catch_up(self) -> None:
        """Take in every object that the projection knows. Raises LogFailed."""
        await self._index.tidy()
        while await self._step():
            pass
        await self._index.keep_only(self._index.embedders[0].name)

    async def _step(self) -> bool:
        """Do a little of what is most needed; whether there was anything to do."""
        if await self._take_words():
            return True
        for embedder in await self._index.due():
            if await self._take_vectors(embedder):
                return True
        return False

    async def _take_words(self) -> bool:
        cursor, made = await self._index.next_made(WORDS, OBJECTS, with_words=False)
        if not made:
            return False
        cuts: list[Sequence[Cut] | None] = []
        for each in made:
            text = None if each.forgotten else await self._text(each)
            cuts.append(None if text is None else await self._in_thread(cut, each.stream, text))
        await self._index.put_words(cursor, made, cuts)
        self._report(len(made))
        return True

    async def _take_vectors(self, embedder: Embedder) -> bool:
        cursor, made = await self._index.next_made(embedder.name, OBJECTS, with_words=True)
        if not made:
            return False
        whole: list[Made] = []
        left = PASSAGES
        for each in made:
            wanted = await self._index.unembedded(embedder.name, each)
            some = dict(itertools.islice(wanted.items(), left))
            if some:
                await self._embed(embedder, each, some)
            left -= len(some)
            if len(some) < len(wanted):
                break
            whole.append(each)
        if whole:
            await self._index.move(cursor, whole[-1])
            self._report(len(whole))
        return True

    async def _embed(self, embedder: Embedder, made: Made, wanted: Mapping[bytes, Passage]) -> None:
        text = await self._text_again(made)
        if text is None:  # it was forgotten meanwhile, and leaves
            return
        vectors = await embedder.embed([text[each.start : each.end] for each in wanted.values()])
        self.embedded += len(vectors)
        await self._index.put_vectors(embedder.name, made.stream, dict(zip(wanted, vectors, strict=True)))

    async def _text_again(self, made: Made) -> str | None:
        """A long text is embedded in many steps, and read once."""
        if self._last is None or self._last[0] != made:
            text = await self._text(made)
            self._last = None if text is None else (made, text)
        return self._last[1] if self._last is not None else None

    async def _text(self, made: Made) -> str | None:
        """What an object says; None if it says nothing any more, or nothing that can be read."""
        (recorded,) = await self._events.read(made.stream, after=made.version - 1, upto=made.version)
        created = recorded.envelope.event
        assert isinstance(created, ObjectCreated)
        pieces = recipe.apply(Recipe(), recipe.decode(created.content)).pieces
        try:
            found = await self._contents.fetch(made.stream, sorted(digests_in(pieces)))
            content = recipe.assemble(pieces, found.__getitem__)
            return await self._in_thread(text_in_index, created, content)
        except ContentForgotten:
            return None
        except (ContentMissing, ValueError) as error:
            log.warning("object %s of session %s is not in the index: %s", made.object, made.stream, error)
            return None

    async def _in_thread(self, work: Callable[[One, Other], Result], one: One, other: Other) -> Result:
        return await trio.to_thread.run_sync(work, one, other, limiter=self._thread)
