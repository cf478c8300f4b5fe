"""What a session remembers: its objects, and what each of its branches shows of them.

Objects belong to the session and are shared by its branches; at which fidelity one stands is the branch's own. A fork
begins with the objects and the fidelities of its parent, as far as both histories are the same.
"""

from collections.abc import Iterator, Mapping
from functools import reduce

import attrs

from mnemosyne.domain import memory_object
from mnemosyne.domain.fidelity import Fidelity
from mnemosyne.domain.memory_object import (
    MemoryObject,
    ObjectCreated,
    ObjectDegraded,
    ObjectEvent,
    ObjectForgotten,
    ObjectRestored,
    ObjectSuperseded,
    Relation,
)
from mnemosyne.domain.segmentation import Known
from mnemosyne.domain.session_events import TurnAssessed
from mnemosyne.domain.tokens import Anchor, Estimator, Features


@attrs.frozen(kw_only=True)
class Measure:
    """How a branch's prompts are measured: what its last assessed request held, the last prompt whose exact size its
    reply told, and what such replies have taught.

    ``content`` are the features of the ``messages`` messages of that request, ``head`` those of system prompt and
    tools. ``exact`` is false once that prompt was rewritten: then the anchor's total is an estimate.
    """

    turn: int = 0
    messages: int = 0
    content: Features = attrs.field(factory=Features)
    head: Features = attrs.field(factory=Features)
    anchor: Anchor | None = None
    exact: bool = True
    estimator: Estimator | None = None

    @property
    def held(self) -> Features:
        """All that the request held."""
        return self.content + self.head


@attrs.frozen(kw_only=True)
class Shown:
    """What one branch shows. ``objects`` are its objects in the order in which they were made; one that ``fidelity``
    does not name stands in full. ``known`` is where segmentation goes on; ``typed`` are the last messages that the user
    typed; ``wished`` is what pressure alone would do. ``before`` are the objects of the windows that this one succeeds:
    its client dropped them, and they can be queried and restored.
    """

    objects: tuple[str, ...] = ()
    fidelity: Mapping[str, Fidelity] = attrs.field(factory=dict)
    known: Known = attrs.field(factory=Known)
    typed: tuple[int, ...] = ()
    measure: Measure = attrs.field(factory=Measure)
    wished: Mapping[str, Fidelity] = attrs.field(factory=dict)
    before: frozenset[str] = frozenset()

    def fidelity_of(self, object_id: str) -> Fidelity:
        """At which fidelity it shows an object."""
        return self.fidelity.get(object_id, Fidelity.EVICTED if object_id in self.before else Fidelity.FULL)


@attrs.frozen(kw_only=True)
class Memory:
    """All objects of a session by id, and what each branch that holds any shows. ``entities`` are the key entities of
    all objects so far. ``generation`` counts how often everything was forgotten.
    """

    objects: Mapping[str, MemoryObject] = attrs.field(factory=dict)
    branches: Mapping[str, Shown] = attrs.field(factory=dict)
    entities: frozenset[str] = frozenset()
    generation: int = 0

    def shown(self, branch: str) -> Shown:
        """What a branch shows; nothing, if it has no objects."""
        return self.branches.get(branch, _NOTHING)

    def standings(self, branch: str) -> Iterator[tuple[MemoryObject, Fidelity]]:
        """Each object of a branch with the fidelity at which it shows it, in the order in which they were made."""
        shown = self.shown(branch)
        for each in shown.objects:
            yield self.objects[each], shown.fidelity_of(each)

    def within_reach(self, branch: str) -> Iterator[tuple[MemoryObject, Fidelity]]:
        """The objects that a branch can have back or ask about: its own, and those of the windows that it succeeds."""
        yield from self.standings(branch)
        shown = self.shown(branch)
        for each in sorted(shown.before):
            yield self.objects[each], shown.fidelity_of(each)

    def with_shown(self, branch: str, shown: Shown) -> "Memory":
        """The memory with another view of a branch."""
        return attrs.evolve(self, branches={**self.branches, branch: shown})


_NOTHING = Shown()


def evolve(memory: Memory, event: ObjectEvent) -> Memory:
    """The memory after something happened to an object."""
    if isinstance(event, ObjectCreated):
        return _created(memory, event)
    changed = memory_object.evolve(memory.objects[event.object], event)
    memory = attrs.evolve(memory, objects={**memory.objects, event.object: changed})
    match event:
        case ObjectDegraded() | ObjectRestored():
            shown = memory.shown(event.branch)
            fidelity = {**shown.fidelity, event.object: event.after}
            return memory.with_shown(event.branch, attrs.evolve(shown, fidelity=fidelity))
        case ObjectSuperseded():
            shown = memory.shown(event.branch)
            known = shown.known.superseded(event.object)
            return memory.with_shown(event.branch, attrs.evolve(shown, known=known))
        case _:
            return memory


