"""The commands that read what projections hold, and those that tend them, on a real database."""

import json
import os
import signal
import time
from pathlib import Path
from uuid import UUID
from xml.etree import ElementTree

import pytest
import trio
from click.testing import CliRunner, Result

from mnemosyne.adapters.plain.log import PlainLog
from mnemosyne.app.storage import event_codec
from mnemosyne.cli import main
from mnemosyne.domain.ports import Append, Envelope
from mnemosyne.domain.session.events import SessionStarted
from mnemosyne.projections import ALL
from tests.adapters.log_support import query, until
from tests.cli.support import environ_for, line, started
from tests.golden.sessions import LOGS, appends
from tests.projections.support import POSTGRES, open_world
from tests.projections.test_usage import STREAM, began, finished
from tests.projections.test_usage_rounds import round_began, round_finished
from tests.waiting import DEADLINE

GOLDEN = LOGS / "one-of-everything"
SESSION = "2510e41f-e2bc-56a3-8d5f-6cd9f1b8ce50"


@pytest.fixture
def golden(dsn: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> str:
    """A database whose log holds the golden session, and an environment in which the commands find it."""

    async def fill() -> None:
        async with open_world(POSTGRES, dsn, event_codec()) as world:
            for append in appends(GOLDEN):
                await world.journal.append(append)

    trio.run(fill)
    for name, value in {"MNEMOSYNE_DSN": dsn, "MNEMOSYNE_DATA_DIR": str(tmp_path), "TZ": "UTC"}.items():
        monkeypatch.setenv(name, value)
    return dsn


def run(*arguments: str, code: int = 0) -> Result:
    """Run a command to its end."""
    result = CliRunner().invoke(main, list(arguments), catch_exceptions=False)
    assert result.exit_code == code, result.output
    return result


def words(text: str) -> list[list[str]]:
    return [each.split() for each in text.splitlines()]


# timeline


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
    assert "context of main, in tokens over turns" in lines


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


def test_a_managed_turn_costs_all_its_rounds_and_its_context_is_the_last_of_them(
    dsn: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = "claude-opus-4-5"
    events = [
        SessionStarted(at=1, tenant="t", external_id="managed", client="c", client_version=None, salt=b"s"),
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
    (turn,) = json.loads(run("timeline", "managed", "--json").stdout)["turns"]
    (total,) = json.loads(run("usage", "--json").stdout)
    assert (turn["rounds"], turn["input_tokens"], turn["output_tokens"], turn["context_tokens"]) == (
        2,
        3_000,
        30,
        2_000,
    )
    assert turn["dollars"] == total["dollars"] > 0


@pytest.mark.usefixtures("golden")
def test_the_plot_is_an_svg_with_a_line_for_each_branch(tmp_path: Path) -> None:
    file = tmp_path / "context.svg"
    assert run("timeline", SESSION, "--plot", str(file)).stderr == f"The picture is in {file}.\n"
    picture = ElementTree.parse(file).getroot()
    texts = [each.text for each in picture.iter("{http://www.w3.org/2000/svg}text")]
    assert "Context of a client's session" in texts
    assert {"main", "agent-1"} <= set(texts)
    assert len(list(picture.iter("{http://www.w3.org/2000/svg}polyline"))) == 7


@pytest.mark.usefixtures("golden")
@pytest.mark.parametrize(
    ("arguments", "code", "sentence"),
    [
        (["timeline", "nobody"], 1, "There is no session 'nobody'; `mnemosyne sessions` lists all."),
        (["timeline", ""], 1, "There is no session ''; `mnemosyne sessions` lists all."),
        (["timeline", SESSION, "--plot", "a.png"], 2, "--plot draws SVG; name a file that ends in .svg, not 'a.png'."),
        (["timeline", SESSION, "--plot", "/no/a.svg"], 1, "The picture /no/a.svg cannot be written: No such file or "),
        (["timeline", SESSION, "--watch", "--json"], 2, "--watch goes with neither --json nor --plot."),
        (["usage", "--watch", "--json"], 2, "--watch does not go with --json."),
        (["rebuild", "nothing"], 1, "There is no projection 'nothing'; there are timeline, usage, "),
        (["projections", "dump", "nothing"], 1, "There is no projection 'nothing'; there are timeline, usage, "),
    ],
)
def test_what_cannot_be_is_one_sentence(arguments: list[str], code: int, sentence: str) -> None:
    assert f"Error: {sentence}" in run(*arguments, code=code).stderr


def test_watching_shows_what_is_new_until_ctrl_c(golden: str, tmp_path: Path) -> None:
    environ = environ_for(tmp_path, MNEMOSYNE_DSN=golden, TZ="UTC", PYTHONUNBUFFERED="1")
    with started("timeline", SESSION, "--watch", environ=environ) as process:
        assert line(process.stdout).startswith("a client's session")
        os.kill(process.pid, signal.SIGINT)
        output, errors = process.communicate(timeout=DEADLINE)
    assert (process.returncode, errors) == (0, ""), output


# usage


@pytest.mark.usefixtures("golden")
def test_usage_adds_up_by_day_by_default() -> None:
    found = words(run("usage").stdout)
    assert found[0] == ["DAY", "REPLIES", "IN", "READ", "WRITE", "OUT", "COST"]
    assert found[1] == ["1970-01-01", "13", "91", "0", "0", "26", "$0.0008+"]
    assert run("usage").stdout.splitlines()[-1] == "No price is known for gpt: 1 reply is counted and not priced."


@pytest.mark.usefixtures("golden")
def test_usage_by_model_says_which_have_no_price() -> None:
    assert words(run("usage", "--by", "model").stdout)[1:4] == [
        ["claude-opus-5-5", "12", "84", "0", "0", "24", "$0.0008"],
        ["gpt", "1", "7", "0", "0", "2", "?"],
        ["in", "all", "13", "91", "0", "0", "26", "$0.0008+"],
    ]
    priced, unpriced = json.loads(run("usage", "--by", "model", "--json").stdout)
    assert (priced["model"], priced["dollars"], priced["unpriced_replies"]) == (
        "claude-opus-5-5",
        pytest.approx(12 * (7 * 4 + 2 * 20) / 1e6),
        0,
    )
    assert (unpriced["model"], unpriced["dollars"], unpriced["unpriced_models"]) == ("gpt", None, ["gpt"])


@pytest.mark.usefixtures("golden")
def test_usage_by_session_names_the_client_s_session() -> None:
    assert "2510e41f a client's session" in run("usage", "--by", "session").stdout
    (row,) = json.loads(run("usage", "--by", "session", "--json").stdout)
    assert (row["session"], row["external_id"], row["output_tokens"]) == (SESSION, "a client's session", 26)


@pytest.mark.usefixtures("golden")
def test_days_are_local_in_the_table_and_utc_in_json(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "America/New_York")
    time.tzset()
    try:
        assert words(run("usage").stdout)[1][0] == "1969-12-31"
        assert json.loads(run("usage", "--json").stdout)[0]["day"] == "1970-01-01"
    finally:
        monkeypatch.setenv("TZ", "UTC")
        time.tzset()


@pytest.mark.parametrize(("arguments", "output"), [([], ""), (["--json"], "[]\n")])
def test_usage_before_anything_was_recorded_is_nothing(arguments: list[str], output: str, tmp_path: Path) -> None:
    assert run("usage", "--data-dir", str(tmp_path / "none"), *arguments).stdout == output


# projections, rebuild


def test_projections_tell_how_they_stand(golden: str) -> None:
    assert words(run("projections").stdout)[1] == ["timeline", "2", "0", "38", "none"]
    run("usage")
    assert words(run("projections").stdout)[1:3] == [
        ["timeline", "2", "38", "0", "current"],
        ["usage", "2", "38", "0", "current"],
    ]
    query(golden, "drop table mnemosyne.usage_turns")
    assert json.loads(run("projections", "--json").stdout)[1] == {
        "name": "usage",
        "version": 2,
        "position": 38,
        "lag": 0,
        "state": "stale",
        "error": "its table usage_turns is missing",
    }
    assert run("usage").stderr == "The projection usage is rebuilt: its table usage_turns is missing.\n"


def test_a_stopped_projection_says_why_and_still_shows_what_was_before(golden: str) -> None:
    before = run("usage", "--json").stdout
    query(
        golden,
        "insert into mnemosyne.stored_events (originator_id, originator_version, topic, state)"
        " values (%s, 1, 'session.dreamt.v7', '{}')",
        "00000000-0000-0000-0000-000000000001",
    )
    result = run("usage", "--json")
    assert result.stdout == before
    assert "usage shows what was before it stopped: the log holds session.dreamt.v7: this needs a " in result.stderr
    result = run("projections")
    assert words(result.stdout)[2] == ["usage", "2", "38", "1", "stopped"]
    assert "usage: the log holds session.dreamt.v7" in result.stderr
    assert "Error: it cannot be rebuilt: the log holds session.dreamt.v7" in run("rebuild", "usage", code=1).stderr
    assert run("usage", "--json").stdout == before


@pytest.mark.usefixtures("golden")
def test_a_rebuild_changes_no_row() -> None:
    before = [run("projections", "dump", name).stdout for name in ("timeline", "usage")]
    assert before[0] == (GOLDEN / "timeline.jsonl").read_text(encoding="utf-8")
    names = [row[0] for row in words(run("projections").stdout)[1:]]
    assert names[:2] == ["timeline", "usage"]
    assert run("rebuild").stdout == "".join(f"{name} is rebuilt, up to position 38.\n" for name in names)
    assert run("rebuild", "usage").stdout == "usage is rebuilt, up to position 38.\n"
    assert [run("projections", "dump", name).stdout for name in ("timeline", "usage")] == before


def test_a_running_server_keeps_them_up_to_date(golden: str, tmp_path: Path) -> None:
    environ = environ_for(tmp_path, MNEMOSYNE_DSN=golden)
    with started("serve", "--port", "0", environ=environ) as process:
        line(process.stdout)

        async def append_and_wait() -> None:
            async with open_world(POSTGRES, golden, event_codec()) as world:
                log = PlainLog(event_codec())
                for append in appends(GOLDEN):
                    log.submit(append)
                for each in await log.tail(after=0, limit=4):  # the same session under another id
                    await world.journal.append(Append(UUID(int=7), each.version - 1, (each.envelope,)))
                standing = "select min(position), count(*) from mnemosyne.projections"
                await until(lambda: query(golden, standing) == [(42, len(ALL))])

        trio.run(append_and_wait)
        process.terminate()
        process.communicate(timeout=DEADLINE)
    assert process.returncode == 0
