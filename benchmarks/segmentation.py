"""How well segmentation agrees with labels made by hand.

The labels (``tests/domain/labels``) name objects of recorded sessions by their places and hold no text. An object is
found if the one that owns most of its blocks has its kind; its boundary is right if both own the same blocks.
"""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TypeVar

import attrs

from benchmarks.harness import Group, Row, Server, single
from benchmarks.recordings import list_raw
from mnemosyne.domain.objects.events import BlockPlace
from mnemosyne.domain.objects.kinds import ObjectKind
from mnemosyne.domain.objects.segmentation_state import SegmentationState
from mnemosyne.domain.segmentation.segment import Draft, SeenMessage, Segmented, segment
from tests.replay.message_streams import blocks_of

LABELS = Path(__file__).parents[1] / "tests" / "domain" / "labels" / "sessions.json"

T = TypeVar("T")

Labels = Sequence[tuple[ObjectKind, Sequence[BlockPlace]]]
"""Objects as labelled by hand: the kind, and the places; of a debugging session its first and last place."""


@attrs.define
class Agreement:
    """Counts of objects by kind: ``labelled`` and ``recalled`` labels, ``found`` and ``right`` objects."""

    labelled: Counter[ObjectKind] = attrs.field(factory=Counter)
    recalled: Counter[ObjectKind] = attrs.field(factory=Counter)
    found: Counter[ObjectKind] = attrs.field(factory=Counter)
    right: Counter[ObjectKind] = attrs.field(factory=Counter)
    same_boundary: int = 0

    def precision(self, kind: ObjectKind) -> float:
        return self.right[kind] / max(1, self.found[kind])

    def recall(self, kind: ObjectKind) -> float:
        return self.recalled[kind] / max(1, self.labelled[kind])

    @property
    def boundaries(self) -> float:
        return self.same_boundary / max(1, self.labelled.total())


def agreement(sessions: Mapping[str, Sequence[SeenMessage]]) -> Agreement:
    """How far segmentation agrees with the labels of these sessions."""
    total = Agreement()
    for window in json.loads(LABELS.read_text(encoding="utf-8")):
        labels = [(ObjectKind(kind), [BlockPlace(*place) for place in places]) for kind, places in window["objects"]]
        _compare(labels, segment(sessions[window["session"]], SegmentationState()), window["messages"], total)
    return total


def recorded_sessions() -> dict[str, list[SeenMessage]]:
    """The recorded sessions by name; none where they are not on this machine."""
    return {
        session["name"]: [
            SeenMessage(index, message["role"], index // 2 + 1, blocks_of(message))
            for index, message in enumerate(session["messages"])
        ]
        for session in list_raw("*.jsonl")
    }


def _compare(labels: Labels, found: Segmented, window: Sequence[int], total: Agreement) -> None:
    debugging = ObjectKind.DEBUGGING_SESSION
    owner = {place: draft for draft in found.drafts for place in draft.places}
    label = {place: kind for kind, places in labels if kind is not debugging for place in places}
    spans = [_span(draft, found) for draft in found.drafts if not draft.places]
    spans = [span for span in spans if window[0] <= span[0].message and span[1].message < window[1]]
    wanted = [(places[0], places[-1]) for kind, places in labels if kind is debugging]
    for kind, places in labels:
        total.labelled[kind] += 1
        if kind is debugging:
            same = right = any(_same_span(span, (places[0], places[-1])) for span in spans)
        else:
            draft = _most([owner.get(place) for place in places])
            right = draft is not None and draft.kind is kind
            same = draft is not None and [*draft.places] == places
        total.recalled[kind] += right
        total.same_boundary += same
    for draft in found.drafts:
        labelled = _most([label.get(place) for place in draft.places])
        if labelled is not None:
            total.found[draft.kind] += 1
            total.right[draft.kind] += draft.kind is labelled
    total.found[debugging] += len(spans)
    total.right[debugging] += sum(any(_same_span(span, each) for each in wanted) for span in spans)


def _most(values: Sequence[T | None]) -> T | None:
    """The value that comes most often, None among them; of equals the first."""
    return max(values, key=lambda value: sum(value is other for other in values), default=None)


def _span(draft: Draft, found: Segmented) -> tuple[BlockPlace, BlockPlace]:
    """From the first place of a derived object's parts to their last."""
    members = [found.drafts[link.target] for link in draft.links if isinstance(link.target, int)]
    return min(each.places[0] for each in members), max(each.places[-1] for each in members)


def _same_span(one: tuple[BlockPlace, BlockPlace], other: tuple[BlockPlace, BlockPlace]) -> bool:
    return one[0].message == other[0].message and one[1] == other[1]  # thinking may stand before the first call


def _labels(_servers: Sequence[Server], _quick: bool) -> list[Row]:
    """Precision and recall by kind; no rows where the sessions are not here."""
    if not (sessions := recorded_sessions()):
        return []
    total = agreement(sessions)
    rows = []
    for kind in filter(total.labelled.get, ObjectKind):
        labelled, found = f"{total.labelled[kind]} labelled", f"{total.found[kind]} found"
        rows.append(single(f"recall of {kind.value}", labelled, "ratio", total.recall(kind)))
        rows.append(single(f"precision of {kind.value}", found, "ratio", total.precision(kind)))
    return [*rows, single("boundaries", f"{total.labelled.total()} labelled", "ratio", total.boundaries)]


GROUP = Group("segmentation", (), {"labels": _labels})
