"""A session's past, read from its events: its branches, their turns, and the body that went upstream at any of them.

This module makes no decisions. ``history_of`` arranges the events in one pass, without reading bodies. ``body_of``
follows one body back through its changes and reads only the bytes of each earlier body that it still needs; so the last
turn of a long session costs little more than an early one.
"""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from enum import Enum
from itertools import accumulate, chain

import attrs

from mnemosyne.domain.cost.prices import Tokens, window_of
from mnemosyne.domain.objects.events import ObjectCreated, ObjectSummarized
from mnemosyne.domain.ports import Recorded
from mnemosyne.domain.session.address import Address
from mnemosyne.domain.session.counted_sizes import Scales, scales_in, tokens_of
from mnemosyne.domain.session.directory import mode_decisions
from mnemosyne.domain.session.events import (
    BranchOpened,
    CheckpointNamed,
    Event,
    GapRecorded,
    SessionForgotten,
    SessionStarted,
    TurnBegan,
    TurnFinished,
    TurnInterrupted,
)
from mnemosyne.domain.session.helper_results import GOAL
from mnemosyne.domain.session.input_events import HelperWorked
from mnemosyne.domain.session.round_events import BranchModeSet, FallbackSent, RoundBegan, RoundFinished
from mnemosyne.domain.wire import dialects, recipe
from mnemosyne.domain.wire.dialect import Dialect
from mnemosyne.domain.wire.recipe import Piece, Recipe, Withheld
from mnemosyne.errors import BadOption, LogDamaged, LogFailed, NotFound

CHECKPOINT = re.compile(r"(?P<name>[A-Za-z][A-Za-z0-9_.-]{0,63})(?P<round>/[0-9]{1,9})?")
"""The name of a checkpoint, optionally followed by a round of its turn. A name never looks like a turn's number."""

_ADDRESS = re.compile(r"(?P<turn>[0-9]{1,9})(?:\.(?P<attempt>[0-9]{1,9}))?(?:/(?P<round>[0-9]{1,9}))?")


Upstream = RoundBegan | FallbackSent
"""Events that record a body sent upstream that differs from the client's."""

ACTIVE = (
    SessionStarted,
    BranchOpened,
    TurnBegan,
    RoundBegan,
    FallbackSent,
    RoundFinished,
    TurnFinished,
    TurnInterrupted,
    GapRecorded,
)
"""Events that count as activity of a session. Checkpoint names and forgetting do not."""

Sent = TurnBegan | Upstream
"""Events that record a request body: the client's, or the proxy's."""


@attrs.frozen
class TurnRound:
    """One request of a managed turn and its reply. ``version`` is the version of the request's event."""

    version: int
    began: Upstream
    ended: RoundFinished | None = None


class Status(Enum):
    """How an attempt at a turn ended."""

    OPEN = "open"
    """No end is recorded: it is running, or its server was killed."""
    FINISHED = "finished"
    INTERRUPTED = "interrupted"


@attrs.frozen
class Attempt:
    """One request of a turn and its outcome. ``version`` is the version of the event that recorded the request."""

    version: int
    began: TurnBegan
    ended: TurnFinished | TurnInterrupted | None = None
    rounds: tuple[TurnRound, ...] = ()
    """The requests that the proxy sent instead of the client's, if any."""
    round: TurnRound | None = None
    """The selected round; None selects the client's request and the reply that the client saw."""

    def with_round(self, version: int, event: Upstream | RoundFinished) -> "Attempt":
        """The attempt after a round of it began or finished."""
        if isinstance(event, Upstream):
            return attrs.evolve(self, rounds=(*self.rounds, TurnRound(version, event)))
        rounds = tuple(
            attrs.evolve(each, ended=event) if each.began.round == event.round else each for each in self.rounds
        )
        return attrs.evolve(self, rounds=rounds)

    @property
    def address(self) -> Address:
        return self.began.address

    @property
    def status(self) -> Status:
        match self.reply_event:
            case None:
                return Status.OPEN
            case TurnFinished() | RoundFinished():
                return Status.FINISHED
            case TurnInterrupted():
                return Status.INTERRUPTED

    @property
    def was_replaced(self) -> bool:
        """Whether the client's request is selected, and the proxy sent other requests instead of it."""
        return self.round is None and bool(self.rounds)

    @property
    def messages(self) -> int:
        """The number of messages in its request."""
        return self.began.kept + len(self.began.chains)

    @property
    def reply_event(self) -> TurnFinished | TurnInterrupted | RoundFinished | None:
        """The event that recorded the end of the selected request."""
        return self.ended if self.round is None else self.round.ended

    @property
    def reply(self) -> bytes | None:
        """The part of the reply that arrived, as an encoded change on an empty body."""
        return self.reply_event.reply if self.reply_event is not None else None

    @property
    def used(self) -> Tokens | None:
        """The provider's counts for it; None if it reported none."""
        return None if self.reply_event is None else window_of(self.reply_event.usage)

    @property
    def proof(self) -> bytes:
        """The SHA-256 that the rebuilt body must have."""
        return self.sent.stored_sha256 or self.sent.sha256

    @property
    def sent(self) -> Sent:
        """The event that recorded the selected body."""
        return self.began if self.round is None else self.round.began

    @property
    def body_version(self) -> int:
        """The version of that event."""
        return self.version if self.round is None else self.round.version


