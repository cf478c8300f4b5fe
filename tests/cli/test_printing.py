"""Tables fit the terminal: texts are cut, numbers never; output to a file is never cut."""

import io
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
import trio
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

import mnemosyne_lab.cli
from mnemosyne.adapters.postgres.database import Database
from mnemosyne.adapters.postgres.leading import SERVER, name_of
from mnemosyne.app.storage import event_codec
from mnemosyne.cli import main, printing
from mnemosyne.cli.printing import LEAST, Row, fit, print_table, say, table_lines
from mnemosyne.domain.segmentation import episodes
from mnemosyne.figures import plural, printable
from mnemosyne.services.exporting import write_session
from tests.cli.running import run, run_json
from tests.fixtures import UseLog
from tests.lab.evaluation.transcripts_made import Transcript
from tests.services.talking import rich_session, talking

HEADERS = ("NAME", "COUNT", "WHEN", "WHAT")
WIDTHS = (80, 100, 120)


def lines(rows: Sequence[Sequence[str]], width: int | None = None, **names: str) -> list[str]:
    return table_lines(HEADERS, rows, right="COUNT", whole="WHEN", width=width, **names)


def test_columns_fit_their_content_and_numbers_are_aligned_right() -> None:
    assert lines([("a", "5", "now", "x" * 200), ("bcdef", "1000", "-", "y")]) == [
        "NAME   COUNT  WHEN  WHAT",
        f"a          5  now   {'x' * 200}",
        "bcdef   1000  -     y",
    ]


def test_widest_text_is_cut_first_with_an_ellipsis() -> None:
    (_, row) = lines([("a name", "5", "now", "x" * 200)], 40)
    assert row == f"a name     5 now  {'x' * 21}…"


@pytest.mark.parametrize(
    ("cell", "shown"),
    [
        ("Read /code/app/parsers/date_parser.py", "Read …date_parser.py"),
        ("/code/app/parsers/date_parser.py", "…sers/date_parser.py"),
        ("Bash pytest -q /code/app/tests/test_it.py", "Bash pytest -q /cod…"),
    ],
)
def test_path_is_cut_before_its_file_name(cell: str, shown: str) -> None:
    _, row = table_lines(("A",), [(cell,)], width=20)
    assert row == shown


def test_spare_columns_are_omitted_from_the_last_before_names_become_unreadable() -> None:
    row = [("a name of a thing", "12345678", "2026-11-21 03:44:06", "a longer text")]
    assert "WHEN" in lines(row, 60)[0]
    assert lines(row, 42, spare="COUNT WHEN")[0].split() == ["NAME", "COUNT", "WHAT"]
    assert lines(row, 30, spare="COUNT WHEN")[0].split() == ["NAME", "WHAT"]


@given(
    st.lists(st.tuples(st.integers(1, 60), st.booleans()), min_size=1, max_size=12),
    st.integers(1, 150),
    st.lists(st.integers(0, 11), max_size=3, unique=True),
)
def test_table_is_no_wider_than_its_room_if_possible(
    columns: list[tuple[int, bool]], room: int, spare: list[int]
) -> None:
    natural, cuttable = zip(*columns, strict=True)
    droppable = [index for index in spare if index < len(natural)]
    widths, gap = fit(natural, cuttable=cuttable, droppable=droppable, room=room)
    there = [width for width in widths if width]
    total = sum(there) + gap * max(0, len(there) - 1)
    least = [
        0 if index in droppable else min(width, LEAST) if may else width
        for index, (width, may) in enumerate(zip(natural, cuttable, strict=True))
    ]
    fewest = [width for width in least if width]
    assert total <= max(room, sum(fewest) + len(fewest) - 1)
    for width, before, may in zip(widths, natural, cuttable, strict=True):
        assert width == before or (width == 0) or (may and min(before, LEAST) <= width < before)


def test_wide_characters_are_aligned() -> None:
    table = table_lines(("A", "B"), [("日本語", "x"), ("ab", "y")])
    assert [cell_len(line[: line.index(last)]) for line, last in zip(table, "Bxy", strict=True)] == [8, 8, 8]
    narrow = table_lines(("A", "B"), [("日本語日本語日本語日本語", "x")], width=14)
    assert all(cell_len(line) <= 14 for line in narrow)


@pytest.mark.parametrize("cell", ["a\x1b[2Jb", "a\nb", "a\tb", "a\u202eb"])
def test_cell_is_one_line_without_control_characters(cell: str) -> None:
    assert table_lines(("A",), [(cell,)])[1:] == [printable(cell)]