def _created(memory: Memory, event: ObjectCreated) -> Memory:
    made = memory_object.created(event)
    objects = {**memory.objects, made.id: made}
    for link in made.links:
        if link.target in objects:  # whatever refers to an object shows that it is still needed
            objects[link.target] = memory_object.accessed(objects[link.target], made.last_turn)
    shown = memory.shown(event.branch)
    shown = attrs.evolve(shown, objects=(*shown.objects, made.id), known=shown.known.after(made))
    entities = memory.entities.union(made.key_entities)
    return attrs.evolve(memory, objects=objects, entities=entities).with_shown(event.branch, shown)


def forked(memory: Memory, branch: str, parent: str, kept: int) -> Memory:
    """The memory with a branch that shares the first ``kept`` messages of its parent."""
    before = memory.shown(parent)
    inherited = [each for each in before.objects if _lies_within(memory, each, kept)]
    left = [memory.objects[each] for each in before.objects if each not in set(inherited)]
    known = reduce(Known.after, (memory.objects[each] for each in inherited), Known())
    first_open = min([kept, before.known.open, *(place.message for each in left for place in each.places[:1])])
    return memory.with_shown(
        branch,
        Shown(
            objects=tuple(inherited),
            fidelity={each: before.fidelity[each] for each in inherited if each in before.fidelity},
            known=known.opened(first_open),
            typed=tuple(each for each in before.typed if each < kept),
            before=before.before,
        ),
    )


def succeeded(memory: Memory, branch: str, parent: str) -> Memory:
    """The memory with a branch that begins with a summary of its parent."""
    shown = memory.shown(parent)
    return memory.with_shown(branch, Shown(before=shown.before.union(shown.objects)))


def freed(memory: Memory, branch: str, tokens: int) -> Memory:
    """The memory once a branch's prompt became smaller by so many tokens, as far as one can tell before it is sent."""
    shown = memory.shown(branch)
    anchor = shown.measure.anchor
    if anchor is None:
        return memory
    less = attrs.evolve(anchor, total=max(0, anchor.total - tokens))
    smaller = attrs.evolve(shown.measure, anchor=less, exact=False)
    return memory.with_shown(branch, attrs.evolve(shown, measure=smaller))


def _lies_within(memory: Memory, object_id: str, kept: int) -> bool:
    """Whether an object was made of the first ``kept`` messages alone; a derived one, whether all its sources were."""
    each = memory.objects[object_id]
    if each.places:
        return all(place.message < kept for place in each.places)
    sources = [link.target for link in each.links if link.relation in (Relation.PARENT_OF, Relation.REFERENCES)]
    return all(_lies_within(memory, source, kept) for source in sources if source in memory.objects)


def assessed(memory: Memory, event: TurnAssessed, messages: int) -> Memory:
    """The memory once a turn was assessed whose request had so many ``messages``."""
    shown = memory.shown(event.branch)
    wished = {key: fidelity for key, fidelity in shown.wished.items() if key not in event.withdrawn}
    measure = attrs.evolve(
        shown.measure,
        turn=event.turn,
        messages=messages,
        content=Features(*event.content),
        head=Features(*event.head),
        estimator=shown.measure.estimator or Estimator.of(event.model),
    )
    shown = attrs.evolve(
        shown,
        known=shown.known.opened(event.open_from),
        typed=event.typed,
        wished={**wished, **{each.object: each.after for each in event.wished}},
        measure=measure,
    )
    return memory.with_shown(event.branch, shown)


def accounted(memory: Memory, branch: str, turn: int, total: int) -> Memory:
    """The memory once the provider has said how large the prompt of a turn was."""
    shown = memory.shown(branch)
    measure = shown.measure
    if measure.turn != turn or measure.estimator is None:
        return memory
    if measure.anchor is None:
        estimator = measure.estimator.observe(measure.held, total)
    elif not measure.exact:
        estimator = measure.estimator
    else:
        grown = total - measure.anchor.total
        estimator = measure.estimator.observe(measure.held - measure.anchor.features, grown)
    measure = attrs.evolve(measure, estimator=estimator, anchor=Anchor(total, measure.held), exact=True)
    return memory.with_shown(branch, attrs.evolve(shown, measure=measure))


def forgotten(memory: Memory, at: int) -> Memory:
    """The memory after everything that was said was erased. No branch shows anything any more, and what a client sends
    again is segmented from its first message.
    """
    return Memory(
        objects={
            key: memory_object.evolve(each, ObjectForgotten(at=at, object=key, reason=""))
            for key, each in memory.objects.items()
        },
        branches={name: Shown(measure=shown.measure) for name, shown in memory.branches.items()},
        generation=memory.generation + 1,
    )
