"""Answers the calls of memory tools from what the session remembers. Nothing here asks a model.

A result is words of the session's own objects; it is recorded with the round that asked for it, and sent again to the
byte for ever. What was restored stands in that result, at the end of the window, and nowhere else.
"""

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import zip_longest
from typing import TypeVar, assert_never

import attrs
import trio

from mnemosyne.actors.bodies import Bodies
from mnemosyne.actors.outside import Outside
from mnemosyne.domain.cost.tokens import features_of_text
from mnemosyne.domain.objects import memory
from mnemosyne.domain.objects.aggregate import MemoryObject, find_saying, is_claim, is_episode, is_searched, parts_of
from mnemosyne.domain.objects.events import ObjectEvent
from mnemosyne.domain.objects.faults import LIMITS, Spent
from mnemosyne.domain.objects.fidelity import Fidelity
from mnemosyne.domain.objects.full_text import full_text
from mnemosyne.domain.objects.ids import MARK
from mnemosyne.domain.objects.memory import Memory
from mnemosyne.domain.objects.protection import Now
from mnemosyne.domain.objects.residency import stands_in_full
from mnemosyne.domain.recall import memory_calls, memory_results, object_search, sources
from mnemosyne.domain.recall.answering import LEAST_HELD, answers
from mnemosyne.domain.recall.candidates import list_texts, may_answer, parts_of_text
from mnemosyne.domain.recall.choosing import SearchedText
from mnemosyne.domain.recall.memory_results import MemoryHit
from mnemosyne.domain.recall.quoting import MOST_LOOKED_AT, Quotable, Where
from mnemosyne.domain.recall.related import find_related
from mnemosyne.domain.session.address import Address
from mnemosyne.domain.session.events import Event
from mnemosyne.domain.session.state import Session
from mnemosyne.domain.text.parts import TextPart, join
from mnemosyne.domain.tools import tool_paging
from mnemosyne.domain.tools.memory_tools import (
    RECALLING,
    MemoryQuery,
    MemoryRelease,
    MemoryRestore,
    MemorySearch,
    MemoryTool,
    RefusedCall,
    parse,
)
from mnemosyne.domain.window import upstream_history
from mnemosyne.domain.wire.reply import HiddenCall
from mnemosyne.errors import ContentForgotten, ContentMissing, LogFailed

log = logging.getLogger(__name__)

Result = TypeVar("Result")

MOST_COMPARED = 2_000_000
"""Bytes of objects, the newest, whose words are compared where the index does not: that takes a second of a thread, and
as long as it takes on a machine that is busy. An answer is bounded by its work; time bounds only what others owe us.
"""

LARGE = 100_000
"""Bytes of content from which on reading it is worth a thread."""

MOST_QUOTED = 32_000_000
"""Bytes of objects that one answer quotes from: as much as the provider takes in one request."""


@attrs.frozen(kw_only=True)
class Answers:
    """The ``tool_result`` block of each call by its id, what answering changed, and what the model has had back in its
    turn by then.
    """

    results: Mapping[str, bytes] = attrs.field(factory=dict)
    events: tuple[Event, ...] = ()
    spent: Spent = attrs.field(factory=Spent)


