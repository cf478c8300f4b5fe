"""`mnemosyne demo`: the whole product in one command, and nothing remains afterwards."""

import io
import re
import shlex
import signal
import subprocess
from pathlib import Path

import pytest
import trio
from rich.console import Console

from mnemosyne.adapters.postgres.sql_views import QueryAnswer, ask_views
from mnemosyne.adapters.upstream import HttpUpstream
from mnemosyne.app.read_models import open_read_models
from mnemosyne.cli.sql import print_answer
from mnemosyne.config import load
from mnemosyne.domain.objects.events import FaultKind, ObjectCreated, ObjectDegraded, ObjectFaulted
from mnemosyne.domain.session.ledger_events import TurnAccounted
from mnemosyne.domain.session.round_events import EpochBegan
from mnemosyne.figures import dollars_text
from mnemosyne.projections.catalog import ALL
from mnemosyne.services.billed_replies import BilledReplies, ReplyEvent
from mnemosyne.services.savings import Balance, balance_of_turn
from mnemosyne_lab.demo.agent import UNCHANGED, Agent, Workshop
from mnemosyne_lab.demo.play import Options, load_story, play, watch_replies
from mnemosyne_lab.demo.stage import Stage
from mnemosyne_lab.demo.witness import Witness
from tests.actors.support import StoppableLog
from tests.cli.support import environ_for, mnemosyne, started
from tests.http.evicting import Index
from tests.http.managing import open_stage
from tests.waiting import DEADLINE


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory in which the demo makes its temporary directories."""
    return tmp_path_factory.mktemp("place")


@pytest.fixture(scope="module")
def environ(tmp_path_factory: pytest.TempPathFactory, place: Path) -> dict[str, str]:
    """A user with an unusable log of their own, which the demo must not touch."""
    home = tmp_path_factory.mktemp("home")
    return environ_for(home, TMPDIR=str(place), MNEMOSYNE_DSN="host=nowhere.invalid", PYTHONIOENCODING="utf-8")


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("demo") / "kept here"


@pytest.fixture(scope="module")
def played(environ: dict[str, str], kept: Path) -> "subprocess.CompletedProcess[str]":
    return mnemosyne("demo", "--fast", "--keep", str(kept), environ=environ)


def _processes_of(place: Path) -> list[str]:
    """The command lines of all processes that name the directory."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            words = (process / "cmdline").read_bytes()
            known = words + (process / "environ").read_bytes()
        except OSError:
            continue
        if str(place).encode() in known:
            found.append(words.replace(b"\0", b" ").decode(errors="replace"))
    return found


def _assert_nothing_remains(place: Path) -> None:
    assert list(place.iterdir()) == []
    assert _processes_of(place) == []


async def test_each_step_of_the_story_happens_in_the_log(tmp_path: Path) -> None:
    """Played through the real application, on a log in memory: the demo's output is compared with the events."""
    story, log, output = load_story(), StoppableLog(), io.StringIO()
    console = Console(file=output, width=100)
    async with open_stage(log=log, index=Index(log)) as stage, HttpUpstream(stage.url) as server:
        witness, options, shown = Witness(log), Options(console, paced=False, keep=None, opens=False), Stage(console)
        workshop = Workshop.with_files(tmp_path, story.files)
        watch = watch_replies(options, shown, witness)
        agent = Agent(server=server, workshop=workshop, model=story.model, system=story.system, watch=watch)
        await play(options, shown, story, agent, witness, stage.standin)
        events, upstream = await stage.events(), [str(each) for each in stage.upstream]
    objects = {event.object: event for event in events if isinstance(event, ObjectCreated)}

    def name(object_id: str) -> str:
        return str(objects[object_id].source_key).rpartition("/")[2]

    (epoch,) = [event for event in events if isinstance(event, EpochBegan)]
    evicted = {name(event.object) for event in events if isinstance(event, ObjectDegraded)}
    assert {"orders.csv", "tariffs.csv"} <= evicted
    assert epoch.payback is not None
    every = [(event.kind, event.turn, event.object) for event in events if isinstance(event, ObjectFaulted)]
    quoted = [each for each in every if each[0] is FaultKind.MICRO and name(each[2]) == "orders.csv"]
    faults = [quoted[0], *(each for each in every if each[0] is not FaultKind.MICRO)][:3]
    asked, restored, reread = [turn for _, turn, _ in faults]
    assert [kind for kind, _, _ in faults] == [FaultKind.MICRO, FaultKind.EXPLICIT, FaultKind.IMPLICIT]
    assert 10 < epoch.turn < asked < restored < reread
    assert [name(each) for _, _, each in faults] == ["orders.csv", "Bash python3 -m unittest", "tariffs.csv"]
    order, tariff, failure = "11645,DE,26.5,", "IS,31,", "AssertionError: 5.4 != 4.7"
    assert [text in upstream[epoch.turn - 2] for text in (order, tariff, failure)] == [True] * 3
    assert [text in upstream[epoch.turn - 1] for text in (order, tariff, failure)] == [False] * 3
    assert [text in upstream[-1] for text in (order, tariff, failure)] == [True] * 3
    assert UNCHANGED in str(agent.messages)
    assert UNCHANGED not in upstream[-1]
    accounted = [event for event in events if isinstance(event, TurnAccounted)]
    known: dict[int, BilledReplies] = {}
    for event in (each for each in events if isinstance(each, ReplyEvent)):
        known.setdefault(event.turn, BilledReplies()).note(event)
    bill = sum((balance_of_turn(event, known[event.turn].replies) for event in accounted), Balance())
    assert (bill.turns, bill.managed) == (witness.turn, witness.turn)
    assert bill.nanodollars < 0.9 * bill.nanodollars_unmanaged
    text = output.getvalue()
    for amount in (bill.nanodollars, bill.nanodollars_unmanaged, bill.nanodollars_saved):
        assert dollars_text(amount) in text
    assert f"break even around turn {epoch.turn + epoch.payback}." in " ".join(text.split())
    assert "did not happen" not in text


