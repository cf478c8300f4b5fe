"""Brings what the user's message needs of memory, before the model asks: looks, fetches, and puts it behind the
message.

The request waits ``Patience.bringing`` and hardly longer; whatever fails, it goes without. What was put there is sent
again to the byte until the next epoch, which renders the user's message as the client has it.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

import trio

from mnemosyne.actors.bodies import Bodies
from mnemosyne.actors.outside import Outside
from mnemosyne.domain.objects.decide import decide_all
from mnemosyne.domain.objects.fidelity import Fidelity
from mnemosyne.domain.recall import prefetch
from mnemosyne.domain.recall.prefetch import Wanted
from mnemosyne.domain.recall.prefetch_steps import Asking, Prefetched, Search, grow, make_search
from mnemosyne.domain.session.events import BranchKind, Event, TurnBegan
from mnemosyne.domain.session.ground_events import Awaited
from mnemosyne.domain.session.state import Session
from mnemosyne.domain.summaries.forms import Extract, extract
from mnemosyne.domain.text.passages import Passage
from mnemosyne.domain.window.upstream_history import UpstreamHistory
from mnemosyne.domain.wire.transcript import Transcript
from mnemosyne.errors import ContentForgotten, LogFailed

log = logging.getLogger(__name__)

Done = TypeVar("Done")

LARGEST = 200_000
"""Bytes of an object whose words are compared, where the index does not say what of it to quote: a tenth of a second of
a thread.
"""

SMALL, FEW = 16_000, 100
"""Bytes of a request, and objects, below which it takes no more than a few ms to see whether anything is to be brought.
"""

_NEVER = frozenset({BranchKind.SIDE, BranchKind.COMPACTION, BranchKind.OPAQUE})


class Prefetch:
    """Brings for the branches of one session."""

    def __init__(self, bodies: Bodies, outside: Outside) -> None:
        self._bodies = bodies
        self._outside = outside

    async def bring(
        self,
        state: Session,
        events: Sequence[Event],
        at: int,
        began: TurnBegan,
        read: Transcript,
        history: UpstreamHistory,
        *,
        strict: bool,
    ) -> Prefetched:
        """The history with what is brought for it; as it was where there is nothing to bring, or no time for it.

        ``events`` are those that precede the request, not yet in the ``state``. ``strict`` as in ``FromMemory``.
        """
        branch = state.branches[began.branch]
        if began.attempt > 1 or began.turn < branch.turns or branch.kind in _NEVER:
            return Prefetched(history=history)
        asking = Asking(at=at, began=began, read=read, history=history, state=state)
        until = trio.current_time() + self._outside.patience.bringing
        known: tuple[Event, ...] = ()
        brought: Prefetched | None = None
        try:
            search = await self._outside.in_time(Awaited.GOAL, until, lambda: _make_search(asking, events))
            if search is not None:
                known = search.events
                if search.why is None:
                    return Prefetched(history=history, events=known)
                found = search
                brought = await self._outside.in_time(
                    Awaited.BRINGING, until, lambda: self._bring(found, strict=strict)
                )
        except (ContentForgotten, LogFailed) as error:
            self._outside.note_late(Awaited.BRINGING)
            log.warning("what memory would bring for turn %d of branch %s: %s", began.turn, began.branch, error)
        except Exception:
            log.exception("turn %d of branch %s goes on without what memory could bring", began.turn, began.branch)
            return Prefetched(history=history, events=known)
        if brought is None:
            log.info("turn %d of branch %s goes on without what memory could bring", began.turn, began.branch)
        return brought or Prefetched(history=history, events=known)

    async def _bring(self, search: Search, *, strict: bool) -> Prefetched:
        wanted = search.wanted or await self._choose(search)
        contents = [(each, await self._content(each)) for each in wanted]
        return await _in_thread(lambda: _grow(search, contents, strict=strict))

    async def _choose(self, search: Search) -> Sequence[Wanted]:
        """What to bring of the objects among which to look."""
        found = await self._find(search)
        return prefetch.choose(search.asking.state.memory, search.asking.branch, found, search.among)

    async def _find(self, search: Search) -> Mapping[str, Passage | None]:
        """What the message is about; by words alone where the index does not answer."""
        seconds = self._outside.patience.bringing_index
        result = await self._outside.search(search.question, list(search.among), prefetch.ENOUGH, seconds)
        if result is not None and not result.missing:
            return {hit.object: hit.passage for hit in result.hits}
        return dict.fromkeys(await _in_thread(lambda: prefetch.by_words(search.question, search.among)))

    async def _content(self, wanted: Wanted) -> bytes:
        """What is brought of an object, or what it is a passage of; nothing where that need not be fetched."""
        each = wanted.object
        if wanted.after is Fidelity.FULL:
            return await self._bodies.read_stored(each.content)
        if wanted.after is not None and wanted.after in each.renditions:
            return await self._bodies.content(each.renditions[wanted.after].text)
        if wanted.after is not None:
            return await self._bodies.read_stored(each.content)
        if wanted.is_claim or (wanted.passage is None and each.size > LARGEST):
            return b""
        return await self._bodies.read_stored(each.content)


def _grow(search: Search, contents: Sequence[tuple[Wanted, bytes]], *, strict: bool) -> Prefetched:
    """See ``grow``. An L1 that is shown and not made yet is made of the content."""
    asking = search.asking
    made: list[Extract] = []
    shown: list[tuple[Wanted, bytes]] = []
    for wanted, content in contents:
        if wanted.after is Fidelity.DETAILED and wanted.after not in wanted.object.renditions:
            each = asking.state.memory.objects[wanted.object.id]
            form = extract(each, asking.state.memory, content, asking.at)
            if form is not None:
                made.append(form)
                shown.append((wanted, form.text.encode()))
        else:
            shown.append((wanted, content))
    events, _ = decide_all((form.command for form in made), asking.state.memory)
    grown = grow(search, shown, strict=strict)
    return Prefetched(
        history=grown.history, events=(*events, *grown.events), contents=tuple(form.content for form in made)
    )


async def _make_search(asking: Asking, events: Sequence[Event]) -> Search:
    # Another process may write to the session while we wait for a thread, and then all is decided anew.
    return make_search(asking, events) if _is_small(asking) else await _in_thread(lambda: make_search(asking, events))


def _is_small(asking: Asking) -> bool:
    shown = asking.state.memory.view_of(asking.branch)
    return len(asking.read.raw) < SMALL and len(shown.objects) + len(shown.before) < FEW


async def _in_thread(work: Callable[[], Done]) -> Done:
    """What a thread makes of values that never change, so that it can be left to itself."""
    return await trio.to_thread.run_sync(work, abandon_on_cancel=True)
