"""How well segmentation agrees with labels made by hand.

The labels (``tests/domain/labels``) name objects of recorded sessions by their places and hold no text. An object is
found if the one that owns most of its blocks has its kind; its boundary is right if both own the same blocks.
"""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import attrs
import orjson

from benchmarks.harness import Group, Part, Row, Server, single
from mnemosyne.domain.objects.events import BlockPlace
from mnemosyne.domain.objects.kinds import ObjectKind
from mnemosyne.domain.objects.segmentation_state import SegmentationState
from mnemosyne.domain.segmentation.segment import Draft, SeenMessage, Segmented, segment

ROOT = Path(__file__).parent.parent
LABELS = ROOT / "tests" / "domain" / "labels" / "sessions.json"
SESSIONS = ROOT.parent / "shared" / "data" / "sessions"


_T = TypeVar("_T")


@attrs.frozen
class Labelled:
    """An object as labelled by hand. A debugging session is identified by its first and last place."""

    kind: ObjectKind
    places: tuple[BlockPlace, ...]


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
    for window in json.loads(LABELS.read_text()):
        labels = [
            Labelled(ObjectKind(kind), tuple(BlockPlace(*place) for place in places))
            for kind, places in window["objects"]
        ]
        _compare(labels, segment(sessions[window["session"]], SegmentationState()), window["messages"], total)
    return total


def recorded_sessions() -> dict[str, list[SeenMessage]]:
    """The recorded sessions by name; none where they are not on this machine."""
    found = {}
    for path in sorted(SESSIONS.glob("*.jsonl")):
        for line in path.read_bytes().splitlines():
            session = orjson.loads(line)
            found[session["name"]] = list(_seen(session["messages"]))
    return found


def _seen(messages: Sequence[Mapping[str, Any]]) -> Iterator[SeenMessage]:
    for index, message in enumerate(messages):
        content = message["content"]
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        yield SeenMessage(index, message["role"], index // 2 + 1, blocks)


def _compare(labels: Sequence[Labelled], found: Segmented, window: Sequence[int], total: Agreement) -> None:
    owner = {place: draft for draft in found.drafts for place in draft.places}
    label = {
        place: each.kind for each in labels if each.kind is not ObjectKind.DEBUGGING_SESSION for place in each.places
    }
    spans = [_span(draft, found) for draft in found.drafts if not draft.places]
    spans = [span for span in spans if window[0] <= span[0].message and span[1].message < window[1]]
    wanted = [(each.places[0], each.places[-1]) for each in labels if each.kind is ObjectKind.DEBUGGING_SESSION]
    for each in labels:
        total.labelled[each.kind] += 1
        if each.kind is ObjectKind.DEBUGGING_SESSION:
            same = right = any(_same_span(span, (each.places[0], each.places[-1])) for span in spans)
        else:
            draft = _most(owner.get(place) for place in each.places)
            right = draft is not None and draft.kind is each.kind
            same = draft is not None and draft.places == each.places
        total.recalled[each.kind] += right
        total.same_boundary += same
    for draft in found.drafts:
        kind = _most(label.get(place) for place in draft.places)
        if kind is not None:
            total.found[draft.kind] += 1
            total.right[draft.kind] += draft.kind is kind
    total.found[ObjectKind.DEBUGGING_SESSION] += len(spans)
    total.right[ObjectKind.DEBUGGING_SESSION] += sum(any(_same_span(span, each) for each in wanted) for span in spans)


def _most(values: Iterable[_T | None]) -> _T | None:
    """The value that comes most often, None among them; of equals the first."""
    seen: list[tuple[_T | None, int]] = []
    values = list(values)
    for value in values:
        if not any(value is each for each, _ in seen):
            seen.append((value, sum(value is other for other in values)))
    return max(seen, key=lambda each: each[1], default=(None, 0))[0]


def _span(draft: Draft, found: Segmented) -> tuple[BlockPlace, BlockPlace]:
    """From the first place of a derived object's parts to their last."""
    members = [found.drafts[link.target] for link in draft.links if isinstance(link.target, int)]
    return min(each.places[0] for each in members), max(each.places[-1] for each in members)


def _same_span(one: tuple[BlockPlace, BlockPlace], other: tuple[BlockPlace, BlockPlace]) -> bool:
    return one[0].message == other[0].message and one[1] == other[1]  # thinking may stand before the first call


def _labels(_servers: Sequence[Server], _quick: bool) -> list[Row]:
    """Precision and recall by kind; no rows where the sessions are not here."""
    sessions = recorded_sessions()
    if not sessions:
        return []
    total = agreement(sessions)
    rows = []
    for kind in ObjectKind:
        if total.labelled[kind]:
            labelled, found = f"{total.labelled[kind]} labelled", f"{total.found[kind]} found"
            rows.append(single(f"recall of {kind.value}", labelled, "ratio", total.recall(kind)))
            rows.append(single(f"precision of {kind.value}", found, "ratio", total.precision(kind)))
    return [*rows, single("boundaries", f"{total.labelled.total()} labelled", "ratio", total.boundaries)]


GROUP = Group("segmentation", (), (Part("labels", _labels),))
