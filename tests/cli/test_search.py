"""``mnemosyne search``: the objects of sessions with verbatim quotes, or the messages of a conversation file."""

import json
import re
import sys
from pathlib import Path

import pytest
from click.testing import Result

from tests.adapters.log_support import query
from tests.cli.logs import PARSER
from tests.cli.running import run, run_json

CONVERSATION: list[dict[str, object]] = [
    {"id": 1, "role": "Maya", "text": "I started pottery.\u2028Tuesdays!", "time": "2024-01-12T18:10:00Z"},
    {"id": "b", "role": "Tom", "text": "The interview was at a shipping company.", "time": None},
    {"id": "c", "text": "日本語"},
]
QUERIES: list[dict[str, object]] = [
    {"id": "q1", "text": "pottery"},
    {"id": 2, "text": "Which company had the interview?"},
    {"id": 3, "text": "日本語"},
]


# In a conversation file


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    return write(tmp_path / "conversation.jsonl", CONVERSATION), write(tmp_path / "queries.jsonl", QUERIES)


def write(path: Path, lines: list[dict[str, object]]) -> Path:
    path.write_text("".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines), encoding="utf-8")
    return path


def search(files: tuple[Path, Path], *more: str, code: int = 0) -> Result:
    arguments = ("--file", str(files[0]), "--queries", str(files[1]), "--data-dir", str(files[0].parent))
    return run("search", *arguments, *more, code=code)


def test_each_query_gives_a_line_with_its_best_results_first(files: tuple[Path, Path]) -> None:
    done = search(files, "--json", "--limit", "2")
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert [row["id"] for row in rows] == ["q1", 2, 3]
    assert [row["results"][0]["id"] for row in rows] == [1, "b", "c"]
    for row in rows:
        scores = [result["score"] for result in row["results"]]
        assert len(scores) == 2
        assert scores == sorted(scores, reverse=True)


def test_text_output_shows_the_messages_and_the_search_method(files: tuple[Path, Path]) -> None:
    done = search(files)
    assert "1  Maya: I started pottery." in done.stdout
    assert "  c  日本語" in done.stdout
    assert "Searching with words only. `semantic_search` is off." in done.stderr


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        (b"{", "it is not JSON. Correct or remove the line"),
        (b'{"id": 1}', "it has no text"),
        (b'{"id": 9, "text": "\xff"}', ""),
    ],
)
@pytest.mark.parametrize("which", [0, 1])
def test_invalid_line_is_named_and_nothing_is_printed(
    files: tuple[Path, Path], line: bytes, problem: str, which: int
) -> None:
    first = files[which].read_bytes().split(b"\n")[0]
    files[which].write_bytes(first + b"\n" + line + b"\n")
    done = search(files, "--json", code=2)
    assert done.stdout == ""
    assert f"{files[which]}, line 2" in done.stderr
    assert problem in done.stderr


def test_duplicate_id_and_missing_file_are_reported(files: tuple[Path, Path]) -> None:
    write(files[0], [*CONVERSATION, {"id": 1, "text": "Not pottery."}])
    assert f"{files[0]}, line 4: line 1 has the same id, 1." in search(files, code=2).stderr
    files[0].unlink()
    assert "No such file" in search(files, code=2).stderr


# In sessions

QUESTION = "what raises ERR_HEADER_2041?"


@pytest.mark.usefixtures("read_files")
def test_best_object_comes_first_with_a_verbatim_quote() -> None:
    done = run("search", "mine", QUESTION)
    assert "Searched with words only. `semantic_search` is off." in done.stderr
    first, *more = done.stdout.splitlines()
    assert "file_context" in first
    assert "src/parser.py" in first
    assert any("raise ParseFailed(ERR_HEADER_2041)" in line for line in more[:3])
    findings = run_json("search", "mine", QUESTION)
    assert (findings["relevant"], findings["missing"], findings["not_indexed"]) == (True, 0, 0)
    best = findings["results"][0]
    assert (best["out_of_date"], best["superseded_by"]) == (False, None)
    quote, text = best["quote"], f"file_path: src/parser.py\n{PARSER}".encode()
    assert text[quote["start"] : quote["end"]].decode() == quote["text"]
    assert "ERR_HEADER_2041" in quote["text"]
    full = run("object", best["id"], "--json")
    assert json.loads(full.stdout)["kind"] == best["kind"] == "file_context"
    for named in (("mine", best["id"]), (best["id"], "--session", "mine")):
        assert run("object", *named, "--json").stdout == full.stdout
    for wrong in (["mine", "other", best["id"]], ["mine", best["id"], "--session", "other"]):
        assert "Give one object, and at most one session" in run("object", *wrong, code=2).stderr
    run("object", "nobody", best["id"], code=1)


