"""What a session remembers: its objects, and what each of its branches shows of them.

Objects belong to the session and are shared by its branches; at which fidelity one stands is the branch's own. A fork
begins with the objects and the fidelities of its parent, as far as both histories are the same.
"""

from collections.abc import Iterator, Mapping
from functools import reduce
from itertools import repeat

import attrs

from mnemosyne.domain.cost.tokens import Estimator, Features, MeasuredPrompt
from mnemosyne.domain.objects import aggregate
from mnemosyne.domain.objects.aggregate import MemoryObject
from mnemosyne.domain.objects.events import (
    LinkRelation,
    ObjectCreated,
    ObjectDegraded,
    ObjectEvent,
    ObjectRequested,
    ObjectRestored,
    ObjectSuperseded,
    TurnAssessed,
)
from mnemosyne.domain.objects.fidelity import Fidelity
from mnemosyne.domain.objects.segmentation_state import SegmentationState


@attrs.frozen(kw_only=True)
class Measure:
    """How a branch's prompts are measured: what its last assessed request held, the last prompt whose exact size its
    reply told, and what such replies have taught.

    ``content`` are the features of the ``messages`` messages of that request, ``head`` those of system prompt and
    tools. ``left_out`` is how many tokens less are sent than that, because the history was rewritten. It is known from
    each prompt that the provider counts; ``exact`` is false from a rewrite to the next of these.
    """

    turn: int = 0
    messages: int = 0
    content: Features = attrs.field(factory=Features)
    head: Features = attrs.field(factory=Features)
    left_out: int = 0
    anchor: MeasuredPrompt | None = None
    exact: bool = True
    estimator: Estimator | None = None

    @property
    def held(self) -> Features:
        """All that the request held."""
        return self.content + self.head

    def sum_sent(self, held: Features) -> Features:
        """What is sent of a request that holds these."""
        return held - Features(fixed=self.left_out)


@attrs.frozen(kw_only=True)
class BranchView:
    """What one branch shows. ``objects`` are its objects in the order in which they were made; one that ``fidelity``
    does not name stands in full. ``known`` is where segmentation goes on; ``typed`` are the last messages that the user
    typed. ``before`` are the objects of the windows that this one succeeds: its client dropped them, and they can be
    queried and restored. ``restored`` is what came back since the history was rendered last: it stands where it came,
    and not yet in its old place. ``requested`` is what a person wants back, and how much of it.
    """

    objects: tuple[str, ...] = ()
    fidelity: Mapping[str, Fidelity] = attrs.field(factory=dict)
    known: SegmentationState = attrs.field(factory=SegmentationState)
    typed: tuple[int, ...] = ()
    measure: Measure = attrs.field(factory=Measure)
    before: frozenset[str] = frozenset()
    restored: tuple[ObjectRestored, ...] = ()
    requested: Mapping[str, Fidelity] = attrs.field(factory=dict)

    def fidelity_of(self, object_id: str) -> Fidelity:
        """At which fidelity it shows an object."""
        return self.fidelity.get(object_id, Fidelity.EVICTED if object_id in self.before else Fidelity.FULL)

    def estimator(self, model: str | None) -> Estimator:
        """What counts its tokens: what the replies so far have taught, or else a guess for the model."""
        return self.measure.estimator or Estimator.of(model)


@attrs.frozen(kw_only=True)
class Memory:
    """All objects of a session by id, and what each branch that holds any shows. ``entities`` are the key entities of
    all objects so far. ``generation`` counts how often everything was forgotten.
    """

    objects: Mapping[str, MemoryObject] = attrs.field(factory=dict)
    branches: Mapping[str, BranchView] = attrs.field(factory=dict)
    entities: frozenset[str] = frozenset()
    generation: int = 0

    def view_of(self, branch: str) -> BranchView:
        """What a branch shows; nothing, if it has no objects."""
        return self.branches.get(branch, _NOTHING)

    def standings(self, branch: str) -> Iterator[tuple[MemoryObject, Fidelity]]:
        """Each object of a branch with the fidelity at which it shows it, in the order in which they were made."""
        shown = self.view_of(branch)
        if shown.before:
            yield from ((self.objects[each], shown.fidelity_of(each)) for each in shown.objects)
        else:
            fidelities = map(shown.fidelity.get, shown.objects, repeat(Fidelity.FULL))
            yield from zip(map(self.objects.__getitem__, shown.objects), fidelities, strict=True)

    def within_reach(self, branch: str) -> Iterator[tuple[MemoryObject, Fidelity]]:
        """The objects that a branch can have back or ask about: its own, and those of the windows that it succeeds."""
        yield from self.standings(branch)
        shown = self.view_of(branch)
        for each in sorted(shown.before):
            yield self.objects[each], shown.fidelity_of(each)

    def with_view(self, branch: str, shown: BranchView) -> "Memory":
        """The memory with another view of a branch."""
        return attrs.evolve(self, branches={**self.branches, branch: shown})


