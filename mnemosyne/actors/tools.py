"""Answers the calls of memory tools from the session's objects. It asks no model; a helper model's earlier answer is
given with the quotes that support it.

A result consists of the session's own text; it is recorded with the round that called for it, and sent unchanged for
ever. A restored object appears only in that result, at the end of the window.
"""

import logging
from collections.abc import Mapping, Sequence
from functools import cached_property, partial
from typing import assert_never

import attrs
import trio

from mnemosyne.actors.actor_services import ActorServices
from mnemosyne.actors.texts import ObjectTexts, in_thread
from mnemosyne.domain.cost.tokens import features_of_block, features_of_text
from mnemosyne.domain.helper.answer import HelperQuestion
from mnemosyne.domain.objects import memory
from mnemosyne.domain.objects.aggregate import MemoryObject, is_episode, parts_of
from mnemosyne.domain.objects.decide import decide_all
from mnemosyne.domain.objects.events import FaultReason, ObjectEvent
from mnemosyne.domain.objects.faults import LIMITS, OWN_WORDS, RecallBudget
from mnemosyne.domain.objects.fidelity import Fidelity
from mnemosyne.domain.objects.full_text import full_text
from mnemosyne.domain.objects.ids import MARK
from mnemosyne.domain.objects.kinds import UNCHANGED
from mnemosyne.domain.objects.memory import Memory
from mnemosyne.domain.recall import memory_calls, memory_results, named, object_search
from mnemosyne.domain.recall.answering import NEAREST, answer, question_for, quote_sentences, quote_sources
from mnemosyne.domain.recall.memory_calls import AttachedSize, GrantedRestore
from mnemosyne.domain.recall.memory_results import MemoryHit, Quote
from mnemosyne.domain.recall.retrieval import ANSWERS
from mnemosyne.domain.recall.sources import (
    MOST_BYTES,
    MOST_SOURCES,
    SOURCES_AGAIN,
    Announcements,
    Source,
    list_sources,
    may_be_quoted,
    read_sources,
)
from mnemosyne.domain.session.address import Address
from mnemosyne.domain.session.counted_sizes import Scales, size_object
from mnemosyne.domain.session.decision_inputs import ServerSettings, finds_nothing
from mnemosyne.domain.session.events import Event
from mnemosyne.domain.session.input_events import HelperAnswer
from mnemosyne.domain.session.state import Session
from mnemosyne.domain.summaries.forms import RecordedForm
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

NOT_HELPED: Mapping[str, HelperAnswer] = {}
"""Helper answers of a round for which no helper was asked."""


@attrs.frozen(kw_only=True)
class Answers:
    """The result of each call by its id (``Dialect.write_result``), the events with their contents, and the turn's
    ``budget`` after them. ``helped`` are the helper's answers as used, by call.
    """

    results: Mapping[str, bytes] = attrs.field(factory=dict)
    helped: Mapping[str, HelperAnswer] = attrs.field(factory=dict)
    events: tuple[Event, ...] = ()
    budget: RecallBudget = attrs.field(factory=RecallBudget)
    contents: tuple[tuple[bytes, bytes], ...] = attrs.field(default=(), repr=False)


@attrs.frozen
class _Shown:
    """An object's text with its images and documents."""

    text: str
    attached: Sequence[Block]


ONLY_THE_PROXY = (
    "In this session, only the proxy restores content. Ask memory_query about it, or read the source again."
)


@attrs.frozen(kw_only=True)
class CallContext:
    """What one round of calls is answered with: the turn's ``budget`` as used so far, and the ``room``, the tokens by
    which the prompt may still grow, None if unknown. ``tools`` is the array of the client's own tools, if some of them
    are paged. ``helped`` are a helper model's answers by call; ``why`` is the reason recorded for the calls' faults.
    """

    at: int
    budget: RecallBudget
    settings: ServerSettings = attrs.field(factory=ServerSettings)
    room: int | None = None
    tools: bytes = b""
    helped: Mapping[str, HelperAnswer] = NOT_HELPED
    why: FaultReason = FaultReason.REFERENCE