class FromMemory:
    """Answers from a session's objects. The words of what the index of objects does not have yet, or of all where it
    does not answer, are compared here.
    """

    def __init__(self, bodies: Bodies, outside: Outside) -> None:
        self._bodies = bodies
        self._outside = outside

    async def answer(
        self,
        state: Session,
        address: Address,
        calls: Sequence[HiddenCall],
        at: int,
        spent: Spent,
        room: int | None = None,
        tools: bytes = b"",
        *,
        strict: bool = False,
    ) -> Answers:
        """Answer the calls of one round, each in view of those before it. None fails: what cannot be done, or not be
        read in time, is said.

        ``spent`` is what the model has had back in this turn so far. ``room`` is how many tokens the prompt may still
        grow by; None where that is not known. ``tools`` is the array of the client's own, where some of them are paged.
        ``strict`` says that the model is told to keep to the records.
        """
        asking = _Asking(state, address, at, spent, room, tools)
        results: dict[str, bytes] = {}
        for call in calls:
            said = await self._say_safely(call, asking)
            refused = isinstance(said, RefusedCall)
            text = said.text if isinstance(said, RefusedCall) else said
            if strict and call.name in RECALLING and not refused:
                text = memory_results.strictly(text)
            results[call.id] = upstream_history.result_block(call.id, text, is_error=refused)
        return Answers(results=results, events=tuple(asking.events), spent=asking.spent)

    async def _say_safely(self, call: HiddenCall, asking: "_Asking") -> str | RefusedCall:
        try:
            said = await self._outside.call_in_time(call.id, lambda: self._say(call, asking))
        except (ContentForgotten, LogFailed) as error:
            log.warning("a call of %s got no answer: %s", call.name, error)
            return RefusedCall("What is remembered of this cannot be read now. Look at the source itself.")
        except Exception:
            log.exception("a call of %s got no answer", call.name)
            return RefusedCall(memory_results.NOT_NOW)
        if said is None:
            seconds = self._outside.patience.contents
            log.warning("a call of %s got no answer: the log takes longer than %g s", call.name, seconds)
            return RefusedCall(memory_results.NOT_NOW)
        return said

    async def _say(self, call: HiddenCall, asking: "_Asking") -> str | RefusedCall:
        asked = parse(call.name, call.input_json)
        if isinstance(asked, MemoryQuery | MemoryRestore | MemorySearch) and asking.lacks_nothing:
            return memory_results.ALL_SHOWN
        match asked:
            case RefusedCall():
                return asked
            case MemoryQuery():
                return await self._query(asked, asking)
            case MemoryRestore():
                return await self._restore(asked, asking)
            case MemoryRelease():
                return self._release(asked, asking)
            case MemorySearch():
                return await self._search(asked, asking)
            case MemoryTool():
                return self._definition(asked, asking)
            case _:
                assert_never(asked)

    async def _query(self, call: MemoryQuery, asking: "_Asking") -> str | RefusedCall:
        most = memory_calls.answer_tokens(call, asking.spent, asking.limits)
        if isinstance(most, RefusedCall):
            return most
        began = trio.current_time()
        among, words = self._scope(call, asking)
        alone = call.scope is not None and len(among) == 1  # what is named is quoted, however far off
        texts = await self._texts_for(words, among, asking, alone=alone)
        least = 0.0 if alone else LEAST_HELD
        quotes = await _in_thread(lambda: answers(words, texts, most, asking.tokens, least))
        cited = [(asking.holder(quote.object_id), tokens) for quote, tokens in quotes]
        tokens = sum(each for _, each in cited)
        if cited:
            asking.spent = asking.spent.after(tokens)
        asking.add(
            memory_calls.answer(
                asking.memory,
                asking.branch,
                call,
                cited,
                asking.eviction_turns,
                at=asking.at,
                turn=asking.turn,
                latency=_microseconds(began),
            )
        )
        told = [quote for quote, _ in quotes]
        outside = object_search.count_outside(among.values())
        return memory_results.answer_text(
            told, asking.memory, asking.branch, tokens, asking.spent, asking.limits, outside
        )

    async def _texts_for(
        self, words: str, among: Mapping[str, MemoryObject], asking: "_Asking", *, alone: bool
    ) -> list[SearchedText]:
        """What is compared with a question; where an object stands ``alone``, that whatever is asked."""
        found = await self._places(words, among, asking)
        ids = list(among) if alone else await _in_thread(lambda: may_answer(words, found, asking.in_order(among)))
        said = await self._read_texts([among[key] for key in ids], MOST_QUOTED)
        return list_texts(said, found, among, asking.sees)

    def _scope(self, call: MemoryQuery, asking: "_Asking") -> tuple[Mapping[str, MemoryObject], str]:
        """Where to look, and for which words."""
        among = {**asking.own, **asking.claims}
        if call.scope is None:
            return among, call.question
        meant = {key for key in {**among, **asking.episodes} if MARK + key in call.scope or key == call.scope}
        meant.update(part for key in meant & asking.episodes.keys() for part in parts_of(asking.episodes[key]))
        named = {key: each for key, each in among.items() if key in meant}
        return (named, call.question) if named else (among, f"{call.question} {call.scope}")

    async def _restore(self, call: MemoryRestore, asking: "_Asking") -> str | RefusedCall:
        restore = memory_calls.restore(asking.memory, asking.branch, call, asking.spent, asking.limits)
        if isinstance(restore, RefusedCall):
            return restore
        began = trio.current_time()
        content = await self._text(restore.object, restore.after)
        asking.spent = asking.spent.after(restore.tokens)
        events = restore.events(
            asking.memory,
            at=asking.at,
            branch=asking.branch,
            turn=asking.turn,
            left=asking.eviction_turns.find_turn(asking.branch, restore.object.id),
            latency=_microseconds(began),
        )
        asking.add(events)
        more = find_related(restore.object, asking.memory, asking.branch)
        return memory_results.render_restored(
            restore, asking.memory, asking.turn, content, asking.spent, asking.limits, more
        )

    def _release(self, call: MemoryRelease, asking: "_Asking") -> str:
        release = memory_calls.release(asking.memory, asking.branch, asking.now, call)
        asking.add(release.events(asking.memory, at=asking.at, branch=asking.branch, turn=asking.turn))
        return memory_results.render_released(release)

    def _definition(self, call: MemoryTool, asking: "_Asking") -> str | RefusedCall:
        found = memory_calls.definition(tool_paging.definitions(asking.tools), call, asking.spent, asking.limits)
        if isinstance(found, RefusedCall):
            return found
        asking.spent = attrs.evolve(asking.spent, tokens=asking.spent.tokens + found.tokens)
        return memory_results.definition_text(found, asking.spent, asking.limits)

    async def _search(self, call: MemorySearch, asking: "_Asking") -> str:
        within = {**asking.own, **asking.episodes}
        among = {key: each for key, each in within.items() if call.kind in (None, each.kind)}
        found = [where.object_id for where in await self._places(call.query, among, asking)]
        best = sources.add_named(asking.find_named(call.query, among), found, among)
        shown = asking.memory.view_of(asking.branch)
        return memory_results.search_text(
            [MemoryHit(among[key], shown.fidelity_of(key)) for key in best[: call.limit]],
            object_search.count_outside(among.values()),
        )

    # Where objects say something

    async def _places(self, query: str, among: Mapping[str, MemoryObject], asking: "_Asking") -> list[Where]:
        """Passages of some objects that say most about a query, best first."""
        newest_first = [among[key] for key in reversed([*asking.memory.objects]) if key in among]
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
        return await _in_thread(lambda: quotable.places(query))

    # What objects say

    async def _quotable(self, objects: Iterable[MemoryObject], most: int) -> Quotable:
        """The texts of what ``_read_texts`` tells."""
        return Quotable({key: join(parts) for key, parts in (await self._read_texts(objects, most)).items()})

    async def _read_texts(self, objects: Iterable[MemoryObject], most: int) -> Mapping[str, tuple[TextPart, ...]]:
        """What objects say, as many of them as have no more than ``most`` bytes together; what cannot be read says
        nothing.
        """
        chosen: list[MemoryObject] = []
        for each in objects:
            if each.size <= most:
                chosen.append(each)
                most -= each.size
        contents = await self._contents([each for each in chosen if each.places])
        return await _in_thread(lambda: _parts(chosen, contents))

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

    async def _text(self, each: MemoryObject, fidelity: Fidelity) -> str:
        if not each.places:
            return each.stub
        with trio.fail_after(self._outside.patience.contents):
            if fidelity is not Fidelity.FULL:
                return (await self._bodies.content(each.renditions[fidelity].text)).decode()
            content = await self._bodies.read_stored(each.content)
        return full_text(content) if len(content) < LARGE else await _in_thread(lambda: full_text(content))


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


