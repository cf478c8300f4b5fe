"""The two steps of bringing that take time: what the user's message asks for, and what is put behind it.

Both make values of values and touch nothing else, so that a thread that takes too long can be left to itself.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property, reduce
from typing import Any

import attrs

from mnemosyne.domain.cost.prices import Tokens
from mnemosyne.domain.cost.tokens import Estimator, Features, features_of_block, features_of_text
from mnemosyne.domain.objects.aggregate import MemoryObject
from mnemosyne.domain.objects.decide import Restore, decide_all
from mnemosyne.domain.objects.faults import LIMITS
from mnemosyne.domain.objects.fidelity import Cause, Fidelity
from mnemosyne.domain.objects.full_text import full_text, list_attached
from mnemosyne.domain.objects.residency import is_prompt
from mnemosyne.domain.recall import memory_results, prefetch
from mnemosyne.domain.recall.goals import GoalStep, SaidBefore, find_typed_in, read_goal
from mnemosyne.domain.recall.prefetch import Wanted
from mnemosyne.domain.recall.quoting import Quotable, Where
from mnemosyne.domain.session import prefetches
from mnemosyne.domain.session.events import Event, TurnBegan
from mnemosyne.domain.session.goal_events import Why
from mnemosyne.domain.session.ledger import equivalents
from mnemosyne.domain.session.prefetches import Bring, ChangeGoal, JudgeBrought, Rates
from mnemosyne.domain.session.state import Session, evolve
from mnemosyne.domain.window.upstream_history import UpstreamHistory
from mnemosyne.domain.wire.blocks import Block, has_results, is_call
from mnemosyne.domain.wire.reply import as_json
from mnemosyne.domain.wire.transcript import Transcript


@attrs.frozen(kw_only=True)
class Asking:
    """A first attempt at the last turn of a branch, about to be sent as ``history``; ``state`` is as of then."""

    at: int
    began: TurnBegan
    read: Transcript = attrs.field(repr=False)
    history: UpstreamHistory
    state: Session = attrs.field(repr=False)

    @property
    def branch(self) -> str:
        """Its branch."""
        return self.began.branch

    @cached_property
    def message(self) -> int:
        """The number of the client's last message, but for what the client itself adds behind it."""
        messages = self.read.messages
        backwards = range(len(messages) - 1, -1, -1)
        return next((number for number in backwards if messages[number].role != "system"), -1)

    def tokens(self, text: str) -> int:
        """About how many tokens a text has."""
        return self._estimator.tokens(features_of_text(text))

    def count(self, attached: Sequence[Block]) -> int:
        """About how many tokens images and documents have."""
        return self._estimator.tokens(sum(map(features_of_block, attached), Features()))

    @property
    def _estimator(self) -> Estimator:
        return self.state.memory.view_of(self.branch).estimator(self.began.model)


@attrs.frozen(kw_only=True)
class Search:
    """Something is to be brought for what the user ``typed``: of the objects ``among`` which to look, if there are any,
    or just what is ``wanted``. ``events`` is what the request itself shows.
    """

    asking: Asking
    typed: str
    why: Why | None = None
    among: Mapping[str, MemoryObject] = attrs.field(factory=dict)
    wanted: tuple[Wanted, ...] = ()
    events: tuple[Event, ...] = ()

    @property
    def question(self) -> str:
        """What memory is asked."""
        return prefetch.question_of(self.typed)


@attrs.frozen(kw_only=True)
class Prefetched:
    """The history that goes upstream, and what happened, with the contents that this names."""

    history: UpstreamHistory
    events: tuple[Event, ...] = ()
    contents: tuple[tuple[bytes, bytes], ...] = attrs.field(default=(), repr=False)


# What is asked


def make_search(asking: Asking, events: Sequence[Event]) -> Search:
    """What to look for, and what the request shows of what was brought before, and of the goal."""
    typed = find_typed(asking.read, asking.message)
    if not typed or asking.message < asking.began.kept:
        return Search(asking=asking, typed=typed)
    asking = attrs.evolve(asking, state=reduce(evolve, events, asking.state))
    judged = _judge(asking)
    asking = attrs.evolve(asking, state=reduce(evolve, judged, asking.state))
    step, known = _goal(asking, typed, judged)
    nothing = Search(asking=asking, typed=typed, events=known)
    if not _may_grow(asking):
        return nothing
    requested = prefetch.find_requested(asking.state, asking.branch)
    if requested:
        return attrs.evolve(nothing, why=Why.REQUESTED, wanted=requested)
    if step is GoalStep.ACKNOWLEDGED:
        return nothing
    roles = [each.role for each in asking.read.messages]
    among = prefetch.find_hidden(asking.state.memory, asking.branch, _there(asking.history), roles)
    recalls = prefetch.recalls(typed)
    why, among = (Why.RECALL, among) if recalls else (Why.NAMED, prefetch.find_named(typed, among))
    if not among or not prefetches.pays(asking.state.bringing, why, _rates(asking.began.model)):
        return nothing
    return attrs.evolve(nothing, why=why, among=among)


