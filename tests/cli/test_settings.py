"""A command runs on each database that holds a part of the sessions."""

from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

from mnemosyne.cli.group import Commands
from mnemosyne.cli.settings import log_options
from mnemosyne.errors import LogUnavailable, NotFound
from tests.cli.logs import GOLDEN, OBSERVED_LOG, STARTED, put_events, put_golden
from tests.cli.running import SESSION, run
from tests.fixtures import LentDatabases
from tests.golden.sessions import appends
from tests.projections.test_savings import STREAM

AWAY = "postgresql:///none?host=/nowhere"
TWICE = str(appends(OBSERVED_LOG)[0].stream)
DSNS = [f"postgresql://u:secret@db{number}/m" for number in range(3)]


@click.group(cls=Commands)
def program() -> None:
    """Commands that need no database."""


@program.command()
@log_options()
def look(dsn: str | None, **options: object) -> None:
    """Print which databases answer."""
    assert dsn is not None
    if "db1" in dsn:
        raise LogUnavailable("it does not answer")
    click.echo(dsn[-4:])


@pytest.mark.parametrize(
    ("arguments", "code", "printed", "said"),
    [
        ([], 1, "b0/m\nb2/m\n", "postgresql://u:***@db1/m: it does not answer\n"),
        (["--dsn", "postgresql://db9/m"], 0, "b9/m\n", ""),
    ],
)
def test_a_command_runs_on_each_database(
    arguments: list[str], code: int, printed: str, said: str, tmp_path: Path
) -> None:
    variables = {"MNEMOSYNE_DSN": DSNS[0], "MNEMOSYNE_SHARDS": ";".join(DSNS[1:]), "HOME": str(tmp_path)}
    done = CliRunner(env=variables).invoke(program, ["look", *arguments])
    assert (done.exit_code, done.stdout, done.stderr) == (code, printed, said)


@program.command()
@click.argument("sessions", nargs=-1)
@log_options()
def close(sessions: list[str], dsn: str, **options: object) -> None:
    """Print the names of sessions, unless they are in the first database."""
    if dsn == DSNS[0]:
        raise LogUnavailable("it does not answer")
    click.echo(f"{dsn[-4:]} {' '.join(sessions)}")


def test_a_database_that_fails_keeps_a_command_from_no_session_in_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mnemosyne.cli.settings._is_its_name", lambda options, name: find_in(options["dsn"], name))
    variables = {"MNEMOSYNE_DSN": DSNS[0], "MNEMOSYNE_SHARDS": ";".join(DSNS[1:]), "HOME": str(tmp_path)}
    done = CliRunner(env=variables).invoke(program, ["close", "0", "1", "2"])
    assert (done.exit_code, done.stdout) == (1, "b1/m 1\nb2/m 2\n")
    assert done.stderr == "postgresql://u:***@db0/m: it does not answer\n"


def find_in(dsn: str, name: str) -> bool:
    """Whether a session is in a database of its number."""
    if dsn[-3] != name:
        raise NotFound(name)
    return True


def test_a_command_about_a_session_runs_only_where_that_is_the_only_one(
    databases: LentDatabases, tmp_path: Path
) -> None:
    with databases.lend() as one, databases.lend() as two:
        put_golden(one, OBSERVED_LOG)
        put_golden(two, OBSERVED_LOG, GOLDEN)
        environ: dict[str, Any] = {"MNEMOSYNE_DSN": one, "MNEMOSYNE_SHARDS": f"{two};{AWAY}"}
        assert SESSION in run("timeline", SESSION, "--json", **environ).stdout
        unsure = run("timeline", SESSION[:8], code=1, **environ).stderr
        assert f"'{SESSION[:8]}' may match a session in {AWAY}, too." in unsure
        environ["MNEMOSYNE_TENANT"] = "t"
        assert "There is no session 'x'" in run("timeline", "x", "--dsn", one, code=1).stderr
        refused = run("forget", TWICE, "--yes", code=1, **environ)
        assert f"'{TWICE}' matches sessions in {one} and {two}" in refused.stderr
        for each in (one, two):
            assert run("verify", TWICE, "--dsn", each, "--tenant", "t").stdout.startswith("ok")
        found = run("search", "parser", "--json", code=1, **environ).stdout
        assert found.count('"results"') == 2, "a question alone is no session: all databases are searched"
        saved = run("backup", str(tmp_path / "saved"), **environ).stderr
        assert "The other 2 databases of `shards` are not in it" in saved
        put_events(one, [STARTED])
        environ |= {"MNEMOSYNE_SHARDS": two, "MNEMOSYNE_TENANT": "local"}
        found = run("unarchive", SESSION, str(STREAM), **environ).stdout
        assert found == f"session {SESSION} is not archived\nsession {STREAM} is not archived\n", "each where it is"
        line = tmp_path / "line.jsonl"
        line.write_text('{"id": "1", "text": "the pool"}\n')
        asked = "search", "--file", str(line), "--queries", str(line), "--json"
        assert len(run(*asked, **environ, MNEMOSYNE_SEMANTIC_SEARCH="false").stdout.splitlines()) == 1
