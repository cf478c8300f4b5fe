"""Real agents that resume a managed session as a fork: the provider keeps its cache and accepts all thinking, and
the commands find the fork by its own name.
"""

import json
from typing import Any

import pytest

from mnemosyne_lab.provider.reading import Body, Json
from tests.clients.agents import ONE_IN_CI
from tests.clients.test_managed_agents import MANAGE, recall, text, thinking
from tests.clients.workspace import MNEMOSYNE, Workspace, finished
from tests.http.managing import prompt_blocks

pytestmark = pytest.mark.clients

SAME_TOOLS = {"OPENCODE_CONFIG_CONTENT": '{"tools": {"question": false}}'}
"""`opencode run` offers the tool for questions in a fork, and not in the session that it began. Claude Code reads no
such variable.
"""

PROMPTS = ["Read the notes", "Read them once more", "Read them a third time", "Read them a fourth time"]


def script(workspace: Workspace) -> None:
    """For each prompt: signed thinking, hidden calls alone and along with the agent's own calls, and those alone."""
    read = workspace.agent.read(workspace.project / "notes.txt")
    rounds: list[Json] = [
        {"content": [thinking("Where was it?"), text("Let me see."), recall()]},
        {"content": [thinking("There."), read, recall("and that?")]},
    ]
    workspace.script(
        *(
            {
                "when": {"prompt": prompt, "tools": True},
                "replies": [*rounds, {"content": [thinking("Done."), text(f"{prompt}: done.")]}],
            }
            for prompt in PROMPTS
        )
    )


def sent(workspace: Workspace) -> list[Body]:
    """The requests of the conversation, without those for a title."""
    return [body for each in workspace.standin.messages if (body := each.json()).get("tools")]


def prompt_of(body: Body, *, tools: bool = True) -> list[str]:
    return prompt_blocks({**body, "tools": body["tools"] if tools else []})


def command(workspace: Workspace, *arguments: str) -> Any:
    """A command's JSON output about the server's log."""
    where = ("--data-dir", str(workspace.server.data_dir), "--json")
    return json.loads(finished([*MNEMOSYNE, *arguments, *where], workspace.environment, workspace.project))


@pytest.mark.parametrize("agent", ONE_IN_CI)
def test_fork_and_its_fork_continue_the_managed_history_and_are_found_by_name(workspace: Workspace) -> None:
    options = (*workspace.server.options, *MANAGE)
    script(workspace)
    said = [workspace.run(PROMPTS[0], goes_on=False, fork_of="", options=options, **SAME_TOOLS)]
    first = last = sent(workspace)[-1]
    for prompt, left, before in ((PROMPTS[1], 0, last), (PROMPTS[2], 1, None), (PROMPTS[3], 0, first)):
        asked = len(sent(workspace))
        said.append(workspace.run(prompt, goes_on=False, fork_of=said[left].session, options=options, **SAME_TOOLS))
        assert said[-1].text == f"{prompt}: done."
        earlier = prompt_of(before or last)
        assert prompt_of(sent(workspace)[asked])[: len(earlier)] == earlier, "the cache is read up to where it was left"
        last = sent(workspace)[-1]
    assert len({each.session for each in said}) == 4
    assert {each.status for each in workspace.standin.messages} == {200}
    assert [str(each) for each in workspace.standin.violations] == []
    owners = {command(workspace, "context", each.session)["session"] for each in said}
    assert len(owners) == 1
    assert {command(workspace, "explain", each.session)["session"] for each in said} == owners
