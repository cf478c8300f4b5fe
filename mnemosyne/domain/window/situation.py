"""The planner's input for a managed request that is about to be sent: the window, its objects and the ledger."""

from bisect import bisect_right
from collections import Counter
from collections.abc import Mapping, Sequence
from fractions import Fraction

import attrs

from mnemosyne.domain.cost.catalogue import Family
from mnemosyne.domain.cost.prices import Tokens
from mnemosyne.domain.cost.tariffs import PaidIn, Tariff
from mnemosyne.domain.cost.tokens import Estimator, Features, features_of_block, features_of_message, features_of_text
from mnemosyne.domain.objects.aggregate import MemoryObject, may_be_extracted
from mnemosyne.domain.objects.faults import ReuseRecord
from mnemosyne.domain.objects.fidelity import Fidelity
from mnemosyne.domain.objects.followed_plan import find_followed_plan
from mnemosyne.domain.objects.index import Described
from mnemosyne.domain.objects.losses import describe_form
from mnemosyne.domain.objects.memory import BranchView
from mnemosyne.domain.objects.protection import Now, Resident, is_kept
from mnemosyne.domain.session.decision_inputs import ServerSettings
from mnemosyne.domain.session.ledger import (
    COMPACTED,
    Ledger,
    compaction_point,
    count_observed,
    equivalents,
    weighing_price,
)
from mnemosyne.domain.session.state import Branch, Session, Wire
from mnemosyne.domain.tools import memory_tools
from mnemosyne.domain.window.ages import WRITTEN, Candidate, Later, Quotable, Reuse, find_quotable, later_of
from mnemosyne.domain.window.assembly import Message
from mnemosyne.domain.window.object_sizes import Size, alone, size_of
from mnemosyne.domain.window.planning import CostSoFar, Situation
from mnemosyne.domain.window.upstream_history import UpstreamHistory
from mnemosyne.domain.window.window_size import choose_window, find_model_window
from mnemosyne.domain.wire import json_values, markers
from mnemosyne.domain.wire.blocks import has_results
from mnemosyne.domain.wire.dialect import Dialect
from mnemosyne.domain.wire.transcript import Transcript

SIZES_HELD = 8192
"""Maximum number of objects with cached sizes."""

OWN_TOOLS = sum((features_of_block(tool) for tool in memory_tools.TOOLS), Features())


@attrs.frozen(kw_only=True)
class PendingRequest:
    """A request of a managed branch that is about to be sent at the time ``at``: the client's request, the history sent
    ``before``, the ``history`` without a rewrite, and the tariff of the payer.

    ``joins``: the memory tools join a conversation that was sent without them. ``behind``: they are, or will be, behind
    the cached head. ``forgotten``: the provider has cached nothing of it, whenever it was sent. ``kept`` counts the
    client's messages that were sent before.
    """

    at: int
    branch: str
    turn: int
    read: Transcript = attrs.field(repr=False)
    before: UpstreamHistory
    history: UpstreamHistory
    settings: ServerSettings
    tariff: Tariff
    joins: bool = False
    behind: bool = False
    forgotten: bool = False
    kept: int = attrs.field()

    @kept.default
    def _count_sent(self) -> int:
        return len(self.before.ends)

    def message(self, number: int) -> Message:
        """One of the client's messages, without markers, with its content as a list."""
        return self.dialect.history.message(self.read.message_bytes(number))

    @property
    def dialect(self) -> Dialect:
        """The dialect of the request."""
        return self.read.dialect

    @property
    def model(self) -> str | None:
        """The model that the client requests."""
        return self.read.fields.model


