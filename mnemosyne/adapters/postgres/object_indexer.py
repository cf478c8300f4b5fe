"""Fills the index of objects in the background: words first, then vectors, which take longer.

The state is in the database, so any process can resume. Concurrent processes take turns by the cursors; at worst both
embed the same passages. An unreadable object is skipped, and the index stores the reason.
"""

import itertools
import logging
import math
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TypeVar
from uuid import UUID

import attrs
import trio

from mnemosyne.adapters.postgres import object_index_rows as rows
from mnemosyne.adapters.postgres.object_index import PostgresObjectIndex
from mnemosyne.adapters.postgres.object_index_rows import (
    Cursor,
    IndexedObject,
    IndexEntry,
    IndexWork,
    SkippedObject,
    cut,
)
from mnemosyne.backoff import backoff
from mnemosyne.domain.history.time_travel import digests_in
from mnemosyne.domain.objects.events import ObjectCreated
from mnemosyne.domain.ports import ContentStore, EventLog, Progress
from mnemosyne.domain.recall.object_search import text_in_index
from mnemosyne.domain.recall.retrieval import Embedder
from mnemosyne.domain.session.events import Event
from mnemosyne.domain.text.passages import Passage
from mnemosyne.domain.wire import recipe
from mnemosyne.domain.wire.recipe import Recipe
from mnemosyne.errors import DatabaseUnfit, LogFailed, LogUnavailable, MnemosyneError

log = logging.getLogger(__name__)

Result = TypeVar("Result")

OBJECTS = 256
"""Objects of one portion: a transaction costs as much as the words of ten."""

EMBEDDED_OBJECTS = 16
"""Objects whose vectors are made in one portion: a second or two of work."""

MOST_TOGETHER = 1024 * 1024
"""Maximum bytes of the objects that are read at once: the worker keeps the memory of its largest read."""

POLL_SECONDS = 1.0
"""The interval until the projection has processed an event."""

FIRST_PAUSE, LONGEST_PAUSE = 0.5, 30.0
"""Seconds between attempts while the database is away."""

EMBEDDER_SECONDS = 15.0
"""The interval between checks for an embedder while there is none."""

WAITS = 20
"""How often to wait for the projection, which may have stopped."""

PROBE = "Is this embedder any good?"
"""A text that shows whether an embedder works at all."""

_AWAY = (LogUnavailable, DatabaseUnfit)
"""Errors that no single object causes."""

Report = Callable[[int], None]
"""Receives the number of objects that got words or vectors."""


def ignore_news(objects: int) -> None:
    """Ignore reports."""


MOST_THREADS = 2
"""Threads for embedding on an idle machine."""

SLACK = 0.5
"""The load of an idle machine."""


def threads_at(load: float, cores: int) -> int:
    """The number of threads for embedding: one if the load exceeds the cores."""
    return min(MOST_THREADS, cores) if load <= cores + SLACK else 1


