"""Answers the calls of memory tools from what the session remembers. Nothing here asks a model.

A result is words of the session's own objects; it is recorded with the round that asked for it, and sent again to the
byte for ever. What was restored stands in that result, at the end of the window, and nowhere else.
"""

import logging
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import assert_never

import attrs
import trio

from mnemosyne.actors.bodies import Bodies
from mnemosyne.domain import memory, memory_calls, memory_results, recipe, wire_history
from mnemosyne.domain.assembly import MARK
from mnemosyne.domain.eviction import Now
from mnemosyne.domain.faults import Spent
from mnemosyne.domain.fidelity import Fidelity
from mnemosyne.domain.full_text import full_text
from mnemosyne.domain.memory import Memory
from mnemosyne.domain.memory_object import MemoryObject, ObjectEvent
from mnemosyne.domain.memory_results import Found
from mnemosyne.domain.memory_tools import (
    MemoryQuery,
    MemoryRelease,
    MemoryRestore,
    MemorySearch,
    Refused,
    parse,
)
from mnemosyne.domain.object_search import PassageHit, SearchResult, is_searched
from mnemosyne.domain.quoting import MOST_LOOKED_AT, Quotable, Where
from mnemosyne.domain.recipe import Recipe
from mnemosyne.domain.reply import HiddenCall
from mnemosyne.domain.session import Address, Event, Session, SessionForgotten
from mnemosyne.domain.tokens import Estimator, features_of_text
from mnemosyne.errors import ContentForgotten, LogFailed

log = logging.getLogger(__name__)

INDEX_SECONDS = 0.5
"""How long an answer of the index is waited for."""

Find = Callable[[str, Collection[str], int], Awaitable[SearchResult]]
"""``ObjectIndex.search`` in one session."""


@attrs.frozen(kw_only=True)
class Answers:
    """The ``tool_result`` block of each call by its id, and what answering changed."""

    results: Mapping[str, bytes] = attrs.field(factory=dict)
    events: tuple[Event, ...] = ()


