"""The position of a turn in its session, from rows, without reading its content."""

from collections.abc import Mapping, Sequence
from uuid import UUID

import attrs

from mnemosyne.domain.history.time_travel import TurnPlace
from mnemosyne.domain.session.events import BranchKind, CheckpointNamed, SessionForgotten
from mnemosyne.errors import ContentForgotten, NotFound
from mnemosyne.services.read_models import Question, ReadModels, Row
from mnemosyne.services.sessions import Archive
from mnemosyne.services.timeline import require_branch


@attrs.frozen(kw_only=True)
class TurnPosition:
    """One of the ``attempts`` at a turn of a ``branch``, which may have inherited it. ``names`` are the turn's
    checkpoints, ``last`` is the branch's last turn.
    """

    stream: UUID
    branch: str
    turn: int
    attempt: int
    attempts: int
    names: Sequence[str]
    last: int
    is_open: bool
    can_fork: bool
    """Whether a new session may start after it."""

    @property
    def previous(self) -> int | None:
        """The turn before it; None before the first."""
        return self.turn - 1 if self.turn > 1 else None

    @property
    def following(self) -> int | None:
        """The turn after it; None after the last."""
        return self.turn + 1 if self.turn < self.last else None


async def read_checkpoints(archive: Archive, stream: UUID) -> Mapping[str, CheckpointNamed]:
    """The checkpoints of a session by name. Raises LogFailed."""
    found: dict[str, CheckpointNamed] = {}
    for each in await archive.events.select(stream, (CheckpointNamed, SessionForgotten)):
        match each.envelope.event:
            case CheckpointNamed() as point:
                found[point.name] = point
            case SessionForgotten():
                found.clear()
    return found


async def find_checkpoint(archive: Archive, stream: UUID, called: str) -> CheckpointNamed:
    """The turn of a session with this checkpoint name. Raises NotFound."""
    points = await read_checkpoints(archive, stream)
    if called not in points:
        there = f"its checkpoints: {', '.join(points)}" if points else "it has none"
        raise NotFound(f"Session {stream} has no checkpoint {called!r}; {there}.")
    return points[called]


async def find_position(
    archive: Archive, models: ReadModels, stream: UUID, branch: str, place: TurnPlace
) -> TurnPosition:
    """The position of a turn. Raises NotFound, ContentForgotten."""
    about = {"stream": stream}
    sessions, branches, ends, rows = await models.answers(
        Question("timeline", "session", about),
        Question("timeline", "branches", about),
        Question("timeline", "ends", about),
        Question("timeline", "turn", {**about, "turn": place.turn}),
    )
    known = {row["branch"]: row for row in branches}
    require_branch(branch, known)
    inherited = known[branch]["forked_at"] if known[branch]["inherits"] else 0
    last = next((row["last"] for row in ends if row["branch"] == branch), inherited)
    owner = _find_owner(known, branch, place.turn or last)
    attempts = [row for row in rows if row["branch"] == owner]
    if not attempts:
        there = f"turns 1 to {last}" if last else "no turns"
        raise NotFound(f"Branch {branch} of session {stream} has {there}, and not {place.turn}.")
    attempt = place.attempt or len(attempts)
    row = attempts[min(attempt, len(attempts)) - 1]
    _require(place.attempt, len(attempts), "attempt", f"Turn {place.turn} of branch {branch}")
    _require(place.round, max(1, row["rounds"]), "round", f"Turn {place.turn} of branch {branch}")
    if (forgotten := sessions[0]["forgotten_at"]) is not None and row["began_at"] <= forgotten:
        raise ContentForgotten(f"Session {stream} was forgotten: the content of this turn was erased.")
    points = (await read_checkpoints(archive, stream)).values()
    return TurnPosition(
        stream=stream,
        branch=branch,
        turn=row["turn"],
        attempt=attempt,
        attempts=len(attempts),
        names=[each.name for each in points if (each.branch, each.turn) == (branch, row["turn"])],
        last=last,
        is_open=row["state"] == "open",
        can_fork=BranchKind(known[branch]["kind"]).is_interactive,
    )


def _find_owner(branches: Mapping[str, Row], branch: str, turn: int) -> str:
    """The branch that owns a turn of a branch: itself, or the one that it inherited the turn from."""
    row = branches[branch]
    while row["inherits"] and turn <= row["forked_at"] and row["parent"] in branches:
        row = branches[row["parent"]]
    owner: str = row["branch"]
    return owner


def _require(wanted: int | None, there: int, what: str, where: str) -> None:
    if wanted is not None and not 1 <= wanted <= there:
        has = f"1 {what}" if there == 1 else f"{there} {what}s"
        raise NotFound(f"{where} has {has}, and not {wanted}.")