@pytest.mark.parametrize("width", [13, 30, 60, 200])
def test_lines_fit_any_terminal(width: int) -> None:
    output = io.StringIO()
    stage, witness = Stage(Console(file=output, width=width)), Witness(StoppableLog())
    witness.facts["window"] = 76_000
    call = {"type": "tool_use", "name": "Bash", "input": {"command": "echo " + "long " * 40}}
    stage.reply([call, {"type": "text", "text": "Words and words. " * 20}], witness)
    stage.tell("Sentences and sentences. " * 20, indent="  ")
    assert max(map(len, output.getvalue().splitlines())) < width


@pytest.mark.release
def test_file_output_is_plain_text(played: "subprocess.CompletedProcess[str]") -> None:
    assert "\x1b" not in played.stdout


@pytest.mark.release
@pytest.mark.parametrize("number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.soak)])
def test_stopped_demo_removes_everything(number: signal.Signals, environ: dict[str, str], place: Path) -> None:
    with started("demo", environ=environ | {"PYTHONUNBUFFERED": "1"}) as process:
        assert process.stdout is not None
        while "1/6" not in process.stdout.readline():
            assert process.poll() is None
        process.send_signal(number)
        process.send_signal(number)  # impatient users press twice
        output, errors = process.communicate(timeout=DEADLINE)
    assert process.returncode == 128 + number
    assert output.rstrip().endswith("Nothing is left behind.")
    assert errors == ""
    _assert_nothing_remains(place)


@pytest.mark.release
def test_demo_ends_quietly_when_its_output_pipe_closes(environ: dict[str, str], place: Path) -> None:
    """As with `| head`."""
    with started("demo", "--fast", environ=environ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == ""
        assert process.wait(DEADLINE) == 1
    _assert_nothing_remains(place)


@pytest.mark.release
def test_command_that_opens_the_kept_log_can_be_copied(played: "subprocess.CompletedProcess[str]", kept: Path) -> None:
    command = next(line for line in played.stdout.splitlines() if "mnemosyne open" in line)
    assert shlex.split(command) == ["mnemosyne", "open", "demo", "--data-dir", str(kept.resolve())]


@pytest.mark.release
def test_kept_record_is_verified(
    played: "subprocess.CompletedProcess[str]", kept: Path, environ: dict[str, str], place: Path
) -> None:
    assert played.returncode == 0, played.stderr
    own = {name: value for name, value in environ.items() if name != "MNEMOSYNE_DSN"}
    verified = mnemosyne("verify", "demo", "--data-dir", str(kept), environ=own)
    assert verified.stdout.startswith("ok 28 turns")
    _assert_nothing_remains(place)


@pytest.mark.release
def test_directory_in_use_is_not_written_to(environ: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "precious").touch()
    refused = mnemosyne("demo", "--keep", str(tmp_path), environ=environ)
    assert refused.returncode == 1
    assert "is not empty" in refused.stderr
    assert [file.name for file in tmp_path.iterdir()] == ["precious"]


@pytest.mark.release
def test_answers_on_the_page_about_sql_are_those_of_the_demo(
    played: "subprocess.CompletedProcess[str]", kept: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = (Path(__file__).parents[2] / "docs/sql.md").read_text(encoding="utf-8")
    told = re.findall(r"^```sql\n(.+?)```\n\n```text\n(.+?)```$", page, re.MULTILINE | re.DOTALL)
    assert len(told) == 10
    (opening,) = re.findall(r'^\$ mnemosyne sql "(.+)"\n((?:.+\n)+?)```$', page, re.MULTILINE)

    async def ask() -> list[QueryAnswer]:
        async with open_read_models(load({"data_dir": str(kept)}, {}), pytest.fail) as models:
            await models.refresh(ALL)
            return [
                await ask_views(models.database, query, tenant="local", seconds=30) for query, _ in (opening, *told)
            ]

    for found, (query, answer) in zip(trio.run(ask), (opening, *told), strict=True):
        print_answer(found)
        assert capsys.readouterr().out == answer, query