@attrs.frozen
class BranchTurns:
    """A branch with its own turns; ``turns[n]`` holds the attempts at turn n, in order."""

    opened: BranchOpened
    turns: Mapping[int, Sequence[Attempt]]

    @property
    def name(self) -> str:
        return self.opened.branch

    @property
    def inherited(self) -> int:
        """The number of turns that belong to its parent."""
        return self.opened.forked_at if self.opened.inherits else 0

    @property
    def last(self) -> int:
        return max(self.turns, default=self.inherited)

    @property
    def attempts(self) -> Iterator[Attempt]:
        for turn in sorted(self.turns):
            yield from self.turns[turn]


@attrs.frozen(kw_only=True)
class History:
    """A session, arranged from its events. ``bodies`` are the recorded requests by the version of their event."""

    session: str
    started: SessionStarted | None
    lines: Mapping[str, BranchTurns]
    modes: Mapping[str, BranchModeSet]
    """The last mode decision about each branch that has one."""
    bodies: Mapping[int, Sent]
    gaps: Sequence[GapRecorded]
    goals: Sequence[HelperWorked]
    """The work of helper models on the user's goals."""
    checkpoints: Mapping[str, CheckpointNamed]
    """The turns with a checkpoint, by its name."""
    objects: Mapping[str, ObjectCreated]
    """The creation of each object."""
    scales: Scales
    """The scale of each turn's content, by the provider's counts."""
    forgotten: int
    """The version of the last SessionForgotten event; 0 without one."""
    version: int
    first_at: int
    last_at: int

    @property
    def turns(self) -> int:
        """The number of turns on all branches."""
        return sum(len(line.turns) for line in self.lines.values())

    @property
    def attempts(self) -> list[Attempt]:
        """All attempts, in the order in which they began."""
        found = [attempt for line in self.lines.values() for attempt in line.attempts]
        return sorted(found, key=lambda attempt: attempt.version)

    @property
    def model(self) -> str | None:
        """The model requested by the newest turn of the oldest branch: the main agent's, not a side call's."""
        for line in self.lines.values():
            for attempt in reversed(list(line.attempts)):
                if attempt.began.model is not None:
                    return attempt.began.model
        return None

    @property
    def unrecorded(self) -> int:
        """The number of turns that passed unrecorded."""
        return sum(gap.turns for gap in self.gaps)

    def gaps_before(self, attempt: Attempt) -> list[GapRecorded]:
        """The gaps directly before an attempt, which were recorded with it."""
        return [gap for gap in self.gaps if gap.at == attempt.began.at]

    def dialect_of(self, branch: str) -> Dialect:
        """The dialect of a branch's requests. Raises NotFound."""
        return dialects.dialect_of(self.line(branch).opened.lane)

    def line(self, branch: str) -> BranchTurns:
        """The branch of that name. Raises NotFound."""
        found = self.lines.get(branch)
        if found is None:
            there = ", ".join(self.lines) or "none"
            raise NotFound(f"Session {self.session} has no branch {branch!r}; its branches: {there}.")
        return found

    def list_places(self, branch: str) -> Mapping[tuple[int, int], str]:
        """The object of each block of the client's history, by message and block number. Raises NotFound."""
        found: dict[tuple[int, int], str] = {}
        kept: float = float("inf")
        line = self.line(branch)
        while True:
            for name, each in self.objects.items():
                if each.branch == line.name:
                    found |= {(place.message, place.block): name for place in each.places if place.message < kept}
            if not line.opened.inherits or line.opened.parent is None:
                return found
            kept = min(kept, line.opened.kept)
            line = self.line(line.opened.parent)

    def tokens_of(self, object_id: str) -> int:
        """The size of an object in full that people see, in tokens."""
        each = self.objects[object_id]
        return tokens_of(each.tokens, each.branch, each.last_turn, self.scales)

    def turn(self, branch: str, turn: int | None = None) -> Sequence[Attempt]:
        """The attempts at a turn of a branch, inherited turns included; without a number, at the last turn.

        Raises NotFound.
        """
        line = self.line(branch)
        number = line.last if turn is None else turn
        owner = line
        while number <= owner.inherited and (parent := self.lines.get(owner.opened.parent or "")) is not None:
            owner = parent
        if number not in owner.turns:
            turns = f"turns 1 to {line.last}, and not {number}" if line.last else "no turns"
            raise NotFound(f"Branch {branch} of session {self.session} has {turns}.")
        return owner.turns[number]

    def find(self, branch: str, text: str | None) -> Attempt:
        """Find an attempt by its address on the branch, or by the name of a checkpoint, which determines the branch
        itself. Raises BadOption, NotFound.
        """
        named = CHECKPOINT.fullmatch(text or "")
        if named is None:
            return self.at(branch, place_of(text))
        point = self.checkpoints.get(named["name"])
        if point is None:
            there = f"its checkpoints: {', '.join(self.checkpoints)}" if self.checkpoints else "it has none"
            raise NotFound(f"Session {self.session} has no checkpoint {named['name']!r}; {there}.")
        return self.at(point.branch, TurnPlace(point.turn, round=int(named["round"][1:]) if named["round"] else None))

    def at(self, branch: str, place: "TurnPlace") -> Attempt:
        """The attempt at an address. Raises NotFound."""
        attempts = self.turn(branch, place.turn)
        wanted = len(attempts) if place.attempt is None else place.attempt
        if not 1 <= wanted <= len(attempts):
            has = "1 attempt" if len(attempts) == 1 else f"{len(attempts)} attempts"
            raise NotFound(f"Turn {attempts[0].began.turn} of branch {branch} has {has}, and not {wanted}.")
        found = attempts[wanted - 1]
        rounds = max(1, len(found.rounds))
        if place.round is not None and not 1 <= place.round <= rounds:
            has = "1 round" if rounds == 1 else f"{rounds} rounds"
            raise NotFound(f"Turn {attempts[0].began.turn} of branch {branch} has {has}, and not {place.round}.")
        if place.round is not None and found.rounds:
            return attrs.evolve(found, round=found.rounds[place.round - 1])
        return found

    def first_turns(self, attempt: Attempt) -> Sequence[int]:
        """For each message of a request, the turn whose request was the first to contain it."""
        first: list[int] = []
        for turn in range(1, attempt.began.turn):
            earlier = self.turn(attempt.began.branch, turn)[0].messages
            first += [turn] * (earlier - len(first))
        return [*first, *[attempt.began.turn] * (attempt.messages - len(first))][: attempt.messages]