class MemoryToolExecutor:
    """Executes one round's calls of memory tools on a session's objects; each call sees the changes of the previous."""

    def __init__(
        self, texts: ObjectTexts, outside: ActorServices, state: Session, address: Address, context: CallContext
    ) -> None:
        self._texts = texts
        self._outside = outside
        self._state = state
        self._settings = context.settings
        self._dialect = dialect_of(state.branches[address.branch].conversation)
        self._at = context.at
        self._why = context.why
        self._helped = dict(context.helped)
        self._branch = address.branch
        self._turn = address.turn
        budget = attrs.evolve(context.budget, limits=attrs.evolve(LIMITS, faults=context.settings.faults))
        self._budget = budget if context.room is None else budget.within(context.room)
        self._has_no_room = context.room is not None and context.room < OWN_WORDS
        self._tools = context.tools
        messages = state.branches[address.branch].counts[: address.turn][-1]
        self._memory: Memory = memory.proven(state.memory, address.branch, messages)
        self._events: list[ObjectEvent] = []
        self._contents: list[tuple[bytes, bytes]] = []
        self._estimator = state.memory.view_of(address.branch).estimator(None)

    async def answer(self, calls: Sequence[HiddenCall]) -> Answers:
        """Answer calls in order. None raises: a result says if a call is impossible or its content cannot be read in
        time.
        """
        results: dict[str, bytes] = {}
        for call in calls:
            result = await self._answer_safely(call)
            refused = isinstance(result, RefusedCall)
            text = result if isinstance(result, str) else result.text
            if self._settings.strict and call.name in RECALLING and not refused:
                text = memory_results.strictly(text)
            attached = result.attached if isinstance(result, _Shown) else ()
            results[call.id] = self._dialect.write_result(call.id, text, refused, attached)
        return Answers(
            results=results,
            events=tuple(self._events),
            budget=self._budget,
            helped=self._helped,
            contents=tuple(self._contents),
        )

    async def find_passages(
        self, calls: Sequence[HiddenCall], again: HelperQuestion | None = None
    ) -> Mapping[str, HelperQuestion]:
        """The passages from which a helper model may answer the questions among some calls, by call id; none for
        questions without passages, and for those that will be refused. Changes nothing. ``again`` as in
        ``question_for``.
        """
        found: dict[str, HelperQuestion] = {}
        for call in calls:
            asked = parse(call.name, call.input_json)
            if isinstance(asked, MemoryQuery) and not self._sees_all:
                refused = isinstance(memory_calls.answer_tokens(asked, self._budget), RefusedCall)
                question = None if refused else await self._find_safely(call, asked, again)
                if question is not None:
                    found[call.id] = question
        return found

    async def _find_safely(
        self, call: HiddenCall, asked: MemoryQuery, again: HelperQuestion | None
    ) -> HelperQuestion | None:
        searched, most = asked, MOST_SOURCES
        if again is not None:
            searched, most = attrs.evolve(asked, question=again.searched), SOURCES_AGAIN

        async def find() -> HelperQuestion | None:
            _, sources, _ = await self._read_sources(searched, 0.0, most)
            objects = self._memory.objects
            return await in_thread(lambda: question_for(asked.question, sources, objects, self._count_tokens, again))

        try:
            return await self._outside.call_in_time(call.id, find)
        except (ContentForgotten, LogFailed) as error:
            log.info("no helper is asked for a call of %s: %s", call.name, error)
            return None

    async def _answer_safely(self, call: HiddenCall) -> str | _Shown | RefusedCall:
        try:
            result = await self._outside.call_in_time(call.id, lambda: self._answer_call(call))
        except (ContentForgotten, LogFailed) as error:
            log.warning("a call of %s was not answered: %s", call.name, error)
            return RefusedCall("What is remembered of this cannot be read now. Look at the source itself.")
        except Exception:
            log.exception("a call of %s was not answered", call.name)
            return RefusedCall(memory_results.NOT_NOW)
        if result is None:
            seconds = self._outside.patience.contents
            log.warning("a call of %s was not answered: the log took longer than %g s", call.name, seconds)
            return RefusedCall(memory_results.NOT_NOW)
        return result

    async def _answer_call(self, call: HiddenCall) -> str | _Shown | RefusedCall:
        asked = parse(call.name, call.input_json)
        if isinstance(asked, MemoryQuery | MemoryRestore | MemorySearch) and self._sees_all:
            return memory_results.ALL_SHOWN
        if isinstance(asked, MemoryRestore) and self._settings.restores == "proxy":
            return RefusedCall(ONLY_THE_PROXY)
        match asked:
            case RefusedCall():
                return asked
            case MemoryQuery():
                return await self._query(call.id, asked)
            case MemoryRestore():
                return await self._restore(asked)
            case MemoryRelease():
                return self._release(asked)
            case MemorySearch():
                return RefusedCall(memory_results.NO_ROOM) if self._has_no_room else await self._search(asked)
            case MemoryTool():
                return self._show_definition(asked)
            case _:
                assert_never(asked)

    async def _query(self, id_: str, call: MemoryQuery) -> str | RefusedCall:
        most = memory_calls.answer_tokens(call, self._budget)
        if isinstance(most, RefusedCall):
            return most
        began = trio.current_time()
        sentences, quotes = await self._quote_helper(id_, most)
        nearest, is_cut = list[tuple[Quote, int]](), False
        if not quotes and not finds_nothing(self._helped.get(id_)):
            quotes = await self._quote(call, most, ANSWERS)
            if not quotes and self._settings.nearest:
                nearest = await self._quote(call, min(NEAREST * most, self._budget.tokens_left), 0.0)
                is_cut = call.max_tokens is not None and sum(each for _, each in nearest) > most
                nearest = await self._quote(call, most, 0.0) if is_cut else nearest
        cited = [(quote.object_id, tokens) for quote, tokens in quotes]
        tokens = sum(each for _, each in quotes or nearest)
        self._budget = self._budget.after(tokens, faults=1 if cited else 0)
        self._add(
            memory_calls.answer(
                self._memory,
                self._branch,
                call,
                cited,
                self._state.eviction_turns,
                at=self._at,
                turn=self._turn,
                latency=_microseconds(began),
                why=self._why,
            )
        )
        among, _ = self._find_scope(call)
        unindexed = object_search.count_unindexed(among.values())
        return memory_results.answer_text(
            [quote for quote, _ in quotes or nearest],
            self._memory,
            tokens,
            self._budget,
            unindexed,
            sentences,
            uncertain=bool(nearest),
            is_cut=is_cut,
        )

    async def _quote(self, call: MemoryQuery, most: int, least: float) -> list[tuple[Quote, int]]:
        """Quotes of sources of at least this relevance, each with its tokens, in total at most ``most``."""
        words, sources, alone = await self._read_sources(call, least)
        write = partial(quote_sources, fill=True) if alone else answer
        return await in_thread(lambda: write(words, sources, most, tokens_of=self._count_tokens))

    async def _quote_helper(self, id_: str, most: int) -> tuple[Sequence[str], list[tuple[Quote, int]]]:
        """The sentences of a helper's answer to a call whose quoted bytes still exist, as many as fit, and the quotes
        of these bytes, each with its tokens. Empty if there is no answer.
        """
        helped = self._helped.get(id_)
        if helped is None or not helped.sentences:
            return (), []
        among = self._own
        cited = dict.fromkeys(each.object for each in helped.sentences if each.object in among)
        contents = await self._texts.read([among[key] for key in cited], MOST_BYTES)
        texts = {key: full_text(content) for key, content in contents.items()}
        supported = quote_sentences(helped.sentences, texts, most, self._count_tokens)
        kept = tuple(sentence for sentence, _, _ in supported)
        dropped = helped.dropped + len(helped.sentences) - len(kept)
        why = None if kept else "what it quotes has no room, or is there no longer"
        self._helped[id_] = attrs.evolve(helped, sentences=kept, dropped=dropped, why=why)
        return [each.text for each in kept], [(quote, tokens) for _, quote, tokens in supported]

    async def _read_sources(
        self, call: MemoryQuery, least: float, most: int = MOST_SOURCES
    ) -> tuple[str, Sequence[Source], bool]:
        """The words of a question, the sources that may answer it, those that the model sees last, and whether they are
        of a single object that the call names; such an object is a source however poor the match.
        """
        among, words = self._find_scope(call)
        alone = call.scope is not None and len(among) == 1
        found = await self._texts.search(words, among, self._memory.objects, 0.0 if alone else least)
        view = self._memory.view_of(self._branch)
        found = sorted(found, key=lambda hit: view.fidelity_of(hit.object) is Fidelity.FULL)  # visible ones last
        chosen = list_sources(found, among, most)
        if alone:
            chosen = [each for each in among.values() if may_be_quoted(each)]
        contents = await self._texts.read(chosen, MOST_BYTES)
        return words, await in_thread(lambda: read_sources(chosen, contents, self._announcements, found)), alone

    def _find_scope(self, call: MemoryQuery) -> tuple[Mapping[str, MemoryObject], str]:
        """The objects to search, and the words to search for."""
        among = self._own
        if call.scope is None:
            return among, call.question
        meant = {key for key in {**among, **self._episodes} if MARK + key in call.scope or key == call.scope}
        meant.update(part for key in meant & self._episodes.keys() for part in parts_of(self._episodes[key]))
        named = {key: each for key, each in among.items() if key in meant}
        return (named, call.question) if named else (among, f"{call.question} {call.scope}")

    async def _restore(self, call: MemoryRestore) -> str | _Shown | RefusedCall:
        granted = self._grant(call, self._memory)
        if isinstance(granted, RefusedCall):
            return granted
        began = trio.current_time()
        form: RecordedForm | None = None
        if granted.after is Fidelity.DETAILED and granted.after not in granted.object.renditions:
            form = await self._texts.extract(granted.object.id, self._memory, self._at)
            if form is None:
                call = attrs.evolve(call, target=Fidelity.FULL)
            known = self._memory if form is None else decide_all((form.command,), self._memory)[1]
            granted = self._grant(call, known)
            if isinstance(granted, RefusedCall):
                return granted
        content, attached = (form.text, ()) if form else await self._texts.read_at(granted.object, granted.after)
        if attached and not self._dialect.attaches:
            return RefusedCall(memory_results.IMAGES_NOT_SHOWN)
        sizes = [self._measure(each.block) for each in attached]
        restore = granted.within(self._budget, sizes, call.part)
        if isinstance(restore, RefusedCall):
            return restore
        self._budget = self._budget.after(restore.tokens)
        if form is not None:
            self._add(decide_all((form.command,), self._memory)[0])
            self._contents.append(form.content)
        events = restore.events(
            self._memory,
            at=self._at,
            branch=self._branch,
            turn=self._turn,
            left=self._state.eviction_turns.find_turn(self._branch, restore.object.id),
            latency=_microseconds(began),
            why=self._why,
        )
        self._add(events)
        if restore.part is not None:
            attached = attached[restore.part - 1 : restore.part]
            content = attached[0].name
        text = memory_results.render_restored(
            restore,
            self._memory,
            self._branch,
            self._turn,
            content,
            self._budget,
            attached=[type_of(each.block) for each in attached],
        )
        return _Shown(text, [each.block for each in attached])

    def _grant(self, call: MemoryRestore, memory: Memory) -> GrantedRestore | RefusedCall:
        return memory_calls.grant_restore(memory, self._branch, call, self._budget, scales=self._scales)

    def _release(self, call: MemoryRelease) -> str:
        now = memory_calls.now_of(self._state, self._branch, self._turn)
        release = memory_calls.release(self._memory, self._branch, now, call)
        self._add(release.events(self._memory, at=self._at, branch=self._branch, turn=self._turn))
        return memory_results.render_released(release, self._scales)

    def _show_definition(self, call: MemoryTool) -> str | RefusedCall:
        found = memory_calls.definition(tool_paging.definitions(self._tools), call, self._budget)
        if isinstance(found, RefusedCall):
            return found
        self._budget = self._budget.after(found.tokens, faults=0)
        return memory_results.definition_text(found, self._budget)

    async def _search(self, call: MemorySearch) -> str:
        within = {**self._own, **self._episodes}
        among = {key: each for key, each in within.items() if call.kind in (None, each.kind)}
        scores: dict[str, float] = {}
        for hit in await self._texts.search(call.query, among, self._memory.objects):
            scores.setdefault(hit.object, hit.score)
        best = named.add_named(named.find_named(call.query, self._in_order(among).values()), scores, among)
        shown = self._memory.view_of(self._branch)
        return memory_results.search_text(
            [
                MemoryHit(size_object(among[key], self._scales), shown.fidelity_of(key), scores.get(key, 0.0))
                for key in best[: call.limit]
            ],
            object_search.count_unindexed(among.values()),
            len(best),
        )

    @cached_property
    def _scales(self) -> Scales:
        """The scales for stated sizes."""
        return self._state.stated_scales

    @property
    def _own(self) -> Mapping[str, MemoryObject]:
        """The objects within the branch's reach that can be shown and hold their own content."""
        standings = self._memory.within_reach(self._branch)
        held = (each for each, _ in standings if each.holds_content and not each.forgotten)
        return {each.id: each for each in held if UNCHANGED not in each.tags}

    @property
    def _episodes(self) -> Mapping[str, MemoryObject]:
        """The episodes within the branch's reach."""
        standings = self._memory.within_reach(self._branch)
        return {each.id: each for each, _ in standings if is_episode(each) and not each.forgotten}

    def _in_order(self, among: Mapping[str, MemoryObject]) -> Mapping[str, MemoryObject]:
        """Objects in order of creation."""
        return {key: among[key] for key in self._memory.objects if key in among}

    @property
    def _sees_all(self) -> bool:
        """Whether the model can see every object."""
        return memory_calls.is_all_shown(self._memory, self._branch)

    @cached_property
    def _announcements(self) -> Announcements:
        """The texts before tool calls."""
        return Announcements(self._memory.objects.values())

    def _count_tokens(self, text: str) -> int:
        """Estimated number of tokens of a text."""
        return self._estimator.tokens(features_of_text(text))

    def _measure(self, attached: Block) -> AttachedSize:
        """An image or document with its estimated number of tokens."""
        return AttachedSize(type_of(attached), self._estimator.tokens(features_of_block(attached)))

    def _add(self, events: Sequence[ObjectEvent]) -> None:
        """Apply the events of a call."""
        for event in events:
            self._events.append(event)
            self._memory = memory.evolve(self._memory, event)


def _microseconds(began: float) -> int:
    return round((trio.current_time() - began) * 1e6)
