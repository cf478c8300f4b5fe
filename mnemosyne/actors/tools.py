"""Answers the calls of memory tools from what the session remembers. Nothing here asks a model; what one was asked
before, and said, is told with the words that it rests on.

A result is words of the session's own objects; it is recorded with the round that asked for it, and sent again to the
byte for ever. What was restored stands in that result, at the end of the window, and nowhere else.
"""

import logging
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import assert_never

import attrs
import trio

from mnemosyne.actors.actor_services import ActorServices
from mnemosyne.actors.bodies import Bodies
from mnemosyne.actors.texts import ObjectTexts, in_thread
from mnemosyne.domain.cost.tokens import features_of_block, features_of_text
from mnemosyne.domain.objects import memory
from mnemosyne.domain.objects.aggregate import MemoryObject, is_episode, parts_of
from mnemosyne.domain.objects.decide import decide_all
from mnemosyne.domain.objects.events import ObjectEvent
from mnemosyne.domain.objects.faults import LIMITS, Spent
from mnemosyne.domain.objects.fidelity import Fidelity
from mnemosyne.domain.objects.ids import MARK
from mnemosyne.domain.objects.kinds import UNCHANGED
from mnemosyne.domain.objects.memory import Memory
from mnemosyne.domain.recall import memory_calls, memory_results, object_search, sources
from mnemosyne.domain.recall.answering import LEAST_HELD, answers
from mnemosyne.domain.recall.candidates import list_texts, may_answer
from mnemosyne.domain.recall.choosing import SearchedText
from mnemosyne.domain.recall.composing import PASSAGE_TOKENS, HelperQuestion, question_for, quote_sentences
from mnemosyne.domain.recall.memory_calls import AttachedSize, GrantedRestore
from mnemosyne.domain.recall.memory_results import MemoryHit, Quote
from mnemosyne.domain.recall.related import find_related
from mnemosyne.domain.session.address import Address
from mnemosyne.domain.session.counted_sizes import Scales, size_object
from mnemosyne.domain.session.decision_inputs import HelperAnswer
from mnemosyne.domain.session.events import Event
from mnemosyne.domain.session.state import Session
from mnemosyne.domain.summaries.forms import Extract
from mnemosyne.domain.text.parts import join
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
from mnemosyne.domain.wire.blocks import Block, type_of
from mnemosyne.domain.wire.dialects import dialect_of
from mnemosyne.domain.wire.reply import HiddenCall
from mnemosyne.errors import ContentForgotten, LogFailed

log = logging.getLogger(__name__)

MOST_QUOTED = 32_000_000
"""Bytes of objects that one answer quotes from: as much as the provider takes in one request."""


NOT_HELPED: Mapping[str, HelperAnswer] = {}
"""What a round has whose questions no helper was asked."""


@attrs.frozen(kw_only=True)
class Answers:
    """The result of each call by its id (``Dialect.write_result``), what answering changed, with the contents that this
    names, and what the model has had back in its turn by then. ``helped`` is what was told of a helper's answers, by
    the call.
    """

    results: Mapping[str, bytes] = attrs.field(factory=dict)
    helped: Mapping[str, HelperAnswer] = attrs.field(factory=dict)
    events: tuple[Event, ...] = ()
    spent: Spent = attrs.field(factory=Spent)
    contents: tuple[tuple[bytes, bytes], ...] = attrs.field(default=(), repr=False)


@attrs.frozen
class _Shown:
    """What an object says, with the images and documents that belong to it."""

    text: str
    attached: Sequence[Block]


