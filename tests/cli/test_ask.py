"""``mnemosyne ask`` quotes a session's objects; a helper model adds sentences, each with a verified quote."""

import json
import re
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from mnemosyne_lab.helper import says
from tests.adapters.log_support import query
from tests.cli.logs import PARSER
from tests.cli.running import run, run_json

QUESTION = ("ask", "mine", "what raises ERR_HEADER_2041?")
QUOTE = "raise ParseFailed(ERR_HEADER_2041)"


def assert_quotes_parser(quote: dict[str, Any]) -> None:
    text = f"file_path: src/parser.py\n{PARSER}".encode()
    assert text[quote["start"] : quote["end"]].decode() == quote["text"]


@pytest.mark.usefixtures("read_files")
def test_answer_quotes_the_line_and_names_its_object() -> None:
    done = run(*QUESTION)
    assert "Searched with words only." in done.stderr
    assert f"{QUOTE}  # größer" in done.stdout
    assert ", file_context: Read src/parser.py, turn " in done.stdout
    assert "connections" not in done.stdout
    answer = run_json(*QUESTION)
    quoted = answer["quotes"][0]
    assert (answer["answered"], quoted["source_key"], quoted["out_of_date"]) == (True, "src/parser.py", False)
    assert_quotes_parser(quoted)


@pytest.mark.usefixtures("read_files")
def test_question_without_an_answer_is_not_in_memory() -> None:
    asked = ("ask", "mine", "who won the regatta in Kiel?")
    assert run(*asked).stdout == "Not in memory: nothing that is remembered answers this.\n"
    assert run_json(*asked)["answered"] is False
    near = ("ask", "mine", "how do threads acquire permission from their supervisor upstairs?")
    assert run(*near).stdout.startswith("Not in memory, as far as words and meaning tell.")
    found = run_json(*near)
    assert (found["answered"], found["quotes"]) == (False, [])
    assert any("def acquire" in each["text"] for each in found["nearest"])
    assert run(*QUESTION, "--turns", "90-99").stdout.startswith("Not in memory")


@pytest.mark.usefixtures("read_files")
@pytest.mark.parametrize(
    ("arguments", "code", "sentence"),
    [
        (["nobody", "why?"], 1, "There is no session 'nobody'"),
        (["mine", "why?", "--branch", "side-9"], 1, "has no branch 'side-9'"),
        (["mine", " "], 2, "QUESTION is empty."),
        (["why is it so?"], 2, 'Name a session and a question: mnemosyne ask SESSION "QUESTION".'),
        (["mine", "why?", "--tokens", "9"], 2, "--tokens"),
        (["mine", "why?", "--turns", "5-3"], 2, "'5-3' ends before it begins."),
    ],
)
def test_invalid_question_is_refused(arguments: list[str], code: int, sentence: str) -> None:
    assert sentence in run("ask", *arguments, code=code).stderr


@pytest.fixture
def helper(own_readings: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., list[Any]]]:
    """Configures a helper model that answers with these members; returns its requests."""
    requests: list[Any] = []
    members: dict[str, Any] = {}

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            requests.append(body)
            passages = re.split(r"\n[0-9a-f]{24} passage \d+: ", body["messages"][-1]["content"])
            number = next(number for number, passage in enumerate(passages) if number and QUOTE in passage)
            sentence = {"text": "A header raises ERR_HEADER_2041.", "passage": number, "quote": QUOTE, **members}
            answer = says(self.path, json.dumps({"sentences": [sentence]}))
            assert answer is not None
            self.send_response(answer[0])
            self.send_header("Content-Length", str(len(answer[1])))
            self.end_headers()
            self.wfile.write(answer[1])

        def log_message(self, *_: object) -> None:
            """Print nothing."""

    def answer_with(**changed: Any) -> list[Any]:
        members.update(changed)
        return requests

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    monkeypatch.setenv("MNEMOSYNE_HELPER", "openai")
    monkeypatch.setenv("MNEMOSYNE_HELPER_MODEL", "small")
    monkeypatch.setenv("MNEMOSYNE_HELPER_URL", f"http://127.0.0.1:{server.server_port}/v1")
    yield answer_with
    server.shutdown()
    server.server_close()


def test_sentence_of_a_helper_is_shown_with_its_quote_and_recorded(
    helper: Callable[..., list[Any]], own_readings: str
) -> None:
    requests = helper()
    done = run(*QUESTION)
    assert f"A header raises ERR_HEADER_2041.\n{QUOTE}\n  — " in done.stdout
    assert "The helper openai:small answered in 1 sentence, each verified against its object; $0.00." in done.stderr
    answer = run_json(*QUESTION)
    (quoted,) = answer["quotes"]
    assert quoted["text"] == QUOTE
    assert_quotes_parser(quoted)
    assert quoted["sentence"] == answer["helper"]["sentences"][0]["text"] == "A header raises ERR_HEADER_2041."
    assert f"    {QUOTE}  # größer" in run(*QUESTION, "--quotes").stdout  # asks no helper
    assert len(requests) == 2
    recorded = "select count(*) from mnemosyne.stored_events where topic = 'session.helper_asked.v2'"
    assert query(own_readings, recorded) == [(2,)]
    assert run("verify", "mine").stdout == "ok 1 turn\n"


def test_sentence_without_a_quote_in_the_object_is_dropped(helper: Callable[..., list[Any]]) -> None:
    helper(quote="raise ParseFailed(ERR_HEADER_2042)")
    done = run(*QUESTION)
    assert "A header raises" not in done.stdout
    assert f"    {QUOTE}  # größer" in done.stdout
    assert "the answer has quotes only: no sentence is supported by the passage" in done.stderr


def test_helper_without_its_key_is_not_asked(helper: Callable[..., list[Any]], monkeypatch: pytest.MonkeyPatch) -> None:
    requests = helper()
    monkeypatch.setenv("MNEMOSYNE_HELPER_KEY_VARIABLE", "NO_SUCH_KEY")
    done = run(*QUESTION)
    assert f"    {QUOTE}  # größer" in done.stdout
    assert re.search("The helper is not used:.*NO_SUCH_KEY is not set", done.stderr, re.DOTALL)
    assert requests == []
