"""A context window over its turns: its objects in the provider's order, their fidelity and their size."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from itertools import groupby
from operator import itemgetter
from uuid import UUID

import attrs

from mnemosyne.domain.objects.fidelity import Fidelity
from mnemosyne.domain.session.counted_sizes import CountedTurns, Scales, tokens_of
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
    """One turn. ``estimated`` is the estimate of its prompt's tokens as it was sent, ``fixed`` its system prompt and
    tools; ``counted`` is the provider's count, None if it reported none. ``read`` are its tokens from the
    provider's cache, None if not reported. ``epoch``: its history was rewritten before it was sent.
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
        """Its size to show: the provider's count, otherwise the estimate."""
        return self.estimated if self.counted is None else self.counted


@attrs.frozen(kw_only=True)
class MapObject:
    """An object that entered the window with the request of ``turn``. ``tokens`` is its full size, ``version`` its
    event's.
    """

    id: str
    kind: str
    turn: int
    tokens: int
    version: int


@attrs.frozen(kw_only=True)
class Span:
    """From turn ``first`` through ``last`` the window showed an object at a fidelity, in this number of tokens.
    ``place`` orders the objects of a window.
    """

    object: MapObject
    first: int
    last: int
    fidelity: Fidelity
    tokens: int
    place: tuple[int, int]


@attrs.frozen(kw_only=True)
class ContextMap:
    """A branch's window over its turns. The ``spans`` of one object are adjacent."""

    branch: str
    turns: Sequence[MapTurn]
    spans: Sequence[Span]

    @property
    def cuts(self) -> Sequence[int]:
        """The turns at which any object's fidelity changes, in order."""
        ends = {span.last + 1 for span in self.spans}
        last = self.turns[-1].turn if self.turns else 0
        return sorted(turn for turn in ends if turn <= last)

    @property
    def over(self) -> Sequence[int]:
        """The turns whose prompts exceed the usable part of the window."""
        return [each.turn for each in self.turns if each.usable and each.tokens > each.fixed + each.usable]

    def until(self, turn: int) -> "ContextMap":
        """The map up to and including that turn."""
        spans = [attrs.evolve(each, last=min(each.last, turn)) for each in self.spans if each.first <= turn]
        return ContextMap(branch=self.branch, turns=[each for each in self.turns if each.turn <= turn], spans=spans)

    def standing_at(self, turn: int) -> Sequence[Span]:
        """The span of each object at a turn, for objects that had entered by then."""
        return [span for span in self.spans if span.first <= turn <= span.last]


async def read_map(models: ReadModels, stream: UUID, branch: str) -> ContextMap:
    """The map of a branch of a session; empty if no object was made of it. Raises LogFailed."""
    about = {"stream": stream, "branch": branch}
    windows, objects, changes, sent, faults, replies = await models.answers(
        *(Question("working_set", query, about) for query in _QUERIES),
        Question("working_set", "faults_of", about),
        Question("timeline", "turns", about),
    )
    names = {row["object"] for row in objects}
    missed = [row["turn"] for row in faults if row["object"] in names]
    reads = {(row["branch"], row["turn"]): row["cache_read_tokens"] for row in replies}
    rewritten = {row["turn"] for row in sent if row["round"] == 0}
    asked = {(row["branch"], row["turn"]): row["bytes"] for row in replies}
    estimates = _estimate_request(windows, {row["turn"]: row["size"] for row in sent if row["round"]}, asked)
    turns = [
        MapTurn(
            turn=row["turn"],
            estimated=estimated,
            fixed=row["fixed"],
            usable=row["usable"],
            zone=row["zone"],
            counted=row["counted"],
            read=reads.get((row["branch"], row["turn"])),
            epoch=row["turn"] in rewritten,
            missed=missed.count(row["turn"]),
        )
        for row, estimated in zip(windows, estimates, strict=True)
    ]
    last = turns[-1].turn if turns else 0
    spans = _spans(objects, changes, sent, scales_of(windows), last)
    return ContextMap(branch=branch, turns=turns, spans=list(spans))


def _estimate_request(
    windows: Sequence[Row], sent: Mapping[int, int], asked: Mapping[tuple[str, int], int]
) -> Iterator[int]:
    """The tokens of each prompt as it was sent. The recorded estimate is of the request before it was rewritten, so
    that of a rewritten one without a count follows from its bytes: as many tokens per byte as in the last one with a
    count, and before that as in the client's own request.

    ``sent`` are the bytes of each turn's last rewritten request, ``asked`` those of the client's requests.
    """
    rate: Fraction | None = None
    for row in windows:
        size, own = sent.get(row["turn"]), asked.get((row["branch"], row["turn"]))
        if size and row["counted"] is not None:
            rate = Fraction(row["counted"], size)
        elif size and (rate is not None or own):
            yield round(size * (rate if rate is not None else Fraction(row["tokens"], own)))
            continue
        yield row["tokens"]


def scales_of(windows: Iterable[Row]) -> Scales:
    """The scales for displayed sizes, from the rows with the sizes of prompts."""
    rows = {(row["branch"], row["turn"]): row for row in windows}
    counted = {key: row["counted"] for key, row in rows.items() if row["counted"] is not None}
    return CountedTurns({key: row["tokens"] for key, row in rows.items()}, counted).find_scales()


def _spans(
    objects: Sequence[Row], changes: Sequence[Row], sent: Sequence[Row], scales: Scales, last: int
) -> Iterator[Span]:
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
    """Requests that sent the client's whole history again: they began an epoch without a rewrite."""
    found, epoch = [], None
    for row in (each for each in sent if each["round"] <= 1):
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
        # A restored object stays at the end of the window of that time until the history is rewritten.
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
    """An object's tokens at a fidelity, from its row; 0 once it is evicted, or if unknown."""
    estimate = row[_TOKENS[fidelity]] or 0 if fidelity in _TOKENS else 0
    return tokens_of(estimate, row["branch"], row["last_turn"], scales)
