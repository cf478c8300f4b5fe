"""What a user settles with one agent is known to the next, whatever agent that is: through the real clients."""

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
    return json.loads(finished([*MNEMOSYNE, "memory", *arguments, *where], desk.environment, desk.project))


def until_known(desk: Desk) -> list[Any]:
    """What is known of the project, once anything is: it is written down behind the reply."""
    until = time.monotonic() + DEADLINE
    while not (known := command(desk, "list")):
        assert time.monotonic() < until
    return list(known)


def test_what_was_decided_in_claude_code_is_told_to_opencode_with_its_source(
    programs: Path, server: Server, tmp_path: Path
) -> None:
    desk = desks.desk(CLAUDE_CODE, programs, server, tmp_path)
    desk.script({"when": {"prompt": "billing"}, "reply": {"text": "As you say."}})
    assert desk.run(DECIDED, options=(*desk.server.options, *MANAGE)).text == "As you say."
    (entry,) = until_known(desk)
    assert (entry["content"], entry["kind"], entry["source"]) == (DECIDED, "decision", "extracted")
    listed = [*MNEMOSYNE, "sessions", "--data-dir", str(server.data_dir), "--json"]
    assert entry["provenance"]["session"] in finished(listed, desk.environment, desk.project)

    other = attrs.evolve(desk, agent=OPENCODE, since=desks.visit(server).since)
    other.script({"when": {"prompt": "billing"}, "reply": {"text": "8443."}})
    assert other.run(ASKED, options=(*other.server.options, *MANAGE)).text == "8443."
    told = [body for each in other.standin.messages if (body := each.body.decode()) and DECIDED in body]
    assert told
    assert all("[MEMORY]" in body and entry["id"] in body for body in told)
    assert other.standin.violations == []
