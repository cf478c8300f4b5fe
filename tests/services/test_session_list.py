"""All sessions at a glance: what their rows say is what the events of each say."""

from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from mnemosyne.app.read_models import no_bars, open_read_models
from mnemosyne.config import load
from mnemosyne.domain.history.time_travel import BranchTurns, History
from mnemosyne.domain.ports import Append, Envelope
from mnemosyne.domain.session.events import BranchKind, SessionStarted
from mnemosyne.domain.session.round_events import BranchModeSet, Mode
from mnemosyne.services.footprints import measure
from mnemosyne.services.session_list import ListedBranch, ListedDecision, ListedSession, list_sessions
from mnemosyne.services.sessions import read_history
from tests.golden.sessions import CODEC, FOLDERS, append_all, appends
from tests.projections.support import POSTGRES, open_world
from tests.services.answers import Answers


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
async def test_what_is_listed_is_what_the_events_of_each_session_say(folder: Path, dsn: str, tmp_path: Path) -> None:
    async with open_world(POSTGRES, dsn, CODEC) as world:
        await append_all(world.journal, appends(folder))
    config = load({"dsn": dsn, "data_dir": str(tmp_path)}, {})
    heard: list[str] = []
    async with open_read_models(config, heard.append, no_bars) as models:
        listed = await list_sessions(models)
        streams = list(await models.archive.events.streams())
        assert sorted(each.stream for each in listed.sessions) == sorted(streams)
        assert listed.total == len(streams)
        footprints = await measure(models.archive, models)
        assert set(footprints) == set(streams)
        for each in listed.sessions:
            _, history = await read_history(models.archive, str(each.stream))
            assert _told(each) == _read(history)
            assert each.last_at <= history.last_at
            assert footprints[each.stream].sent == sum(body.size for body in history.bodies.values())
    assert not [sentence for sentence in heard if "stopped" in sentence]


def _told(session: ListedSession) -> dict[str, Any]:
    return {
        "began": (session.external_id, session.client, session.client_version, session.first_at),
        "model": session.model,
        "turns": session.turns,
        "forgotten": session.forgotten,
        "branches": [
            (each.name, each.parent, each.forked_at, each.last, each.turns, _why(each.decision))
            for each in session.branches
        ],
    }


def _read(history: History) -> dict[str, Any]:
    started = history.started
    assert started is not None
    return {
        "began": (started.external_id, started.client, started.client_version, started.at),
        "model": history.model,
        "turns": history.turns,
        "forgotten": history.forgotten > 0,
        "branches": [
            (line.name, line.opened.parent, line.opened.forked_at, *_taken(line), _why(history.modes.get(line.name)))
            for line in history.lines.values()
        ],
    }


def _taken(line: BranchTurns) -> tuple[int, int]:
    return line.last, len(line.turns)


def _why(decision: BranchModeSet | ListedDecision | None) -> tuple[object, ...]:
    return () if decision is None else (decision.mode, decision.why)


async def test_a_session_s_model_is_the_main_agent_s_although_a_side_call_came_first() -> None:
    stream = UUID(int=1)
    shared = {"stream": stream, "parent": None, "forked_at": 0, "inherits": False, "last": 1, "turns": 1}
    models = Answers(
        {
            ("timeline", "listed"): [
                {
                    "stream": stream,
                    "external_id": "s",
                    "client": "opencode",
                    "client_version": None,
                    "started_at": 1,
                    "last_active_at": 2,
                    "forgotten_at": None,
                    "imported_at": None,
                    "sessions": 1,
                    "before": None,
                    "behind": None,
                }
            ],
            ("timeline", "listed_branches"): [
                {**shared, "branch": "side-1", "kind": "side", "model": "small", "version": 2},
                {**shared, "branch": "main", "kind": "main", "model": "large", "version": 5},
            ],
            ("timeline", "listed_modes"): [],
        }
    )
    (listed,) = (await list_sessions(models)).sessions
    assert listed.model == "large"


def _started(stream: UUID, tenant: str, at: int) -> Append:
    name = f"session {at}"
    event = SessionStarted(at=at, tenant=tenant, external_id=name, client="c", client_version=None, salt=b"s")
    return Append(stream, 0, (Envelope(event, "correlation", "StartSession"),))


async def test_the_last_active_are_listed_of_how_many_a_tenant_has_and_beside_which_of_them(
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


def listed(*branches: tuple[str, BranchKind, int, Mode | None]) -> ListedSession:
    return ListedSession(
        stream=UUID(int=1),
        external_id="s",
        client="claude-code",
        client_version=None,
        model=None,
        first_at=1,
        last_at=2,
        forgotten=False,
        imported_at=None,
        neighbours=[],
        branches=[
            ListedBranch(name, kind, None, 0, turns, turns, None if mode is None else ListedDecision(mode, "w"))
            for name, kind, turns, mode in branches
        ],
    )


@pytest.mark.parametrize(
    ("branches", "mode"),
    [
        ([("side-1", BranchKind.SIDE, 1, Mode.OBSERVE), ("main", BranchKind.MAIN, 1, Mode.MANAGE)], Mode.MANAGE),
        ([("main", BranchKind.MAIN, 2, Mode.MANAGE), ("agent-1", BranchKind.AGENT, 30, Mode.OBSERVE)], Mode.MANAGE),
        ([("main", BranchKind.MAIN, 2, None), ("fork-1", BranchKind.FORK, 30, Mode.MANAGE)], None),
        ([("agent-1", BranchKind.AGENT, 3, Mode.MANAGE), ("side-1", BranchKind.SIDE, 9, None)], None),
    ],
)
def test_a_session_is_what_its_main_branch_is(
    branches: list[tuple[str, BranchKind, int, Mode | None]], mode: Mode | None
) -> None:
    main = listed(*branches).main
    assert main is not None
    assert (main.decision.mode if main.decision is not None else None) is mode
