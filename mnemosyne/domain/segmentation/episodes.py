"""What a branch was about, and when: its objects in episodes, and episodes in themes.

An episode is itself an object, made of others as a debugging session is: its links name its parts, and the last episode
before it that was about the same. From turn ``FIRST_TURN`` on each is recorded as soon as it is over; what it says is
made of the names in its parts, so nothing has to be read again for it.
"""

from collections.abc import Iterable, Iterator, Sequence
from functools import cache, lru_cache

import attrs

from mnemosyne.domain.objects.aggregate import MemoryObject, is_episode, parts_of
from mnemosyne.domain.objects.events import LinkRelation
from mnemosyne.domain.objects.kinds import ObjectKind, Role
from mnemosyne.domain.objects.memory import Memory
from mnemosyne.domain.segmentation.lines import last_part
from mnemosyne.domain.segmentation.segment import OPEN_MESSAGES, Draft, DraftLink
from mnemosyne.domain.segmentation.topics import (
    BEFORE,
    NEWEST,
    SAME_THEME,
    START,
    Names,
    Vector,
    Weights,
    likeness,
    shifts,
)
from mnemosyne.domain.text.entities import key_entities
from mnemosyne.domain.text.lexical_vector import lexical_vector
from mnemosyne.domain.text.stubs import plain, render_count, stub

FIRST_TURN = 50
"""Before that, a branch is short enough to be seen at a glance."""

TAG = "episode"

NAMES = 12
"""So many names say what an episode is about."""


@attrs.frozen(kw_only=True)
class Episode:
    """A stretch about one topic. ``object`` is its id, None while it goes on; ``theme`` is the id of the first episode
    about the same, its own if it is that itself. ``parts`` are ids, in the order in which they were made.
    """

    object: str | None
    theme: str | None
    first_turn: int
    last_turn: int
    parts: tuple[str, ...]
    about: str


@attrs.frozen
class Topics:
    """The episodes of a branch in order, the last of which goes on; none before ``FIRST_TURN``."""

    episodes: tuple[Episode, ...]

    @property
    def themes(self) -> Sequence[Sequence[Episode]]:
        """The themes with more than one episode, in order."""
        found: dict[str | None, list[Episode]] = {}
        for each in self.episodes:
            found.setdefault(each.theme, []).append(each)
        return [episodes for episodes in found.values() if len(episodes) > 1]


def topics_of(memory: Memory, branch: str) -> Topics:
    """What a branch was about, as far as it is recorded, and what it is about now."""
    recorded = _episodes(memory, branch)
    if not recorded and memory.view_of(branch).measure.turn < FIRST_TURN:
        return Topics(())
    found: list[Episode] = []
    for each in recorded:
        names = {episode.object: episode.theme for episode in found}
        same = next((names[link.target] for link in each.links if link.target in names), each.id)
        found.append(
            Episode(
                object=each.id,
                theme=same,
                first_turn=each.first_turn,
                last_turn=each.last_turn,
                parts=parts_of(each),
                about=_about(each.stub),
            )
        )
    objects = _list_grouped(memory, branch)
    taken = {part for each in recorded for part in parts_of(each)}
    rest = [each for each in objects if each.id not in taken]
    if rest:
        draft = _draft(rest, _names(rest).weights(_names(objects)))
        parts = tuple(each.id for each in rest)
        first, last, about = draft.first_turn, draft.last_turn, _about(draft.stub)
        found.append(Episode(object=None, theme=None, first_turn=first, last_turn=last, parts=parts, about=about))
    return Topics(tuple(found))


def over(before: Memory, after: Memory, branch: str, turn: int) -> Sequence[Draft]:
    """The episodes of a branch that a turn shows to be over; ``after`` has the objects that the turn made, behind those
    of ``before``.
    """
    if turn < FIRST_TURN:
        return []
    known = before.view_of(branch)
    if known.measure.turn < FIRST_TURN:
        return list(_over(after, branch, _list_grouped(after, branch), 0))
    made = sum(bool(after.objects[each].places) for each in after.view_of(branch).objects[len(known.objects) :])
    if not made or not _may_shift(_newest(after, branch, made), made):
        return []
    objects = _list_grouped(after, branch)
    return list(_over(after, branch, objects, len(objects) - made))


def _newest(memory: Memory, branch: str, made: int) -> list[MemoryObject]:
    """The grouped objects on which it depends whether the newest ``made`` show a shift: those that tell which prompts
    are not decided yet, what such a prompt is compared with, and whatever may have been made since it was sent.
    """
    found: list[MemoryObject] = []
    lowest, before = 0, 0
    for each in map(memory.objects.__getitem__, reversed(memory.view_of(branch).objects)):
        if each.places:
            if before >= BEFORE and each.places[-1].message < lowest - _LATE:
                break
            found.append(each)
            if len(found) == made + NEWEST:
                lowest = min(one.places[0].message for one in found)
            elif len(found) > made + NEWEST:
                before += each.places[0].message < lowest
    return found[::-1]


