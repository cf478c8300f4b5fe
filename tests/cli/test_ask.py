"""``mnemosyne ask`` quotes a session's objects; a helper model adds sentences, each with a verified quote."""

import json
import re
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from mnemosyne.app.threads import in_a_thread
from tests.adapters.log_support import query
from tests.cli.logs import PARSER
from tests.cli.running import run, run_json
from tests.cli.test_mcp import agent_in, call
from tests.scripted_helper import Answer, Endpoint, Json, open_endpoint, says

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
def helper(own_readings: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Endpoint]]:
    """Configures a helper model that answers with these members; returns its endpoint."""
    members: dict[str, Any] = {}

    def answer(path: str, body: Json) -> Answer:
        passages = re.split(r"\n[0-9a-f]{24} passage \d+: ", body["messages"][-1]["content"])
        number = next(number for number, passage in enumerate(passages) if number and QUOTE in passage)
        sentence = {"text": "A header raises ERR_HEADER_2041.", "passage": number, "quote": QUOTE, **members}
        look_for = sentence.pop("look_for", "")
        return says(path, json.dumps({"sentences": [] if look_for else [sentence], "look_for": look_for}))

    with in_a_thread(partial(open_endpoint, answer), "the helper's endpoint") as endpoint:
        monkeypatch.setenv("MNEMOSYNE_HELPER", "openai")
        monkeypatch.setenv("MNEMOSYNE_HELPER_MODEL", "small")
        monkeypatch.setenv("MNEMOSYNE_HELPER_URL", f"{endpoint.url}/v1")

        def answer_with(**changed: Any) -> Endpoint:
            members.update(changed)
            return endpoint

        yield answer_with


def test_sentence_of_a_helper_is_shown_with_its_quote_and_recorded(
    helper: Callable[..., Endpoint], own_readings: str
) -> None:
    endpoint = helper()
    done = run(*QUESTION)
    assert f"A header raises ERR_HEADER_2041.\n{QUOTE}\n  — " in done.stdout
    assert "The helper openai:small answered in 1 sentence, each verified against its object; $0.00." in done.stderr
    answer = run_json(*QUESTION)
    (quoted,) = answer["quotes"]
    assert quoted["text"] == QUOTE
    assert_quotes_parser(quoted)
    assert quoted["sentence"] == answer["helper"]["sentences"][0]["text"] == "A header raises ERR_HEADER_2041."
    assert f"    {QUOTE}  # größer" in run(*QUESTION, "--quotes").stdout  # asks no helper
    assert len(endpoint.requests) == 2
    recorded = "select count(*) from mnemosyne.stored_events where topic = 'session.helper_asked.v2'"
    assert query(own_readings, recorded) == [(2,)]
    assert run("verify", "mine").stdout == "ok 1 turn\n"


async def test_mcp_tool_answers_like_the_command_and_records_it(
    helper: Callable[..., Endpoint], own_readings: str, tmp_path: Path
) -> None:
    endpoint = helper()
    async with agent_in(tmp_path) as agent:
        answer = await call(agent, "memory_query", session="mine", question=QUESTION[2])
    (quoted,) = answer["quotes"]
    assert (quoted["sentence"], quoted["text"]) == ("A header raises ERR_HEADER_2041.", QUOTE)
    assert len(endpoint.requests) == 1
    recorded = "select count(*) from mnemosyne.stored_events where topic = 'session.helper_asked.v2'"
    assert query(own_readings, recorded) == [(1,)]


def test_words_of_a_helper_are_not_recorded_with_its_answer(helper: Callable[..., Endpoint], own_readings: str) -> None:
    endpoint = helper(look_for="zebra")
    assert run(*QUESTION).stdout.startswith("Not in memory")
    assert len(endpoint.requests) == 1  # all has been sent, so there is nothing else to send
    recorded = "select convert_from(state, 'utf8') from mnemosyne.stored_events where topic = 'session.helper_asked.v2'"
    ((state,),) = query(own_readings, recorded)
    assert "it finds no answer" in state
    assert "zebra" not in state
    assert run("verify", "mine").stdout == "ok 1 turn\n"


def test_sentence_without_a_quote_in_the_object_is_dropped(helper: Callable[..., Endpoint]) -> None:
    helper(quote="raise ParseFailed(ERR_HEADER_2042)")
    done = run(*QUESTION)
    assert "A header raises" not in done.stdout
    assert f"    {QUOTE}  # größer" in done.stdout
    assert "the answer has quotes only: no sentence is supported by the passage" in done.stderr


def test_helper_without_its_key_is_not_asked(helper: Callable[..., Endpoint], monkeypatch: pytest.MonkeyPatch) -> None:
    endpoint = helper()
    monkeypatch.setenv("MNEMOSYNE_HELPER_KEY_VARIABLE", "NO_SUCH_KEY")
    done = run(*QUESTION)
    assert f"    {QUOTE}  # größer" in done.stdout
    assert re.search("The helper is not used:.*NO_SUCH_KEY is not set", done.stderr, re.DOTALL)
    assert endpoint.requests == []