def test_terminal_without_unicode_gets_a_dot(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(printing, "fits_encoding", lambda text: False)
    assert lines([("a name", "5", "now", "x" * 200)], 40)[1].endswith("xx.")


def test_pipe_gets_every_character(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(("A", "B"), [("[red]", "y" * 5_000)])
    assert capsys.readouterr().out == f"A      B\n[red]  {'y' * 5_000}\n"


SESSION = "a client"

COMMANDS: Mapping[str, Sequence[Sequence[str]]] = {
    "sessions": (["sessions"],),
    "branches": (["branches", SESSION],),
    "context": (["context", SESSION],),
    "compare": (["compare", SESSION, SESSION],),
    "du": (["du"],),
    "timeline": (["timeline", SESSION],),
    "accounts": (["savings"], *(["usage", "--by", each] for each in ("session", "day", "model"))),
    "cache_misses": (["usage", "--misses"],),
    "projections": (["projections"], ["nodes"]),
    "objects": (["objects", SESSION], ["object", "OBJECT"], ["objects", SESSION, "--topics"]),
    "memory": (["memory", "admit", "--list"], ["memory", "list"]),
    "sql": (["sql", "select count(*) as turns, repeat('many words ', 40) as said from turns"],),
    "session_edits": (["trash", "--list"],),
    "replay": (),  # its table has only decisions that differ
    "evaluation": (["evaluate", "session.jsonl", "--tariffs", "all"],),
    "what_if": (["what-if", "transcript.jsonl", "--since", "2026-10-01", "--tariffs", "all"],),
}
"""The commands that print tables, by module."""


@pytest.fixture
def rich(dsn: str, use_log: UseLog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A database with a session that has something of everything, and with a connected server."""
    file = tmp_path / "session.jsonl"

    async def write() -> None:
        async with talking() as talk:
            await rich_session(talk)
        with file.open("wb") as out:
            await write_session(talk.archive, SESSION, out, event_codec())

    trio.run(write)
    Transcript(prefix="a").work(20, size=9_000).write(tmp_path / "transcript.jsonl")
    monkeypatch.chdir(tmp_path)
    use_log(dsn)
    run("import", str(file))
    run("remember", "Invoices have four digits, as auditors want. " * 9)
    run("trash", run("remember", "Receipts have five digits. " * 9).stdout.split()[1])
    run("memory", "admit", "--variable", "KEY", KEY="sk-ant-another-0123456789")
    server = Database(dsn, name=name_of(SERVER))
    trio.run(server.prepare)
    yield
    server.close()


Layout = Callable[..., tuple[list[tuple[int, bool]], int]]


def lines_of(layout: Layout, width: int, headers: Row, rows: Sequence[Row], *names: Any) -> list[str]:
    """The lines of a table on a terminal of this width."""
    places, gap = layout(headers, rows, *names, width)
    cells = (printing._cells(row, places, gap) for row in (headers, *rows))
    return ["".join(row).rstrip() for row in cells]


@pytest.mark.release
@pytest.mark.usefixtures("rich")
def test_tables_of_every_command_fit_the_usual_terminals(monkeypatch: pytest.MonkeyPatch) -> None:
    tables: list[Any] = []
    layout = printing._places

    def record(*table: Any) -> Any:
        tables.append(table[:-1])
        return layout(*table)

    first = run_json("objects", SESSION)["objects"][0]["id"]
    monkeypatch.setattr(printing, "_places", record)
    monkeypatch.setattr(episodes, "FIRST_TURN", 1)  # the session is short
    for command in chain.from_iterable(COMMANDS.values()):
        tables.clear()
        done = CliRunner().invoke(main, [first if word == "OBJECT" else word for word in command])
        assert any(rows for _, rows, *_ in tables), (command, done.output)
        lines = [(width, line) for width in WIDTHS for table in tables for line in lines_of(layout, width, *table)]
        assert [(width, line) for width, line in lines if cell_len(line) > width] == [], command


def test_every_module_with_a_table_is_in_the_list() -> None:
    folders = (Path(printing.__file__).parent, Path(mnemosyne_lab.cli.__file__).parent)
    sources = {path.stem: path.read_text(encoding="utf-8") for folder in folders for path in folder.glob("*.py")}
    tables = {name for name, source in sources.items() if re.search(r"\b(print_table|table_lines)\(", source)}
    assert tables - {"printing"} == COMMANDS.keys()


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(("wanted", "escapes"), [("", True), ("1", False)])
def test_no_color_disables_all_escape_sequences(wanted: str, escapes: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", wanted)
    monkeypatch.setenv("TERM", "xterm-256color")
    for stream in ("stdout", "stderr"):
        monkeypatch.setattr(sys, stream, terminal := Terminal())
        say("text", bold=True, fg="red", err=stream == "stderr")
        if stream == "stdout":
            print_table(("NAME", "B"), [("x", "y")], styles=["red"])
        with printing.progress_bar("doing") as progress:
            progress(1, 2)
        assert "text" in terminal.getvalue()
        assert ("\x1b" in terminal.getvalue()) is escapes


def test_nouns_have_a_plural() -> None:
    assert [plural(count, "branch") for count in (0, 1, 2)] == ["0 branches", "1 branch", "2 branches"]
    assert plural(2, "turn") == "2 turns"


def test_progress_is_a_line_every_few_seconds_without_a_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    clock = iter([100.0, 101.0, 105.0, 105.0, 109.9, 111.0, 111.0])
    monkeypatch.setattr("mnemosyne.cli.printing.time.monotonic", lambda: next(clock))
    with printing.progress_bar("simulating") as progress:
        for done in (1, 2000, 2500, 3000):
            progress(done, 4000)
    assert capsys.readouterr().err == "simulating: 2,000 of 4,000\nsimulating: 3,000 of 4,000\n"
