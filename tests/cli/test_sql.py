"""`mnemosyne sql` prints the result of a query as a table or as JSON; `sql-reader` needs a server of one's own."""

import json
from pathlib import Path

import pytest

from tests.cli.running import run, words

VALUES = (
    "select 1 as n, 2.50 as d, 'a'||chr(10)||chr(27)||'b' as text, true as is, null as none,"
    " array[gen_random_uuid()] as list, 'nan'::float as nan, '1 day'::interval as span,"
    " '2026-11-23 12:00Z'::timestamptz as at"
)


@pytest.mark.usefixtures("golden")
def test_table_shows_every_value_in_one_line_without_control_characters() -> None:
    done = run("sql", VALUES)
    head, line = done.stdout.splitlines()
    assert head.split() == ["n", "d", "text", "is", "none", "list", "nan", "span", "at"]
    assert line.split("  ")[:2] == ["1", "2.50"]
    assert "a \N{REPLACEMENT CHARACTER}b" in line
    assert all(text in line for text in ('["', "yes", "2026-11-23 12:00:00", "1 day"))
    assert done.stderr == "1 row\n"


@pytest.mark.usefixtures("golden")
def test_json_has_a_value_of_every_type() -> None:
    (row,) = json.loads(run("sql", VALUES, "--json").stdout)
    assert len(row.pop("list")[0]) == 36
    assert row == {
        "n": 1, "d": 2.5, "text": "a\n\x1bb", "is": True, "none": None, "nan": None,
        "at": "2026-11-23T12:00:00+00:00", "span": "1 day, 0:00:00",
    }  # fmt: skip
    assert "have the same name" in run("sql", "select 1 as a, 2 as a", "--json", code=2).stderr


@pytest.mark.usefixtures("golden")
def test_statement_sees_current_read_models_and_may_come_from_stdin() -> None:
    assert words(run("sql", "select count(*) as turns from turns").stdout) == [["turns"], ["14"]]
    assert words(run("sql", "-", stdin=b"select 7 as seven\n").stdout) == [["seven"], ["7"]]


@pytest.mark.usefixtures("golden")
def test_refused_statement_is_reported_in_the_words_of_the_database() -> None:
    assert run("sql", "select nope", code=2).stderr == (
        'Error: The database rejected the query: column "nope" does not exist. '
        "`mnemosyne sql` without a query lists views and columns.\n"
    )
    assert run("sql", "select 1 +", code=2).stderr.endswith("rejected the query: syntax error at end of input.\n")
    assert "took too long" in run("sql", "select pg_sleep(9)", "--seconds", "0.1", code=2).stderr
    assert "QUERY is empty" in run("sql", " ", code=2).stderr


@pytest.mark.usefixtures("golden")
def test_without_a_query_every_view_is_listed_with_its_columns() -> None:
    listed = {row["view"]: row["columns"].split(", ") for row in json.loads(run("sql", "--json").stdout)}
    for view, columns in listed.items():
        assert json.loads(run("sql", f"select count({columns[-1]}) from {view}", "--json").stdout)
    assert {"sessions", "turns", "semantic_objects", "money"} <= listed.keys()


def test_embedded_database_has_no_readers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mnemosyne.cli.log_access.has_log", lambda config: True)
    assert "Only its owner can connect" in run("sql-reader", "ada", "--data-dir", str(tmp_path), code=1).stderr
