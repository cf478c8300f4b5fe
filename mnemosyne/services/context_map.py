"""A context window over its turns: which objects stood in it, in the order in which the provider read them, at which
fidelity, and what they took.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from operator import itemgetter
from uuid import UUID

import attrs

from mnemosyne.domain.objects.fidelity import Fidelity
from mnemosyne.domain.session.counted_sizes import Scales, TurnSize, find_scales, tokens_of
from mnemosyne.services.read_models import Question, ReadModels, Row

_QUERIES = ("windows_on", "objects_on", "changes_on", "sent_on")
_TOKENS = {
    Fidelity.FULL: "tokens",
    Fidelity.DETAILED: "detailed_tokens",
    Fidelity.COMPACT: "compact_tokens",
    Fidelity.STUB: "stub_tokens",
}


@attrs.frozen(kw_only=True)
class MapTurn:
    """One turn. ``estimated`` is what its prompt was thought to hold before it was sent, in tokens, ``fixed`` the part
    of that which is system prompt and tools; ``counted`` is what the provider counted, None where it did not.
    ``read`` is what of it came out of the provider's cache as the provider told, None where it did not. ``epoch``: its
    history was rewritten before it was sent.
    """

    turn: int
    estimated: int
    fixed: int
    usable: int
    zone: str
    counted: int | None
    read: int | None = None
    epoch: bool = False
    missed: int = 0

    @property
    def tokens(self) -> int:
        """What is shown of its size: what was counted, where it was."""
        return self.estimated if self.counted is None else self.counted


@attrs.frozen(kw_only=True)
class MapObject:
    """An object that came into the window with the request of ``turn``. ``tokens`` is what it takes in full,
    ``version`` that of the event that made it.
    """

    id: str
    kind: str
    turn: int
    tokens: int
    version: int


@attrs.frozen(kw_only=True)
class Span:
    """From turn ``first`` through ``last`` an object stood at a fidelity, which took so many tokens. ``place`` orders
    what stands in a window at one time.
    """

    object: MapObject
    first: int
    last: int
    fidelity: Fidelity
    tokens: int
    place: tuple[int, int]


@attrs.frozen(kw_only=True)
class ContextMap:
    """A branch's window over its turns. Those of ``spans`` that are of one object follow each other."""

    branch: str
    turns: Sequence[MapTurn]
    spans: Sequence[Span]

    @property
    def cuts(self) -> Sequence[int]:
        """The turns from which on something stood at another fidelity than before, in order."""
        ends = {span.last + 1 for span in self.spans}
        last = self.turns[-1].turn if self.turns else 0
        return sorted(turn for turn in ends if turn <= last)

    @property
    def over(self) -> Sequence[int]:
        """The turns whose prompts held more than is usable of their window."""
        return [each.turn for each in self.turns if each.usable and each.tokens > each.fixed + each.usable]

    def until(self, turn: int) -> "ContextMap":
        """The map up to and with that turn."""
        spans = [attrs.evolve(each, last=min(each.last, turn)) for each in self.spans if each.first <= turn]
        return ContextMap(branch=self.branch, turns=[each for each in self.turns if each.turn <= turn], spans=spans)

    def standing_at(self, turn: int) -> Sequence[Span]:
        """Where each object stood that had come by then."""
        return [span for span in self.spans if span.first <= turn <= span.last]


