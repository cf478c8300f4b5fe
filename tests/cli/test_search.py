"""``mnemosyne search``: what a session remembers, word for word; or one line for each query to a file."""

import json
from pathlib import Path

import pytest
import trio
from click.testing import CliRunner, Result

from mnemosyne.cli import main
from tests.adapters.indexing import indexing

CONVERSATION: list[dict[str, object]] = [
    {"id": 1, "role": "Maya", "text": "I started pottery.\u2028Tuesdays!", "time": "2024-01-12T18:10:00Z"},
    {"id": "b", "role": "Tom", "text": "The interview was at a shipping company.", "time": None},
    {"id": "c", "text": "日本語"},
]
QUERIES: list[dict[str, object]] = [
    {"id": "q1", "text": "pottery"},
    {"id": 2, "text": "Which company had the interview?"},
]


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    return written(tmp_path / "conversation.jsonl", CONVERSATION), written(tmp_path / "queries.jsonl", QUERIES)


def written(path: Path, lines: list[dict[str, object]]) -> Path:
    path.write_text("".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines), encoding="utf-8")
    return path


def search(files: tuple[Path, Path], *more: str) -> Result:
    arguments = ["search", "--file", str(files[0]), "--queries", str(files[1]), "--data-dir", str(files[0].parent)]
    return CliRunner().invoke(main, [*arguments, *more])


def test_each_query_gives_a_line_with_its_best_results_first(files: tuple[Path, Path]) -> None:
    done = search(files, "--json", "--limit", "2")
    assert done.exit_code == 0, done.output
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert [each["id"] for each in found] == ["q1", 2]
    assert [each["results"][0]["id"] for each in found] == [1, "b"]
    for each in found:
        scores = [result["score"] for result in each["results"]]
        assert len(scores) == 2
        assert scores == sorted(scores, reverse=True)


def test_a_note_says_what_it_searched_with_and_how_to_search_better(files: tuple[Path, Path]) -> None:
    assert "hashed-words" in search(files).stderr
    assert "mnemosyne model install" in search(files).stderr


def test_people_read_the_messages_themselves(files: tuple[Path, Path]) -> None:
    assert "1  Maya: I started pottery." in search(files).stdout


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("{", "line 2"),
        ("[1]", "no JSON object"),
        ('{"id": 1}', "it has no text"),
        ('{"text": "x"}', "id is needed"),
        ('{"id": 1, "text": 5}', "its text is no text"),
        ("[" * 100_000, "line 2"),
    ],
)
@pytest.mark.parametrize("which", [0, 1])
def test_a_bad_line_is_named_and_nothing_is_printed(files: tuple[Path, Path], line: str, said: str, which: int) -> None:
    good = files[which].read_text(encoding="utf-8").split("\n")[0]
    files[which].write_text(f"{good}\n{line}\n", encoding="utf-8")
    done = search(files, "--json")
    assert (done.exit_code, done.stdout) == (2, "")
    assert f"{files[which]}, line 2" in done.stderr
    assert said in done.stderr


def test_bytes_that_are_no_text_and_a_missing_file_are_named(files: tuple[Path, Path]) -> None:
    files[0].write_bytes(b'{"id": 1, "text": "\xff"}\n')
    assert "line 1" in search(files).stderr
    files[0].unlink()
    done = search(files)
    assert (done.exit_code, done.stdout) == (2, "")
    assert "No such file" in done.stderr


# In a session

PARSER = "def parse_header(raw):\n    raise ParseFailed(ERR_HEADER_2041)  # größer\n" * 4
POOL = "class ConnectionPool:\n    max_connections = 20\n    def acquire(self): ...\n" * 4


@pytest.fixture
def stored(dsn: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> str:
    """A database with two sessions, of which one was never read about the parser."""

    async def store() -> None:
        async with indexing(dsn) as world:
            await world.add("mine", ("src/parser.py", PARSER), ("src/pool.py", POOL))
            await world.add("other", ("src/pool.py", POOL))

    trio.run(store)
    monkeypatch.setenv("MNEMOSYNE_DSN", dsn)
    monkeypatch.setenv("MNEMOSYNE_DATA_DIR", str(tmp_path))
    return dsn


def ask(*arguments: str, code: int = 0) -> Result:
    done = CliRunner().invoke(main, ["search", *arguments])
    assert done.exit_code == code, done.output
    return done


@pytest.mark.usefixtures("stored")
def test_the_object_that_says_it_comes_first_with_its_words_and_where_they_stand() -> None:
    done = ask("mine", "what raises ERR_HEADER_2041?")
    assert "Searched with words and hashed-words/1" in done.stderr
    assert "mnemosyne model install" in done.stderr
    first = done.stdout.splitlines()
    assert "file_context" in first[0]
    assert "src/parser.py" in first[0]
    assert any("raise ParseFailed(ERR_HEADER_2041)" in line for line in first[1:4])


@pytest.mark.usefixtures("stored")
def test_a_quote_is_the_bytes_that_it_names() -> None:
    found = json.loads(ask("mine", "what raises ERR_HEADER_2041?", "--json").stdout)
    assert (found["relevant"], found["missing"]) == (True, 0)
    best = found["results"][0]
    quote = best["quote"]
    full = CliRunner().invoke(main, ["object", best["id"], "--json"])
    assert json.loads(full.stdout)["kind"] == best["kind"] == "file_context"
    text = f"file_path: src/parser.py\n{PARSER}".encode()
    assert text[quote["start"] : quote["end"]].decode() == quote["text"]
    assert "ERR_HEADER_2041" in quote["text"]


@pytest.mark.usefixtures("stored")
def test_only_the_session_that_is_named_is_searched_and_nothing_relevant_is_said() -> None:
    assert ask("other", "ERR_HEADER_2041").stdout == "Nothing that is remembered has to do with this.\n"
    assert json.loads(ask("other", "ERR_HEADER_2041", "--json").stdout)["results"] == []


@pytest.mark.usefixtures("stored")
def test_filters_and_the_limit_choose() -> None:
    def sources(*options: str) -> list[str]:
        found = json.loads(ask("mine", "parse_header max_connections acquire", "--json", *options).stdout)
        return [str(each["source_key"]) for each in found["results"]]

    assert {"src/parser.py", "src/pool.py"} <= set(sources())
    assert len(sources("--limit", "1")) == 1
    assert set(sources("--kind", "file_context", "--turns", "1-9", "--tag", "read", "--branch", "main")) == {
        "src/parser.py",
        "src/pool.py",
    }
    assert "no such objects" in ask("mine", "x", "--kind", "plan", code=1).stderr
    assert "no such objects" in ask("mine", "x", "--turns", "7", code=1).stderr
    assert "has no branch 'nowhere'" in ask("mine", "x", "--branch", "nowhere", code=1).stderr


@pytest.mark.usefixtures("stored")
@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["mine"], "Give SESSION and QUESTION, or --file and --queries."),
        (["mine", "x", "--file", "y"], "Give SESSION and QUESTION"),
        (["mine", "x", "--turns", "3-"], "no range of turns"),
    ],
)
def test_what_cannot_be_understood_is_said(arguments: list[str], said: str) -> None:
    assert said in ask(*arguments, code=2).stderr


@pytest.mark.usefixtures("stored")
def test_the_index_is_made_anew_with_its_projection() -> None:
    before = ask("mine", "ERR_HEADER_2041", "--json").stdout
    done = CliRunner().invoke(main, ["rebuild", "object_index"])
    assert done.stdout.startswith("object_index is rebuilt"), done.output
    assert ask("mine", "ERR_HEADER_2041", "--json").stdout == before
