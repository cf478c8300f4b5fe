"""Real agents that resume a managed session as a fork of it: the provider keeps its cache and accepts all thinking, and
the commands know the fork by its own name.
"""

import json
from typing import Any

import pytest

from mnemosyne_lab.provider.reading import Body, Json
from tests.clients.agents import ONE_IN_CI
from tests.clients.desk import MNEMOSYNE, Desk, finished
from tests.clients.test_managed_agents import MANAGE, recall, text, thinking
from tests.http.managing import prompt_blocks

pytestmark = pytest.mark.clients

SAME_TOOLS = {"OPENCODE_CONFIG_CONTENT": '{"tools": {"question": false}}'}
"""`opencode run` offers the tool for questions in a fork, and not in the session that it began. Claude Code reads no
such variable.
"""

PROMPTS = ["Read the notes", "Read them once more", "Read them a third time", "Read them a fourth time"]


def script(desk: Desk) -> None:
    """Signed thinking, hidden calls alone and beside the agent's own, and its own, for each prompt."""
    read = desk.agent.read(desk.project / "notes.txt")
    rounds: list[Json] = [
        {"content": [thinking("Where was it?"), text("Let me see."), recall()]},
        {"content": [thinking("There."), read, recall("and that?")]},
    ]
    desk.script(
        *(
            {
                "when": {"prompt": prompt, "tools": True},
                "replies": [*rounds, {"content": [thinking("Done."), text(f"{prompt}: done.")]}],
            }
            for prompt in PROMPTS
        )
    )


def sent(desk: Desk) -> list[Body]:
    """The requests of the conversation, not those for a title."""
    return [body for each in desk.standin.messages if (body := each.json()).get("tools")]


def prompt_of(body: Body, *, tools: bool = True) -> list[str]:
    return prompt_blocks({**body, "tools": body["tools"] if tools else []})


def command(desk: Desk, *arguments: str) -> Any:
    """What a command prints as JSON of the server's log."""
    where = ("--data-dir", str(desk.server.data_dir), "--json")
    return json.loads(finished([*MNEMOSYNE, *arguments, *where], desk.environment, desk.project))


@pytest.mark.parametrize("agent", ONE_IN_CI)
def test_a_fork_and_a_fork_of_it_go_on_from_the_managed_history_and_are_known_by_their_names(desk: Desk) -> None:
    options = (*desk.server.options, *MANAGE)
    script(desk)
    said = [desk.run(PROMPTS[0], goes_on=False, fork_of="", options=options, **SAME_TOOLS)]
    first = last = sent(desk)[-1]
    for prompt, left, before in ((PROMPTS[1], 0, last), (PROMPTS[2], 1, None), (PROMPTS[3], 0, first)):
        asked = len(sent(desk))
        said.append(desk.run(prompt, goes_on=False, fork_of=said[left].session, options=options, **SAME_TOOLS))
        assert said[-1].text == f"{prompt}: done."
        earlier = prompt_of(before or last)
        assert prompt_of(sent(desk)[asked])[: len(earlier)] == earlier, "the cache is read up to where it was left"
        last = sent(desk)[-1]
    assert len({each.session for each in said}) == 4
    assert {each.status for each in desk.standin.messages} == {200}
    assert [str(each) for each in desk.standin.violations] == []
    owners = {command(desk, "context", each.session)["session"] for each in said}
    assert len(owners) == 1
    assert {command(desk, "explain", each.session)["session"] for each in said} == owners


@pytest.mark.soak
def test_a_fork_in_which_the_client_offers_other_tools_goes_on_all_the_same(desk: Desk) -> None:
    if desk.agent.name == "claude":
        pytest.skip("Claude Code offers the same tools in a fork")
    options = (*desk.server.options, *MANAGE)
    script(desk)
    before = desk.run(PROMPTS[0], options=options)
    last, asked = sent(desk)[-1], len(sent(desk))
    assert desk.run(PROMPTS[1], fork_of=before.session, options=options).text == f"{PROMPTS[1]}: done."
    earlier = prompt_of(last, tools=False)
    assert prompt_of(sent(desk)[asked], tools=False)[: len(earlier)] == earlier
    assert last["tools"] != sent(desk)[asked]["tools"]
    assert {each.status for each in desk.standin.messages} == {200}
    assert [str(each) for each in desk.standin.violations] == []