_LATE = 4 * OPEN_MESSAGES
"""An object is made before so many messages came behind it, in a fork, too, which reads what was open once more."""


def _may_shift(objects: Sequence[MemoryObject], made: int) -> bool:
    """Whether the newest ``made`` of these objects may show a shift, wherever the last one was."""
    prompts = [number for number, each in enumerate(objects) if "user" in each.tags]
    if not prompts:
        return False
    places = [each.places[0] for each in objects]
    found = shifts(places, prompts, lambda number: _vector(objects[number]), START, len(objects) - made)
    return next(found, None) is not None


def _over(memory: Memory, branch: str, objects: Sequence[MemoryObject], seen: int) -> Iterator[Draft]:
    recorded = _episodes(memory, branch)
    taken = {part for each in recorded for part in parts_of(each)}
    prompts = [number for number, each in enumerate(objects) if "user" in each.tags]
    left = (objects[number].places[0] for number in prompts if objects[number].id not in taken)
    since = min(left, default=START) if recorded else START
    places = [each.places[0] for each in objects]
    found = list(shifts(places, prompts, cache(lambda number: _vector(objects[number])), since, seen))
    if not found:
        return
    earlier: list[tuple[str | int, Names]] = [
        (each.id, _names(memory.objects[part] for part in parts_of(each))) for each in recorded
    ]
    there, counted = _names(()), 0
    for number, shift in enumerate(found):
        parts = [each for each in objects[: shift.made] if each.id not in taken and each.places[0] < shift.place]
        taken.update(each.id for each in parts)
        there, counted = there + _names(objects[counted : shift.made]), shift.made
        named = _names(parts)
        telling = named.weights(there)
        draft = _draft(parts, telling)
        same = _same_theme(telling, [(target, names.weights(there)) for target, names in earlier])
        if same is not None:
            draft = attrs.evolve(draft, links=(*draft.links, DraftLink(LinkRelation.REFERENCES, same)))
        earlier.append((number, named))
        yield draft


def _same_theme(telling: Weights, others: Sequence[tuple[str | int, Weights]]) -> str | int | None:
    """The episode that is most like one, if any is about the same; of equals the latest."""
    likely = [(likeness(telling, each), number) for number, (_, each) in enumerate(others)]
    best, number = max(likely, default=(0.0, 0))
    return others[number][0] if best >= SAME_THEME else None


def _list_grouped(memory: Memory, branch: str) -> Sequence[MemoryObject]:
    """The objects that are grouped, in the order in which they were made. Claims and debugging sessions name some."""
    return [each for each in map(memory.objects.__getitem__, memory.view_of(branch).objects) if each.places]


def _episodes(memory: Memory, branch: str) -> Sequence[MemoryObject]:
    return [each for each in map(memory.objects.__getitem__, memory.view_of(branch).objects) if is_episode(each)]


def _vector(each: MemoryObject) -> Vector:
    """What is compared of an object: it is at hand, and does as well as its text or a model of meaning."""
    return _vector_of(" ".join((*each.key_entities, each.source_key or "")))


@lru_cache(maxsize=256)
def _vector_of(text: str) -> Vector:
    """Prompts stand close together, so the same objects are compared around several of them."""
    return lexical_vector(text)


# What an episode says

_TITLE = "Episode: "


def _about(said: str) -> str:
    return said.removeprefix(_TITLE).rpartition(" (")[0]


def _draft(parts: Sequence[MemoryObject], telling: Weights) -> Draft:
    """The episode of some objects; the names in them that tell most say what it is about."""
    names = sorted(telling, key=telling.__getitem__, reverse=True)[:NAMES]
    shown = ", ".join(dict.fromkeys(plain(last_part(each), 40) for each in names))
    first, last = min(each.first_turn for each in parts), max(each.last_turn for each in parts)
    said = stub(f"{_TITLE}{shown or parts[0].stub}", f"turns {first}-{last}", render_count(len(parts), "object"))
    return Draft(
        kind=ObjectKind.CONVERSATION_PHASE,
        role=Role.DERIVED,
        source_tool=None,
        source_key=None,
        tags=(TAG,),
        first_turn=first,
        last_turn=last,
        places=(),
        text="\n".join(names),
        stub=said,
        line=said,
        key_entities=key_entities("\n".join(names), NAMES),
        links=tuple(DraftLink(LinkRelation.PARENT_OF, each.id) for each in parts),
    )


def _names(objects: Iterable[MemoryObject]) -> Names:
    return Names.of([name for name in each.key_entities if _tells(name)] for each in objects)


_INPUTS = frozenset({"file_path", "old_string", "new_string", "replace_all", "output_mode", "head_limit", "-n", "-A"})
"""What clients call the inputs of their tools: in every call, and about nothing."""


def _tells(name: str) -> bool:
    """Whether a name tells one topic from another: no plain word, which is a name only because it is called."""
    return name not in _INPUTS and not (name.isalpha() and name[1:].islower())