class Sizes:
    """Cached sizes of messages and objects."""

    def __init__(self) -> None:
        self._messages: dict[bytes, Features] = {}  # repeated messages are the same bytes object, whose hash is cached
        self._objects: dict[str, tuple[bool, frozenset[Fidelity], Size]] = {}
        self._grown: dict[str, tuple[tuple[Size, Family, Fraction], tuple[int, int]]] = {}
        self._history: tuple[tuple[bytes, ...], Features] = (), Features()

    def of(self, messages: Sequence[bytes], dialect: Dialect) -> Features:
        """The total features of these elements of a history."""
        return sum((self._message(each, dialect) for each in messages), Features())

    def history(self, messages: tuple[bytes, ...], dialect: Dialect) -> Features:
        """The total features of a history. Only elements added since the last call are counted if it continues the same
        history; sizes of elements in neither are dropped.
        """
        if len(self._messages) > 2 * len(messages):
            self._messages = {each: self._message(each, dialect) for each in messages}
        held, total = self._history
        if messages[: len(held)] != held:
            held, total = (), Features()
        total += self.of(messages[len(held) :], dialect)
        self._history = messages, total
        return total

    def _message(self, message: bytes, dialect: Dialect) -> Features:
        features = self._messages.get(message)
        if features is None:
            features = self._messages[message] = features_of_message(dialect.read_message(json_values.read(message)))
        return features

    def of_object(self, obj: MemoryObject, asked: PendingRequest) -> Size | None:
        """The object's size on the wire; None if the history lacks its blocks."""
        extracted, renditions, before = self._objects.get(obj.id, (False, frozenset(), None))
        # No L1 is extracted any more from an object that a later one supersedes.
        if before is not None and renditions == obj.renditions.keys() and extracted == may_be_extracted(obj):
            return before
        # Without renditions the L1 size was an estimate, which is replaced once there is a rendition.
        size = _size(obj, asked, before if renditions and renditions < obj.renditions.keys() else None)
        if size is not None:
            if len(self._objects) > SIZES_HELD:
                self._objects.clear()
            self._objects[obj.id] = may_be_extracted(obj), frozenset(obj.renditions), size
        return size

    def count_grown(self, name: str, size: Size, usual: Estimator, scale: Fraction) -> tuple[int, int]:
        """The tokens of an object's full text and of its thinking, at the ``scale`` of the object's turn. They are
        cached, because that scale does not change.
        """
        if (held := self._grown.get(name)) is not None and held[0] == (size, usual.family, scale):
            return held[1]
        if len(self._grown) > SIZES_HELD:
            self._grown.clear()
        counted = size.count_full(usual.at(scale))
        self._grown[name] = (size, usual.family, scale), counted
        return counted


def _size(obj: MemoryObject, asked: PendingRequest, before: Size | None) -> Size | None:
    try:
        own = alone(obj.places, {place.message: asked.message(place.message) for place in obj.places}.__getitem__)
    except (IndexError, KeyError, TypeError):
        return None

    def text_size(fidelity: Fidelity) -> Features | None:
        rendition = obj.renditions.get(fidelity)
        if rendition is None:
            tokens = obj.tokens_at(fidelity)
            return None if tokens is None else Features(fixed=tokens)
        return Features(fixed=rendition.tokens) + features_of_text(describe_form(obj, fidelity))

    return size_of(obj, own, text_size, before)


def estimator_of(asked: PendingRequest, session: Session) -> Estimator:
    """The estimator of a request's messages."""
    return _estimators(asked, session)[1]


def count_prompt(asked: PendingRequest, session: Session, sizes: Sizes) -> int:
    """The estimated tokens of a request."""
    of_head, estimator = _estimators(asked, session)
    head = _head_of(asked, session)
    return of_head.tokens(head) + estimator.tokens(sizes.history(asked.history.messages, asked.dialect))