@attrs.frozen
class TurnPlace:
    """An address within a branch: ``TURN[.ATTEMPT][/ROUND]``. Turn and attempt default to the last one. Without a round
    it selects the client's own request, with a round the request that went upstream.
    """

    turn: int | None = None
    attempt: int | None = None
    round: int | None = None


def place_of(text: str | None) -> TurnPlace:
    """Parse a turn's address. Raises BadOption."""
    if text is None:
        return TurnPlace()
    found = _ADDRESS.fullmatch(text)
    if found is None:
        raise BadOption(f"{text!r} is not a turn: use TURN[.ATTEMPT][/ROUND], such as 7, 7.2 or 7.2/1.")
    turn, attempt, round_ = (None if part is None else int(part) for part in found.group("turn", "attempt", "round"))
    return TurnPlace(turn, attempt, round_)


def history_of(session: str, events: Sequence[Recorded[Event]]) -> History:
    """Arrange a session's events, from the first on. Raises LogDamaged if they contradict each other."""
    started: SessionStarted | None = None
    opened: dict[str, BranchOpened] = {}
    attempts: dict[Address, Attempt] = {}
    bodies: dict[int, Sent] = {}
    gaps: list[GapRecorded] = []
    goals: list[HelperWorked] = []
    checkpoints: dict[str, CheckpointNamed] = {}
    objects: dict[str, ObjectCreated] = {}
    forgotten = version = 0
    times: list[int] = []
    deciding: list[Event] = []
    for each in events:
        version, event = each.version, each.envelope.event
        match event:
            case SessionStarted():
                started = event
            case BranchOpened():
                opened[event.branch] = event
                deciding.append(event)
            case BranchModeSet():
                deciding.append(event)
            case TurnBegan():
                attempts[event.address] = Attempt(version, event)
                bodies[version] = event
            case RoundBegan() | FallbackSent() | RoundFinished():
                address = event.address
                if isinstance(event, Upstream):
                    bodies[version] = event
                if address in attempts:
                    attempts[address] = attempts[address].with_round(version, event)
            case TurnFinished() | TurnInterrupted():
                address = event.address
                if address in attempts:
                    attempts[address] = attrs.evolve(attempts[address], ended=event)
            case GapRecorded():
                gaps.append(event)
            case HelperWorked() if event.task == GOAL:
                goals.append(event)
            case ObjectCreated():
                objects[event.object] = event
            case CheckpointNamed():
                checkpoints[event.name] = event
            case SessionForgotten():
                forgotten = version
                checkpoints.clear()
            case _:
                pass  # not about turns
        if isinstance(event, ACTIVE):
            times.append(event.at)
    return History(
        session=session,
        started=started,
        lines=_lines(opened, attempts.values()),
        modes=mode_decisions(deciding),
        bodies=bodies,
        gaps=gaps,
        goals=goals,
        checkpoints=checkpoints,
        objects=objects,
        scales=scales_in(events),
        forgotten=forgotten,
        version=version,
        first_at=min(times, default=0),
        last_at=max(times, default=0),
    )


