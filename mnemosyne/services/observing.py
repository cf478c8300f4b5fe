"""Plans and repetitions in a session's tool calls, read from its log for people."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any
from uuid import UUID

import attrs

from mnemosyne.bounded import Lru
from mnemosyne.domain.history.calls import AnsweredCall, read_calls
from mnemosyne.domain.history.guards import Repetition, find_repetitions
from mnemosyne.domain.history.plans import WorkPlan, plan_after
from mnemosyne.domain.history.time_travel import Attempt, History, history_of
from mnemosyne.domain.ports import Recorded
from mnemosyne.domain.segmentation.segment import SeenMessage
from mnemosyne.domain.session.events import BranchKind, CheckpointNamed, Event, SessionForgotten
from mnemosyne.domain.wire.dialect import Dialect
from mnemosyne.domain.wire.normal_form import content_blocks
from mnemosyne.domain.wire.reply import json_object
from mnemosyne.errors import ContentForgotten, LogFailed
from mnemosyne.services import contexts
from mnemosyne.services.sessions import Archive
from mnemosyne.services.unstructuring import members


@attrs.frozen(kw_only=True)
class Observed:
    """Observations of a branch up to its last ``turn``: the current ``plan``, if any, and repeated
    calls. ``checkpoints`` are the checkpoints of all branches.
    """

    turn: int = 0
    plan: WorkPlan | None = None
    repetitions: Sequence[Repetition] = ()
    checkpoints: Sequence[CheckpointNamed] = ()

    @property
    def lately_repeated(self) -> Repetition | None:
        """A call repeated in the last turns, if any."""
        late = (each for each in reversed(self.repetitions) if each.turns[1] >= self.turn - LATELY)
        return next(late, None)


LATELY = 2
"""Number of turns for which a repetition stays on the status line."""


def plan_as_json(plan: WorkPlan | None) -> Mapping[str, Any] | None:
    """A plan as a JSON object; null without a plan."""
    if plan is None:
        return None
    items = [members(each, "name text state") for each in plan.items]
    return {**members(plan, "title progress turn left decisions"), "items": items}


NOTHING = Observed()


@attrs.frozen
class Seen:
    """The observations when ``turns`` turns of the session were in the ledger, up to the event ``version``."""

    turns: int
    version: int
    observed: Observed


Observations = Lru[tuple[UUID, str | None], Seen]
"""Cached observations of branches."""

HELD = 256


def no_observations() -> Observations:
    """An empty cache of observations."""
    return Lru(HELD)


async def observe(archive: Archive, stream: UUID, branch: str | None, turns: int, seen: Observations) -> Observed:
    """The observations of a branch, by default of the last one used interactively; empty if the content was deleted.
    Requests are read again when the number of ``turns`` in the ledger grows. Raises LogFailed.
    """
    known = seen.get((stream, branch))
    if known is not None and known.turns == turns:
        known = _go_on(known, await archive.events.read(stream, after=known.version))
    if known is None or known.turns != turns:
        recorded = await archive.events.read(stream)
        found = await observe_history(archive, stream, history_of(str(stream), recorded), branch)
        known = Seen(turns, len(recorded), found)
    return seen.put((stream, branch), known).observed


def _go_on(known: Seen, recorded: Sequence[Recorded[Event]]) -> Seen | None:
    """Cached observations updated with later events other than turns; None if the session was deleted."""
    events = [each.envelope.event for each in recorded]
    if any(isinstance(each, SessionForgotten) for each in events):
        return None
    named = [each for each in events if isinstance(each, CheckpointNamed)]
    if not named:
        return known
    observed = attrs.evolve(known.observed, checkpoints=(*known.observed.checkpoints, *named))
    return attrs.evolve(known, version=recorded[-1].version, observed=observed)


def _find_main(history: History) -> str:
    names = (each.began.branch for each in reversed(history.attempts))
    return next((name for name in names if history.line(name).opened.is_interactive), "main")


async def observe_history(archive: Archive, stream: UUID, history: History, branch: str | None = None) -> Observed:
    """The same for a session whose events were read."""
    ends = list(_ends(history, branch if branch is not None else _find_main(history)))
    calls: dict[str, AnsweredCall] = {}
    seen: list[SeenMessage] = []
    for attempt in ends:
        try:
            body = (await contexts.rebuild(archive, stream, history, attempt)).body
        except (ContentForgotten, LogFailed):
            continue
        messages = list(_messages(body, history.dialect_of(attempt.began.branch), history.first_turns(attempt)))
        seen += messages
        calls |= {each.id: each for each in read_calls(messages, calls)}
    made = tuple(calls.values())
    checkpoints = tuple(history.checkpoints.values())
    if not seen:
        return attrs.evolve(NOTHING, checkpoints=checkpoints)
    return Observed(
        turn=ends[-1].began.turn,
        plan=plan_after(made),
        repetitions=find_repetitions(made),
        checkpoints=checkpoints,
    )


async def find_open_plan(archive: Archive, streams: Iterable[UUID]) -> Mapping[str, Any] | None:
    """The first open plan of these sessions, as JSON with its ``session``. An unreadable session has none."""
    for stream in streams:
        with suppress(LogFailed):
            history = history_of(str(stream), await archive.events.read(stream))
            plan = (await observe_history(archive, stream, history)).plan
            if plan is not None and plan.is_followed:
                return {"session": str(stream), **(plan_as_json(plan) or {})}
    return None


def _messages(body: bytes, dialect: Dialect, turns: Sequence[int]) -> Iterator[SeenMessage]:
    """The messages of a body; none if it holds no history."""
    history = json_object(body).get(dialect.array)
    for index, (element, turn) in enumerate(zip(history if isinstance(history, list) else (), turns, strict=False)):
        message = dialect.read_message(element) if isinstance(element, dict) else {}
        yield SeenMessage(index, str(message.get("role")), turn, content_blocks(message.get("content")))


def _ends(history: History, branch: str) -> Iterator[Attempt]:
    """The last request of a branch, after those of the windows that it succeeds: together they hold every call."""
    line = history.lines.get(branch)
    if line is None:
        return
    before = list(_ends(history, line.opened.parent)) if line.opened.parent is not None else []
    if line.opened.kind is BranchKind.SUCCESSOR:
        yield from before
    elif line.opened.inherits:
        yield from before[:-1]  # its own history includes its parent's part
    if line.last:
        yield history.turn(branch, line.last)[-1]