def situation_of(asked: PendingRequest, session: Session, wire: Wire, sizes: Sizes) -> Situation:
    """The situation for a plan, without the objects."""
    branch, shown = session.branches[asked.branch], session.memory.view_of(asked.branch)
    head = _head_of(asked, session)
    held = sizes.history(asked.history.messages, asked.dialect)
    of_head, estimator = _estimators(asked, session)
    fixed, joining = of_head.tokens(head), of_head.tokens(OWN_TOOLS) if asked.joins else 0
    before = asked.before.messages
    sent = len(before) if asked.history.messages[: len(before)] == before else 0
    hour = markers.asks_for_an_hour(asked.read)
    in_first, *also = costs_of(
        asked.tariff, asked.model, count_observed(session.ledger) if branch.late else session.ledger, hour=hour
    )
    prompt = fixed + estimator.tokens(held) + (joining if asked.behind else 0)
    new = estimator.tokens(sizes.of(asked.history.messages[sent:], asked.dialect))
    known = session.ledger.accounts.get(asked.branch)
    own = known.unmanaged if known is not None and known.since and known.model in (None, asked.model) else 0
    if known is not None and own > 0 and not known.turn:  # a fork, whose parent may have gone on and grown
        messages = [asked.read.message_bytes(number) for number in range(known.since, len(asked.read.messages))]
        own = min(own, fixed + estimator.tokens(COMPACTED + sizes.of(messages, asked.dialect)) - new)
    return Situation(
        turn=asked.turn,
        prompt=prompt,
        fixed=fixed,
        new=new,
        idle=asked.at - wire.at if wire.at else None,
        ttl=0 if asked.forgotten else asked.tariff.life(hour=hour),
        write=in_first.write,
        read=in_first.read,
        window=choose_window(asked.settings.window, asked.model, session.find_stated_window(asked.model)),
        limit=find_limit(asked.settings.window, asked.model, session),
        billed=in_first.billed,
        shadow=in_first.shadow,
        unmanaged=own + new if own > 0 else prompt,  # without a compaction, the client sends as much
        also=tuple(also),
        last_epoch=wire.since,
        exchange=_turn_of(branch, _find_typed(asked, shown)),
        joining=joining,
        behind=asked.behind,
        reuse=count_reuse(
            session.eviction_turns.find_record(asked.branch), session.memory.objects, by_kind=asked.settings.by_kind
        ),
        mode=asked.settings.fidelity,
    )


def count_reuse(
    record: ReuseRecord, objects: Mapping[str, Described], *, by_kind: bool = True
) -> Mapping[Quotable, Reuse]:
    """The counts of a branch's record of reuse, ``by_kind`` or, as in older logs, of all kinds together and without
    what was read again after an edit.
    """
    if not by_kind:
        return {Quotable.ANY: Reuse(evicted=len(record.lowered), needed=len(record.needed))}

    def count(keys: frozenset[str]) -> Counter[Quotable | None]:
        return Counter(find_quotable(each.kind, each.tags) for each in map(objects.__getitem__, keys))

    evicted, needed = count(record.lowered), count(record.needed | record.read_again)
    return {kind: Reuse(number, needed[kind]) for kind, number in evicted.items() if kind is not None}


def find_limit(wanted: int | None, model: str | None, session: Session) -> int:
    """The most tokens that a prompt of a session can hold: ``wanted`` if it is set; otherwise the target size, or more
    if the client compacts later than that.
    """
    stated = session.find_stated_window(model)
    window = choose_window(wanted, model, stated)
    if wanted is not None:
        return window
    return max(window, min(session.ledger.compacts_at or compaction_point(model), find_model_window(model, stated)))


def costs_of(tariff: Tariff, model: str | None, ledger: Ledger, *, hour: bool) -> list[CostSoFar]:
    """Token prices and the cost of a session so far, in each unit of the tariff to be weighed: its first unit, then
    dollars if that is a different one. ``hour``: the client's markers request one hour.
    """
    weights = tariff.weights(weighing_price(model))
    in_first = CostSoFar(
        read=weights.read,
        write=weights.write_1h if hour else weights.write_5m,
        billed=ledger.billed if tariff.is_in_dollars else weights.equivalents(ledger.sent),
        shadow=ledger.unmanaged if tariff.is_in_dollars else weights.equivalents(ledger.unsent),
    )
    in_dollars = CostSoFar(
        read=equivalents(Tokens(read=1), model),
        write=equivalents(Tokens(write_1h=1) if hour else Tokens(write_5m=1), model),
        billed=ledger.billed,
        shadow=ledger.unmanaged,
    )
    return [in_first, *(in_dollars for unit in tariff.units[1:] if unit is PaidIn.DOLLARS)]


