"""Real Claude Code reads a file again that the proxy has evicted: the model gets the content, of either version."""

import json
from pathlib import Path

import pytest

from tests.clients import desk as desks
from tests.clients.agents import CLAUDE_CODE
from tests.clients.desk import Desk, serving
from tests.clients.installing import EARLIER, PINNED, installed
from tests.clients.provider import standin_in_a_thread
from tests.http.managing import prompt_blocks

pytestmark = pytest.mark.clients

WINDOW = 45_000
"""Tokens: the system prompt and the tools of the client take up to half of it."""

NEEDLE = "only_in_the_ledger"


@pytest.mark.parametrize("pinned", [EARLIER, PINNED], ids=["answers with a reference", "sends the file again"])
def test_a_line_that_stands_only_in_an_evicted_file_reaches_the_model_when_it_reads_the_file_again(
    pinned: Path, tmp_path: Path
) -> None:
    settings = ("--manage", "--manage-window", str(WINDOW))
    with standin_in_a_thread() as standin, serving(standin, *settings) as server:
        read_again(desks.desk(CLAUDE_CODE, installed(pinned), server, tmp_path), refers=pinned == EARLIER)


def read_again(desk: Desk, *, refers: bool) -> None:
    """Read the ledger, then so much that it is evicted, then the ledger."""
    ledger = desk.project / "ledger.py"
    ledger.write_text("".join(f"entry_{line} = {NEEDLE if line == 7 else line}\n" for line in range(300)))
    others = [desk.project / f"part_{number}.py" for number in range(9)]
    for other in others:
        other.write_text("".join(f"value_of_{other.stem}_{line} = {line}\n" for line in range(400)))
    calls = [ledger, *others, ledger, desk.project / "more.txt"]
    asked = [{"content": [desk.agent.read(file)]} for file in calls]
    replies = [*asked, {"text": "It is quoted."}]
    desk.script(*({"when": {"request": number}, "reply": each} for number, each in enumerate(replies, 1)))
    assert desk.run("Read the ledger", options=(*desk.server.options, "--manage")).text == "It is quoted."
    assert desk.standin.violations == []
    sent = [dict(each.json()) for each in desk.standin.messages if each.json().get("tools")]
    *_, asking, answered, last = sent
    assert NEEDLE not in json.dumps(asking), "the file is still in the window, so that nothing is tried"
    assert NEEDLE in json.dumps(answered)
    assert prompt_blocks(last)[: len(prompt_blocks(answered))] == prompt_blocks(answered)
    answers = [turn.body for each in desk.conversations() for turn in each.turns]
    assert any(b"file unchanged since your last Read" in body for body in answers) == refers
