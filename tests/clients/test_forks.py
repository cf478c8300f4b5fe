"""A fork between the calls of one prompt: each client continues after the results, with the files of that time, and the
provider's cache applies.
"""

from collections.abc import Callable
from pathlib import Path

import pytest

from mnemosyne_lab.provider.reading import Body, Json
from tests.clients.agents import AGENTS
from tests.clients.provider import standin_in_a_thread
from tests.clients.test_codex import codex, run
from tests.clients.test_managed_agents import MANAGE
from tests.clients.workspace import Visit, Workspace, files_in, make_project, serving, visit
from tests.http.managing import prompt_blocks, recall, text, think

pytestmark = [pytest.mark.clients, pytest.mark.release]


def script(here: Visit, shell: Callable[[str], Json]) -> None:
    """A prompt with a hidden call and two calls of the client; the fork's prompt leads to another one."""
    rounds = [
        {"content": [think("Where was it?"), text("Let me see."), recall()]},
        {"content": [think("There."), shell("echo first | tee one.txt")]},
        {"content": [think("More."), shell("echo second | tee one.txt two.txt")]},
        {"content": [think("Done."), text("All is done.")]},
    ]
    here.script(
        {"when": {"last": "Something else"}, "reply": {"content": [think("Else?"), shell("echo else > else.txt")]}},
        {"when": {"prompt": "Begin here", "tools": True}, "replies": rounds},
        {"when": {"after_tools": True}, "reply": {"text": "All is done."}},
    )


SAVING = "--record-worktree"


def fork_at(here: Visit, turn: int) -> tuple[str, ...]:
    """The options that fork the only session after the call in a turn's reply, by the call's id, with its files."""
    (conversation,) = here.conversations()
    (reply,) = [each.reply for each in conversation.turns if (each.branch, each.turn) == ("main", turn)]
    blocks = reply.get("content") or reply["output"]
    (call,) = [each.get("call_id") or each["id"] for each in blocks if each["type"] in ("tool_use", "function_call")]
    return "--fork", f"{conversation.external_id}@{call}", "--with-files"


FORKED = {"notes.txt": "one\ntwo\nthree\n", "more.txt": "four\n", "one.txt": "first\n", "else.txt": "else\n"}
"""The files at the fork."""


def sent(here: Visit) -> list[Body]:
    return [body for each in here.standin.messages if (body := each.json()).get("tools")]


@pytest.mark.parametrize("agent", AGENTS, ids=lambda agent: agent.name)
def test_fork_continues_behind_the_results_of_a_call(workspace: Workspace) -> None:
    options = (*workspace.server.options, *MANAGE)
    script(workspace, workspace.agent.shell)
    assert workspace.run("Begin here", options=(*options, SAVING)).text == "All is done."
    before = sent(workspace)
    assert workspace.run("Something else", options=(*options, *fork_at(workspace, 1))).text == "All is done."
    assert files_in(workspace.project) == FORKED
    parent, forked = prompt_blocks(dict(before[2])), prompt_blocks(dict(sent(workspace)[len(before)]))
    assert "echo first" in parent[-2]
    assert forked[: len(parent)] == parent
    assert "echo second" not in "".join(forked)
    assert [str(each) for each in workspace.standin.violations] == []


def test_codex_continues_behind_the_results_of_a_call(programs: Path, tmp_path: Path) -> None:
    project = make_project(tmp_path)
    with standin_in_a_thread() as standin, serving(standin, "--manage") as server:
        here = visit(server)
        script(here, run)
        options = ("--manage", SAVING)
        assert codex(server, programs, tmp_path, project, "Begin here", of_run=options) == "All is done."
        before = sent(here)
        assert codex(server, programs, tmp_path, project, "Something else", of_run=fork_at(here, 1)) == "All is done."
        assert files_in(project) == FORKED
        parent, forked = (
            [{key: value for key, value in item.items() if key != "id"} for item in body["input"]]
            for body in (before[2], sent(here)[len(before)])
        )
        assert "echo first" in str(parent[-2])
        assert forked[: len(parent)] == parent
        assert "echo second" not in str(forked)
        assert [str(each) for each in standin.violations] == []