async def _in_thread(work: Callable[[], Result]) -> Result:
    return await trio.to_thread.run_sync(work)


def now_of(state: Session, address: Address) -> Now:
    """Where the conversation stands for what the model wants done in a turn."""
    shown = state.memory.view_of(address.branch)
    return Now(
        turn=address.turn,
        message_count=state.branches[address.branch].counts[-1],
        exchange_first_message=shown.typed[-1] if shown.typed else 0,
        last_user_messages=shown.typed,
    )


class _Asking:
    """One round of calls: each sees what those before it changed."""

    def __init__(self, state: Session, address: Address, at: int, spent: Spent, room: int | None, tools: bytes) -> None:
        self.at = at
        self.branch = address.branch
        self.turn = address.turn
        self.spent = spent
        self.tools = tools
        self.limits = LIMITS if room is None else LIMITS.within(spent, room)
        messages = state.branches[address.branch].counts[: address.turn][-1]
        self.memory: Memory = memory.proven(state.memory, address.branch, messages)
        self.eviction_turns = state.eviction_turns
        self.events: list[ObjectEvent] = []
        self._estimator = state.memory.view_of(address.branch).estimator(None)
        self.now = now_of(state, address)

    @property
    def own(self) -> Mapping[str, MemoryObject]:
        """The objects within the branch's reach that can be shown."""
        standings = self.memory.within_reach(self.branch)
        return {each.id: each for each, _ in standings if each.places and not each.forgotten}

    @property
    def claims(self) -> Mapping[str, MemoryObject]:
        """The claims within the branch's reach: each a sentence of its own, which no long passage crowds out."""
        standings = self.memory.within_reach(self.branch)
        return {each.id: each for each, _ in standings if is_claim(each) and not each.forgotten}

    @property
    def episodes(self) -> Mapping[str, MemoryObject]:
        """The episodes within the branch's reach."""
        standings = self.memory.within_reach(self.branch)
        return {each.id: each for each, _ in standings if is_episode(each) and not each.forgotten}

    def find_named(self, question: str, among: Mapping[str, MemoryObject]) -> list[MemoryObject]:
        """The objects that a question names by where they are from, the newest first."""
        return sources.find_named(question, self.in_order(among).values())

    def in_order(self, among: Mapping[str, MemoryObject]) -> Mapping[str, MemoryObject]:
        """Objects in the order in which they were made."""
        return {key: among[key] for key in self.memory.objects if key in among}

    @property
    def lacks_nothing(self) -> bool:
        """Whether the model has everything before it."""
        return memory_calls.is_all_shown(self.memory, self.branch)

    def holder(self, object_id: str) -> str:
        """The object that takes room in the window: that in which a claim was said, any other object itself."""
        return find_saying(self.memory.objects[object_id]) or object_id

    def sees(self, object_id: str) -> bool:
        """Whether the model has it before it in full."""
        return stands_in_full(self.memory, self.branch, object_id)

    def tokens(self, text: str) -> int:
        """About how many tokens a text has."""
        return self._estimator.tokens(features_of_text(text))

    def add(self, events: Sequence[ObjectEvent]) -> None:
        """What a call changed."""
        for event in events:
            self.events.append(event)
            self.memory = memory.evolve(self.memory, event)


def _microseconds(began: float) -> int:
    return round((trio.current_time() - began) * 1e6)
