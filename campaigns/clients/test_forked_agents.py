"""Forks of a real Claude Code: sub-agents that begin with their parent's history, managed and observed."""

import json
from typing import Any

import pytest

from mnemosyne_lab.provider.reading import Body
from tests.clients.agents import CLAUDE_CODE
from tests.clients.test_managed_agents import MANAGE, recall, text, thinking
from tests.clients.workspace import MNEMOSYNE, Workspace, finished
from tests.http.managing import prompt_blocks

pytestmark = [pytest.mark.clients, pytest.mark.parametrize("agent", [CLAUDE_CODE], ids=["claude"])]

TASKS = ("Part one", "Part two")


def script(workspace: Workspace, *, hidden: bool) -> None:
    """The main agent reads a file, recalls something where it can, and starts both forks in one reply."""
    read = CLAUDE_CODE.read(workspace.project / "notes.txt")
    forks = [CLAUDE_CODE.fork(task) for task in TASKS]
    workspace.script(
        *({"when": {"last": task, "lane": "agent"}, "reply": {"content": [thinking("Mine."), read]}} for task in TASKS),
        {"when": {"lane": "agent"}, "reply": {"content": [thinking("Done."), text("A part is done.")]}},
        {
            "when": {"prompt": "Divide it", "tools": True},
            "replies": [
                {"content": [thinking("First I read."), read]},
                *([{"content": [thinking("Where was it?"), text("Let me see."), recall()]}] if hidden else []),
                {"content": [thinking("Two parts."), text("I divide it."), *forks]},
                {"text": "Both are under way."},
            ],
        },
        {"reply": {"text": "All is done."}},
    )


def lanes(workspace: Workspace) -> dict[str | None, list[Body]]:
    """The requests with tools by agent."""
    found: dict[str | None, list[Body]] = {}
    for each in workspace.standin.messages:
        if each.json().get("tools"):
            found.setdefault(each.header("x-claude-code-agent-id"), []).append(each.json())
    return found


def branches(workspace: Workspace, session: str) -> list[Any]:
    where = ("--data-dir", str(workspace.server.data_dir), "--json")
    return list(
        json.loads(finished([*MNEMOSYNE, "branches", session, *where], workspace.environment, workspace.project))
    )


def test_forks_of_a_managed_session_continue_from_the_sent_history(workspace: Workspace) -> None:
    script(workspace, hidden=True)
    said = workspace.run("Divide it", options=(*workspace.server.options, *MANAGE))
    assert [str(each) for each in workspace.standin.violations] == []
    assert {each.status for each in workspace.standin.messages} == {200}
    by_agent = lanes(workspace)
    main = by_agent.pop(None)
    left = prompt_blocks(dict(main[2]))
    assert "memory_query" in json.dumps(main[2]["messages"]), "the request behind the hidden round"
    assert len(by_agent) == len(TASKS)
    for bodies in by_agent.values():
        assert len(bodies) == 2
        assert all(prompt_blocks(dict(body))[: len(left)] == left for body in bodies)
        assert bodies[0]["tools"] == main[2]["tools"]
    opened = branches(workspace, said.session)
    assert [(each["kind"], each["parent"], each["forked_at"]) for each in opened[1:]] == [("fork", "main", 2)] * 2
    assert {each["agent_id"] for each in opened[1:]} == set(by_agent)


def test_forks_of_an_observed_session_are_recorded_as_forks_and_sent_unchanged(workspace: Workspace) -> None:
    script(workspace, hidden=False)
    said = workspace.run("Divide it")
    recorded = workspace.recorded()
    opened = branches(workspace, said.session)
    assert [(each["kind"], each["parent"], each["forked_at"]) for each in opened[1:]] == [("fork", "main", 2)] * 2
    assert sorted(recorded.branches) == ["fork-1", "fork-2", "main"]