def _lines(opened: Mapping[str, BranchOpened], attempts: Iterable[Attempt]) -> dict[str, BranchTurns]:
    taken: dict[str, dict[int, list[Attempt]]] = {branch: {} for branch in opened}
    for attempt in attempts:
        if attempt.began.branch not in taken:
            raise LogDamaged(f"event {attempt.version} is of branch {attempt.began.branch!r}, which no event opened")
        taken[attempt.began.branch].setdefault(attempt.began.turn, []).append(attempt)
    return {branch: BranchTurns(event, taken[branch]) for branch, event in opened.items()}


def lineage(history: History, version: int) -> Iterator[tuple[int, Sent]]:
    """The requests on which the body of event ``version`` builds, itself included: newest first, with versions."""
    while version:
        began = history.bodies.get(version)
        if began is None:
            raise LogFailed(f"session {history.session}: event {version}, which a later body builds on, is no request")
        yield version, began
        if began.base >= version:
            raise LogFailed(f"session {history.session}: the body of event {version} builds on a later one")
        version = began.base


@attrs.frozen
class _Wanted:
    """Bytes ``[start, end)`` of one body that are at offset ``at`` in the requested body."""

    start: int
    end: int
    at: int


def body_of(history: History, event: int) -> Recipe:
    """The recipe of the body that the event with this version recorded. Raises LogFailed if the events yield none."""
    sent = history.bodies.get(event)
    wanted = [_Wanted(0, sent.size, 0)] if sent is not None and sent.size else []
    found: list[tuple[int, Piece | Withheld]] = []
    for version, began in lineage(history, event):
        if not wanted:
            break
        base = history.bodies[began.base].size if began.base in history.bodies else 0
        try:
            wanted = _look(began, base, wanted, found)
        except ValueError as error:
            raise LogFailed(f"session {history.session}: event {version}: {error}") from None
    found.sort(key=lambda each: each[0])
    return recipe.recipe_of(piece for _, piece in found)


