"""Real Claude Code rereads a file that the proxy has evicted: the model gets the content, of either version."""

import json
from pathlib import Path

import pytest

from tests.clients import workspace as workspaces
from tests.clients.agents import CLAUDE_CODE
from tests.clients.installing import EARLIER, PINNED, installed
from tests.clients.provider import standin_in_a_thread
from tests.clients.workspace import Workspace, serving
from tests.http.managing import prompt_blocks

pytestmark = pytest.mark.clients

WINDOW = 45_000
"""Tokens: the system prompt and the tools of the client take up to half of it."""

NEEDLE = "only_in_the_ledger"


@pytest.mark.parametrize("pinned", [EARLIER, PINNED], ids=["answers with a reference", "sends the file again"])
def test_line_of_an_evicted_file_reaches_the_model_on_a_reread(pinned: Path, tmp_path: Path) -> None:
    settings = ("--manage", "--manage-window", str(WINDOW))
    with standin_in_a_thread() as standin, serving(standin, *settings) as server:
        read_again(
            workspaces.open_workspace(CLAUDE_CODE, installed(pinned), server, tmp_path), refers=pinned == EARLIER
        )


def read_again(workspace: Workspace, *, refers: bool) -> None:
    """Read the ledger, then enough that it is evicted, then the ledger again."""
    ledger = workspace.project / "ledger.py"
    ledger.write_text("".join(f"entry_{line} = {NEEDLE if line == 7 else line}\n" for line in range(300)))
    others = [workspace.project / f"part_{number}.py" for number in range(9)]
    for other in others:
        other.write_text("".join(f"value_of_{other.stem}_{line} = {line}\n" for line in range(400)))
    calls = [ledger, *others, ledger, workspace.project / "more.txt"]
    asked = [{"content": [workspace.agent.read(file)]} for file in calls]
    replies = [*asked, {"text": "It is quoted."}]
    workspace.script(*({"when": {"request": number}, "reply": each} for number, each in enumerate(replies, 1)))
    assert workspace.run("Read the ledger", options=(*workspace.server.options, "--manage")).text == "It is quoted."
    assert workspace.standin.violations == []
    sent = [dict(each.json()) for each in workspace.standin.messages if each.json().get("tools")]
    *_, asking, answered, last = sent
    assert NEEDLE not in json.dumps(asking), "the file is still in the window, so that nothing is tried"
    assert NEEDLE in json.dumps(answered)
    assert prompt_blocks(last)[: len(prompt_blocks(answered))] == prompt_blocks(answered)
    answers = [turn.body for each in workspace.conversations() for turn in each.turns]
    assert any(b"file unchanged since your last Read" in body for body in answers) == refers
