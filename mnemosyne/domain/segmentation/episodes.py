"""The topics of a branch over time: its objects in episodes, and episodes in themes.

An episode is itself an object made of others, as a debugging session is: its links name its parts and the previous
episode about the same topic. From turn ``FIRST_TURN`` on each episode is recorded as soon as it is over. Its text
consists of the names in its parts, so nothing has to be read again for it.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

import attrs

from mnemosyne.domain.objects.aggregate import MemoryObject, is_episode, parts_of
from mnemosyne.domain.objects.events import LinkRelation
from mnemosyne.domain.objects.kinds import ObjectKind, Role
from mnemosyne.domain.objects.memory import Memory
from mnemosyne.domain.segmentation.index_line import last_part
from mnemosyne.domain.segmentation.segment import Draft, DraftLink
from mnemosyne.domain.segmentation.topics import AFTER, SAME_THEME, START, Names, Weights, likeness, shifts
from mnemosyne.domain.text.entities import key_entities
from mnemosyne.domain.text.stubs import plain, render_count, stub

FIRST_TURN = 50
"""Before this turn, a branch is short enough to survey without episodes."""

TAG = "episode"

NAMES = 12
"""How many names describe an episode."""


@attrs.frozen(kw_only=True)
class Episode:
    """A stretch about one topic. ``object`` is its id, None while it continues. ``theme`` is the id of the first
    episode about the same topic, possibly its own. ``parts`` are ids in the order in which they were made.
    """

    object: str | None
    theme: str | None
    first_turn: int
    last_turn: int
    parts: tuple[str, ...]
    about: str


@attrs.frozen
class Topics:
    """The episodes of a branch in order, the last of which is still open; empty before ``FIRST_TURN``."""

    episodes: tuple[Episode, ...]

    @property
    def themes(self) -> Sequence[Sequence[Episode]]:
        """The themes with more than one episode, in order."""
        by_theme: dict[str | None, list[Episode]] = {}
        for episode in self.episodes:
            by_theme.setdefault(episode.theme, []).append(episode)
        return [episodes for episodes in by_theme.values() if len(episodes) > 1]


def topics_of(memory: Memory, branch: str) -> Topics:
    """Return the recorded and the current topics of a branch."""
    recorded = _episodes(memory, branch)
    if not recorded and memory.view_of(branch).measure.turn < FIRST_TURN:
        return Topics(())
    result: list[Episode] = []
    for recorded_episode in recorded:
        names = {episode.object: episode.theme for episode in result}
        same = next(
            (names[link.target] for link in recorded_episode.links if link.target in names), recorded_episode.id
        )
        result.append(
            Episode(
                object=recorded_episode.id,
                theme=same,
                first_turn=recorded_episode.first_turn,
                last_turn=recorded_episode.last_turn,
                parts=parts_of(recorded_episode),
                about=_about(recorded_episode.stub),
            )
        )
    objects = _list_grouped(memory, branch)
    taken = {part for episode in recorded for part in parts_of(episode)}
    rest = [made for made in objects if made.id not in taken]
    if rest:
        draft = _draft(rest, _names(rest).weights(_names(objects)))
        parts = tuple(made.id for made in rest)
        first, last, about = draft.first_turn, draft.last_turn, _about(draft.stub)
        result.append(Episode(object=None, theme=None, first_turn=first, last_turn=last, parts=parts, about=about))
    return Topics(tuple(result))


def list_ended(before: Memory, after: Memory, branch: str, turn: int) -> Sequence[Draft]:
    """Return the episodes of a branch that have ended with a turn.

    ``after`` contains the objects that the turn made, after those of ``before``.
    """
    if turn < FIRST_TURN:
        return []
    known = before.view_of(branch)
    if known.measure.turn < FIRST_TURN:
        return list(_list_ended(after, branch, _list_grouped(after, branch), 0))
    made = sum(
        bool(after.objects[object_id].places) for object_id in after.view_of(branch).objects[len(known.objects) :]
    )
    placed = (each for each in map(after.objects.__getitem__, reversed(after.view_of(branch).objects)) if each.places)
    if not any("user" in each.tags for each in islice(placed, AFTER - 1, AFTER - 1 + made)):
        return []  # no prompt has just got enough objects behind it
    objects = _list_grouped(after, branch)
    return list(_list_ended(after, branch, objects, len(objects) - made))


def _list_ended(memory: Memory, branch: str, objects: Sequence[MemoryObject], seen: int) -> Iterator[Draft]:
    recorded = _episodes(memory, branch)
    taken = {part for episode in recorded for part in parts_of(episode)}
    prompts = [number for number, candidate in enumerate(objects) if "user" in candidate.tags]
    unassigned = (objects[number].places[0] for number in prompts if objects[number].id not in taken)
    since = min(unassigned, default=START) if recorded else START
    places = [candidate.places[0] for candidate in objects]
    ended = list(shifts(places, prompts, lambda number: list_specific(objects[number].key_entities), since, seen))
    if not ended:
        return
    earlier: list[tuple[str | int, Names]] = [
        (episode.id, _names(memory.objects[part] for part in parts_of(episode))) for episode in recorded
    ]
    background, counted = _names(()), 0
    for number, shift in enumerate(ended):
        parts = [
            candidate
            for candidate in objects[: shift.made]
            if candidate.id not in taken and candidate.places[0] < shift.place
        ]
        taken.update(part.id for part in parts)
        background, counted = background + _names(objects[counted : shift.made]), shift.made
        named = _names(parts)
        weights = named.weights(background)
        draft = _draft(parts, weights)
        same = _same_theme(weights, [(target, names.weights(background)) for target, names in earlier])
        if same is not None:
            draft = attrs.evolve(draft, links=(*draft.links, DraftLink(LinkRelation.REFERENCES, same)))
        earlier.append((number, named))
        yield draft


def _same_theme(weights: Weights, others: Sequence[tuple[str | int, Weights]]) -> str | int | None:
    """Return the earlier episode most similar to one, if any is about the same topic; the latest of equals."""
    likely = [(likeness(weights, other), number) for number, (_, other) in enumerate(others)]
    best, number = max(likely, default=(0.0, 0))
    return others[number][0] if best >= SAME_THEME else None


def _list_grouped(memory: Memory, branch: str) -> Sequence[MemoryObject]:
    """Return the grouped objects in the order in which they were made: those with places, unlike claims and debugging
    sessions.
    """
    return [made for made in map(memory.objects.__getitem__, memory.view_of(branch).objects) if made.places]


def _episodes(memory: Memory, branch: str) -> Sequence[MemoryObject]:
    return [made for made in map(memory.objects.__getitem__, memory.view_of(branch).objects) if is_episode(made)]


# The text of an episode

_TITLE = "Episode: "


def _about(title: str) -> str:
    return title.removeprefix(_TITLE).rpartition(" (")[0]


def _draft(parts: Sequence[MemoryObject], weights: Weights) -> Draft:
    """Make an episode of these objects, described by the names with the highest weights."""
    names = sorted(weights, key=weights.__getitem__, reverse=True)[:NAMES]
    shown = ", ".join(dict.fromkeys(plain(last_part(name), 40) for name in names))
    first, last = min(part.first_turn for part in parts), max(part.last_turn for part in parts)
    line = stub(f"{_TITLE}{shown or parts[0].stub}", f"turns {first}-{last}", render_count(len(parts), "object"))
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
        stub=line,
        line=line,
        key_entities=key_entities("\n".join(names), NAMES),
        links=tuple(DraftLink(LinkRelation.PARENT_OF, part.id) for part in parts),
    )


def _names(objects: Iterable[MemoryObject]) -> Names:
    return Names.of(list_specific(named.key_entities) for named in objects)


def list_specific(names: Iterable[str]) -> Sequence[str]:
    """Return the names that distinguish topics: not plain words, which are names only because they are called."""
    return [name for name in names if name not in _INPUTS and not (name.isalpha() and name[1:].islower())]


_INPUTS = frozenset({"file_path", "old_string", "new_string", "replace_all", "output_mode", "head_limit", "-n", "-A"})
"""The names of clients' tool inputs: they occur in every call and show no topic."""
