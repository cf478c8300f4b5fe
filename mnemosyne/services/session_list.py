"""The list of sessions: clients, branches, length and decisions."""

import json
from collections.abc import Mapping, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Any
from uuid import UUID

import attrs

from mnemosyne.domain.session.directory import last_decisions
from mnemosyne.domain.session.events import BranchKind
from mnemosyne.domain.session.round_events import Mode
from mnemosyne.figures import plural
from mnemosyne.services.read_models import Question, ReadModels, Row
from mnemosyne.services.timeline import Decided, list_decisions


@attrs.frozen
class ListedDecision:
    """A branch's mode, and the reason."""

    mode: Mode
    why: str


@attrs.frozen
class ListedBranch:
    """A branch, the turn after which it left its ``parent``, the number of its last turn (possibly its parent's), and
    the number of its own turns.

    ``decision`` is the last one about its mode; None if managing was never requested.
    """

    name: str
    kind: BranchKind
    parent: str | None
    forked_at: int
    last: int
    turns: int
    decision: ListedDecision | None


@attrs.frozen
class DamagedSession:
    """The damage of a session: the event of this ``version`` cannot be read because of ``why``, as one of ``events``
    such events.
    """

    session: UUID
    external_id: str | None
    version: int
    why: str
    events: int

    @property
    def sentence(self) -> str:
        more = f", and {plural(self.events - 1, 'more event')}" if self.events > 1 else ""
        return f"event {self.version} cannot be read{more}: {self.why}"


@attrs.frozen(kw_only=True)
class ListedSession:
    """A session with its branches, the oldest first. ``model`` is the one requested in the main agent's newest turn, or
    the oldest branch's if there is no such turn. ``imported_at`` is the time of its import from a file, None if it was
    recorded here. Times are µs of UTC. ``neighbours`` are the adjacent ids of all sessions: a prefix that differs from
    these is unique. ``settings`` as in ``settings_as_json``, None if it was only observed. ``state`` and ``ending``
    are those of the conversation's last turn. ``titled``: a person named it, or took its
    name back. ``closed``: a person closed it after its last activity. ``archived``: a file holds contents of it.
    """

    stream: UUID
    external_id: str
    client: str
    client_version: str | None
    model: str | None
    first_at: int
    last_at: int
    forgotten: bool
    imported_at: int | None
    neighbours: Sequence[UUID]
    branches: Sequence[ListedBranch]
    settings: Mapping[str, Any] | None
    state: str | None
    ending: str | None
    titled: bool
    closed: bool
    archived: bool

    @property
    def main(self) -> ListedBranch | None:
        """The main agent's branch, the one with the most turns if there are several; without one, the
        longest branch.
        """
        order = lambda branch: (branch.kind is BranchKind.MAIN, branch.turns)  # noqa: E731
        return max(self.branches, key=order, default=None)

    @property
    def turns(self) -> int:
        """The number of turns of agents, as in savings: without requests beside them, such as for a title."""
        return sum(branch.turns for branch in self.branches if branch.kind.is_agent_context)


@attrs.frozen
class SessionList:
    """The last active sessions, the last first, their total number, and the damaged ones, including those that cannot
    be listed because their owner is unknown.
    """

    sessions: Sequence[ListedSession]
    total: int
    damaged: Mapping[UUID, DamagedSession]


async def list_sessions(
    models: ReadModels, *, limit: int | None = None, only: UUID | None = None, whole: bool = False
) -> SessionList:
    """Every session outside the trash, or ``whole`` also those in it, at most ``limit``; or ``only`` one. Reads one row
    of each other session.

    Raises LogFailed.
    """
    asked = {"limit": limit, "only": only, "whole": whole}
    listed, harmed = Question("timeline", "listed", asked), Question("timeline", "damaged")
    found, damaged = await models.answers(listed, harmed)
    about = {"streams": [row["stream"] for row in found]}
    more = await models.answers(*(Question("timeline", each, about) for each in ("listed_branches", "listed_modes")))
    branches, modes = map(_by_session, more)
    sessions = [_make_listed(row, branches.get(row["stream"], ()), modes.get(row["stream"], ())) for row in found]
    total = found[0]["sessions"] if found else 0
    return SessionList(sessions, total, {row["session"]: DamagedSession(**row) for row in damaged})


def _by_session(rows: Sequence[Row]) -> dict[UUID, Sequence[Row]]:
    return {stream: list(each) for stream, each in groupby(rows, itemgetter("stream"))}


def _make_listed(session: Row, branches: Sequence[Row], modes: Sequence[Row]) -> ListedSession:
    decisions = last_decisions(list_decisions(branches, modes))
    return ListedSession(
        stream=session["stream"],
        external_id=session["external_id"],
        client=session["client"],
        client_version=session["client_version"],
        model=_model(branches),
        first_at=session["started_at"],
        last_at=session["last_active_at"],
        forgotten=session["forgotten_at"] is not None,
        imported_at=session["imported_at"],
        neighbours=[each for each in (session["before"], session["behind"]) if each is not None],
        branches=[_branch(row, decisions) for row in branches],
        settings=read_settings(session["settings"]),
        state=session["state"],
        ending=session["ending"],
        titled=session["titled_in"] is not None,
        closed=session["closed_at"] is not None and session["closed_at"] >= session["last_active_at"],
        archived=session["archived"],
    )


def read_settings(stored: str | None) -> Mapping[str, Any] | None:
    return None if stored is None else json.loads(stored)


def _model(branches: Sequence[Row]) -> str | None:
    """The main agent's model; a side call, such as one for a title, may have used another one before it."""
    known = [row for row in branches if row["model"] is not None]
    return next((row["model"] for row in sorted(known, key=lambda row: row["kind"] != BranchKind.MAIN.value)), None)


def _branch(row: Row, decisions: Mapping[str, Decided]) -> ListedBranch:
    inherited = row["forked_at"] if row["inherits"] else 0
    last = inherited if row["last"] is None else row["last"]
    decided = decisions.get(row["branch"])
    return ListedBranch(
        row["branch"],
        BranchKind(row["kind"]),
        row["parent"],
        row["forked_at"],
        last,
        row["turns"],
        None if decided is None else ListedDecision(decided.mode, decided.row["why"]),
    )
