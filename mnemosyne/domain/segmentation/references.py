"""Links that follow from the paths that an object names: its cause, its references, its dependencies."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol

from mnemosyne.domain.objects.events import BlockPlace, LinkRelation
from mnemosyne.domain.objects.index import WHOLE, Indexable, ObjectPaths, Showing, Target, lines_of
from mnemosyne.domain.objects.kinds import KINDS, READ, UNCHANGED, WRITTEN, list_declared
from mnemosyne.domain.segmentation import paths

MOST = 5
"""The maximum number of references of one object."""

_LOOKED_AT = 32_768
"""How many characters at either end of a text are searched for paths."""

# Each part begins at the first of its characters and never within them: base64 has thousands of them in a row.
_PATH = re.compile(r"((?<![\w.@~+-])[\w.@~+-]*+(?:/[\w.@+-]++)+)|(?<![\w-])-*+([\w-]++(?:\.[\w-]++)+)")


class LinkedObject(Indexable, Protocol):
    """An object with its text."""

    @property
    def text(self) -> str: ...


class Paths:
    """The paths of objects' sources, indexed by file name."""

    def __init__(self) -> None:
        self._of: tuple[Mapping[str, object], Mapping[str, object]] | None = None
        self._by_name: dict[str, list[str]] = {}

    def count_named(self, text: str, index: ObjectPaths) -> Counter[str]:
        """Count the known paths that a text names."""
        if self._of is None or self._of[0] is not index.showing or self._of[1] is not index.changed:
            self._learn(index)
        counts: Counter[str] = Counter()
        if not self._by_name:
            return counts
        looked_at = text if len(text) <= 2 * _LOOKED_AT else text[:_LOOKED_AT] + "\n" + text[-_LOOKED_AT:]
        for name, number in Counter(folders or name for folders, name in _PATH.findall(looked_at)).items():
            path = self._find(paths.normal(name))
            if path is not None:
                counts[path] += number
        return counts

    def _learn(self, index: ObjectPaths) -> None:
        self._of = (index.showing, index.changed)
        self._by_name = {}
        for path in dict.fromkeys((*index.showing, *index.changed)):
            self._by_name.setdefault(path.rpartition("/")[2], []).append(path)

    def _find(self, name: str) -> str | None:
        """Return the single path that a name means, completely or as its end; None if there is none or several."""
        fitting = [
            path
            for path in self._by_name.get(name.rpartition("/")[2], ())
            if path == name or path.endswith("/" + name.lstrip("/")) or name.endswith("/" + path)
        ]
        return fitting[0] if len(fitting) == 1 else name if name in fitting else None


def links(
    made: LinkedObject, index: ObjectPaths, known: Paths, prompt: BlockPlace
) -> Iterator[tuple[LinkRelation, Target]]:
    """Yield the links from an object that is about to be made to earlier ones. ``prompt`` is the last one before it."""
    seen: set[Target] = set()
    for relation, target in (*_list_decisions(made, index, prompt), *_list_candidates(made, index, known)):
        if target not in seen:
            seen.add(target)
            yield relation, target


def _list_decisions(made: Indexable, index: ObjectPaths, prompt: BlockPlace) -> Iterator[tuple[LinkRelation, Target]]:
    """Yield the decisions during a conversation phase, or between a plan and the prompt before it."""
    first, traits = made.places[0], KINDS[made.kind]
    for decision in index.decided:
        if traits.is_conversation and first < decision.place:
            yield LinkRelation.PARENT_OF, decision.target
        elif traits.is_settled and not traits.is_decision and prompt < decision.place < first:
            yield LinkRelation.DEPENDS_ON, decision.target


def _list_candidates(made: LinkedObject, index: ObjectPaths, known: Paths) -> Iterator[tuple[LinkRelation, Target]]:
    first, traits = made.places[0], KINDS[made.kind]
    for how, relation in ((READ, LinkRelation.REFERENCES), (WRITTEN, LinkRelation.DEPENDS_ON)):
        for path in list_declared(made.tags, how):
            yield from _link_shown(path, first, index, relation)
    if traits.is_file:
        if made.source_key is not None and "edit" in made.tags:
            yield from _link_shown(made.source_key, first, index, LinkRelation.DEPENDS_ON)
    elif traits.names_files:
        named = [path for path, _ in known.count_named(made.text, index).most_common(MOST)]
        for path in named:
            changed = index.changed.get(path)
            if traits.is_failure and changed is not None and changed.place < first:
                yield LinkRelation.CAUSED_BY, changed.target
        for path in named:
            earlier = [shown for shown in index.showing.get(path, ()) if shown.place < first]
            if earlier:
                shown = _choose_read(earlier, made) if UNCHANGED in made.tags else earlier[-1]
                yield LinkRelation.REFERENCES, shown.target


def _choose_read(before: Sequence[Showing], made: Indexable) -> Showing:
    """Return the last object with the lines that a read asked for; the read was answered with a reference to it."""
    asked = lines_of(made.tags) or (WHOLE,)
    fitting = [shown for shown in before if shown.lines == asked] or [
        shown for shown in before if any(own[0] <= asked[0][0] and asked[0][1] <= own[1] for own in shown.lines)
    ]
    return (fitting or before)[-1]


def _link_shown(
    path: str, before: BlockPlace, index: ObjectPaths, relation: LinkRelation
) -> Iterator[tuple[LinkRelation, Target]]:
    """Yield the link of an object to the last one that showed the file."""
    showing = [shown for shown in index.showing.get(path, ()) if shown.place < before]
    if showing:
        yield relation, showing[-1].target
