"""Memory of a session: its objects, and what each of its branches shows of them.

The objects belong to the session, and its branches share them; the fidelity of an object belongs to each branch, and so
do its pins and releases there. A fork starts with the objects and fidelities of its parent, as far as both histories
are equal.
"""

from collections.abc import Iterable, Iterator, Mapping
from functools import reduce
from itertools import groupby, repeat
from operator import attrgetter

import attrs

from mnemosyne.domain.cost.tokens import CREDIBLE, Estimator, Features, MeasuredPrompt
from mnemosyne.domain.objects import aggregate
from mnemosyne.domain.objects.aggregate import MemoryObject, Pinned
from mnemosyne.domain.objects.events import (
    LinkRelation,
    ObjectCreated,
    ObjectDegraded,
    ObjectEvent,
    ObjectFaulted,
    ObjectPinned,
    ObjectReleased,
    ObjectRequested,
    ObjectRestored,
    ObjectSuperseded,
    ObjectUnpinned,
    TurnAssessed,
)
from mnemosyne.domain.objects.fidelity import Fidelity
from mnemosyne.domain.objects.kinds import KINDS, Role
from mnemosyne.domain.objects.segmentation_state import SegmentationState


@attrs.frozen(kw_only=True)
class Measure:
    """Prompt measurement of a branch: the content of its last assessed request, the last prompt with an exact size from
    the reply, and the estimator that such replies have calibrated.

    ``content`` are the features of the ``messages`` messages of that request, ``head`` those of system prompt and
    tools. ``left_out`` is how many fewer tokens are sent because the history was rewritten. Each prompt that the
    provider counts updates it; ``exact`` is false from a rewrite until the next counted prompt. ``assessed`` says how
    full the window was in that request.
    """

    turn: int = 0
    messages: int = 0
    content: Features = attrs.field(factory=Features)
    head: Features = attrs.field(factory=Features)
    left_out: int = 0
    anchor: MeasuredPrompt | None = None
    exact: bool = True
    estimator: Estimator | None = None
    assessed: TurnAssessed | None = None

    @property
    def held(self) -> Features:
        """Features of the whole request of the client."""
        return self.content + self.head

    def sum_sent(self, held: Features) -> Features:
        """The features that are sent for a client's request with these features."""
        return held - Features(fixed=self.left_out)


@attrs.frozen(kw_only=True)
class BranchView:
    """What one branch shows. ``objects`` are its objects in order of creation; an object without an entry in
    ``fidelity`` is shown in full. ``known`` is the state of segmentation; ``typed`` are the last messages that the user
    typed. ``before`` are the objects that it can query and restore, but that have no place in its history: those of the
    windows that this one succeeds, which its client dropped, and those that tools of the agent's host wrote.
    ``restored`` are the objects restored since the history was last rendered: they are shown where the restore added
    them, and not yet in their original place. ``requested`` are the objects that a person asked to restore, and to
    which fidelity. ``pins`` and ``released`` hold in this branch only; a pin None exempts it from one of every branch.
    """

    objects: tuple[str, ...] = ()
    fidelity: Mapping[str, Fidelity] = attrs.field(factory=dict)
    known: SegmentationState = attrs.field(factory=SegmentationState)
    typed: tuple[int, ...] = ()
    measure: Measure = attrs.field(factory=Measure)
    before: frozenset[str] = frozenset()
    restored: tuple[ObjectRestored, ...] = ()
    requested: Mapping[str, Fidelity] = attrs.field(factory=dict)
    pins: Mapping[str, Pinned | None] = attrs.field(factory=dict)
    released: frozenset[str] = frozenset()

    def own(self, each: MemoryObject) -> MemoryObject:
        """An object with the pin and the release that hold in the branch."""
        if each.id not in self.pins and each.id not in self.released:
            return each
        released = each.released or each.id in self.released
        return attrs.evolve(each, pin=self.pins.get(each.id, each.pin), released=released)

    def fidelity_of(self, object_id: str) -> Fidelity:
        """The fidelity at which the branch shows an object."""
        return self.fidelity.get(object_id, Fidelity.EVICTED if object_id in self.before else Fidelity.FULL)

    def estimator(self, model: str | None) -> Estimator:
        """The branch's token estimator: the calibrated one if there is one, otherwise the model's default."""
        return self.measure.estimator or Estimator.of(model)


