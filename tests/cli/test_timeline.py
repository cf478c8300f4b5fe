"""``mnemosyne timeline``: a session turn by turn, on a real database."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from mnemosyne.domain.session.events import SessionStarted
from mnemosyne.domain.session.round_events import BranchModeSet, Mode
from tests.cli.running import SESSION, run, run_json
from tests.domain.session_events import began, finished, round_began, round_finished


@pytest.mark.usefixtures("golden")
def test_timeline_has_a_line_for_every_attempt_and_every_gap() -> None:
    lines = run("timeline", "a client").stdout.splitlines()
    assert lines[0] == (
        "a client's session  claude-code 2.1.329 · claude-opus-5-5 · 1970-01-01 · 7 branches · 9 turns"
        " · 3 side requests · $0.00082 · its content was forgotten"
    )
    assert lines[1].split() == ["TURN", "WHEN", "MODEL", "IN", "READ", "WRITE", "OUT", "COST", "TOOK", "END"]
    turns = [line.split("  ")[0].split() for line in lines[2:16]]
    assert turns[:3] == [["main", "1"], ["main", "1.2"], ["main", "2"]]
    assert "interrupted: the client left" in lines[2]
    assert "$0.000068" in lines[3]
    assert lines[16].startswith("(gap)")
    assert lines[16].endswith("3 turns not recorded: the database was away")
    assert any(line.startswith("  fork-1 3 ") for line in lines)
    assert any(line.startswith("    agent-1 1 ") for line in lines)


@pytest.mark.usefixtures("golden")
def test_json_has_times_in_utc_and_cost_in_dollars() -> None:
    timeline = run_json("timeline", SESSION[:8])
    assert timeline["session"]["external_id"] == "a client's session"
    assert timeline["session"]["started_at"] == "1970-01-01T00:00:01.000Z"
    assert {"branch": "fork-1", "parent": "main", "forked_at": 2}.items() <= timeline["branches"][1].items()
    turn = timeline["turns"][1]
    assert (turn["branch"], turn["turn"], turn["attempt"], turn["state"]) == ("main", 1, 2, "finished")
    assert turn["context_tokens"] == 7
    assert turn["dollars"] == pytest.approx((7 * 4 + 2 * 20) / 1e6)
    assert timeline["gaps"][0]["since"] == "1970-01-01T00:01:20.000Z"
    turns = run_json("timeline", SESSION, "--branch", "agent-1")["turns"]
    assert [(row["branch"], row["turn"]) for row in turns] == [("agent-1", 1), ("agent-1", 2)]


@pytest.mark.usefixtures("golden")
def test_changes_are_listed_by_time_and_by_actor() -> None:
    every = run_json("timeline", SESSION, "--changes")
    by_model = run_json("timeline", SESSION, "--by", "model")
    assert 0 < len(by_model) < len(every)
    assert by_model == [each for each in every if each["by"] == "model"]
    first, last = "1970-01-01T00:00:02+00:00", "1970-01-01T00:00:10+00:00"
    between = run_json("timeline", SESSION, "--since", first, "--until", last)
    assert 0 < len(between) < len(every)
    assert between == [each for each in every if first[:19] <= each["at"][:19] <= last[:19]]
    lines = run("timeline", SESSION, "--by", "user").stdout.splitlines()
    assert lines[0].split() == ["WHEN", "BY", "TURN", "CHANGE", "WHY"]
    assert lines[-1].split()[2:] == ["user", "content", "erased"]
    assert "is not a time" in run("timeline", SESSION, "--until", "soon", code=2).stderr


def test_managed_turn_has_the_cost_of_all_rounds_below_the_reason_for_managing(
    recorded: Callable[[Sequence[Any]], None],
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
    recorded(events)
    timeline = run_json("timeline", "managed")
    (mode,), (turn,) = timeline["modes"], timeline["turns"]
    assert (mode["branch"], mode["mode"], mode["why"]) == ("main", "manage", "the settings say so")
    decision, first = run("timeline", "managed").stdout.splitlines()[2:4]
    assert (decision.split()[0], decision.endswith("managed: the settings say so")) == ("main", True)
    assert first.startswith("main 1 ")
    assert (turn["rounds"], turn["input_tokens"], turn["output_tokens"]) == (2, 3_000, 30)
    assert turn["context_tokens"] == 2_000
    assert turn["dollars"] == run_json("usage")[0]["dollars"] > 0


@pytest.mark.usefixtures("golden")
@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["nobody"], "There is no session 'nobody'; `mnemosyne sessions` lists all."),
        ([SESSION, "--branch", "nope"], "The session has no branch 'nope'; its branches: main, fork-1, agent-1,"),
    ],
)
def test_unknown_session_or_branch_is_reported(arguments: list[str], sentence: str) -> None:
    assert f"Error: {sentence}" in run("timeline", *arguments, code=1).stderr
