"""A command runs on each database that holds a part of the sessions."""

from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from mnemosyne.cli.group import Commands
from mnemosyne.cli.settings import log_options
from mnemosyne.errors import LogUnavailable, NotFound

DSNS = [f"postgresql://u:secret@db{number}/m" for number in range(3)]


@click.group(cls=Commands)
def program() -> None:
    """Commands that need no database."""


@program.command()
@click.argument("session", required=False)
@log_options()
def look(session: str | None, dsn: str | None, **options: object) -> None:
    """Print where a session is, or all that answer."""
    assert dsn is not None
    if session is not None and session not in dsn:
        raise NotFound(f"There is no session {session!r}.")
    if session is None and "db1" in dsn:
        raise LogUnavailable("it does not answer")
    click.echo(dsn[-4:])


@pytest.mark.parametrize(
    ("arguments", "code", "printed", "said"),
    [
        ([], 1, "b0/m\nb2/m\n", "postgresql://u:***@db1/m: it does not answer\n"),
        (["db1"], 0, "b1/m\n", ""),
        (["db7"], 1, "", "Error: There is no session 'db7'.\n"),
        (["--dsn", "postgresql://db9/m"], 0, "b9/m\n", ""),
    ],
)
def test_a_command_runs_on_each_database_until_it_finds_its_session(
    arguments: list[str], code: int, printed: str, said: str, tmp_path: Path
) -> None:
    variables = {"MNEMOSYNE_DSN": DSNS[0], "MNEMOSYNE_SHARDS": ";".join(DSNS[1:]), "HOME": str(tmp_path)}
    done = CliRunner(env=variables).invoke(program, ["look", *arguments])
    assert (done.exit_code, done.stdout, done.stderr) == (code, printed, said)