class FromMemory:
    """Answers from a session's objects."""

    def __init__(self, bodies: Bodies, outside: ActorServices) -> None:
        self._texts = ObjectTexts(bodies, outside)
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
        helped: Mapping[str, HelperAnswer] = NOT_HELPED,
    ) -> Answers:
        """Answer the calls of one round, each in view of those before it. None fails: what cannot be done, or not be
        read in time, is said.

        ``spent`` is what the model has had back in this turn so far. ``room`` is how many tokens the prompt may still
        grow by; None where that is not known. ``tools`` is the array of the client's own, where some of them are paged.
        ``strict`` says that the model is told to keep to the records. ``helped`` is what a helper model made of
        questions before, by their calls.
        """
        dialect = dialect_of(state.branches[address.branch].lane)
        asking = _Asking(state, address, at, spent, room, tools, helped, attaches=dialect.attaches)
        results: dict[str, bytes] = {}
        for call in calls:
            said = await self._say_safely(call, asking)
            refused = isinstance(said, RefusedCall)
            text = said if isinstance(said, str) else said.text
            if strict and call.name in RECALLING and not refused:
                text = memory_results.strictly(text)
            attached = said.attached if isinstance(said, _Shown) else ()
            results[call.id] = dialect.write_result(call.id, text, refused, attached)
        return Answers(
            results=results,
            events=tuple(asking.events),
            spent=asking.spent,
            helped=asking.helped,
            contents=tuple(asking.contents),
        )

    async def find_passages(
        self, state: Session, address: Address, calls: Sequence[HiddenCall], at: int, spent: Spent
    ) -> Mapping[str, HelperQuestion]:
        """What a helper model may answer the questions among some calls from, by their ids; none where nothing is
        found. Nothing changes by it.
        """
        asking = _Asking(state, address, at, spent)
        found: dict[str, HelperQuestion] = {}
        for call in calls:
            asked = parse(call.name, call.input_json)
            if isinstance(asked, MemoryQuery) and not asking.lacks_nothing:
                quotes = await self._find_safely(call, asked, asking)
                if quotes:
                    found[call.id] = question_for(asked.question, [quote for quote, _ in quotes], asking.memory.objects)
        return found

    async def _find_safely(self, call: HiddenCall, asked: MemoryQuery, asking: "_Asking") -> list[tuple[Quote, int]]:
        try:
            return await self._outside.call_in_time(call.id, lambda: self._quote(asked, PASSAGE_TOKENS, asking)) or []
        except (ContentForgotten, LogFailed) as error:
            log.info("a helper is not asked for a call of %s: %s", call.name, error)
            return []

    async def _say_safely(self, call: HiddenCall, asking: "_Asking") -> str | _Shown | RefusedCall:
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

    async def _say(self, call: HiddenCall, asking: "_Asking") -> str | _Shown | RefusedCall:
        asked = parse(call.name, call.input_json)
        if isinstance(asked, MemoryQuery | MemoryRestore | MemorySearch) and asking.lacks_nothing:
            return memory_results.ALL_SHOWN
        match asked:
            case RefusedCall():
                return asked
            case MemoryQuery():
                return await self._query(call.id, asked, asking)
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

    async def _query(self, id_: str, call: MemoryQuery, asking: "_Asking") -> str | RefusedCall:
        most = memory_calls.answer_tokens(call, asking.spent, asking.limits)
        if isinstance(most, RefusedCall):
            return most
        began = trio.current_time()
        sentences, quotes = await self._quote_helper(id_, most, asking)
        quotes = quotes or await self._quote(call, most, asking)
        cited = [(quote.object_id, tokens) for quote, tokens in quotes]
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
        among, _ = self._scope(call, asking)
        outside = object_search.count_unindexed(among.values())
        told = [quote for quote, _ in quotes]
        return memory_results.answer_text(
            told, asking.memory, asking.branch, tokens, asking.spent, asking.limits, outside, sentences
        )

    async def _quote(self, call: MemoryQuery, most: int, asking: "_Asking") -> list[tuple[Quote, int]]:
        """Quotes that answer a question, each with its tokens, together at most so many."""
        among, words = self._scope(call, asking)
        alone = call.scope is not None and len(among) == 1  # what is named is quoted, however far off
        texts = await self._texts_for(words, among, asking, alone=alone)
        least = 0.0 if alone else LEAST_HELD
        return await in_thread(lambda: answers(words, texts, most, asking.tokens, least))

    async def _quote_helper(
        self, id_: str, most: int, asking: "_Asking"
    ) -> tuple[Sequence[str], list[tuple[Quote, int]]]:
        """The sentences of a helper's answer to a call whose bytes are there, as many as there is room for, and the
        quotes of these bytes, each with the tokens of both. None where it has none.
        """
        helped = asking.helped.get(id_)
        if helped is None or not helped.sentences:
            return (), []
        among = asking.own
        cited = dict.fromkeys(each.object for each in helped.sentences if each.object in among)
        said = await self._texts.read([among[key] for key in cited], MOST_QUOTED)
        texts = {key: join(parts) for key, parts in said.items()}
        told = quote_sentences(helped.sentences, texts, most, asking.tokens)
        kept = tuple(sentence for sentence, _, _ in told)
        dropped = helped.dropped + len(helped.sentences) - len(kept)
        why = None if kept else "what it quotes has no room, or is there no longer"
        asking.helped[id_] = attrs.evolve(helped, sentences=kept, dropped=dropped, why=why)
        return [each.text for each in kept], [(quote, tokens) for _, quote, tokens in told]

    async def _texts_for(
        self, words: str, among: Mapping[str, MemoryObject], asking: "_Asking", *, alone: bool
    ) -> list[SearchedText]:
        """What is compared with a question; where an object stands ``alone``, that whatever is asked."""
        found = await self._texts.find_places(words, among, asking.memory.objects)
        ids = list(among) if alone else await in_thread(lambda: may_answer(words, found, asking.in_order(among)))
        said = await self._texts.read([among[key] for key in ids], MOST_QUOTED)
        return list_texts(said, found, among, asking.sees)

    def _scope(self, call: MemoryQuery, asking: "_Asking") -> tuple[Mapping[str, MemoryObject], str]:
        """Where to look, and for which words."""
        among = asking.own
        if call.scope is None:
            return among, call.question
        meant = {key for key in {**among, **asking.episodes} if MARK + key in call.scope or key == call.scope}
        meant.update(part for key in meant & asking.episodes.keys() for part in parts_of(asking.episodes[key]))
        named = {key: each for key, each in among.items() if key in meant}
        return (named, call.question) if named else (among, f"{call.question} {call.scope}")

    async def _restore(self, call: MemoryRestore, asking: "_Asking") -> str | _Shown | RefusedCall:
        granted = self._grant(call, asking.memory, asking)
        if isinstance(granted, RefusedCall):
            return granted
        began = trio.current_time()
        form: Extract | None = None
        if granted.after is Fidelity.DETAILED and granted.after not in granted.object.renditions:
            form = await self._texts.extract(granted.object.id, asking.memory, asking.at)
            if form is None:
                call = attrs.evolve(call, target=Fidelity.FULL)
            known = asking.memory if form is None else decide_all((form.command,), asking.memory)[1]
            granted = self._grant(call, known, asking)
            if isinstance(granted, RefusedCall):
                return granted
        content, attached = (form.text, ()) if form else await self._texts.read_at(granted.object, granted.after)
        if attached and not asking.attaches:
            return RefusedCall(memory_results.IMAGES_NOT_SHOWN)
        sizes = [asking.measure(each.block) for each in attached]
        restore = granted.within(asking.spent, asking.limits, sizes, call.part)
        if isinstance(restore, RefusedCall):
            return restore
        asking.spent = asking.spent.after(restore.tokens)
        if form is not None:
            asking.add(decide_all((form.command,), asking.memory)[0])
            asking.contents.append(form.content)
        events = restore.events(
            asking.memory,
            at=asking.at,
            branch=asking.branch,
            turn=asking.turn,
            left=asking.eviction_turns.find_turn(asking.branch, restore.object.id),
            latency=_microseconds(began),
        )
        asking.add(events)
        if restore.part is not None:
            attached = attached[restore.part - 1 : restore.part]
            content = attached[0].name
        text = memory_results.render_restored(
            restore,
            asking.memory,
            asking.turn,
            content,
            asking.spent,
            asking.limits,
            find_related(restore.object, asking.memory, asking.branch),
            attached=[type_of(each.block) for each in attached],
        )
        return _Shown(text, [each.block for each in attached])

    @staticmethod
    def _grant(call: MemoryRestore, memory: Memory, asking: "_Asking") -> GrantedRestore | RefusedCall:
        return memory_calls.grant_restore(
            memory, asking.branch, call, asking.spent, asking.limits, scales=asking.scales
        )

    def _release(self, call: MemoryRelease, asking: "_Asking") -> str:
        release = memory_calls.release(asking.memory, asking.branch, asking.now, call)
        asking.add(release.events(asking.memory, at=asking.at, branch=asking.branch, turn=asking.turn))
        return memory_results.render_released(release, asking.scales)

    def _definition(self, call: MemoryTool, asking: "_Asking") -> str | RefusedCall:
        found = memory_calls.definition(tool_paging.definitions(asking.tools), call, asking.spent, asking.limits)
        if isinstance(found, RefusedCall):
            return found
        asking.spent = attrs.evolve(asking.spent, tokens=asking.spent.tokens + found.tokens)
        return memory_results.definition_text(found, asking.spent, asking.limits)

    async def _search(self, call: MemorySearch, asking: "_Asking") -> str:
        within = {**asking.own, **asking.episodes}
        among = {key: each for key, each in within.items() if call.kind in (None, each.kind)}
        found = [where.object_id for where in await self._texts.find_places(call.query, among, asking.memory.objects)]
        best = sources.add_named(sources.find_named(call.query, asking.in_order(among).values()), found, among)
        shown = asking.memory.view_of(asking.branch)
        return memory_results.search_text(
            [MemoryHit(size_object(among[key], asking.scales), shown.fidelity_of(key)) for key in best[: call.limit]],
            object_search.count_unindexed(among.values()),
        )


