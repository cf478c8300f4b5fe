"""All sessions at a glance: what their rows say is what the events of each say."""

from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from mnemosyne.app.read_models import no_bars, open_read_models
from mnemosyne.config import load
from mnemosyne.domain.history.time_travel import BranchTurns, History
from mnemosyne.domain.session.round_events import BranchModeSet
from mnemosyne.services.session_list import ListedDecision, ListedSession, list_sessions
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
        assert [each.stream for each in listed] == list(await models.archive.events.streams())
        for each in listed:
            _, history = await read_history(models.archive, str(each.stream))
            assert _told(each) == _read(history)
            assert each.last_at <= history.last_at
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
                }
            ],
            ("timeline", "every_branch"): [
                {**shared, "branch": "side-1", "kind": "side", "model": "small", "version": 2},
                {**shared, "branch": "main", "kind": "main", "model": "large", "version": 5},
            ],
            ("timeline", "every_mode"): [],
        }
    )
    (listed,) = await list_sessions(models)
    assert listed.model == "large"