def sources(*arguments: str) -> list[tuple[str, str]]:
    """The beginning of each result's session, and the source."""
    return [(result["session"], str(result["source_key"])) for result in run_json("search", *arguments)["results"]]


@pytest.mark.usefixtures("read_files")
def test_filters_and_the_limit_restrict_the_results() -> None:
    asked = ("mine", "parse_header max_connections acquire")
    files = {"src/parser.py", "src/pool.py"}
    assert {source for _, source in sources(*asked)} >= files
    assert len(sources(*asked, "--limit", "1")) == 1
    options = ("--kind", "file_context", "--turns", "1-9", "--tag", "read", "--branch", "main")
    assert {source for _, source in sources(*asked, *options)} == files
    assert sources(*asked, "--tag", "nosuch") == []
    assert "no matching objects" in run("search", "mine", "x", "--kind", "plan").stderr
    assert "has no branch 'nowhere'" in run("search", "mine", "x", "--branch", "nowhere", code=1).stderr
    assert run("search", "other", "ERR_HEADER_2041").stdout == "No relevant objects.\n"


@pytest.mark.usefixtures("read_files")
def test_question_alone_searches_all_sessions_or_those_of_a_project() -> None:
    both = sources("max_connections of the ConnectionPool")
    assert len({session for session, source in both if source == "src/pool.py"}) == 2
    assert sources("max_connections", "--turns", "7") == []
    line = run("search", "ERR_HEADER_2041").stdout.splitlines()[0]
    ((session, _),) = {(session, "") for session, _ in sources("--project", "/home/ada/app", "max_connections")}
    assert {session} == {session for session, _ in sources("mine", "max_connections")}
    assert line.endswith(f"session {session[:8]}")
    assert (
        "No recorded session worked in /home/ada/ap." in run("search", "--project", "/home/ada/ap", "x", code=1).stderr
    )


@pytest.mark.usefixtures("read_files")
@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["mine", "--branch", "main"], "Give QUESTION, or SESSION and QUESTION"),
        (["mine", "x", "--file", "y"], "Give QUESTION, or SESSION and QUESTION"),
        (["mine", "x", "--turns", "3-"], "nor a range of turns"),
        (["--project", "."], "Give QUESTION, or SESSION and QUESTION"),
        (["mine", "x", "--turns", "5-2"], "'5-2' ends before it begins."),
        (["mine", " "], "QUESTION is empty."),
    ],
)
def test_invalid_combination_is_refused(arguments: list[str], problem: str) -> None:
    assert problem in run("search", *arguments, code=2).stderr


def test_unreadable_objects_are_counted_by_search_and_doctor(own_readings: str) -> None:
    first = "select originator_id from mnemosyne.stored_events order by notification_id limit 1"
    query(own_readings, f"delete from mnemosyne.content where stream = ({first})")
    done = run("search", "mine", "ERR_HEADER_2041")
    assert "No relevant objects." in done.stdout
    assert re.search(r"^\d objects cannot be read and were not searched\.$", done.stderr, re.MULTILINE), done.stderr
    checks = run("doctor", code=1, MNEMOSYNE_UPSTREAM="http://127.0.0.1:9").output
    assert "objects are not searchable because they could not be read" in checks
    assert "the store does not hold" in checks
    assert "mnemosyne rebuild object_index" in checks


@pytest.mark.usefixtures("read_files")
def test_search_and_doctor_say_why_only_words_are_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "onnxruntime", None)  # as if it were not installed
    monkeypatch.setenv("MNEMOSYNE_SEMANTIC_SEARCH", "true")
    monkeypatch.setenv("MNEMOSYNE_UPSTREAM", "http://127.0.0.1:9")
    for command, code in ((("search", "mine", QUESTION), 0), (("ask", "mine", QUESTION), 0), (("doctor",), 1)):
        said = run(*command, code=code)
        assert "words only" in said.output
        assert "`pip install 'mnemosyne-proxy[embedding]'`" in said.output
        assert "Downloading" not in said.output


@pytest.mark.usefixtures("own_readings")
def test_rebuilt_index_gives_the_same_results_and_an_approximate_one_needs_a_model() -> None:
    before = sources("ERR_HEADER_2041")
    assert run("rebuild", "object_index").stdout.startswith("object_index is rebuilt")
    assert sources("ERR_HEADER_2041") == before
    assert "Vectors need the embedding model" in run("index", "build", code=1).stderr
    assert run("index", "drop").stdout == "There was no index.\n"
