"""An entry that a command saves is sent to the next session of the project: through the real clients."""

import json
import time
from pathlib import Path
from typing import Any

import attrs
import pytest

from tests.clients import workspace as workspaces
from tests.clients.agents import CLAUDE_CODE, OPENCODE
from tests.clients.test_managed_agents import MANAGE
from tests.clients.workspace import MNEMOSYNE, Server, Workspace, finished
from tests.waiting import DEADLINE

pytestmark = pytest.mark.clients

DECIDED = "Let's use port 8443 for the billing service."
ASKED = "Which port does the billing service use?"


def command(workspace: Workspace, *arguments: str) -> Any:
    """A command's JSON output about the workspace's project."""
    where = ("--data-dir", str(workspace.server.data_dir), "--project", str(workspace.project), "--json")
    return json.loads(finished([*MNEMOSYNE, *arguments, *where], workspace.environment, workspace.project))


def wait_for_owner(workspace: Workspace) -> None:
    """Wait until the first client's credential is admitted, which happens after its reply."""
    until = time.monotonic() + DEADLINE
    listed = [*MNEMOSYNE, "memory", "admit", "--list", "--data-dir", str(workspace.server.data_dir), "--json"]
    while not json.loads(finished(listed, workspace.environment, workspace.project)):
        assert time.monotonic() < until


def test_entry_saved_during_claude_code_is_sent_to_opencode(programs: Path, server: Server, tmp_path: Path) -> None:
    workspace = workspaces.open_workspace(CLAUDE_CODE, programs, server, tmp_path)
    workspace.script({"when": {"prompt": "billing"}, "reply": {"text": "As you say."}})
    assert workspace.run(DECIDED, options=(*workspace.server.options, *MANAGE)).text == "As you say."
    wait_for_owner(workspace)
    assert command(workspace, "memory", "list") == []
    command(workspace, "remember", DECIDED, "--kind", "decision")
    (entry,) = command(workspace, "memory", "list")
    assert (entry["content"], entry["kind"], entry["source"]) == (DECIDED, "decision", "user")

    other = attrs.evolve(workspace, agent=OPENCODE, since=workspaces.visit(server).since)
    other.script({"when": {"prompt": "billing"}, "reply": {"text": "8443."}})
    assert other.run(ASKED, options=(*other.server.options, *MANAGE)).text == "8443."
    told = [body for each in other.standin.messages if (body := each.body.decode()) and DECIDED in body]
    assert told
    assert all("[MEMORY]" in body and entry["id"] in body for body in told)
    assert other.standin.violations == []
