"""`mnemosyne demo`: the whole product in one command, and nothing remains afterwards."""

import re
import signal
import subprocess
from pathlib import Path

import pytest
import trio

from mnemosyne.adapters.postgres.sql_views import QueryAnswer, ask_views
from mnemosyne.app.read_models import open_read_models
from mnemosyne.cli.sql import print_answer
from mnemosyne.config import load
from mnemosyne.projections.catalog import ALL
from tests.cli.support import MNEMOSYNE, environ_for, started
from tests.waiting import DEADLINE

pytestmark = pytest.mark.release

STEPS = (
    "> A test fails. Find out why, and fix it.",
    "The test will name the input.",
    "FAILED (errors=1)",
    "leap = month == 2 and year % 4 == 0",
    "+ file_context",
    "● Agent",
    "agent-1 opens",
    "you go back",
    "fork-1 leaves main at 4",
    "fork-1 6 ← end_turn",
    "10 turns in 3 context windows made ",
    "$ mnemosyne sessions",
    "$ mnemosyne timeline demo",
    "$ mnemosyne context demo --turn 3",
    "proven",
    "$ mnemosyne diff demo --turn 2 4",
    "12 blocks the same, 6 added, 0 removed, 0 changed",
    "$ mnemosyne verify demo",
    "ok 10 turns",
    "mnemosyne run -- claude",
)


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
    """The directory in which it is kept."""
    return tmp_path_factory.mktemp("demo") / "kept here"


@pytest.fixture(scope="module")
def played(environ: dict[str, str], kept: Path) -> "subprocess.CompletedProcess[str]":
    return _demo("--fast", "--keep", str(kept), environ=environ)


def _demo(*options: str, environ: dict[str, str]) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [*MNEMOSYNE, "demo", *options],
        env=environ,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=DEADLINE,
    )


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


def test_story_is_played_in_order_and_the_record_is_verified(played: "subprocess.CompletedProcess[str]") -> None:
    assert played.returncode == 0, played.stderr
    assert played.stderr == ""
    position = 0
    for step in STEPS:
        found = played.stdout.find(step, position)
        assert found >= 0, f"{step!r} does not come, or not in its turn:\n{played.stdout}"
        position = found


def test_bug_is_really_found_and_really_repaired(played: "subprocess.CompletedProcess[str]") -> None:
    """The tools run: these lines come from a test runner and not from a script."""
    printed = re.findall(r"^ +(Ran 3 tests|FAILED|OK)\b", played.stdout, re.MULTILINE)
    assert printed == ["Ran 3 tests", "FAILED", "Ran 3 tests", "OK", "Ran 3 tests", "OK"]


def test_file_output_is_plain_text(played: "subprocess.CompletedProcess[str]") -> None:
    assert "\x1b" not in played.stdout


@pytest.mark.parametrize("number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.soak)])
def test_stopped_demo_removes_everything(number: signal.Signals, environ: dict[str, str], place: Path) -> None:
    with started("demo", environ=environ | {"PYTHONUNBUFFERED": "1"}) as process:
        assert process.stdout is not None
        while "fix it." not in process.stdout.readline():
            assert process.poll() is None
        process.send_signal(number)
        process.send_signal(number)  # impatient users press twice
        output, errors = process.communicate(timeout=DEADLINE)
    assert process.returncode == 128 + number
    assert output.rstrip().endswith("Nothing is left behind.")
    assert errors == ""
    _assert_nothing_remains(place)


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


def test_kept_record_is_readable_with_the_commands_that_were_shown(
    played: "subprocess.CompletedProcess[str]", kept: Path, environ: dict[str, str], place: Path
) -> None:
    assert f"$ mnemosyne verify demo --data-dir '{kept}'\n" in played.stdout
    own = {name: value for name, value in environ.items() if name != "MNEMOSYNE_DSN"}
    verified = subprocess.run(
        [*MNEMOSYNE, "verify", "demo", "--data-dir", str(kept)],
        env=own,
        capture_output=True,
        text=True,
        timeout=DEADLINE,
    )
    assert verified.stdout == "ok 10 turns\n"
    _assert_nothing_remains(place)


def test_directory_in_use_is_not_written_to(environ: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "precious").touch()
    refused = _demo("--keep", str(tmp_path), environ=environ)
    assert refused.returncode == 1
    assert "is not empty" in refused.stderr
    assert [file.name for file in tmp_path.iterdir()] == ["precious"]


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