def _look(
    began: Sent, base: int, wanted: Sequence[_Wanted], found: list[tuple[int, Piece | Withheld]]
) -> list[_Wanted]:
    """Add the wanted bytes that a change contains to ``found``; return those still wanted, in the base body of ``base``
    bytes.
    """
    change = recipe.decode(began.body)
    pieces = change.pieces()
    new = Recipe(pieces, tuple(accumulate(piece.length for piece in pieces)))
    tail = change.head + new.length
    if tail + change.tail != began.size or change.head + change.tail > base:
        raise ValueError(f"a change does not make a body of {began.size} bytes of one of {base}")
    remaining: list[_Wanted] = []
    for want in wanted:
        if want.start < change.head:
            _add(remaining, _Wanted(want.start, min(want.end, change.head), want.at))
        start, end = max(want.start, change.head), min(want.end, tail)
        at = want.at + start - want.start
        for piece in new.between(start - change.head, end - change.head):
            found.append((at, piece))
            at += piece.length
        if want.end > tail:
            start = max(want.start, tail)
            shift = base - began.size
            _add(remaining, _Wanted(start + shift, want.end + shift, want.at + start - want.start))
    return remaining


def _add(wanted: list[_Wanted], more: _Wanted) -> None:
    """Append a range, or merge it with the last one if it continues it, to keep the list short."""
    last = wanted[-1] if wanted else None
    if last is not None and last.end == more.start and last.at + last.end - last.start == more.at:
        wanted[-1] = _Wanted(last.start, more.end, last.at)
    else:
        wanted.append(more)


def reply_of(attempt: Attempt) -> Recipe | None:
    """The recipe of the part of the reply that arrived; None if none. Raises ValueError if the event is damaged."""
    return None if attempt.reply is None else recipe.apply(Recipe(), recipe.decode(attempt.reply))


def wire_turns(history: History, attempt: Attempt) -> Sequence[int]:
    """For each message of an attempt's selected request, the turn of its origin."""
    turns = history.first_turns(attempt)
    if attempt.round is None:
        return turns
    ends = _ends(history, attempt)
    reached = [0, *ends]
    found = [turn for turn, before, end in zip(turns, reached, ends, strict=False) for _ in range(end - before)]
    return [*found, *[attempt.began.turn] * (2 * len(attempt.rounds))]  # each round adds a reply and results


def _ends(history: History, attempt: Attempt) -> Sequence[int]:
    """The number of wire messages up to each of the client's messages (``RoundBegan.ends``)."""
    ends: tuple[int, ...] = ()
    for _, sent in reversed(list(lineage(history, attempt.body_version))):
        if isinstance(sent, RoundBegan):
            ends = ends[: sent.kept] + sent.ends
    return ends


def find_first_names(history: History, attempt: Attempt, wanted: Collection[bytes]) -> dict[bytes, int]:
    """The first turn of the branch, up to ``attempt``, whose request refers to each of the wanted contents; contents
    without a reference are omitted.
    """
    named: dict[bytes, int] = {}
    for turn in range(1, attempt.began.turn + 1):
        if len(named) == len(wanted):
            break
        for each in history.turn(attempt.began.branch, turn):
            if each.version <= attempt.version:
                for digest in digests_of(each.began):
                    if digest in wanted:
                        named.setdefault(digest, turn)
    return named


def digests_of(event: object) -> tuple[bytes, ...]:
    """The contents that an event refers to, without duplicates. Raises ValueError if the event is damaged."""
    if isinstance(event, ObjectSummarized):
        return (event.text,)
    results = [each.result for each in event.answers] if isinstance(event, RoundFinished) else []
    changes = [recipe.decode(each) for each in (_change_in(event), *results) if each is not None]
    return tuple(dict.fromkeys(chain.from_iterable(change.digests for change in changes)))


def new_bytes(event: object) -> int:
    """The bytes of content that an event adds to the body that it builds on."""
    if isinstance(event, ObjectSummarized):
        return event.size
    change = _change_in(event)
    return 0 if change is None else sum(piece.length for piece in recipe.decode(change).pieces())


def _change_in(event: object) -> bytes | None:
    """The encoded body or reply of an event; None if it has none."""
    if isinstance(event, Sent):
        return event.body
    return event.reply if isinstance(event, RoundFinished | TurnFinished | TurnInterrupted) else None


def digests_in(pieces: Iterable[Piece | Withheld]) -> set[bytes]:
    """The contents that pieces are taken from."""
    return {piece.digest for piece in pieces if isinstance(piece, Piece)}
