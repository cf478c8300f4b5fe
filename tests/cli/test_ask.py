"""``mnemosyne ask``: a question answered in the words of what a session remembers."""

import json

import pytest

from tests.cli.readings import PARSER
from tests.cli.running import run

pytestmark = pytest.mark.usefixtures("read_files")


def test_a_question_is_answered_with_the_line_that_does_and_the_object_that_it_stands_in() -> None:
    done = run("ask", "mine", "what raises ERR_HEADER_2041?")
    assert "Searched with words and hashed-words/1" in done.stderr
    assert "raise ParseFailed(ERR_HEADER_2041)  # größer" in done.stdout
    assert ", file_context: Read src/parser.py, turn " in done.stdout
    assert "connections" not in done.stdout


def test_what_nothing_answers_is_not_in_memory() -> None:
    done = run("ask", "mine", "who won the regatta in Kiel?")
    assert done.stdout == "Not in memory: nothing that is remembered answers this.\n"
    assert json.loads(run("ask", "mine", "who won the regatta in Kiel?", "--json").stdout)["answered"] is False


def test_a_quote_is_the_bytes_that_it_names() -> None:
    found = json.loads(run("ask", "mine", "what raises ERR_HEADER_2041?", "--json").stdout)
    quoted = found["quotes"][0]
    assert (found["answered"], quoted["source_key"], quoted["out_of_date"]) == (True, "src/parser.py", False)
    text = f"file_path: src/parser.py\n{PARSER}".encode()
    assert text[quoted["start"] : quoted["end"]].decode() == quoted["text"]


def test_other_turns_and_other_sessions_do_not_answer() -> None:
    assert run("ask", "mine", "what raises ERR_HEADER_2041?", "--turns", "90-99").stdout.startswith("Not in memory")
    assert run("ask", "other", "what raises ERR_HEADER_2041?").stdout.startswith("Not in memory")


@pytest.mark.parametrize(
    ("arguments", "code", "sentence"),
    [
        (["nobody", "why?"], 1, "There is no session 'nobody'"),
        (["mine", "why?", "--branch", "side-9"], 1, "has no branch 'side-9'"),
        (["mine", " "], 2, "QUESTION is empty."),
        (["mine", "why?", "--tokens", "9"], 2, "--tokens"),
        (["mine", "why?", "--turns", "5-3"], 2, "'5-3' ends before it begins."),
    ],
)
def test_what_cannot_be_asked_is_said(arguments: list[str], code: int, sentence: str) -> None:
    assert sentence in run("ask", *arguments, code=code).stderr