class FromMemory:
    """Answers from a session's objects. ``note`` tells it what happened. ``find`` asks the index of objects; without
    one, or while it does not answer, the objects are read and their words alone are compared.
    """

    def __init__(self, bodies: Bodies, find: Find | None = None) -> None:
        self._bodies = bodies
        self._find = find
        self._quotable = Quotable()
        self._spent: dict[Address, Spent] = {}

    def note(self, event: Event) -> None:
        """Let go of what was read once it is forgotten."""
        if isinstance(event, SessionForgotten):
            self._quotable.forget()

    def over(self, address: Address) -> None:
        """The turn is over."""
        self._spent.pop(address, None)

    async def answer(self, state: Session, address: Address, calls: Sequence[HiddenCall], at: int) -> Answers:
        """Answer the calls of one round, each in view of those before it. None fails: what cannot be done is said."""
        asking = _Asking(state, address, at, self._spent.get(address, Spent()))
        results: dict[str, bytes] = {}
        for call in calls:
            try:
                said = await self._say(call, asking)
            except (ContentForgotten, LogFailed) as error:
                log.warning("a call of %s got no answer: %s", call.name, error)
                said = Refused("What is remembered of this cannot be read now. Look at the source itself.")
            refused = isinstance(said, Refused)
            text = said.text if isinstance(said, Refused) else said
            results[call.id] = wire_history.result_block(call.id, text, is_error=refused)
        self._spent[address] = asking.spent
        return Answers(results=results, events=tuple(asking.events))

    async def _say(self, call: HiddenCall, asking: "_Asking") -> str | Refused:
        asked = parse(call.name, call.input_json)
        match asked:
            case Refused():
                return asked
            case MemoryQuery():
                return await self._query(asked, asking)
            case MemoryRestore():
                return await self._restore(asked, asking)
            case MemoryRelease():
                return self._release(asked, asking)
            case MemorySearch():
                return await self._search(asked, asking)
            case _:
                assert_never(asked)

    async def _query(self, call: MemoryQuery, asking: "_Asking") -> str | Refused:
        most = memory_calls.answer_tokens(call, asking.spent)
        if isinstance(most, Refused):
            return most
        began = trio.current_time()
        among, words = self._scope(call, asking)
        hits = await self._found(words, among, MOST_LOOKED_AT)
        await self._read(among if hits is None else {hit.object: among[hit.object] for hit in hits})
        if hits is None:
            quotes = self._quotable.quotes(words, among.keys(), most, asking.tokens)
        else:
            places = [Where(hit.object, hit.passage.start, hit.passage.end) for hit in hits]
            quotes = self._quotable.quotes_at(words, places, most, asking.tokens)
        if quotes:
            asking.spent = asking.spent.after(sum(tokens for _, tokens in quotes))
        asking.add(
            memory_calls.answered(
                asking.memory,
                asking.branch,
                call,
                [(quote.object_id, tokens) for quote, tokens in quotes],
                asking.departures,
                at=asking.at,
                turn=asking.turn,
                latency=_microseconds(began),
            )
        )
        tokens = sum(tokens for _, tokens in quotes)
        return memory_results.answer_text([quote for quote, _ in quotes], tokens, asking.spent)

    def _scope(self, call: MemoryQuery, asking: "_Asking") -> tuple[Mapping[str, MemoryObject], str]:
        """Where to look, and for which words."""
        if call.scope is None:
            return asking.own, call.question
        named = {key: each for key, each in asking.own.items() if MARK + key in call.scope or key == call.scope}
        return (named, call.question) if named else (asking.own, f"{call.question} {call.scope}")

    async def _restore(self, call: MemoryRestore, asking: "_Asking") -> str | Refused:
        restore = memory_calls.restore(asking.memory, asking.branch, call, asking.spent)
        if isinstance(restore, Refused):
            return restore
        began = trio.current_time()
        content = await self._text(restore.object, restore.after)
        asking.spent = asking.spent.after(restore.tokens)
        events = restore.events(
            at=asking.at,
            branch=asking.branch,
            turn=asking.turn,
            left=asking.departures.left(asking.branch, restore.object.id),
            latency=_microseconds(began),
        )
        asking.add(events)
        return memory_results.restored_text(restore, events[0], content, asking.spent)

    def _release(self, call: MemoryRelease, asking: "_Asking") -> str:
        release = memory_calls.release(asking.memory, asking.branch, asking.now, call)
        asking.add(release.events(at=asking.at, branch=asking.branch, turn=asking.turn))
        return memory_results.released_text(release)

    async def _search(self, call: MemorySearch, asking: "_Asking") -> str:
        among = {key: each for key, each in asking.own.items() if call.kind in (None, each.kind)}
        hits = await self._found(call.query, among, call.limit)
        if hits is None:
            await self._read(among)
            best = self._quotable.best(call.query, among.keys(), call.limit)
        else:
            best = [hit.object for hit in hits]
        shown = asking.memory.shown(asking.branch)
        return memory_results.search_text([Found(among[key], shown.fidelity_of(key)) for key in best])

    async def _found(self, query: str, among: Mapping[str, MemoryObject], limit: int) -> Sequence[PassageHit] | None:
        """What the index finds among some objects; None where it cannot tell, or not in time."""
        searched = [key for key, each in among.items() if is_searched(each)]
        if self._find is None or not searched:
            return None
        with trio.move_on_after(INDEX_SECONDS):
            try:
                found = await self._find(query, searched, limit)
            except LogFailed as error:
                log.info("the index of objects cannot be asked: %s", error)
                return None
            return found.hits if found.missing == 0 else None
        log.info("the index of objects gave no answer within %g s", INDEX_SECONDS)
        return None

    # What objects say

    async def _read(self, objects: Mapping[str, MemoryObject]) -> None:
        for key in self._quotable.missing(objects.keys()):
            self._quotable.add(key, await self._text(objects[key], Fidelity.FULL))

    async def _text(self, each: MemoryObject, fidelity: Fidelity) -> str:
        if fidelity is Fidelity.FULL:
            content = await self._bodies.assembled(recipe.apply(Recipe(), recipe.decode(each.content)))
            return full_text(content)
        return (await self._bodies.content(each.renditions[fidelity].text)).decode()


class _Asking:
    """One round of calls: each sees what those before it changed."""

    def __init__(self, state: Session, address: Address, at: int, spent: Spent) -> None:
        self.at = at
        self.branch = address.branch
        self.turn = address.turn
        self.spent = spent
        self.memory: Memory = state.memory
        self.departures = state.departures
        self.events: list[ObjectEvent] = []
        self._estimator = state.memory.shown(address.branch).measure.estimator or Estimator.of(None)
        shown = state.memory.shown(address.branch)
        self.now = Now(
            turn=address.turn,
            message_count=state.branches[address.branch].counts[-1],
            exchange_first_message=shown.typed[-1] if shown.typed else 0,
            last_user_messages=shown.typed,
        )

    @property
    def own(self) -> Mapping[str, MemoryObject]:
        """The objects within the branch's reach that can be shown."""
        standings = self.memory.within_reach(self.branch)
        return {each.id: each for each, _ in standings if each.places and not each.forgotten}

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
