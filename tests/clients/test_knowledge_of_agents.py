"""An entry that is saved by a command is sent to the next session of the project: through the real clients."""

import json
import time
from pathlib import Path
from typing import Any

import attrs
import pytest

from tests.clients import desk as desks
from tests.clients.agents import CLAUDE_CODE, OPENCODE
from tests.clients.desk import MNEMOSYNE, Desk, Server, finished
from tests.clients.test_managed_agents import MANAGE
from tests.waiting import DEADLINE

pytestmark = pytest.mark.clients

DECIDED = "Let's use port 8443 for the billing service."
ASKED = "Which port does the billing service use?"


def command(desk: Desk, *arguments: str) -> Any:
    """What a command prints as JSON about the desk's project."""
    where = ("--data-dir", str(desk.server.data_dir), "--project", str(desk.project), "--json")
    return json.loads(finished([*MNEMOSYNE, *arguments, *where], desk.environment, desk.project))


def wait_for_owner(desk: Desk) -> None:
    """Wait until the first client's credential is admitted, which happens behind its reply."""
    until = time.monotonic() + DEADLINE
    listed = [*MNEMOSYNE, "memory", "admit", "--list", "--data-dir", str(desk.server.data_dir), "--json"]
    while not json.loads(finished(listed, desk.environment, desk.project)):
        assert time.monotonic() < until


def test_an_entry_that_is_saved_beside_claude_code_is_sent_to_opencode(
    programs: Path, server: Server, tmp_path: Path
) -> None:
    desk = desks.desk(CLAUDE_CODE, programs, server, tmp_path)
    desk.script({"when": {"prompt": "billing"}, "reply": {"text": "As you say."}})
    assert desk.run(DECIDED, options=(*desk.server.options, *MANAGE)).text == "As you say."
    wait_for_owner(desk)
    assert command(desk, "memory", "list") == []
    command(desk, "remember", DECIDED, "--kind", "decision")
    (entry,) = command(desk, "memory", "list")
    assert (entry["content"], entry["kind"], entry["source"]) == (DECIDED, "decision", "user")

    other = attrs.evolve(desk, agent=OPENCODE, since=desks.visit(server).since)
    other.script({"when": {"prompt": "billing"}, "reply": {"text": "8443."}})
    assert other.run(ASKED, options=(*other.server.options, *MANAGE)).text == "8443."
    told = [body for each in other.standin.messages if (body := each.body.decode()) and DECIDED in body]
    assert told
    assert all("[MEMORY]" in body and entry["id"] in body for body in told)
    assert other.standin.violations == []