def _there(history: UpstreamHistory) -> frozenset[str]:
    """The objects of which something was brought and stands in a history."""
    messages = (each for each in history.messages if memory_results.BROUGHT.encode() in each)
    texts = (text for each in messages for text in _texts(history.dialect.history.message(each)["content"]))
    return frozenset(each for text in texts for each in memory_results.objects_in(text))


def find_typed(read: Transcript, number: int) -> str:
    """What the user typed in a message; nothing where that is another's, or brings results."""
    return find_typed_in(read.messages[number].role, read.blocks(number)) if number >= 0 else ""


def find_prompt(read: Transcript) -> int | None:
    """The number of the last message with words that the user typed; None where nobody typed any."""
    numbers = range(len(read.messages) - 1, -1, -1)
    return next((number for number in numbers if find_typed(read, number)), None)


def _texts(blocks: Sequence[Mapping[str, Any]]) -> list[str]:
    return [str(block.get("text")) for block in blocks if block.get("type") == "text"]


def _judge(asking: Asking) -> tuple[Event, ...]:
    """Whether what was brought for the exchange before was used."""
    waiting = asking.state.bringing.waiting.get(asking.branch)
    if waiting is None or asking.began.kept <= waiting.message:
        return ()
    end = min(asking.message, waiting.message + 1 + prefetches.WITHIN)
    said = (text for number in range(waiting.message + 1, end) for text in _list_deeds(asking.read, number))
    used = prefetches.find_used(waiting, said, asking.state.memory)
    return prefetches.decide(JudgeBrought(at=asking.at, branch=asking.branch, used=used), asking.state.bringing)


def _list_deeds(read: Transcript, number: int) -> list[str]:
    """What the agent said and did in a message."""
    if read.messages[number].role != "assistant":
        return []
    blocks = read.blocks(number)
    return [_words_of(block) for block in blocks if is_call(block) or block.get("type") == "text"]


def _words_of(block: Mapping[str, Any]) -> str:
    return str(block.get("text", "")) if block.get("type") == "text" else as_json(block.get("input")).decode()


def _goal(asking: Asking, message: str, judged: tuple[Event, ...]) -> tuple[GoalStep, tuple[Event, ...]]:
    """What a message does to the goal, and what happened so far."""
    before = _find_said_before(asking.read, asking.message)
    step = read_goal(message, before)
    if before is None or step is not GoalStep.NEW:
        return step, judged
    changed = ChangeGoal(at=asking.at, branch=asking.branch, turn=asking.began.turn, message=asking.message)
    return step, (*judged, *prefetches.decide(changed, asking.state.bringing))


def _find_said_before(read: Transcript, message: int) -> SaidBefore | None:
    """The user's last message before a message, and the last answer; None where nobody said anything."""
    found: dict[str, str] = {}
    for number in range(message - 1, -1, -1):
        role = read.messages[number].role
        if role in found or role not in ("user", "assistant"):
            continue
        blocks = read.blocks(number)
        if (texts := _texts(blocks)) and not has_results(blocks):
            found[role] = "\n".join(texts)
        if len(found) == 2:
            break
    return SaidBefore(found.get("user", ""), found.get("assistant", "")) if found else None


def _may_grow(asking: Asking) -> bool:
    """Whether the user's message is the last on the wire, too."""
    number = _last(asking.history)
    return number >= 0 and _role_of(asking.history, number) == "user"


def _last(history: UpstreamHistory) -> int:
    """The number of the last message that is not the client's own; -1 if there is none."""
    numbers = reversed(range(len(history.messages)))
    return next((number for number in numbers if _role_of(history, number) != "system"), -1)


def _role_of(history: UpstreamHistory, number: int) -> object:
    return history.dialect.history.message(history.messages[number]).get("role")


# What is brought