def _estimators(asked: PendingRequest, session: Session) -> tuple[Estimator, Estimator]:
    """The estimators of this request, for its head (system prompt and tools) and its messages, scaled by the error of
    the estimates for the branch's last counted prompt. An epoch removes counted content, so each part keeps its own
    error.
    """
    known, shown = session.ledger.accounts.get(asked.branch), session.memory.view_of(asked.branch)
    if known is None or not known.counted or not known.estimated:
        estimator = shown.estimator(asked.model)
        return estimator, estimator
    usual = Estimator.of(asked.model)
    scales = known.find_scales(usual.tokens(_head_of(asked, session)))
    return usual.at(scales.head), usual.at(scales.messages)


def _head_of(asked: PendingRequest, session: Session) -> Features:
    """The features of system prompt and tools, with the memory tools unless they are behind them."""
    head = session.memory.view_of(asked.branch).measure.head
    return head if asked.behind else head + OWN_TOOLS


def _find_typed(asked: PendingRequest, shown: BranchView) -> int:
    """The number of the last message that the user typed."""
    last = len(asked.read.messages) - 1
    if not has_results(blocks_of(asked.read, last)):
        return last
    return shown.typed[-1] if shown.typed else 0


def _turn_of(branch: Branch, message: int) -> int:
    """The turn whose request was the first to hold a message."""
    return bisect_right(branch.counts, message) + 1


def candidates_of(asked: PendingRequest, session: Session, sizes: Sizes) -> list[Candidate]:
    """The objects of the window in order, as candidates. Evicted objects are excluded, because they cannot be degraded
    further and their number only grows. One exception: the last evicted object that was written for the user's current
    request.
    """
    shown, branch = session.memory.view_of(asked.branch), session.branches[asked.branch]
    _, estimator = _estimators(asked, session)
    typed = _find_typed(asked, shown)
    known = session.ledger.accounts.get(asked.branch)
    grown = known.grown if known is not None else {}
    now = Now(
        turn=asked.turn,
        message_count=len(asked.read.messages),
        last_user_messages=(*shown.typed, typed),
        plan=find_followed_plan(each for each, _ in session.memory.standings(asked.branch)),
    )
    exchange = _turn_of(branch, typed)
    there = [(each, at) for each, at in session.memory.standings(asked.branch) if is_there(each, asked)]
    written = (each for each, fidelity in reversed(there) if fidelity is Fidelity.EVICTED and WRITTEN & set(each.tags))
    last = next(written, None)
    if last is not None and _turn_of(branch, last.places[-1].message) < exchange:
        last = None
    in_order = sorted(there, key=lambda pair: (pair[0].places[0].message, pair[0].places[0].block))
    later = later_of((each.id, each.source_key, each.tags) for each, _ in in_order)
    of_model, signs_thinking = Estimator.of(asked.model), asked.dialect.signs_thinking
    candidates = []
    for each, fidelity in in_order:
        if fidelity is Fidelity.EVICTED and each is not last:
            continue
        size = sizes.of_object(each, asked)
        if size is not None:
            born = _turn_of(branch, each.places[-1].message)
            scale = grown.get(born)
            full, thinking = (
                size.count_full(estimator) if scale is None else sizes.count_grown(each.id, size, of_model, scale)
            )
            candidates.append(
                Candidate(
                    key=each.id,
                    kind=each.kind,
                    role=each.role,
                    tags=each.tags,
                    source_key=each.source_key,
                    fidelity=fidelity,
                    tokens=size.tokens(estimator, full),
                    thinking=thinking if signs_thinking else 0,
                    born=born,
                    last_use=0 if each.released else max(born, each.last_use),
                    last_fault=None if each.released else each.last_fault,
                    stale=each.stale or each.released,
                    kept=is_kept(Resident(each, fidelity), now) is not None,
                    later=later.get(each.id, Later.NOTHING),
                    captioned=each.is_pictured and Fidelity.DETAILED in each.renditions,
                )
            )
    return candidates


def is_there(obj: MemoryObject, asked: PendingRequest) -> bool:
    """Whether the object has a place in the client's history and may be degraded."""
    return bool(obj.places) and not obj.forgotten and obj.places[-1].message < len(asked.read.messages)


def blocks_of(read: Transcript, number: int) -> list[Message]:
    """The content blocks of one of the client's messages; of the last one for -1."""
    return read.blocks(range(len(read.messages))[number]) if read.messages else []
