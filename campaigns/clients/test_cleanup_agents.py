"""Real agents whose model writes cleanup tags: the agent never sees one, and the provider gets each back unchanged."""

import json

import pytest

from mnemosyne.domain.tools.cleanup_tags import CLOSING, OPENING
from mnemosyne_lab.provider.reading import Json
from tests.clients.managing import assert_managed
from tests.clients.test_managed_agents import MANAGE, recall, text, thinking
from tests.clients.workspace import Workspace

pytestmark = pytest.mark.clients

TAG = f"{OPENING}\ndrop: #abc2345\n{CLOSING}\n"


def loop(workspace: Workspace) -> list[Json]:
    """Blocks between texts, before a call, with a hidden call, with thinking, and alone at the end."""
    agent, notes = workspace.agent, workspace.project / "notes.txt"
    return [
        {"content": [thinking("Where was it?"), text(f"Let me see.\n{TAG}Now."), agent.read(notes)]},
        {"content": [text(TAG), agent.edit(notes, "two", "TWO")]},
        {"content": [text(f"I recall.\n\n{TAG}"), recall()]},
        {"content": [thinking("Done."), text(TAG)]},
    ]


@pytest.mark.soak
def test_agent_finishes_its_work_and_never_sees_a_cleanup_block(workspace: Workspace) -> None:
    workspace.script(
        {"when": {"prompt": "Change the notes"}, "replies": loop(workspace)},
        {"when": {"prompt": "And now"}, "replies": [{"text": f"It stays.\n{TAG}"}]},
    )
    workspace.run("Change the notes", options=(*workspace.server.options, *MANAGE))
    assert (workspace.project / "notes.txt").read_text() == "one\nTWO\nthree\n"
    again = workspace.run("And now", goes_on=True, options=(*workspace.server.options, *MANAGE))
    assert again.text.strip() == "It stays."
    assert_managed(workspace)
    last = workspace.standin.messages[-1].json()
    assert json.dumps(last["messages"]).count(json.dumps(TAG)[1:-1]) == len(loop(workspace))
    stored = [file for file in workspace.home.rglob("*") if file.is_file() and file.stat().st_size < 10_000_000]
    assert not [file for file in stored if b"memory_cleanup" in file.read_bytes()]