def grow(search: Search, contents: Sequence[tuple[Wanted, bytes]], *, strict: bool) -> Prefetched:
    """The history with the block behind the user's message, and that it was brought; as it was if nothing says
    anything to the message.
    """
    asking, memory = search.asking, search.asking.state.memory
    told = [(each, *text) for each, content in contents if (text := _tell(search, each, content)) is not None]
    if not told:
        return Prefetched(history=asking.history, events=search.events)
    block = memory_results.render_brought([(name, text) for _, name, text in told])
    block = memory_results.strictly(block) if strict else block
    attached = _list_attached(asking, contents)
    common = prefetch.common(memory, asking.branch)
    assert search.why is not None
    bring = Bring(
        at=asking.at,
        branch=asking.branch,
        turn=asking.began.turn,
        message=asking.message,
        epoch=asking.history.epoch,
        why=search.why,
        objects=tuple(
            prefetch.make_brought(each.object, text, asking.tokens(text), search.typed, common)
            for each, _, text in told
        ),
        tokens=asking.tokens(block) + asking.count(attached),
        prompt=_prompt(asking),
    )
    restored, _ = decide_all(_restores(asking, [each for each, _, _ in told]), memory)
    messages, number = [*asking.history.messages], _last(asking.history)
    messages[number] = asking.history.dialect.history.with_text(messages[number], block, attached)
    history = attrs.evolve(asking.history, messages=tuple(messages))
    events = (*search.events, *prefetches.decide(bring, asking.state.bringing), *restored)
    return Prefetched(history=history, events=events)


def _list_attached(asking: Asking, contents: Sequence[tuple[Wanted, bytes]]) -> list[Block]:
    """The images and documents of what is brought in full; none where a request has no place or no room for them."""
    if not asking.history.dialect.attaches:
        return []
    in_full = [content for each, content in contents if each.after is Fidelity.FULL]
    found = [attached.block for content in in_full for attached in list_attached(content)]
    return found if asking.count(found) <= LIMITS.tokens else []


def _tell(search: Search, wanted: Wanted, content: bytes) -> tuple[str, str] | None:
    """The name and the words of what is brought of an object; None if it says nothing to the message."""
    each = wanted.object
    if wanted.is_claim:
        return memory_results.record_name(each), each.stub
    if wanted.after is not None:
        text = full_text(content) if wanted.after is Fidelity.FULL else content.decode()
        return memory_results.record_name(each, wanted.after), text
    if not content:
        return None
    quotable = Quotable({each.id: full_text(content)})
    if wanted.passage is None:
        question = prefetch.beyond_name(search.question, each)
        places = quotable.places(question)
    else:
        question, places = search.question, [Where(each.id, wanted.passage.start, wanted.passage.end)]
    said = _list_still_said(search.asking, each)
    quotes = quotable.quotes_at(question, places, wanted.most, search.asking.tokens)
    new = (quote for quote, _ in quotes if not any(quote.text in text for text in said))
    quote = next(new, None)
    return (memory_results.record_name(each, quote), quote.text) if quote is not None else None


def _list_still_said(asking: Asking, each: MemoryObject) -> list[str]:
    """What an object holds of the user's words, which stand in the window whatever becomes of the object."""
    if not is_prompt(asking.state.memory, asking.branch, each):
        return []
    numbers = {place.message for place in each.places if place.message < len(asking.read.messages)}
    of_user = [number for number in sorted(numbers) if asking.read.messages[number].role == "user"]
    return [text for number in of_user for text in _texts(asking.read.blocks(number))]


def _restores(asking: Asking, told: Sequence[Wanted]) -> Iterator[Restore]:
    """What stands at the end at a fuller fidelity from now on; a passage changes none."""
    for each in told:
        if each.after is not None:
            yield Restore(
                at=asking.at,
                object=each.object.id,
                branch=asking.branch,
                turn=asking.began.turn,
                after=each.after,
                cause=Cause.PREFETCH,
            )


def _prompt(asking: Asking) -> int:
    """About how many tokens the prompt has: what its last reply told."""
    anchor = asking.state.memory.view_of(asking.branch).measure.anchor
    return anchor.total if anchor is not None else 0


def _rates(model: str | None) -> Rates:
    return Rates(
        write=float(equivalents(Tokens(write_5m=1), model)),
        read=float(equivalents(Tokens(read=1), model)),
        output=float(equivalents(Tokens(output=1), model)),
    )
