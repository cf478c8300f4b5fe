"""The list of sessions is read from rows, and agrees with the events of each session."""

from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from mnemosyne.app.read_models import no_bars, open_read_models
from mnemosyne.config import load
from mnemosyne.domain.history.time_travel import History
from mnemosyne.domain.ports import Append, Envelope
from mnemosyne.domain.session.events import BranchKind, SessionStarted
from mnemosyne.domain.session.round_events import Mode
from mnemosyne.services.footprints import measure
from mnemosyne.services.session_list import ListedSession, list_sessions
from mnemosyne.services.sessions import read_history
from tests.golden.sessions import CODEC, EACH_IN_A_DATABASE, append_all, appends
from tests.not_none import not_none
from tests.projections.support import POSTGRES, open_world
from tests.services.answers import Answers


@EACH_IN_A_DATABASE
async def test_listed_sessions_agree_with_the_events(folder: Path, dsn: str, tmp_path: Path) -> None:
    async with open_world(POSTGRES, dsn, CODEC) as world:
        await append_all(world.journal, appends(folder))
    reported: list[str] = []
    async with open_read_models(load({"dsn": dsn, "data_dir": str(tmp_path)}, {}), reported.append, no_bars) as models:
        listed = await list_sessions(models, whole=True)
        streams = list(await models.archive.events.streams())
        histories = {stream: (await read_history(models.archive, str(stream)))[1] for stream in streams}
        assert sorted(each.stream for each in listed.sessions) == sorted(streams)
        assert listed.total == len(streams)
        footprints = await measure(models.archive, models)
        assert set(footprints) == set(streams)
        for each in listed.sessions:
            history = histories[each.stream]
            check_listed(each, history)
            assert footprints[each.stream].sent == sum(body.size for body in history.bodies.values())
    assert not [sentence for sentence in reported if "stopped" in sentence]


def check_listed(session: ListedSession, history: History) -> None:
    started = not_none(history.started)
    names = ("external_id", "client", "client_version")
    assert [getattr(session, name) for name in names] == [getattr(started, name) for name in names]
    turns = sum(len(line.turns) for line in history.lines.values() if line.opened.kind.is_agent_context)
    assert (session.first_at, session.model, session.turns) == (started.at, history.model, turns)
    assert session.forgotten is (history.forgotten > 0)
    assert session.last_at <= history.last_at
    assert [each.name for each in session.branches] == list(history.lines)
    for branch, line in zip(session.branches, history.lines.values(), strict=True):
        decision = history.modes.get(line.name)
        assert (branch.parent, branch.forked_at) == (line.opened.parent, line.opened.forked_at)
        assert (branch.last, branch.turns) == (line.last, len(line.turns))
        assert (branch.decision is None) is (decision is None)
        if branch.decision is not None and decision is not None:
            assert (branch.decision.mode, branch.decision.why) == (decision.mode, decision.why)


def _started(stream: UUID, tenant: str, at: int) -> Append:
    name = f"session {at}"
    event = SessionStarted(at=at, tenant=tenant, external_id=name, client="c", client_version=None, salt=b"s")
    return Append(stream, 0, (Envelope(event, "correlation", "StartSession"),))


async def test_a_limited_list_has_the_last_active_sessions_of_the_tenant_with_their_neighbours(
    dsn: str, tmp_path: Path
) -> None:
    first, second, foreign, third = (UUID(int=number) for number in (10, 20, 25, 30))
    tenants = ((first, "local"), (third, "local"), (second, "local"), (foreign, "other"))
    async with open_world(POSTGRES, dsn, CODEC) as world:
        await append_all(world.journal, [_started(*each, at) for at, each in enumerate(tenants, 1)])
    async with open_read_models(load({"dsn": dsn, "data_dir": str(tmp_path)}, {}), print) as models:
        last = await list_sessions(models, limit=2)
        assert (last.total, [each.stream for each in last.sessions]) == (3, [second, third])
        assert [list(each.neighbours) for each in last.sessions] == [[first, third], [second]]
        assert [each.stream for each in (await list_sessions(models, only=first)).sessions] == [first]
        assert not (await list_sessions(models, only=foreign)).sessions


SIDE, MAIN, AGENT, FORK = BranchKind.SIDE, BranchKind.MAIN, BranchKind.AGENT, BranchKind.FORK


@pytest.mark.parametrize(
    ("branches", "mode"),
    [
        ([(SIDE, 1, "observe"), (MAIN, 1, "manage")], Mode.MANAGE),
        ([(MAIN, 2, "manage"), (AGENT, 30, "observe")], Mode.MANAGE),
        ([(MAIN, 2, None), (FORK, 30, "manage")], None),
        ([(AGENT, 3, "manage"), (SIDE, 9, None)], None),
    ],
)
async def test_a_session_has_the_mode_and_model_of_its_main_branch(
    branches: list[tuple[BranchKind, int, str | None]], mode: Mode | None
) -> None:
    stream = UUID(int=1)
    names = "client_version forgotten_at imported_at before behind settings state ending titled_in closed_at archived"
    unknown = dict.fromkeys(names.split())
    session: dict[str, Any] = {"stream": stream, "external_id": "s", "client": "c", "started_at": 1}
    session |= {"last_active_at": 2, "sessions": 1}
    origin: dict[str, Any] = {"stream": stream, "parent": None, "forked_at": 0, "inherits": False}
    rows: list[dict[str, Any]] = [
        {**origin, "branch": kind.value, "kind": kind.value, "model": kind.value, "version": 2 + number}
        | {"last": turns, "turns": turns}
        for number, (kind, turns, _) in enumerate(branches)
    ]
    modes: list[dict[str, Any]] = [
        {"stream": stream, "branch": kind.value, "version": 9, "mode": decided, "why": "w"}
        for kind, _, decided in branches
        if decided is not None
    ]
    listing = {**unknown, **session}
    answers = {"listed": [listing], "listed_branches": rows, "listed_modes": modes}
    models = Answers({("timeline", query): found for query, found in answers.items()})
    (listed,) = (await list_sessions(models)).sessions
    main = not_none(listed.main)
    assert (main.decision.mode if main.decision is not None else None) is mode
    assert listed.model == (MAIN.value if MAIN in {kind for kind, *_ in branches} else branches[0][0].value)
