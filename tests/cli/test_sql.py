"""`mnemosyne sql` prints what a query finds, as a table or as JSON; `sql-reader` is for a server of one's own."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from mnemosyne.cli import main
from tests.cli.running import run, words

VALUES = (
    "select 1 as n, 2.50 as d, 'a'||chr(10)||chr(27)||'b' as text, true as is, null as none,"
    " array[gen_random_uuid()] as list, 'nan'::float as nan, '1 day'::interval as span,"
    " '2026-11-23 12:00Z'::timestamptz as at"
)


def test_a_table_shows_each_value_in_one_line_and_commands_no_terminal(golden: str) -> None:
    done = run("sql", VALUES)
    head, line = done.stdout.splitlines()
    assert head.split() == ["n", "d", "text", "is", "none", "list", "nan", "span", "at"]
    assert line.split("  ")[:2] == ["1", "2.50"]
    assert "a \N{REPLACEMENT CHARACTER}b" in line
    assert all(each in line for each in ('["', "yes", "2026-11-23 12:00:00", "1 day"))
    assert done.stderr == "1 row\n"


def test_json_holds_what_json_can(golden: str) -> None:
    (row,) = json.loads(run("sql", VALUES, "--json").stdout)
    assert len(row.pop("list")[0]) == 36
    assert row == {
        "n": 1, "d": 2.5, "text": "a\n\x1bb", "is": True, "none": None, "nan": None,
        "at": "2026-11-23T12:00:00+00:00", "span": "1 day, 0:00:00",
    }  # fmt: skip
    assert "have the same name" in run("sql", "select 1 as a, 2 as a", "--json", code=2).stderr


def test_read_models_are_brought_up_to_date_first(golden: str) -> None:
    assert words(run("sql", "select count(*) as turns from turns").stdout) == [["turns"], ["14"]]


def test_a_statement_comes_from_stdin_too(golden: str) -> None:
    done = CliRunner().invoke(main, ["sql", "-"], input="select 7 as seven\n")
    assert words(done.stdout) == [["seven"], ["7"]]
    assert "QUERY is empty" in run("sql", " ", code=2).stderr


def test_what_the_database_refuses_is_said_in_its_words_with_the_exit_code_of_a_bad_command(golden: str) -> None:
    assert run("sql", "select nope", code=2).stderr == (
        'Error: The database refuses the query: column "nope" does not exist.\n'
    )
    assert "took too long" in run("sql", "select pg_sleep(9)", "--seconds", "0.1", code=2).stderr


def test_the_embedded_database_has_no_readers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mnemosyne.cli.reading.has_log", lambda config: True)
    assert "Only its owner can connect" in run("sql-reader", "ada", "--data-dir", str(tmp_path), code=1).stderr