@attrs.frozen(kw_only=True)
class Memory:
    """All objects of a session by id, and the view of each branch that has any. ``entities`` are the key entities of
    all objects so far. ``generation`` counts how often the memory was forgotten.
    """

    objects: Mapping[str, MemoryObject] = attrs.field(factory=dict)
    branches: Mapping[str, BranchView] = attrs.field(factory=dict)
    entities: frozenset[str] = frozenset()
    generation: int = 0

    def view_of(self, branch: str) -> BranchView:
        """What a branch shows; an empty view if it has no objects."""
        return self.branches.get(branch, _NOTHING)

    def standings(self, branch: str) -> Iterator[tuple[MemoryObject, Fidelity]]:
        """The objects of a branch with their fidelities, in order of creation."""
        shown = self.view_of(branch)
        if shown.before or shown.pins or shown.released:
            for object_id in shown.objects:
                yield shown.own(self.objects[object_id]), shown.fidelity_of(object_id)
        else:
            fidelities = map(shown.fidelity.get, shown.objects, repeat(Fidelity.FULL))
            yield from zip(map(self.objects.__getitem__, shown.objects), fidelities, strict=True)

    def within_reach(self, branch: str) -> Iterator[tuple[MemoryObject, Fidelity]]:
        """The objects that a branch can restore or query: its own and the objects of earlier windows."""
        yield from self.standings(branch)
        shown = self.view_of(branch)
        for object_id in sorted(shown.before):
            yield shown.own(self.objects[object_id]), shown.fidelity_of(object_id)

    def pins_of(self, object_id: str) -> Mapping[str, Pinned | None]:
        """The pins of an object by branch name; ``""`` stands for every branch except those with None."""
        everywhere = self.objects[object_id].pin
        pins = {name: shown.pins[object_id] for name, shown in self.branches.items() if object_id in shown.pins}
        return pins if everywhere is None else {"": everywhere, **pins}

    @property
    def last_assessed(self) -> TurnAssessed | None:
        """How full the window of the session's last assessed request was; None before the first one."""
        assessed = (each.measure.assessed for each in self.branches.values())
        return max(filter(None, assessed), key=lambda each: each.at, default=None)

    def with_view(self, branch: str, shown: BranchView) -> "Memory":
        return attrs.evolve(self, branches={**self.branches, branch: shown})


_NOTHING = BranchView()


def evolve(memory: Memory, event: ObjectEvent) -> Memory:
    """The memory after an event of an object."""
    if isinstance(event, ObjectCreated):
        return add_all(memory, (event,))
    changed = aggregate.evolve(memory.objects[event.object], event)
    objects = {**memory.objects, event.object: changed}
    memory = attrs.evolve(memory, objects=objects)
    match event:
        case ObjectUnpinned(branch=None) | ObjectPinned(branch=None):
            pinning = (name for name, each in memory.branches.items() if event.object in each.pins)
            return reduce(lambda held, name: held.with_view(name, _see(held.view_of(name), event)), pinning, memory)
        case ObjectPinned(branch=str(branch)) | ObjectUnpinned(branch=str(branch)):
            shown = _see(memory.view_of(branch), event)
            if isinstance(event, ObjectUnpinned) and changed.pin is not None:
                shown = attrs.evolve(shown, pins={**shown.pins, event.object: None})
            return memory.with_view(branch, shown)
        case ObjectReleased(everywhere=True):
            return memory
        case _ if isinstance(event, _OfView):
            return memory.with_view(event.branch, _see(memory.view_of(event.branch), event))
        case _:
            return memory


_OfView = ObjectDegraded | ObjectRestored | ObjectRequested | ObjectSuperseded | ObjectFaulted | ObjectReleased


