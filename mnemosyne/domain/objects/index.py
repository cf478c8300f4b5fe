"""Segmentation's index of earlier objects, small enough to copy with each change.

It is folded from the objects themselves, so a rebuild yields the same index.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Protocol, TypeVar

import attrs

from mnemosyne.domain.objects.events import BlockPlace
from mnemosyne.domain.objects.kinds import KINDS, READ, WRITTEN, ObjectKind, list_declared

Target = str | int
"""An object: its id, or the index of a draft in the same segmentation."""

KEYS = 512
"""How many source keys, and how many paths, the index holds; the least recently updated are dropped first."""

READS = 8
"""How many objects that show the same file the index holds."""

DECISIONS = 8
"""How many of the latest decisions the index holds."""

RECENT = 64
"""How many of the latest objects can become part of a debugging session."""

Lines = tuple[int, int]
"""First and last line of a file."""

WHOLE: Lines = (1, 1 << 40)

_BEFORE_ALL = BlockPlace(-1, 0)

_V = TypeVar("_V")


class Described(Protocol):
    """The fields that say what an object shows."""

    @property
    def kind(self) -> ObjectKind: ...
    @property
    def source_key(self) -> str | None: ...
    @property
    def tags(self) -> tuple[str, ...]: ...
    @property
    def places(self) -> tuple[BlockPlace, ...]: ...


class Indexable(Described, Protocol):
    """The fields that are read of an object: a ``MemoryObject`` and a ``Draft`` have them."""

    @property
    def first_turn(self) -> int: ...


@attrs.frozen
class At:
    """An object and its last place."""

    target: Target
    place: BlockPlace


@attrs.frozen
class Showing:
    """An object that shows a file. ``lines`` are ranges (first, last), empty if unknown. ``stale``: the file was
    changed since.
    """

    target: Target
    place: BlockPlace
    lines: tuple[Lines, ...]
    stale: bool = False

    def covers(self, other: "Showing") -> bool:
        """Whether this object makes the other one redundant."""
        if other.place >= self.place:
            return False
        first = min((lines[0] for lines in other.lines), default=WHOLE[0])
        last = max((lines[1] for lines in other.lines), default=WHOLE[1])
        return any(lines[0] <= first and last <= lines[1] for lines in self.lines)


@attrs.frozen
class Done:
    """A candidate part of a debugging session, with the place where it begins."""

    target: Target
    place: BlockPlace
    turn: int
    key: str | None
    failed: bool
    changed: bool


@attrs.frozen
class ObjectPaths:
    """``showing`` and ``changed`` are by path, ``latest`` by source key; ``decided`` are the latest decisions.
    ``prompt`` is the start of the newest user prompt that is in an object.
    """

    showing: Mapping[str, tuple[Showing, ...]] = attrs.field(factory=dict)
    changed: Mapping[str, At] = attrs.field(factory=dict)
    latest: Mapping[str, At] = attrs.field(factory=dict)
    recent: tuple[Done, ...] = ()
    decided: tuple[At, ...] = ()
    prompt: BlockPlace = _BEFORE_ALL

    def after(self, target: Target, made: Indexable, parts: Iterable[Target]) -> "ObjectPaths":
        """The index after an object was created; ``parts`` are the objects that it is the parent of."""
        if not made.places:
            taken = set(parts)
            return attrs.evolve(self, recent=tuple(each for each in self.recent if each.target not in taken))
        first, last = made.places[0], made.places[-1]
        index, traits = self, KINDS[made.kind]
        if traits.is_file and made.source_key is not None:
            index = index._with_file(made.source_key, target, last, made.tags)
        elif made.source_key is not None:
            index = index._with_key(made.source_key, At(target, last))
        for path in list_declared(made.tags, READ):
            index = index._with_file(path, target, last, ("read",))
        for path in list_declared(made.tags, WRITTEN):
            index = index._with_file(path, target, last, ("edit",))
        if traits.is_decision:
            index = attrs.evolve(index, decided=(*index.decided, At(target, last))[-DECISIONS:])
        if "user" in made.tags or "summary" in made.tags:
            index = attrs.evolve(index, prompt=max(index.prompt, first))
        if traits.is_fetched:
            done = Done(
                target,
                first,
                made.first_turn,
                made.source_key,
                failed="run" in made.tags and traits.is_failure,
                changed="edit" in made.tags or "write" in made.tags,
            )
            index = attrs.evolve(index, recent=(*index.recent, done)[-RECENT:])
        return index

    def supersede(self, target: Target) -> "ObjectPaths":
        """The index after an object was superseded."""
        for path, showing in self.showing.items():
            if any(each.target == target and not each.stale for each in showing):
                stale = tuple(attrs.evolve(each, stale=True) if each.target == target else each for each in showing)
                return attrs.evolve(self, showing={**self.showing, path: stale})
        return self

    def find_before(self, key: str, place: BlockPlace) -> At | None:
        """The latest object of a source key, if it precedes a place."""
        latest = self.latest.get(key)
        return latest if latest is not None and latest.place < place else None

    def fresh(self, path: str, place: BlockPlace) -> Iterator[Showing]:
        """The objects before a place that show the current state of a file."""
        return (showing for showing in self.showing.get(path, ()) if not showing.stale and showing.place < place)

    def find_covered(self, path: str, new: Showing) -> Iterator[Showing]:
        """The objects that a new object of the same file replaces."""
        return (showing for showing in self.showing.get(path, ()) if new.covers(showing))

    def _with_file(self, path: str, target: Target, last: BlockPlace, tags: tuple[str, ...]) -> "ObjectPaths":
        index = self
        if "read" in tags or "write" in tags:
            new = Showing(target, last, lines_of(tags))
            kept = tuple(each for each in self.showing.get(path, ()) if not new.covers(each))
            index = attrs.evolve(index, showing=_newest(self.showing, path, (*kept, new)[-READS:]))
        if "edit" in tags or "write" in tags:
            before = self.changed.get(path)
            if before is None or before.place < last:
                index = attrs.evolve(index, changed=_newest(self.changed, path, At(target, last)))
        return index

    def _with_key(self, key: str, at: At) -> "ObjectPaths":
        before = self.latest.get(key)
        if before is not None and before.place > at.place:
            return self
        return attrs.evolve(self, latest=_newest(self.latest, key, at))


def lines_of(tags: Iterable[str]) -> tuple[Lines, ...]:
    """The lines of a file that an object shows, from its tags."""
    ranges = []
    for tag in tags:
        if tag == "whole":
            ranges.append(WHOLE)
        elif tag.startswith("lines:"):
            first, _, last = tag[6:].partition("-")
            ranges.append((int(first), int(last)))
    return tuple(ranges)


def _newest(mapping: Mapping[str, _V], key: str, value: _V) -> dict[str, _V]:
    """The mapping with the key moved to the end; the oldest key is dropped if it grew too large."""
    changed = {each: mapping[each] for each in mapping if each != key} if key in mapping else dict(mapping)
    changed[key] = value
    if len(changed) > KEYS:
        del changed[next(iter(changed))]
    return changed
