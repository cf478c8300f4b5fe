"""``mnemosyne search``: what a session remembers, word for word; or one line for each query to a file."""

import json
import re
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from mnemosyne.cli import main
from tests.adapters.log_support import query
from tests.cli.readings import PARSER

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
    assert "Searching with words;" in search(files).stderr
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


def test_two_messages_of_one_id_are_refused_with_both_lines(files: tuple[Path, Path]) -> None:
    written(files[0], [*CONVERSATION, {"id": 1, "text": "Not pottery."}])
    done = search(files)
    assert (done.exit_code, done.stdout) == (2, "")
    assert f"{files[0]}, line 4: line 1 has the same id, 1." in done.stderr


def test_who_says_nothing_of_a_speaker_is_shown_none(files: tuple[Path, Path]) -> None:
    written(files[1], [{"id": 1, "text": "日本語"}])
    assert "  c  日本語" in search(files).stdout


@pytest.mark.parametrize("garbage", [b"garbage", b"\xd2\x00", b"[1"])
def test_what_is_no_json_is_said_in_words(files: tuple[Path, Path], garbage: bytes) -> None:
    files[0].write_bytes(garbage)
    assert f"{files[0]}, line 1: it is no JSON. Mend the line" in search(files).stderr


def test_bytes_that_are_no_text_and_a_missing_file_are_named(files: tuple[Path, Path]) -> None:
    files[0].write_bytes(b'{"id": 1, "text": "\xff"}\n')
    assert "line 1" in search(files).stderr
    files[0].unlink()
    done = search(files)
    assert (done.exit_code, done.stdout) == (2, "")
    assert "No such file" in done.stderr


# In a session


def ask(*arguments: str, code: int = 0) -> Result:
    done = CliRunner().invoke(main, ["search", *arguments])
    assert done.exit_code == code, done.output
    return done


@pytest.mark.usefixtures("read_files")
def test_the_object_that_says_it_comes_first_with_its_words_and_where_they_stand() -> None:
    done = ask("mine", "what raises ERR_HEADER_2041?")
    assert "Searched with words and hashed-words/1" in done.stderr
    assert "mnemosyne model install" in done.stderr
    first = done.stdout.splitlines()
    assert "file_context" in first[0]
    assert "src/parser.py" in first[0]
    assert any("raise ParseFailed(ERR_HEADER_2041)" in line for line in first[1:4])


@pytest.mark.usefixtures("read_files")
def test_a_quote_is_the_bytes_that_it_names() -> None:
    found = json.loads(ask("mine", "what raises ERR_HEADER_2041?", "--json").stdout)
    assert (found["relevant"], found["missing"]) == (True, 0)
    best = found["results"][0]
    quote = best["quote"]
    full = CliRunner().invoke(main, ["object", best["id"], "--json"])
    assert json.loads(full.stdout)["kind"] == best["kind"] == "file_context"
    for named in (("mine", best["id"]), (best["id"], "--session", "mine")):
        assert CliRunner().invoke(main, ["object", *named, "--json"]).stdout == full.stdout
    for wrong in (["mine", "other", best["id"]], ["mine", best["id"], "--session", "other"]):
        assert "Give one object, and at most one session" in CliRunner().invoke(main, ["object", *wrong]).stderr
    assert CliRunner().invoke(main, ["object", "nobody", best["id"]]).exit_code == 1
    text = f"file_path: src/parser.py\n{PARSER}".encode()
    assert text[quote["start"] : quote["end"]].decode() == quote["text"]
    assert "ERR_HEADER_2041" in quote["text"]


@pytest.mark.usefixtures("read_files")
def test_a_path_finds_its_file_and_each_result_says_whether_it_is_out_of_date() -> None:
    found = json.loads(ask("mine", "src/pool.py", "--json").stdout)
    best = found["results"][0]
    assert (best["source_key"], best["score"], best["out_of_date"], best["superseded_by"]) == (
        "src/pool.py",
        1.0,
        False,
        None,
    )
    assert found["not_indexed"] == 0


@pytest.mark.usefixtures("read_files")
def test_only_the_session_that_is_named_is_searched_and_nothing_relevant_is_said() -> None:
    assert ask("other", "ERR_HEADER_2041").stdout == "No relevant objects.\n"
    assert json.loads(ask("other", "ERR_HEADER_2041", "--json").stdout)["results"] == []