_NOTHING = BranchView()


def evolve(memory: Memory, event: ObjectEvent) -> Memory:
    """The memory after something happened to an object."""
    if isinstance(event, ObjectCreated):
        return _add_object(memory, event)
    changed = aggregate.evolve(memory.objects[event.object], event)
    objects = {**memory.objects, event.object: changed}
    memory = attrs.evolve(memory, objects=objects)
    match event:
        case ObjectDegraded() | ObjectRestored() | ObjectRequested() | ObjectSuperseded():
            return memory.with_view(event.branch, _see(memory.view_of(event.branch), event))
        case _:
            return memory


def _see(shown: BranchView, event: ObjectDegraded | ObjectRestored | ObjectRequested | ObjectSuperseded) -> BranchView:
    """What a branch shows after an event of its own."""
    match event:
        case ObjectDegraded():
            # What is shown at less again stands in its place again, whatever came back before.
            earlier = tuple(each for each in shown.restored if each.object != event.object)
            fidelity = {**shown.fidelity, event.object: event.after}
            return attrs.evolve(shown, fidelity=fidelity, restored=earlier)
        case ObjectRestored():
            fidelity = {**shown.fidelity, event.object: event.after}
            requested = {key: after for key, after in shown.requested.items() if key != event.object}
            return attrs.evolve(shown, fidelity=fidelity, restored=(*shown.restored, event), requested=requested)
        case ObjectRequested():
            return attrs.evolve(shown, requested={**shown.requested, event.object: event.after})
        case ObjectSuperseded():
            return attrs.evolve(shown, known=shown.known.supersede(event.object))


def _add_object(memory: Memory, event: ObjectCreated) -> Memory:
    made = aggregate.make_object(event)
    objects = {**memory.objects, made.id: made}
    objects.update(_use_linked(made, objects))
    shown = memory.view_of(event.branch)
    shown = attrs.evolve(shown, objects=(*shown.objects, made.id), known=shown.known.after(made))
    entities = memory.entities
    if not entities.issuperset(made.key_entities):
        entities = entities.union(made.key_entities)
    memory = attrs.evolve(memory, objects=objects, entities=entities)
    return memory.with_view(event.branch, shown)


def _use_linked(made: MemoryObject, objects: Mapping[str, MemoryObject]) -> dict[str, MemoryObject]:
    """The objects that a new one refers to, as they are once they were of use to it: they are still needed.

    No other event changes more than its own object. But a log says no more of a use than the links of the object that
    was made: were each use an event of its own from now on, what is stored would still have to be folded like this.
    """
    used: dict[str, MemoryObject] = {}
    for link in () if aggregate.is_episode(made) else made.links:  # to be grouped is no use
        if link.target in objects:
            each = used.get(link.target, objects[link.target])
            used[link.target] = aggregate.access(each, made.last_turn)
    return used


def fork(memory: Memory, branch: str, parent: str, kept: int, forked_at: int) -> Memory:
    """The memory with a branch that shares the first ``kept`` messages of its parent, and its turns through
    ``forked_at``: what came back after that turn stands behind the messages that both share.
    """
    before = memory.view_of(parent)
    came_later = [each for each in before.restored if each.turn > forked_at]
    fidelity = {**before.fidelity, **{each.object: each.before for each in reversed(came_later)}}
    inherited = [each for each in before.objects if _lies_within(memory, each, kept)]
    within_reach = before.before.union(inherited)
    left = [memory.objects[each] for each in before.objects if each not in within_reach]
    known = reduce(SegmentationState.after, (memory.objects[each] for each in inherited), SegmentationState())
    first_open = min([kept, before.known.open, *(place.message for each in left for place in each.places[:1])])
    return memory.with_view(
        branch,
        BranchView(
            objects=tuple(inherited),
            fidelity={each: at for each, at in fidelity.items() if each in within_reach},
            known=known.settle_before(first_open),
            typed=tuple(each for each in before.typed if each < kept),
            before=before.before,
            restored=tuple(each for each in before.restored if each.turn <= forked_at),
        ),
    )


