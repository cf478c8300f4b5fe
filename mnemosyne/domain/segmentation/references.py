"""Links that follow from the paths that an object names: what caused it, what it refers to, what it depends on."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol

from mnemosyne.domain.objects.events import BlockPlace, LinkRelation
from mnemosyne.domain.objects.index import WHOLE, Indexable, ObjectPaths, Showing, Target, lines_of
from mnemosyne.domain.objects.kinds import KINDS, UNCHANGED
from mnemosyne.domain.segmentation import paths

MOST = 5
"""References of one object."""

_LOOKED_AT = 32_768
"""Characters at either end of a text in which paths are looked for."""

# Either part begins where its characters do and nowhere within them: base64 has thousands of them in a row.
_PATH = re.compile(r"((?<![\w.@~+-])[\w.@~+-]*+(?:/[\w.@+-]++)+)|(?<![\w-])-*+([\w-]++(?:\.[\w-]++)+)")


class Said(Indexable, Protocol):
    """An object with its text."""

    @property
    def text(self) -> str: ...


class Paths:
    """The paths that objects came from, found again by their last part."""

    def __init__(self) -> None:
        self._of: tuple[Mapping[str, object], Mapping[str, object]] | None = None
        self._by_name: dict[str, list[str]] = {}

    def count_named(self, text: str, index: ObjectPaths) -> Counter[str]:
        """The known paths that a text names, and how often."""
        if self._of is None or self._of[0] is not index.showing or self._of[1] is not index.changed:
            self._learn(index)
        found: Counter[str] = Counter()
        if not self._by_name:
            return found
        looked_at = text if len(text) <= 2 * _LOOKED_AT else text[:_LOOKED_AT] + "\n" + text[-_LOOKED_AT:]
        for name, count in Counter(_paths_in(looked_at)).items():
            path = self._find(paths.normal(name))
            if path is not None:
                found[path] += count
        return found

    def _learn(self, index: ObjectPaths) -> None:
        self._of = (index.showing, index.changed)
        self._by_name = {}
        for path in dict.fromkeys((*index.showing, *index.changed)):
            self._by_name.setdefault(path.rpartition("/")[2], []).append(path)

    def _find(self, name: str) -> str | None:
        """The one path that a name means, whole or as the end of it; None if there is no such or several."""
        fitting = [
            path
            for path in self._by_name.get(name.rpartition("/")[2], ())
            if path == name or path.endswith("/" + name.lstrip("/")) or name.endswith("/" + path)
        ]
        return fitting[0] if len(fitting) == 1 else name if name in fitting else None


def _paths_in(text: str) -> Iterator[str]:
    """What looks like a path."""
    return (folders or name for folders, name in _PATH.findall(text))


def links(made: Said, index: ObjectPaths, known: Paths) -> Iterator[tuple[LinkRelation, Target]]:
    """The edges from an object that is about to be made to those before it."""
    seen: set[Target] = set()
    for relation, target in _each(made, index, known):
        if target not in seen:
            seen.add(target)
            yield relation, target


def _each(made: Said, index: ObjectPaths, known: Paths) -> Iterator[tuple[LinkRelation, Target]]:
    first, traits = made.places[0], KINDS[made.kind]
    if traits.is_file:
        if made.source_key is not None and "edit" in made.tags:
            yield from _link_shown(made.source_key, first, index)
    elif traits.names_files:
        named = [path for path, _ in known.count_named(made.text, index).most_common(MOST)]
        for path in named:
            changed = index.changed.get(path)
            if traits.is_failure and changed is not None and changed.place < first:
                yield LinkRelation.CAUSED_BY, changed.target
        for path in named:
            before = [each for each in index.showing.get(path, ()) if each.place < first]
            if before:
                shown = _choose_read(before, made) if UNCHANGED in made.tags else before[-1]
                yield LinkRelation.REFERENCES, shown.target


def _choose_read(before: Sequence[Showing], made: Indexable) -> Showing:
    """What a read refers to that was answered with a reference: the last object that shows the lines it asked for."""
    asked = lines_of(made.tags) or (WHOLE,)
    fitting = [each for each in before if each.lines == asked] or [
        each for each in before if any(own[0] <= asked[0][0] and asked[0][1] <= own[1] for own in each.lines)
    ]
    return (fitting or before)[-1]


def _link_shown(path: str, before: BlockPlace, index: ObjectPaths) -> Iterator[tuple[LinkRelation, Target]]:
    """What an edit quotes from: the last object that showed the file."""
    showing = [each for each in index.showing.get(path, ()) if each.place < before]
    if showing:
        yield LinkRelation.DEPENDS_ON, showing[-1].target
