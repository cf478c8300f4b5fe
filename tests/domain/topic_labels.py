"""Where the topic shifts in recorded sessions, labelled by hand, and how well a segmentation agrees with that.

The labels (``labels/topics.json``) name by their messages the prompts that turn to something else, as one reader judged
by the prompts alone, before the code was tried on them. They hold no text.
"""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import accumulate
from pathlib import Path

import attrs

from benchmarks.segmentation import recorded_sessions
from mnemosyne.domain.objects.events import BlockPlace
from mnemosyne.domain.objects.segmentation_state import SegmentationState
from mnemosyne.domain.segmentation.episodes import list_specific
from mnemosyne.domain.segmentation.segment import segment
from mnemosyne.domain.segmentation.topics import shifts
from mnemosyne.domain.text.entities import key_entities

LABELS: Mapping[str, Sequence[int]] = json.loads((Path(__file__).parent / "labels" / "topics.json").read_text())

NEAR = 21
"""Half the length of a labelled episode in objects: how far apart the two are whose topics are compared."""


@attrs.frozen
class Session:
    """The objects of a session in the order in which they were made."""

    places: Sequence[BlockPlace]
    prompts: Sequence[int]
    names: Sequence[Sequence[str]]


def labelled() -> dict[str, Session]:
    """The labelled sessions by name; none where they are not on this machine."""
    found = {}
    for name, messages in recorded_sessions().items():
        if name in LABELS:
            drafts = [each for each in segment(messages, SegmentationState()).drafts if each.places]
            places = [each.places[0] for each in drafts]
            prompts = [number for number, each in enumerate(drafts) if "user" in each.tags]
            names = [list_specific(key_entities(each.text, 12)) for each in drafts]
            found[name] = Session(places, prompts, names)
    return found


def found_in(session: Session) -> Sequence[int]:
    """The messages at which our segmentation begins an episode."""
    return [shift.place.message for shift in shifts(session.places, session.prompts, session.names.__getitem__)]


def disagreement(sessions: Mapping[str, Session], segmented: Callable[[Session], Iterable[int]]) -> tuple[float, float]:
    """Pk (Beeferman 1999) and WindowDiff (Pevzner and Hearst 2002), the mean over sessions: 0 is the labels."""
    both = [_disagreement(each, LABELS[name], segmented(each)) for name, each in sessions.items()]
    return sum(pk for pk, _ in both) / len(both), sum(difference for _, difference in both) / len(both)


def _disagreement(session: Session, wanted: Iterable[int], found: Iterable[int]) -> tuple[float, float]:
    places = sorted(session.places)
    right, ours = _episode_of_each(places, wanted), _episode_of_each(places, found)
    between = [(right[i + NEAR] - right[i], ours[i + NEAR] - ours[i]) for i in range(len(places) - NEAR)]
    pk = sum((one == 0) != (other == 0) for one, other in between)
    return pk / len(between), sum(one != other for one, other in between) / len(between)


def _episode_of_each(places: Sequence[BlockPlace], begins: Iterable[int]) -> list[int]:
    at = {next(i for i, place in enumerate(places) if place.message >= message) for message in begins} - {0}
    return list(accumulate(int(i in at) for i in range(len(places))))