def succeed(memory: Memory, branch: str, parent: str) -> Memory:
    """The memory with a branch that begins with a summary of its parent."""
    shown = memory.view_of(parent)
    return memory.with_view(branch, BranchView(before=shown.before.union(shown.objects)))


def proven(memory: Memory, branch: str, messages: int) -> Memory:
    """The memory as a request may have it that holds only the first ``messages`` messages of a branch: what was made of
    these, and of the windows that they succeed. Who sends an early request again need not be who went on from it.
    """
    shown = memory.view_of(branch)
    known = tuple(each for each in shown.objects if _lies_within(memory, each, messages))
    return memory.with_view(branch, attrs.evolve(shown, objects=known)) if known != shown.objects else memory


def rewrite(memory: Memory, branch: str, freed: int) -> Memory:
    """The memory once a branch's history was rendered again, each object in its place: its prompt became smaller by so
    many tokens, as far as one can tell before it is sent.
    """
    shown = memory.view_of(branch)
    measure = shown.measure
    if measure.anchor is not None:
        measure = attrs.evolve(measure, left_out=max(0, measure.left_out + freed), exact=False)
    return memory.with_view(branch, attrs.evolve(shown, measure=measure, restored=()))


def show_in_full(memory: Memory, branch: str) -> Memory:
    """The memory once a branch sent all that its client says: nothing is shown at less, and what its client dropped is
    not there.
    """
    shown = memory.view_of(branch)
    measure = attrs.evolve(shown.measure, left_out=0, exact=False)
    return memory.with_view(branch, attrs.evolve(shown, fidelity={}, measure=measure, restored=(), requested={}))


def _lies_within(memory: Memory, object_id: str, kept: int) -> bool:
    """Whether an object was made of the first ``kept`` messages alone; a derived one, whether all its sources were."""
    each = memory.objects[object_id]
    if each.places:
        return all(place.message < kept for place in each.places)
    sources = [link.target for link in each.links if link.relation in (LinkRelation.PARENT_OF, LinkRelation.REFERENCES)]
    return all(_lies_within(memory, source, kept) for source in sources if source in memory.objects)


def assess(memory: Memory, event: TurnAssessed, messages: int) -> Memory:
    """The memory once a turn was assessed whose request had so many ``messages``."""
    shown = memory.view_of(event.branch)
    measure = attrs.evolve(
        shown.measure,
        turn=event.turn,
        messages=messages,
        content=Features(*event.content),
        head=Features(*event.head),
        estimator=shown.estimator(event.model),
    )
    shown = attrs.evolve(shown, known=shown.known.settle_before(event.open_from), typed=event.typed, measure=measure)
    return memory.with_view(event.branch, shown)


def account(memory: Memory, branch: str, turn: int, total: int, *, rewritten: bool) -> Memory:
    """The memory once the provider has said how large the prompt of a turn was; ``rewritten`` says that the prompt was
    not what the client had sent.
    """
    shown = memory.view_of(branch)
    measure = shown.measure
    if measure.turn != turn or measure.estimator is None:
        return memory
    estimator = _teach(measure, measure.estimator, total, rewritten)
    # No more than the messages can have been left out, however little is said to be left.
    less = min(max(0, estimator.tokens(measure.held) - total), estimator.tokens(measure.content))
    measure = attrs.evolve(measure, estimator=estimator, left_out=less if rewritten else 0, exact=True)
    measure = attrs.evolve(measure, anchor=MeasuredPrompt(total, measure.sum_sent(measure.held)))
    return memory.with_view(branch, attrs.evolve(shown, measure=measure))


def _teach(measure: Measure, estimator: Estimator, total: int, rewritten: bool) -> Estimator:
    """The estimator with what the size of a prompt teaches; what a rewrite took out teaches nothing."""
    if measure.anchor is None:
        return estimator if rewritten else estimator.observe(measure.held, total)
    if not measure.exact:
        return estimator
    return estimator.observe(measure.sum_sent(measure.held) - measure.anchor.features, total - measure.anchor.total)


def forget(memory: Memory) -> Memory:
    """The memory after everything that was said was erased. No branch shows anything any more, and what a client sends
    again is segmented from its first message.
    """
    return Memory(
        objects={key: aggregate.forget(each) for key, each in memory.objects.items()},
        branches={name: BranchView(measure=shown.measure) for name, shown in memory.branches.items()},
        generation=memory.generation + 1,
    )
