"""Real agents with managed conversations: memory tools in every mixture, invisible to the agent."""

import pytest

from mnemosyne.domain.tools.memory_tools import NAMES
from mnemosyne_lab.provider.reading import Json
from tests.clients.agents import ONE_IN_CI, Block
from tests.clients.managing import assert_managed
from tests.clients.workspace import Workspace
from tests.http.managing import recall, text, think

pytestmark = pytest.mark.clients

MANAGE = ("--manage",)


def search() -> Block:
    return {"type": "tool_use", "name": "memory_search", "input": {"query": "notes"}}


def loop(workspace: Workspace, last: str) -> list[Json]:
    """Hidden calls alone, before, between and after the agent's own, several at once, and in the last round."""
    agent, notes = workspace.agent, workspace.project / "notes.txt"
    return [
        {"content": [think("Where was it?"), text("Let me see."), recall()]},
        {"content": [think("There."), agent.read(notes), recall("and that?")]},
        {"content": [search(), recall()]},
        {"content": [recall(), think("Now."), text("I change it."), agent.edit(notes, "two", "TWO"), search()]},
        {"content": [agent.write(workspace.project / "new.txt", "new\n"), recall(), agent.shell("cat new.txt")]},
        {"content": [recall("once more?")]},
        {"content": [think("Done."), text(last)]},
    ]


@pytest.mark.parametrize("agent", ONE_IN_CI)
def test_agent_finishes_its_work_and_never_sees_a_memory_tool(workspace: Workspace) -> None:
    workspace.script(
        {"when": {"prompt": "Change the notes"}, "replies": loop(workspace, "It is changed.")},
        {"when": {"prompt": "And now"}, "replies": [{"content": [recall()]}, {"text": "It stays."}]},
    )
    said = workspace.run("Change the notes", options=(*workspace.server.options, *MANAGE))
    assert said.text == "It is changed."
    assert (workspace.project / "notes.txt").read_text() == "one\nTWO\nthree\n"
    assert (workspace.project / "new.txt").read_text() == "new\n"
    again = workspace.run("And now", goes_on=True, options=(*workspace.server.options, *MANAGE))
    assert again.text == "It stays."
    assert_managed(workspace)
    stored = [file for file in workspace.home.rglob("*") if file.is_file() and file.stat().st_size < 10_000_000]
    assert stored
    for file in stored:
        data = file.read_bytes()
        assert not [name for name in NAMES if name.encode() in data], file


@pytest.mark.release
@pytest.mark.parametrize("agent", ONE_IN_CI)
def test_sub_agent_is_managed_as_a_conversation_of_its_own(workspace: Workspace) -> None:
    workspace.script(
        {"when": {"prompt": "Look into it"}, "replies": [{"content": [recall()]}, {"text": "Looked into."}]},
        {
            "when": {"prompt": "Ask somebody"},
            "replies": [{"content": [recall(), workspace.agent.delegate("Look into it")]}],
        },
        {"reply": {"text": "It was looked into."}, "when": {"tools": True}},
    )
    said = workspace.run("Ask somebody", options=(*workspace.server.options, *MANAGE))
    assert "looked into" in said.text.lower()
    assert_managed(workspace)
