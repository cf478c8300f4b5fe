"""Commands are fast because they import little; a number that rises here is time that every call of a command takes."""

import os
import subprocess
import sys

import pytest

from tests.profiles import rarely
from tests.waiting import DEADLINE

PROGRAM = """
import sys
from mnemosyne.cli import main
try:
    main(sys.argv[1:], prog_name="mnemosyne")
finally:
    sys.stderr.write("\\n".join(["", *sys.modules]))
"""

SLOW = {"trio", "psycopg", "rich", "cattrs", "numpy", "onnxruntime", "importlib.metadata"}
"""Not needed to join a server."""

SERVING = {"quart", "hypercorn", "httpx2", "anthropic", "numpy", "onnxruntime", "tokenizers", "mnemosyne.actors"}
SERVING |= {"mnemosyne.http", "mnemosyne_lab", "mnemosyne.domain.segmentation", "mnemosyne.domain.window.planning"}
"""Needed only by a server."""

DECIDING = {"mnemosyne.domain.session.state", "mnemosyne.domain.objects.decide", "mnemosyne.domain.cost.prompt"}
DECIDING |= {
    "mnemosyne.domain.summaries",
    "mnemosyne.domain.recall",
    "mnemosyne.projections.catalog",
    "mnemosyne.adapters.embedding",
}
"""Decisions and memory: not needed to show what was sent."""


def imported(*arguments: str) -> frozenset[str]:
    """The modules imported by a command."""
    return loaded(PROGRAM, *arguments)


def loaded(program: str, *arguments: str) -> frozenset[str]:
    """The modules that a program writes to stderr."""
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments], capture_output=True, text=True, timeout=DEADLINE, env=os.environ
    )
    assert done.returncode == 0, done.stderr
    return frozenset(done.stderr.split("\n"))


def ours(modules: frozenset[str]) -> list[str]:
    return sorted(name for name in modules if name.startswith("mnemosyne"))


FRONT = ["mnemosyne", "mnemosyne.cli", "mnemosyne.cli.group", "mnemosyne.errors"]


def test_version_imports_no_command() -> None:
    modules = imported("--version")
    assert ours(modules) == FRONT
    assert len(modules) <= 105


def test_list_of_commands_imports_no_command() -> None:
    modules = imported("--help")
    assert ours(modules) == [*FRONT, "mnemosyne_lab", "mnemosyne_lab.cli"]
    assert len(modules) <= 190


def test_help_of_a_command_imports_no_part_of_a_server_and_no_other_package() -> None:
    modules = imported("sessions", "--help")
    assert modules & (SERVING - {"mnemosyne.domain.segmentation"}) == set()
    assert len(modules) <= 700


@pytest.mark.parametrize(
    ("command", "excluded", "most"),
    [
        ("branches SESSION", SERVING | DECIDING | {"rich"}, 121),
        *rarely(
            [
                ("search SESSION parser", SERVING - {"mnemosyne.domain.segmentation"}, 214),
                ("context SESSION", SERVING | DECIDING, 125),
                ("sessions", SERVING - {"mnemosyne.domain.segmentation"} | {"rich"}, 154),
                ("usage", SERVING, 140),
            ]
        ),
    ],
)
def test_reading_command_imports_no_part_of_a_server(
    command: str, excluded: set[str], most: int, conversation: str
) -> None:
    modules = imported(*command.replace("SESSION", conversation).split())
    assert modules & excluded == set()
    assert len(ours(modules)) <= most


def test_a_worker_without_a_helper_model_imports_no_part_of_one() -> None:
    modules = loaded("import sys, mnemosyne.app.worker; sys.stderr.write('\\n'.join(sys.modules))")
    excluded = ("mnemosyne.actors", "mnemosyne.domain.helper", "mnemosyne.domain.window.planning", "httpx2", "numpy")
    assert modules & {*excluded} == set()
    assert len(ours(modules)) <= 204


def test_joining_a_server_imports_no_part_of_a_server() -> None:
    needed = ("mnemosyne.cli.run", "mnemosyne.app.clients", "mnemosyne.app.discovery", "mnemosyne.app.launch")
    modules = loaded(f"import sys, {', '.join(needed)}; sys.stderr.write('\\n'.join(sys.modules))")
    assert modules & (SLOW | SERVING) == set()
    assert len(ours(modules)) <= 22