def _see(shown: BranchView, event: _OfView | ObjectPinned | ObjectUnpinned) -> BranchView:
    """The view of a branch after one of its own events."""
    match event:
        case ObjectPinned(branch=str()):
            pin = Pinned(event.reason, event.until_turn)
            return attrs.evolve(shown, pins={**shown.pins, event.object: pin})
        case ObjectPinned() | ObjectUnpinned():
            return attrs.evolve(shown, pins={key: pin for key, pin in shown.pins.items() if key != event.object})
        case ObjectReleased():
            return attrs.evolve(shown, released=shown.released | {event.object})
        case ObjectFaulted():
            return attrs.evolve(shown, released=shown.released - {event.object})
        case ObjectDegraded():
            # A degraded object is shown in its original place again, so earlier restores of it no longer count.
            earlier = tuple(each for each in shown.restored if each.object != event.object)
            fidelity = {**shown.fidelity, event.object: event.after}
            return attrs.evolve(shown, fidelity=fidelity, restored=earlier)
        case ObjectRestored():
            fidelity = {**shown.fidelity, event.object: event.after}
            requested = {key: after for key, after in shown.requested.items() if key != event.object}
            return attrs.evolve(shown, fidelity=fidelity, restored=(*shown.restored, event), requested=requested)
        case ObjectRequested():
            requested = {**shown.requested, event.object: event.after}
            return attrs.evolve(shown, requested=requested, released=shown.released - {event.object})
        case ObjectSuperseded():
            return attrs.evolve(shown, known=shown.known.supersede(event.object))


def add_all(memory: Memory, created: Iterable[ObjectCreated]) -> Memory:
    """The memory after several objects were created. All in one step, which copies the table of objects once."""
    objects, branches, entities = {**memory.objects}, {**memory.branches}, set[str]()
    for branch, events in groupby(created, attrgetter("branch")):
        shown, all_made, used = branches.get(branch, _NOTHING), list[MemoryObject](), set[str]()
        for made in map(aggregate.make_object, events):
            objects[made.id] = made
            used.update(_use_linked(made, objects))
            all_made.append(made)
        own = [each for each in all_made if each.role is not Role.WRITTEN]
        entities.update(*(each.key_entities for each in own))
        branches[branch] = attrs.evolve(
            shown,
            objects=(*shown.objects, *(each.id for each in own)),
            known=shown.known.after_all(own),
            before=shown.before.union(each.id for each in all_made if each.role is Role.WRITTEN),
            released=shown.released.difference(used),
        )
    known = memory.entities if memory.entities.issuperset(entities) else memory.entities.union(entities)
    return attrs.evolve(memory, objects=objects, branches=branches, entities=known)


def _use_linked(made: MemoryObject, objects: dict[str, MemoryObject]) -> list[str]:
    """Record the use of the objects to which a new one links, since they are still needed; return their ids.

    All other events change only their own object. But the log records a use only as a link of the created object, so
    even if uses became events of their own, stored logs would still have to be folded like this.
    """
    grouped = KINDS[made.kind].is_conversation  # a phase or an episode only groups its parts, which is no use
    linked = [link.target for link in made.links if not grouped and link.target in objects]
    for each in linked:
        objects[each] = aggregate.access(objects[each], made.last_turn)
    return linked


def fork(memory: Memory, branch: str, parent: str, kept: int, forked_at: int) -> Memory:
    """The memory with a branch that shares its parent's first ``kept`` messages and its turns through ``forked_at``.

    Content that was restored after that turn lies behind the shared messages, so the fork does not show it.
    """
    before = memory.view_of(parent)
    came_later = [each for each in before.restored if each.turn > forked_at]
    fidelity = {**before.fidelity, **{each.object: each.before for each in reversed(came_later)}}
    inherited = [each for each in before.objects if _lies_within(memory, each, kept)]
    within_reach = before.before.union(inherited)
    left = [memory.objects[each] for each in before.objects if each not in within_reach]
    known = SegmentationState().after_all(memory.objects[each] for each in inherited)
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
            pins=before.pins,
            released=before.released,
        ),
    )


def succeed(memory: Memory, branch: str, parent: str) -> Memory:
    """The memory with a branch that begins with a summary of its parent."""
    shown = memory.view_of(parent)
    before = shown.before.union(shown.objects)
    return memory.with_view(branch, BranchView(before=before, pins=shown.pins, released=shown.released))