class ObjectIndexer:
    """Fills one index from the log and its content."""

    def __init__(
        self,
        index: PostgresObjectIndex,
        events: EventLog[Event],
        contents: ContentStore,
        *,
        report: Report = ignore_news,
        threads: Callable[[], int] = lambda: 1,
    ) -> None:
        """``threads`` returns the number of threads for the embedder: one for a background process."""
        self.embedded = 0
        """The number of embedded passages."""
        self._index = index
        self._database = index.database
        self._events = events
        self._contents = contents
        self._report = report
        self._threads = threads
        self._thread = trio.CapacityLimiter(1)
        self._has_embedder = False
        self._texts: _Texts = {}

    async def run(self, progress: Progress) -> None:
        """Fill the index until cancelled, woken by ``progress``."""
        seen, pauses, away = 0, backoff(FIRST_PAUSE, LONGEST_PAUSE), False
        while True:
            try:
                await self._follow(seen)
                pauses, away = backoff(FIRST_PAUSE, LONGEST_PAUSE), False
                seen = await self._wait(progress, seen)
                continue
            except LogFailed as error:
                if not away:
                    log.warning("The index of objects cannot be updated now: %s.", error)
                away = True
            except Exception:
                log.exception("the indexer failed and restarts")
            await trio.sleep(next(pauses))

    async def _follow(self, position: int) -> None:
        """Catch up with the projection until it reaches a position."""
        for _ in range(WAITS):
            if await self.catch_up() >= position:
                return
            await trio.sleep(POLL_SECONDS)

    async def _wait(self, progress: Progress, seen: int) -> int:
        """Wait for events after ``seen`` and their projection, or for an embedder if there was none."""
        while not self._has_embedder:
            if await self._index.embedder() is not None:
                return seen
            with trio.move_on_after(EMBEDDER_SECONDS):
                await progress.beyond(seen)
                break
        seen = await progress.beyond(seen)
        await trio.sleep(POLL_SECONDS)
        return seen

    async def catch_up(self, vector_seconds: float = math.inf) -> int:
        """Index every object of the projection, and make missing vectors for so many seconds; return the projection's
        position at the start. Raises LogFailed.
        """
        position = await self._database.run(rows.tidy)
        embedder, until = await self._index.embedder(), math.inf
        self._has_embedder = embedder is not None
        name = None if embedder is None else embedder.name
        while (work := await self._database.run(rows.next_work, name, OBJECTS, EMBEDDED_OBJECTS)) is not None:
            if embedder is None or work.cursor.name != embedder.name:
                await self._take_words(work)
                continue
            until = min(until, trio.current_time() + vector_seconds)
            if trio.current_time() >= until:
                break
            with trio.move_on_at(until):
                await self._take_vectors(embedder, work)
        self._texts = {}
        return position

    async def _take_words(self, work: IndexWork) -> None:
        found = self._texts = await self._read([each for each in work.made if not each.forgotten])
        taken = list(itertools.takewhile(lambda each: each.forgotten or each in found, work.made))
        entries = await self._in_thread(lambda: [_entry(each, found.get(each)) for each in taken])
        await self._put(work.cursor, taken, entries)
        self._report(len(taken))

    async def _put(
        self, cursor: Cursor, made: Sequence[IndexedObject], entries: Sequence[IndexEntry | SkippedObject | None]
    ) -> None:
        """Store entries. If the database refuses them, bisect to the one that it refuses, and skip that."""
        try:
            await self._database.run(rows.put_words, cursor, made, entries)
            return
        except _AWAY:
            raise
        except Exception as error:
            if len(made) == 1:
                await self._database.run(rows.put_words, cursor, made, [_skip(made[0], error)])
                return
        half = len(made) // 2
        await self._put(cursor, made[:half], entries[:half])
        await self._put(attrs.evolve(cursor, position=made[half - 1].position), made[half:], entries[half:])

    async def _take_vectors(self, embedder: Embedder, work: IndexWork) -> None:
        lacking = dict(zip(work.made, work.passages, strict=True))
        needed = [each for each, wanted in lacking.items() if wanted]
        texts = self._texts if all(each in self._texts for each in needed) else await self._read(needed)
        taken = dict(itertools.takewhile(lambda item: not item[1] or item[0] in texts, lacking.items()))
        try:
            await self._embed(embedder, taken, texts)
        except _AWAY:
            raise
        except Exception:
            for each, wanted in taken.items():
                await self._embed_alone(embedder, each, wanted, texts)
        await self._database.run(rows.move, work.cursor, [*taken][-1])
        self._report(len(taken))

    async def _embed_alone(
        self, embedder: Embedder, each: IndexedObject, wanted: Mapping[bytes, Passage], texts: "_Texts"
    ) -> None:
        """Embed one object, or report that it cannot be embedded."""
        try:
            await self._embed(embedder, {each: wanted}, texts)
        except _AWAY:
            raise
        except Exception as error:
            await embedder.embed([PROBE])  # if this fails too, no object is the cause
            log.warning(
                "object %s of session %s can be searched by words only: %s", each.object, each.stream, _why(error)
            )

    async def _embed(
        self, embedder: Embedder, taken: Mapping[IndexedObject, Mapping[bytes, Passage]], texts: "_Texts"
    ) -> None:
        """Store vectors of passages, which may be forgotten in the meantime."""
        pieces = [
            ((each.stream, hash_), read.text[passage.start : passage.end] or read.created.stub)
            for each, wanted in taken.items()
            if wanted
            for read in (_check_read(texts[each]),)
            for hash_, passage in wanted.items()
        ]
        at_once = embedder.texts_at_once * self._threads()
        for start in range(0, len(pieces), at_once):
            part = dict(pieces[start : start + at_once])
            vectors = await embedder.embed(list(part.values()))
            await self._database.run(rows.put_vectors, embedder.name, dict(zip(part, vectors, strict=True)))
            self.embedded += len(vectors)

    async def _read(self, made: Sequence[IndexedObject]) -> "_Texts":
        """The texts of objects, or errors; only of the first objects if all are too large together."""
        created = await self._read_by_session(made, self._pick)
        portion: list[IndexedObject] = []
        size = 0
        for each in made:
            event = created[each]
            size += event.size if isinstance(event, ObjectCreated) else 0
            if portion and size > MOST_TOGETHER:
                break
            portion.append(each)

        async def read(stream: UUID, some: Sequence[IndexedObject]) -> Mapping[IndexedObject, _ObjectText]:
            return await self._assemble(stream, {each: _check_read(created[each]) for each in some})

        return await self._read_by_session(portion, read)

    async def _read_by_session(
        self,
        made: Sequence[IndexedObject],
        read: Callable[[UUID, Sequence[IndexedObject]], Awaitable[Mapping[IndexedObject, Result]]],
    ) -> dict[IndexedObject, Result | Exception]:
        """Read objects, all of a session together; after an error, bisect to the object that causes it."""
        waiting: dict[UUID, list[IndexedObject]] = {}
        for each in made:
            waiting.setdefault(each.stream, []).append(each)
        found: dict[IndexedObject, Result | Exception] = {}
        for stream, all_of_it in waiting.items():
            portions = [all_of_it]
            while portions:
                some = portions.pop()
                try:
                    found |= await read(stream, some)
                except _AWAY:
                    raise
                except Exception as error:
                    half = len(some) // 2
                    if half:
                        portions += [some[half:], some[:half]]
                    else:
                        found[some[0]] = error
        return found

    async def _pick(self, stream: UUID, made: Sequence[IndexedObject]) -> Mapping[IndexedObject, ObjectCreated]:
        recorded = await self._events.pick(stream, [each.version for each in made])
        events = {each.version: each.envelope.event for each in recorded}
        return {each: _check_created(each, events.get(each.version)) for each in made}

    async def _assemble(
        self, stream: UUID, created: Mapping[IndexedObject, ObjectCreated]
    ) -> Mapping[IndexedObject, "_ObjectText"]:
        pieces = {each: recipe.apply(Recipe(), recipe.decode(event.content)).pieces for each, event in created.items()}
        digests = sorted({digest for each in pieces.values() for digest in digests_in(each)})
        found = await self._contents.fetch(stream, digests)
        contents = {each: recipe.assemble(pieces[each], found.__getitem__) for each in created}
        return await self._in_thread(
            lambda: {
                each: _ObjectText(
                    event, text_in_index(event, contents[each]), min(digests_in(pieces[each]), default=None)
                )
                for each, event in created.items()
            }
        )

    async def _in_thread(self, work: Callable[[], Result]) -> Result:
        return await trio.to_thread.run_sync(work, limiter=self._thread)


