"""The commands that show the state of wishes (`docs/research/seeds.toml`): those of `mnemosyne` on the demo's log and
its export, and measurements in short form. `make coverage` and the north star are campaigns of their own.
"""

import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.support import environ_for, mnemosyne
from tests.test_seeds import proofs
from tests.waiting import DEADLINE
from tests.wishes import read_file

ROOT = Path(__file__).parents[1]
COMMANDS = sorted({*proofs(), *(row["run"] for row in read_file()[1])})
SHOWING = [each for each in COMMANDS if each.startswith("mnemosyne ")]
MEASURING = [each for each in COMMANDS if each.startswith("python -m benchmarks ")]


@pytest.fixture(scope="module")
def environ(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Of a user whose log is the demo's."""
    folder = tmp_path_factory.mktemp("demo") / "kept"
    home = environ_for(tmp_path_factory.mktemp("home"))
    assert mnemosyne("demo", "--fast", "--no-open", "--keep", str(folder), environ=home).returncode == 0
    environ = {**home, "MNEMOSYNE_DATA_DIR": str(folder)}
    exported = mnemosyne("export", "demo", "--output", str(folder / "sessions.jsonl"), environ=environ)
    assert exported.returncode == 0, exported.stderr
    return environ


@pytest.mark.parametrize("command", SHOWING)
def test_command_shows_something_of_the_demo(command: str, environ: dict[str, str]) -> None:
    words = shlex.split(command.replace("sessions.jsonl", f"{environ['MNEMOSYNE_DATA_DIR']}/sessions.jsonl"))
    done = mnemosyne(*words[1:], environ=environ)
    assert (done.returncode, done.stdout.count("\n") > 1) == (0, True), done.stdout + done.stderr


@pytest.mark.soak
@pytest.mark.parametrize("command", MEASURING)
def test_measurement_runs(command: str) -> None:
    words = [sys.executable, *shlex.split(command)[1:], "--quick"]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, timeout=10 * DEADLINE, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
