"""Forks by real agents, of a session, of its sub-agents and from an earlier turn: the provider keeps its cache and
accepts all thinking, and the commands find the fork by its own name.
"""

import json
import shlex
from typing import Any

import pytest

from campaigns.clients.agents import OPENCODE_COMPATIBLE, OPENCODE_OPENAI, work
from mnemosyne_lab.provider.reading import Body, Json
from tests.clients.agents import AGENTS, CLAUDE_CODE, ONE_IN_CI
from tests.clients.test_managed_agents import MANAGE
from tests.clients.workspace import MNEMOSYNE, Workspace, finished
from tests.http.managing import prompt_blocks, recall, text, think

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
        {"content": [think("Where was it?"), text("Let me see."), recall()]},
        {"content": [think("There."), read, recall("and that?")]},
    ]
    workspace.script(
        *(
            {
                "when": {"prompt": prompt, "tools": True},
                "replies": [*rounds, {"content": [think("Done."), text(f"{prompt}: done.")]}],
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


# Forks of sub-agents


TASKS = ("Part one", "Part two")


def divide(workspace: Workspace, *, hidden: bool) -> None:
    """The main agent reads a file, recalls something where it can, and starts both forks in one reply."""
    read = CLAUDE_CODE.read(workspace.project / "notes.txt")
    forks = [CLAUDE_CODE.fork(task) for task in TASKS]
    workspace.script(
        *({"when": {"last": task, "lane": "agent"}, "reply": {"content": [think("Mine."), read]}} for task in TASKS),
        {"when": {"lane": "agent"}, "reply": {"content": [think("Done."), text("A part is done.")]}},
        {
            "when": {"prompt": "Divide it", "tools": True},
            "replies": [
                {"content": [think("First I read."), read]},
                *([{"content": [think("Where was it?"), text("Let me see."), recall()]}] if hidden else []),
                {"content": [think("Two parts."), text("I divide it."), *forks]},
                {"text": "Both are under way."},
            ],
        },
        {"reply": {"text": "All is done."}},
    )


def lanes(workspace: Workspace) -> dict[str | None, list[Body]]:
    """The bodies of requests with tools by the id of the agent; None for the main one."""
    found: dict[str | None, list[Body]] = {}
    for each in workspace.standin.messages:
        if each.json().get("tools"):
            found.setdefault(each.header("x-claude-code-agent-id"), []).append(each.json())
    return found


OF_CLAUDE_CODE = pytest.mark.parametrize("agent", [pytest.param(CLAUDE_CODE, id=CLAUDE_CODE.name)])


@OF_CLAUDE_CODE
def test_forks_of_a_managed_session_continue_from_the_sent_history(workspace: Workspace) -> None:
    divide(workspace, hidden=True)
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
    opened = command(workspace, "branches", said.session)
    assert [(each["kind"], each["parent"], each["forked_at"]) for each in opened[1:]] == [("fork", "main", 2)] * 2
    assert {each["agent_id"] for each in opened[1:]} == set(by_agent)


@OF_CLAUDE_CODE
def test_forks_of_an_observed_session_are_recorded_as_forks_and_sent_unchanged(workspace: Workspace) -> None:
    divide(workspace, hidden=False)
    said = workspace.run("Divide it")
    recorded = workspace.recorded()
    opened = command(workspace, "branches", said.session)
    assert [(each["kind"], each["parent"], each["forked_at"]) for each in opened[1:]] == [("fork", "main", 2)] * 2
    assert sorted(recorded.branches) == ["fork-1", "fork-2", "main"]


# Forks from an earlier turn


@pytest.mark.parametrize("agent", ONE_IN_CI)
def test_fork_at_an_earlier_turn_continues_from_the_sent_history(workspace: Workspace) -> None:
    read = workspace.agent.read(workspace.project / "notes.txt")
    workspace.script(
        {
            "when": {"prompt": "Read the notes"},
            "replies": [
                {"content": [think("Where was it?"), recall(), read]},
                {"content": [think("There."), text("Three lines.")]},
            ],
        },
        {"when": {"prompt": "And now"}, "reply": {"text": "It stays."}},
        {"when": {"prompt": "Something else"}, "reply": {"text": "Else."}},
    )
    options = (*workspace.server.options, *MANAGE)
    workspace.run("Read the notes", options=options)
    workspace.run("And now", goes_on=True, options=options)
    (listed,) = [each for each in command(workspace, "sessions") if each["project"] == str(workspace.project)]
    before = sent(workspace)
    made = command(workspace, "fork", listed["id"][:8], "--at", "2")
    program, verb, *goes_on = shlex.split(made["command"])
    told = [*MNEMOSYNE, verb, *options, *goes_on[goes_on.index("--") :]]
    asked = workspace.agent.command("Something else")
    said = workspace.agent.parse_output(finished(_put_into(told, asked), workspace.environment, workspace.project))
    assert (program, said.text, said.session) == ("mnemosyne", "Else.", made["id"])
    (after,) = sent(workspace)[len(before) :]
    parent = prompt_of(before[-1])
    shared = [one for one, other in zip(parent, prompt_of(after), strict=False) if one == other]
    assert len(shared) >= len(prompt_of(before[1])) - 1
    assert "And now" not in str(after)
    branches = command(workspace, "branches", listed["id"])
    assert [(each["kind"], each["forked_at"]) for each in branches if each["kind"] == "fork"] == [("fork", 2)]
    assert workspace.standin.violations == []


def _put_into(told: list[str], asked: list[str]) -> list[str]:
    """The command line that continues the fork, with a prompt; the client's own options are appended after its name."""
    at = told.index(asked[0]) + 1
    words = asked[1:]
    if words[0] == "run":  # opencode's command without a terminal
        return [*told[:at], "run", *told[at:], *words[1:]]
    return [*told, *words]


@pytest.mark.parametrize("agent", AGENTS, ids=lambda agent: agent.name)
def test_fork_restores_the_files_of_its_turn_and_keeps_todays(workspace: Workspace) -> None:
    notes, new = workspace.project / "notes.txt", workspace.project / "new.txt"
    read, edit = workspace.agent.read(notes), workspace.agent.edit(notes, "two", "TWO")
    change = workspace.agent.delegate("Do part A") if workspace.agent.waits_for_subagents else edit  # or in parallel
    done = {"text": "Done."}
    spoil = [workspace.agent.shell(f"echo spoilt > {notes}"), workspace.agent.write(new, "new\n")]
    workspace.script(
        {"when": {"last": "Once more", "tools": True}, "reply": {"text": "Again."}},
        {"when": {"prompt": "Do part A"}, "replies": [{"content": [read]}, {"content": [edit]}, done]},
        {"when": {"prompt": "Change", "tools": True}, "replies": [{"content": [read]}, {"content": [change]}, done]},
        {"when": {"prompt": "Spoil them"}, "replies": [{"content": spoil}, {"text": "Spoilt."}]},
        {"reply": {"text": "Noted."}},
    )
    options = (*workspace.server.options, "--record-worktree")
    workspace.run("Change the notes", options=options)
    whole = workspace.run("Spoil them", goes_on=True, options=options)
    assert (notes.read_text(), new.exists()) == ("spoilt\n", True)
    seen = finished(["git", "log", "--oneline", "--branches"], workspace.environment, workspace.project)
    assert seen.count("\n") == 1
    line = [*MNEMOSYNE, "run", *workspace.server.options, "--fork", f"{whole.session}@2", "--with-files", "--"]
    said = finished([*line, *workspace.agent.command("Once more")], workspace.environment, workspace.project)
    assert workspace.agent.parse_output(said).text == "Again."
    assert (notes.read_text(), new.exists()) == ("one\nTWO\nthree\n", False)
    kept = finished(
        ["git", "for-each-ref", "--format=%(refname)", "refs/mnemosyne/before/"],
        workspace.environment,
        workspace.project,
    )
    finished(["git", "restore", "--source", kept.strip(), "--", ":/"], workspace.environment, workspace.project)
    assert (notes.read_text(), new.read_text()) == ("spoilt\n", "new\n")


@pytest.mark.parametrize("agent", [OPENCODE_OPENAI, OPENCODE_COMPATIBLE], ids=lambda agent: agent.provider)
def test_opencode_continues_from_a_turn_of_a_model_of_another_company(workspace: Workspace) -> None:
    replies = [
        {"content": [think("Look."), text("I look."), workspace.agent.shell("echo teal")]},
        {"text": "It is teal."},
    ]
    workspace.script(
        {"when": {"last": "Something else", "tools": True}, "reply": {"text": "Else."}},
        {"when": {"prompt": "colour", "tools": True}, "replies": replies},
        {"reply": {"text": "Title"}},
    )
    work(workspace, "Which colour is it?")
    (listed,) = [each for each in command(workspace, "sessions") if each["project"] == str(workspace.project)]
    before = sent(workspace)
    options = (*workspace.server.options, "--fork", f"{listed['id'][:8]}@1")
    assert work(workspace, "Something else", options=options) == "Else."
    (after,) = sent(workspace)[len(before) :]
    array = "input" if "input" in after else "messages"
    assert after[array][:-1] == before[1][array], "with the signed reasoning, the call and its result"
    assert [str(each) for each in workspace.standin.violations] == []