@attrs.frozen
class _ObjectText:
    """An object's event, its text, and the digest of one of its contents."""

    created: ObjectCreated
    text: str
    digest: bytes | None


_Texts = Mapping[IndexedObject, _ObjectText | Exception]
"""The texts of objects, or the errors of those that cannot be read."""


def _check_read(read: Result | Exception) -> Result:
    if isinstance(read, Exception):
        raise read
    return read


def _check_created(made: IndexedObject, event: object) -> ObjectCreated:
    if not isinstance(event, ObjectCreated):
        raise LogFailed(f"the log has no event that created it at version {made.version}")
    return event


def _entry(made: IndexedObject, read: "_ObjectText | Exception | None") -> IndexEntry | SkippedObject | None:
    if read is None:
        return None
    if isinstance(read, Exception):
        return _skip(made, read)
    try:
        return IndexEntry(
            kind=read.created.kind,
            tags=read.created.tags,
            turns=(read.created.first_turn, read.created.last_turn),
            cuts=cut(made.stream, read.text, read.created.stub),
            digest=read.digest,
        )
    except Exception as error:
        return _skip(made, error)


def _skip(made: IndexedObject, error: Exception) -> SkippedObject:
    log.warning("object %s of session %s cannot be searched: %s", made.object, made.stream, _why(error))
    return SkippedObject(_why(error))


def _why(error: Exception) -> str:
    """Only our own messages surely quote nothing of the object."""
    return str(error) if isinstance(error, MnemosyneError) else f"it cannot be read ({type(error).__name__})"