def proven(memory: Memory, branch: str, messages: int) -> Memory:
    """The memory available to a request that contains only a branch's first ``messages`` messages: the objects made of
    these, and those of the windows that they succeed. The sender of an early request may not be the client that
    continued the session, so it must not see later objects.
    """
    shown = memory.view_of(branch)
    known = tuple(each for each in shown.objects if _lies_within(memory, each, messages))
    return memory.with_view(branch, attrs.evolve(shown, objects=known)) if known != shown.objects else memory


def rewrite(memory: Memory, branch: str, freed: int) -> Memory:
    """The memory after a branch's history was rendered again, with each object in its place. ``freed`` is the estimate
    of how many tokens smaller the prompt became.
    """
    shown = memory.view_of(branch)
    measure = shown.measure
    if measure.anchor is not None:
        measure = attrs.evolve(measure, left_out=max(0, measure.left_out + freed), exact=False)
    return memory.with_view(branch, attrs.evolve(shown, measure=measure, restored=()))


def show_in_full(memory: Memory, branch: str) -> Memory:
    """The memory after a branch sent the client's full history: nothing is degraded, and content that the client
    dropped is not shown.
    """
    shown = memory.view_of(branch)
    measure = attrs.evolve(shown.measure, left_out=0, exact=False)
    return memory.with_view(branch, attrs.evolve(shown, fidelity={}, measure=measure, restored=(), requested={}))


def _lies_within(memory: Memory, object_id: str, kept: int) -> bool:
    """Whether an object was made only of the first ``kept`` messages; for a derived object, whether all its sources
    were.
    """
    obj = memory.objects[object_id]
    if obj.places:
        return all(place.message < kept for place in obj.places)
    sources = [link.target for link in obj.links if link.relation in (LinkRelation.PARENT_OF, LinkRelation.REFERENCES)]
    return all(_lies_within(memory, source, kept) for source in sources if source in memory.objects)


def assess(memory: Memory, event: TurnAssessed, messages: int) -> Memory:
    """The memory after a turn was assessed whose request had so many ``messages``."""
    shown = memory.view_of(event.branch)
    measure = attrs.evolve(
        shown.measure,
        turn=event.turn,
        messages=messages,
        content=Features(*event.content),
        head=Features(*event.head),
        estimator=shown.estimator(event.model),
        assessed=event,
    )
    shown = attrs.evolve(shown, known=shown.known.settle_before(event.open_from), typed=event.typed, measure=measure)
    return memory.with_view(event.branch, shown)


def account(memory: Memory, branch: str, turn: int, total: int, *, rewritten: bool) -> Memory:
    """The memory after the provider reported the prompt size of a turn. ``rewritten``: the prompt was not the one that
    the client had sent.
    """
    shown = memory.view_of(branch)
    measure = shown.measure
    if measure.turn != turn or measure.estimator is None:
        return memory
    if total > CREDIBLE * measure.estimator.tokens(measure.held):
        return memory
    estimator = _teach(measure, measure.estimator, total, rewritten)
    # No more than all messages can have been omitted, however small the reported total is.
    less = min(max(0, estimator.tokens(measure.held) - total), estimator.tokens(measure.content))
    measure = attrs.evolve(measure, estimator=estimator, left_out=less if rewritten else 0, exact=True)
    measure = attrs.evolve(measure, anchor=MeasuredPrompt(total, measure.sum_sent(measure.held)))
    return memory.with_view(branch, attrs.evolve(shown, measure=measure))


def _teach(measure: Measure, estimator: Estimator, total: int, rewritten: bool) -> Estimator:
    """The estimator calibrated by a prompt size. Rewritten prompts without an exact measurement do not calibrate it."""
    if measure.anchor is None:
        return estimator if rewritten else estimator.observe(measure.held, total)
    if not measure.exact:
        return estimator
    return estimator.observe(measure.sum_sent(measure.held) - measure.anchor.features, total - measure.anchor.total)


def forget(memory: Memory) -> Memory:
    """The memory after all text was erased. No branch shows anything any more, and messages that a client sends again
    are segmented from the first one.
    """
    return Memory(
        objects={key: aggregate.forget(obj) for key, obj in memory.objects.items()},
        branches={name: BranchView(measure=shown.measure) for name, shown in memory.branches.items()},
        generation=memory.generation + 1,
    )
