"""``mnemosyne timeline``: what happened in a session, on a real database."""

import json
from pathlib import Path

import pytest
import trio

from mnemosyne.app.storage import event_codec
from mnemosyne.domain.ports import Append, Envelope
from mnemosyne.domain.session.events import SessionStarted
from mnemosyne.domain.session.round_events import BranchModeSet, Mode
from tests.cli.running import SESSION, run
from tests.domain.session_events import began, finished, round_began, round_finished
from tests.projections.support import POSTGRES, open_world
from tests.projections.test_usage import STREAM


@pytest.mark.usefixtures("golden")
def test_a_timeline_has_a_line_for_every_attempt_and_every_gap() -> None:
    lines = run("timeline", "a client").stdout.splitlines()
    assert lines[0] == (
        "a client's session  claude-code 2.1.329 · claude-opus-5-5 · 1970-01-01 · 7 branches · 12 turns · $0.0008"
        " · its content was forgotten"
    )
    assert lines[1].split() == ["TURN", "WHEN", "MODEL", "IN", "READ", "WRITE", "OUT", "COST", "TOOK", "END"]
    turns = [each.split("  ")[0].split() for each in lines[2:16]]
    assert turns[:3] == [["main", "1"], ["main", "1.2"], ["main", "2"]]
    assert "interrupted: the client left" in lines[2]
    assert "$0.0001" in lines[3]
    assert lines[16].startswith("(gap)")
    assert lines[16].endswith("3 turns not recorded: the database was away")
    assert any(each.startswith("  fork-1 3 ") for each in lines)
    assert any(each.startswith("    agent-1 1 ") for each in lines)


@pytest.mark.usefixtures("golden")
def test_a_timeline_of_one_branch_holds_only_that() -> None:
    found = json.loads(run("timeline", SESSION, "--branch", "agent-1", "--json").stdout)
    assert [(row["branch"], row["turn"]) for row in found["turns"]] == [("agent-1", 1), ("agent-1", 2)]
    result = run("timeline", SESSION, "--branch", "nope", code=1)
    assert result.stderr.startswith("Error: The session has no branch 'nope'; its branches: main, fork-1, agent-1,")


@pytest.mark.usefixtures("golden")
def test_a_timeline_is_also_json_with_times_in_utc_and_money_as_a_number() -> None:
    found = json.loads(run("timeline", SESSION[:8], "--json").stdout)
    assert found["session"]["external_id"] == "a client's session"
    assert found["session"]["started_at"] == "1970-01-01T00:00:01.000Z"
    assert {"branch": "fork-1", "parent": "main", "forked_at": 2}.items() <= found["branches"][1].items()
    turn = found["turns"][1]
    assert (turn["branch"], turn["turn"], turn["attempt"], turn["state"]) == ("main", 1, 2, "finished")
    assert turn["context_tokens"] == 7
    assert turn["dollars"] == pytest.approx((7 * 4 + 2 * 20) / 1e6)
    assert found["gaps"][0]["since"] == "1970-01-01T00:01:20.000Z"


def test_a_managed_turn_costs_all_its_rounds_its_context_is_the_last_and_who_decided_stands_above(
    dsn: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = "claude-opus-4-5"
    events = [
        SessionStarted(at=1, tenant="local", external_id="managed", client="c", client_version=None, salt=b"s"),
        BranchModeSet(at=2, branch="main", mode=Mode.MANAGE, why="the settings say so"),
        began(1, model),
        round_began(1),
        round_finished(1, {"input_tokens": 1_000, "output_tokens": 10}),
        round_began(2),
        round_finished(2, {"input_tokens": 2_000, "output_tokens": 20}),
        finished(1, model, {"input_tokens": 2_000, "output_tokens": 30}),
    ]

    async def fill() -> None:
        async with open_world(POSTGRES, dsn, event_codec()) as world:
            await world.journal.append(Append(STREAM, 0, tuple(Envelope(event, "c") for event in events)))

    trio.run(fill)
    for name, value in {"MNEMOSYNE_DSN": dsn, "MNEMOSYNE_DATA_DIR": str(tmp_path)}.items():
        monkeypatch.setenv(name, value)
    found = json.loads(run("timeline", "managed", "--json").stdout)
    assert [(row["branch"], row["mode"], row["why"]) for row in found["modes"]] == [
        ("main", "manage", "the settings say so")
    ]
    decided, turned = run("timeline", "managed").stdout.splitlines()[2:4]
    assert (decided.split()[0], decided.endswith("managed: the settings say so")) == ("main", True)
    assert turned.startswith("main 1 ")
    (turn,) = found["turns"]
    (total,) = json.loads(run("usage", "--json").stdout)
    assert (turn["rounds"], turn["input_tokens"], turn["output_tokens"], turn["context_tokens"]) == (
        2,
        3_000,
        30,
        2_000,
    )
    assert turn["dollars"] == total["dollars"] > 0


@pytest.mark.usefixtures("golden")
@pytest.mark.parametrize(
    ("arguments", "code", "sentence"),
    [
        (["timeline", "nobody"], 1, "There is no session 'nobody'; `mnemosyne sessions` lists all."),
        (["timeline", ""], 1, "There is no session ''; `mnemosyne sessions` lists all."),
        (["rebuild", "nothing"], 1, "There is no projection 'nothing'; there are timeline, usage, "),
        (["projections", "dump", "nothing"], 1, "There is no projection 'nothing'; there are timeline, usage, "),
    ],
)
def test_what_cannot_be_is_one_sentence(arguments: list[str], code: int, sentence: str) -> None:
    assert f"Error: {sentence}" in run(*arguments, code=code).stderr