async def read_map(models: ReadModels, stream: UUID, branch: str) -> ContextMap:
    """The map of a branch of a session; an empty one where nothing of it was remembered. Raises LogFailed."""
    about = {"stream": stream, "branch": branch}
    windows, objects, changes, sent, faults, told = await models.answers(
        *(Question("working_set", query, about) for query in _QUERIES),
        Question("working_set", "faults_of", about),
        Question("timeline", "turns", about),
    )
    names = {row["object"] for row in objects}
    missed = [row["turn"] for row in faults if row["object"] in names]
    reads = {(row["branch"], row["turn"]): row["cache_read_tokens"] for row in told}
    rewritten = {row["turn"] for row in sent if row["round"] == 0}
    turns = [
        MapTurn(
            turn=row["turn"],
            estimated=row["tokens"],
            fixed=row["fixed"],
            usable=row["usable"],
            zone=row["zone"],
            counted=row["counted"],
            read=reads.get((row["branch"], row["turn"])),
            epoch=row["turn"] in rewritten,
            missed=missed.count(row["turn"]),
        )
        for row in windows
    ]
    last = turns[-1].turn if turns else 0
    spans = _spans(objects, changes, sent, scales_of(windows), last)
    return ContextMap(branch=branch, turns=turns, spans=list(spans))


def scales_of(windows: Iterable[Row]) -> Scales:
    """At which scale people are told what came with turns, by the rows that say how large their prompts were."""
    return find_scales(
        TurnSize(**{name: row[name] for name in ("branch", "turn", "tokens", "counted")}) for row in windows
    )


def _spans(
    objects: Sequence[Row], changes: Sequence[Row], sent: Sequence[Row], scales: Scales, last: int
) -> Iterator[Span]:
    """Where each object stood from its turn on."""
    resets = _resets(sent)
    rewrites = [row["turn"] for row in sent if row["round"] == 0]
    moves = {
        each: list(rows)
        for each, rows in groupby(sorted(changes, key=itemgetter("object", "version")), itemgetter("object"))
    }
    for row in objects:
        sizes = [tokens_at(row, fidelity, scales) for fidelity in Fidelity]
        yield from _spans_of(row, sizes, moves.get(row["object"], ()), resets, rewrites, last)


def _resets(sent: Sequence[Row]) -> Sequence[Row]:
    """Requests by which the client's whole history was sent again: they began an epoch without a rewrite."""
    found, epoch = [], None
    for row in sent:
        if row["round"] == 1 and epoch is not None and row["epoch"] > epoch:
            found.append(row)
        epoch = row["epoch"]
    return found


def _spans_of(
    row: Row, sizes: Sequence[int], changes: Sequence[Row], resets: Sequence[Row], rewrites: Sequence[int], last: int
) -> Iterator[Span]:
    own = (row["last_message"], row["version"])
    known = MapObject(
        id=row["object"],
        kind=row["kind"],
        turn=row["last_turn"],
        tokens=sizes[Fidelity.FULL],
        version=row["version"],
    )
    steps: dict[int, tuple[Fidelity, tuple[int, int]]] = {row["last_turn"]: (Fidelity.FULL, own)}
    for each in sorted([*changes, *resets], key=itemgetter("version")):
        fidelity = Fidelity(each["fidelity"]) if "fidelity" in each else Fidelity.FULL
        # What came back stands at the end of what there was then, until the history is rewritten.
        place = (_END, each["version"]) if each.get("restored") else own
        steps[max(each["turn"], row["last_turn"])] = (fidelity, place)
        if place != own:
            after = next((turn for turn in rewrites if turn > each["turn"]), None)
            if after is not None:
                steps[after] = (fidelity, own)
    turns = sorted(steps)
    for turn, following in zip(turns, [*turns[1:], last + 1], strict=True):
        fidelity, place = steps[turn]
        if following > turn:
            yield Span(
                object=known,
                first=turn,
                last=following - 1,
                fidelity=fidelity,
                tokens=sizes[fidelity],
                place=place,
            )


_END = 2**62
"""Behind every message."""


def tokens_at(row: Row, fidelity: Fidelity, scales: Scales) -> int:
    """What an object takes at a fidelity, by its row; 0 once it is evicted, or where nobody knows."""
    estimate = row[_TOKENS[fidelity]] or 0 if fidelity in _TOKENS else 0
    return tokens_of(estimate, row["branch"], row["last_turn"], scales)