@pytest.mark.usefixtures("read_files")
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
    assert "no matching objects" in ask("mine", "x", "--kind", "plan").stderr
    assert "no matching objects" in ask("mine", "x", "--turns", "7").stderr
    assert sources("--tag", "nosuch") == []
    assert "has no branch 'nowhere'" in ask("mine", "x", "--branch", "nowhere", code=1).stderr


def found_by(*arguments: str) -> list[tuple[str, str]]:
    """The beginning of each result's session, and its source."""
    results = json.loads(ask(*arguments, "--json").stdout)["results"]
    return [(each["session"], str(each["source_key"])) for each in results]


@pytest.mark.usefixtures("read_files")
def test_all_sessions_are_searched_where_that_is_asked_for() -> None:
    found = found_by("--all-sessions", "max_connections of the ConnectionPool")
    assert len({session for session, source in found if source == "src/pool.py"}) == 2
    assert found_by("--all-sessions", "max_connections", "--turns", "7") == []
    assert {source for _, source in found_by("--all-sessions", "ERR_HEADER_2041", "--kind", "file_context")} == {
        "src/parser.py"
    }
    assert found_by("max_connections of the ConnectionPool") == found  # a question alone
    line = ask("--all-sessions", "ERR_HEADER_2041").stdout.splitlines()[0]
    assert line.endswith(f"session {found_by('mine', 'ERR_HEADER_2041')[0][0][:8]}")


@pytest.mark.usefixtures("read_files")
def test_a_project_is_the_sessions_that_worked_in_its_folder() -> None:
    ((session, _),) = {(session, "") for session, _ in found_by("--project", "/home/ada/app", "max_connections")}
    assert {session} == {each for each, _ in found_by("mine", "max_connections")}
    assert "No session worked in /home/ada/ap;" in ask("--project", "/home/ada/ap", "x", code=1).stderr


def test_what_cannot_be_read_is_counted_by_a_search_and_by_the_doctor(read_files: str) -> None:
    first = "select originator_id from mnemosyne.stored_events order by notification_id limit 1"
    query(read_files, f"delete from mnemosyne.content where stream = ({first})")
    done = ask("mine", "ERR_HEADER_2041")
    assert "No relevant objects." in done.stdout
    assert re.search(r"^\d objects cannot be read and were not searched\.$", done.stderr, re.MULTILINE), done.stderr
    found = CliRunner().invoke(main, ["doctor"]).output
    assert "objects that search leaves out since they could not be read: " in found
    assert "the store does not hold" in found
    assert "mnemosyne rebuild object_index" in found


@pytest.mark.usefixtures("read_files")
def test_the_index_for_approximate_search_is_made_and_taken_away_on_demand() -> None:
    before = found_by("--all-sessions", "ERR_HEADER_2041")

    def index(command: str) -> str:
        done = CliRunner().invoke(main, ["index", command])
        assert done.exit_code == 0, done.output
        return done.stdout

    assert "The index was built" in index("build")
    assert found_by("--all-sessions", "ERR_HEADER_2041") == before
    assert index("drop") == "The index was dropped.\n"
    assert index("drop") == "There was no index.\n"


@pytest.mark.usefixtures("read_files")
@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["mine", "--branch", "main"], "Give QUESTION, or SESSION and QUESTION"),
        (["mine", "x", "--file", "y"], "Give QUESTION, or SESSION and QUESTION"),
        (["mine", "x", "--turns", "3-"], "nor a range of turns"),
        (["mine", "x", "--all-sessions"], "Give QUESTION, or SESSION and QUESTION"),
        (["x", "--all-sessions", "--project", "."], "Give QUESTION, or SESSION and QUESTION"),
        (["x", "--all-sessions", "--branch", "main"], "--branch needs SESSION"),
        (["--project", "."], "Give QUESTION, or SESSION and QUESTION"),
        (["mine", "x", "--turns", "5-2"], "'5-2' ends before it begins."),
        (["mine", " "], "QUESTION is empty."),
    ],
)
def test_what_cannot_be_understood_is_said(arguments: list[str], said: str) -> None:
    assert said in ask(*arguments, code=2).stderr


@pytest.mark.usefixtures("read_files")
def test_the_index_is_made_anew_with_its_projection() -> None:
    before = ask("mine", "ERR_HEADER_2041", "--json").stdout
    done = CliRunner().invoke(main, ["rebuild", "object_index"])
    assert done.stdout.startswith("object_index is rebuilt"), done.output
    assert ask("mine", "ERR_HEADER_2041", "--json").stdout == before
