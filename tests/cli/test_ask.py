"""``mnemosyne ask``: a question answered in the words of what a session remembers."""

import json
import re
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from tests.adapters.endpoint import says
from tests.adapters.log_support import query
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


WORDS = "raise ParseFailed(ERR_HEADER_2041)"


@pytest.fixture
def helper(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., list[Any]]]:
    """Sets up a helper on the loopback that answers with these members; gives what it is asked."""
    asked: list[Any] = []
    members: dict[str, Any] = {}

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            asked.append(body)
            passages = re.split(r"\n[0-9a-f]{24} passage \d+: ", body["messages"][-1]["content"])
            number = next(number for number, each in enumerate(passages) if number and WORDS in each)
            sentence = {"text": "A header raises ERR_HEADER_2041.", "passage": number, "quote": WORDS, **members}
            answer = says(self.path, json.dumps({"sentences": [sentence]}))
            assert answer is not None
            self.send_response(answer[0])
            self.send_header("Content-Length", str(len(answer[1])))
            self.end_headers()
            self.wfile.write(answer[1])

        def log_message(self, *_: object) -> None:
            """Nothing."""

    def answer(**said: Any) -> list[Any]:
        members.update(said)
        return asked

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    monkeypatch.setenv("MNEMOSYNE_HELPER", "openai")
    monkeypatch.setenv("MNEMOSYNE_HELPER_MODEL", "small")
    monkeypatch.setenv("MNEMOSYNE_HELPER_URL", f"http://127.0.0.1:{server.server_port}/v1")
    yield answer
    server.shutdown()
    server.server_close()


QUESTION = ("ask", "mine", "what raises ERR_HEADER_2041?")


def test_a_helper_s_sentence_is_shown_with_the_words_that_it_rests_on_and_is_on_record(
    helper: Callable[..., list[Any]], read_files: str
) -> None:
    asked = helper()
    done = run(*QUESTION)
    assert f"A header raises ERR_HEADER_2041.\n{WORDS}\n  — " in done.stdout
    assert "The helper openai:small answered in 1 sentence, each verified against its object; $0.00." in done.stderr
    found = json.loads(run(*QUESTION, "--json").stdout)
    (quoted,) = found["quotes"]
    text = f"file_path: src/parser.py\n{PARSER}".encode()
    assert text[quoted["start"] : quoted["end"]].decode() == quoted["text"] == WORDS
    assert quoted["sentence"] == found["helper"]["sentences"][0]["text"] == "A header raises ERR_HEADER_2041."
    assert len(asked) == 2
    recorded = query(read_files, "select count(*) from mnemosyne.stored_events where topic = 'session.helper_asked.v1'")
    assert recorded == [(2,)]
    assert run("verify", "mine").stdout == "ok 1 turn\n"


def test_a_sentence_without_words_in_the_object_is_not_shown_and_quotes_answer(
    helper: Callable[..., list[Any]],
) -> None:
    helper(quote="raise ParseFailed(ERR_HEADER_2042)")
    done = run(*QUESTION)
    assert "A header raises" not in done.stdout
    assert f"    {WORDS}  # größer" in done.stdout
    assert "the answer has quotes only: its answer cannot be used" in done.stderr


def test_whoever_wants_quotes_alone_asks_no_helper(helper: Callable[..., list[Any]]) -> None:
    asked = helper()
    assert f"    {WORDS}  # größer" in run(*QUESTION, "--quotes").stdout
    assert asked == []


def test_a_helper_whose_key_is_not_there_is_not_asked_and_it_is_said_why(
    helper: Callable[..., list[Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = helper()
    monkeypatch.setenv("MNEMOSYNE_HELPER_KEY_VARIABLE", "NO_SUCH_KEY")
    done = run(*QUESTION)
    assert f"    {WORDS}  # größer" in done.stdout
    assert "The helper is not used:" in done.stderr
    assert "NO_SUCH_KEY is not set" in done.stderr
    assert asked == []
