"""What a command imports, counted: it answers at once because it loads little. A number that rises here is time that
everybody waits who types that command.
"""

import os
import subprocess
import sys

import pytest

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
"""What joining a server does without."""

SERVING = {"quart", "hypercorn", "httpx2", "anthropic", "numpy", "onnxruntime", "tokenizers", "mnemosyne.actors"}
SERVING |= {"mnemosyne.http", "mnemosyne_lab", "mnemosyne.domain.segmentation", "mnemosyne.domain.window.planning"}
"""What a server needs, and no question to the log."""

DECIDING = {"mnemosyne.domain.session.state", "mnemosyne.domain.objects.decide", "mnemosyne.domain.cost.prompt"}
DECIDING |= {
    "mnemosyne.domain.summaries",
    "mnemosyne.domain.recall",
    "mnemosyne.projections.catalog",
    "mnemosyne.adapters.embedding",
}
"""What decides and remembers. What was sent, and when, is told without."""


def imported(*arguments: str) -> frozenset[str]:
    """The modules in memory when such a command ends, in a process of its own."""
    return loaded(PROGRAM, *arguments)


def loaded(program: str, *arguments: str) -> frozenset[str]:
    """The same for a program that writes them to stderr."""
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments], capture_output=True, text=True, timeout=DEADLINE, env=os.environ
    )
    assert done.returncode == 0, done.stderr
    return frozenset(done.stderr.split("\n"))


def ours(modules: frozenset[str]) -> list[str]:
    return sorted(name for name in modules if name.startswith("mnemosyne"))


FRONT = ["mnemosyne", "mnemosyne.cli", "mnemosyne.cli.group", "mnemosyne.errors"]


def test_the_version_reads_no_command_and_no_entry_point() -> None:
    modules = imported("--version")
    assert ours(modules) == FRONT
    assert len(modules) <= 105


def test_the_list_of_commands_reads_no_command_but_the_table_of_the_laboratory() -> None:
    modules = imported("--help")
    assert ours(modules) == [*FRONT, "mnemosyne_lab", "mnemosyne_lab.cli"]
    assert len(modules) <= 190


def test_a_command_of_the_product_looks_up_no_entry_points() -> None:
    assert not imported("config", "--help") & {"mnemosyne_lab", "importlib.metadata"}


def test_the_help_of_a_command_reads_no_part_that_serves() -> None:
    # A command's file imports what the command needs.
    modules = imported("sessions", "--help")
    assert modules & (SERVING - {"mnemosyne.domain.segmentation"}) == set()
    assert len(modules) <= 700


@pytest.mark.parametrize(("command", "most"), [("branches SESSION", 113), ("context SESSION", 120)])
def test_what_was_sent_and_when_is_told_without_what_decides(command: str, most: int, conversation: str) -> None:
    modules = imported(*command.replace("SESSION", conversation).split())
    assert modules & (SERVING | DECIDING) == set()
    assert len(ours(modules)) <= most


def test_sessions_are_listed_by_what_their_users_typed_without_a_server(conversation: str) -> None:
    modules = imported("sessions")
    # Whose words are whose is what segmentation knows.
    assert modules & (SERVING - {"mnemosyne.domain.segmentation"}) == set()
    assert len(ours(modules)) <= 152


@pytest.mark.parametrize(("command", "most"), [("usage", 132), ("search SESSION parser", 195)])
def test_what_is_looked_up_is_told_without_a_server(command: str, most: int, conversation: str) -> None:
    modules = imported(*command.replace("SESSION", conversation).split())
    assert modules & SERVING == set()
    assert len(ours(modules)) <= most


@pytest.mark.parametrize("command", ["sessions", "branches SESSION"])
def test_a_table_of_plain_text_is_printed_without_rich(command: str, conversation: str) -> None:
    modules = imported(*command.replace("SESSION", conversation).split())
    assert {each for each in modules if each.partition(".")[0] == "rich"} == set()
    assert len(modules) <= 640


def test_a_client_joins_a_server_without_any_of_the_parts_that_serve() -> None:
    needed = ("mnemosyne.cli.run", "mnemosyne.app.clients", "mnemosyne.app.discovery", "mnemosyne.app.launch")
    program = f"import sys, {', '.join(needed)}; sys.stderr.write('\\n'.join(sys.modules))"
    modules = loaded(program)
    assert modules & (SLOW | SERVING) == set()
    assert len(ours(modules)) <= 22