class _Asking:
    """One round of calls: each sees what those before it changed."""

    def __init__(
        self,
        state: Session,
        address: Address,
        at: int,
        spent: Spent,
        room: int | None = None,
        tools: bytes = b"",
        helped: Mapping[str, HelperAnswer] = NOT_HELPED,
        *,
        attaches: bool = False,
    ) -> None:
        self.at = at
        self.attaches = attaches
        self.helped = dict(helped)
        self.branch = address.branch
        self.turn = address.turn
        self.spent = spent
        self.tools = tools
        self.limits = LIMITS if room is None else LIMITS.within(spent, room)
        messages = state.branches[address.branch].counts[: address.turn][-1]
        self.memory: Memory = memory.proven(state.memory, address.branch, messages)
        self.eviction_turns = state.eviction_turns
        self._state = state
        self.events: list[ObjectEvent] = []
        self.contents: list[tuple[bytes, bytes]] = []
        self._estimator = state.memory.view_of(address.branch).estimator(None)
        self.now = memory_calls.now_of(state, address.branch, address.turn)

    @cached_property
    def scales(self) -> Scales:
        """By which sizes are stated."""
        return self._state.stated_scales

    @property
    def own(self) -> Mapping[str, MemoryObject]:
        """The objects within the branch's reach that can be shown, and hold what they are about themselves."""
        standings = self.memory.within_reach(self.branch)
        return {
            each.id: each for each, _ in standings if each.places and not each.forgotten and UNCHANGED not in each.tags
        }

    @property
    def episodes(self) -> Mapping[str, MemoryObject]:
        """The episodes within the branch's reach."""
        standings = self.memory.within_reach(self.branch)
        return {each.id: each for each, _ in standings if is_episode(each) and not each.forgotten}

    def in_order(self, among: Mapping[str, MemoryObject]) -> Mapping[str, MemoryObject]:
        """Objects in the order in which they were made."""
        return {key: among[key] for key in self.memory.objects if key in among}

    @property
    def lacks_nothing(self) -> bool:
        """Whether the model has everything before it."""
        return memory_calls.is_all_shown(self.memory, self.branch)

    def sees(self, object_id: str) -> bool:
        """Whether the model has it before it in full."""
        return self.memory.view_of(self.branch).fidelity_of(object_id) is Fidelity.FULL

    def tokens(self, text: str) -> int:
        """About how many tokens a text has."""
        return self._estimator.tokens(features_of_text(text))

    def measure(self, attached: Block) -> AttachedSize:
        """An image or document with about how many tokens it has."""
        return AttachedSize(type_of(attached), self._estimator.tokens(features_of_block(attached)))

    def add(self, events: Sequence[ObjectEvent]) -> None:
        """What a call changed."""
        for event in events:
            self.events.append(event)
            self.memory = memory.evolve(self.memory, event)


def _microseconds(began: float) -> int:
    return round((trio.current_time() - began) * 1e6)
