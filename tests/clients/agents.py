r"""Claude Code and opencode, as far as the tests need them: how to start them, their output, and calls of their
tools.

Observed in the pinned versions; a newer version that differs fails here first.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

import attrs
import pytest

from tests.waiting import DEADLINE

Block = dict[str, Any]
"""A content block of a scripted reply."""


@attrs.frozen
class AgentOutput:
    """An agent's output: the id of its session, its final text, and its displayed cost in dollars."""

    session: str
    text: str
    cost: float


class Agent(Protocol):
    """One client. The calls make `tool_use` blocks for its own tools."""

    @property
    def name(self) -> str: ...

    @property
    def environment(self) -> Mapping[str, str]:
        """The environment that disables updates, telemetry and prompts."""
        ...

    @property
    def side_branches(self) -> Mapping[str, int]:
        """The branches alongside a new conversation, with their turns."""
        ...

    @property
    def waits_for_subagents(self) -> bool:
        """Whether a sub-agent's report is the result of its call; otherwise it arrives later, as a prompt."""
        ...

    def command(self, prompt: str, *, goes_on: bool = False, fork_of: str = "") -> list[str]:
        """A run without a terminal; ``goes_on`` continues the last conversation of the directory, ``fork_of`` the
        one with that id, under an id of its own.
        """
        ...

    def parse_output(self, output: str) -> AgentOutput: ...
    def read(self, file: Path) -> Block: ...
    def edit(self, file: Path, old: str, new: str) -> Block: ...
    def write(self, file: Path, text: str) -> Block: ...
    def shell(self, command: str) -> Block: ...
    def delegate(self, prompt: str) -> Block: ...


class ClaudeCode:
    """`claude -p`. Its sub-agents share the session's id and have an agent id of their own."""

    name = "claude"
    environment: Mapping[str, str] = {
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "DISABLE_AUTOUPDATER": "1",
        "DISABLE_ERROR_REPORTING": "1",
        "DISABLE_TELEMETRY": "1",
        "IS_SANDBOX": "1",  # without it, root may not skip the permissions
        "MCP_CONNECTION_NONBLOCKING": "0",  # else it starts without the tools of a server that is slow to start
        "MCP_CONNECT_TIMEOUT_MS": f"{DEADLINE}000",
        "MCP_TIMEOUT": f"{DEADLINE}000",
    }
    side_branches: Mapping[str, int] = {}
    waits_for_subagents = False

    def command(self, prompt: str, *, goes_on: bool = False, fork_of: str = "") -> list[str]:
        options = ["--dangerously-skip-permissions", "--output-format", "json", *(["--continue"] if goes_on else [])]
        return ["claude", *options, *(["--resume", fork_of, "--fork-session"] if fork_of else []), "-p", prompt]

    def parse_output(self, output: str) -> AgentOutput:
        result = json.loads(output)
        by_model = [each["costUSD"] for each in result["modelUsage"].values()]
        assert sum(by_model) == pytest.approx(result["total_cost_usd"])
        return AgentOutput(result["session_id"], result["result"], result["total_cost_usd"])

    def read(self, file: Path) -> Block:
        return _call("Read", file_path=str(file))

    def edit(self, file: Path, old: str, new: str) -> Block:
        return _call("Edit", file_path=str(file), old_string=old, new_string=new)

    def write(self, file: Path, text: str) -> Block:
        return _call("Write", file_path=str(file), content=text)

    def shell(self, command: str) -> Block:
        return _call("Bash", command=command, description="Runs a command")

    def delegate(self, prompt: str) -> Block:
        return _call("Agent", description="A part of the work", prompt=prompt, subagent_type="general-purpose")

    def fork(self, prompt: str) -> Block:
        """A call that starts a sub-agent with the full history of this agent."""
        return _call("Agent", description="A part of the work", prompt=prompt, subagent_type="fork")


class Opencode:
    """`opencode run`. Its sub-agents are sessions of their own that name their parent session."""

    name = "opencode"
    environment: Mapping[str, str] = {
        "OPENCODE_DISABLE_AUTOUPDATE": "1",
        "OPENCODE_DISABLE_DEFAULT_PLUGINS": "1",
        "OPENCODE_DISABLE_LSP_DOWNLOAD": "1",
        "OPENCODE_DISABLE_MODELS_FETCH": "1",
        "OPENCODE_PURE": "1",
        "npm_config_offline": "true",  # it would install a package into its own folder
    }
    side_branches: Mapping[str, int] = {"side-1": 1}  # the title
    waits_for_subagents = True

    def command(self, prompt: str, *, goes_on: bool = False, fork_of: str = "") -> list[str]:
        options = ["--format", "json", "--model", "anthropic/claude-opus-5-5", *(["--continue"] if goes_on else [])]
        return ["opencode", "run", *options, *(["--session", fork_of, "--fork"] if fork_of else []), prompt]

    def parse_output(self, output: str) -> AgentOutput:
        events = [json.loads(line) for line in output.splitlines()]
        texts = [event["part"]["text"] for event in events if event["type"] == "text"]
        cost = sum(event["part"]["cost"] for event in events if event["type"] == "step_finish")
        return AgentOutput(events[-1]["sessionID"], texts[-1], cost)

    def read(self, file: Path) -> Block:
        return _call("read", filePath=str(file))

    def edit(self, file: Path, old: str, new: str) -> Block:
        return _call("edit", filePath=str(file), oldString=old, newString=new)

    def write(self, file: Path, text: str) -> Block:
        return _call("write", filePath=str(file), content=text)

    def shell(self, command: str) -> Block:
        return _call("bash", command=command)

    def delegate(self, prompt: str) -> Block:
        return _call("task", description="A part of the work", prompt=prompt, subagent_type="general")


def _call(tool: str, **arguments: str) -> Block:
    return {"type": "tool_use", "name": tool, "input": arguments}


CLAUDE_CODE, OPENCODE = ClaudeCode(), Opencode()

AGENTS: tuple[Agent, ...] = (CLAUDE_CODE, OPENCODE)

ONE_IN_CI = (
    pytest.param(CLAUDE_CODE, id=CLAUDE_CODE.name),
    pytest.param(OPENCODE, id=OPENCODE.name, marks=pytest.mark.soak),
)
"""For what depends little on the client: one in CI, and in long campaigns the other, of which each run takes seconds of
processor time.
"""
