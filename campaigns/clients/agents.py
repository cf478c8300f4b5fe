"""Codex, and opencode with models of other companies, as agents of a workspace, next to the agents of `tests`."""

import json
import shlex
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path

import attrs

from tests.clients.agents import Agent, AgentOutput, Block, Opencode
from tests.clients.test_codex import command_for, execute, run
from tests.clients.test_responses_of_opencode import COMPATIBLE, OPENAI
from tests.clients.test_responses_of_opencode import run as bash
from tests.clients.workspace import Server, Workspace


class ByCommands(ABC):
    @abstractmethod
    def shell(self, command: str) -> Block:
        """The call that runs a command."""

    def read(self, file: Path) -> Block:
        return self.shell(f"cat {file}")

    def edit(self, file: Path, old: str, new: str) -> Block:
        return self.shell(f"sed -i {shlex.quote(f's/{old}/{new}/')} {file}")

    def write(self, file: Path, text: str) -> Block:
        return self.shell(f"printf %s {shlex.quote(text)} > {file}")


KEYS = ("OPENAI_API_KEY", "CODEX_API_KEY")


@attrs.frozen
class Codex(ByCommands):
    """`codex exec`. Its default model, None, calls commands by a script."""

    model: str | None = "gpt-5.5"
    environment: Mapping[str, str] = attrs.field(factory=lambda: dict.fromkeys(KEYS, "a-dummy-key"))
    compacts_at: int | None = None
    """Tokens."""
    name = "codex"
    side_branches: Mapping[str, int] = {}
    waits_for_subagents = True

    def command(self, prompt: str, *, goes_on: bool = False, fork_of: str = "") -> list[str]:
        limit = ["-c", f"model_auto_compact_token_limit={self.compacts_at}"] if self.compacts_at else []
        return command_for(prompt, *limit, *(["resume", "--last"] if goes_on else []), model=self.model)

    def parse_output(self, output: str) -> AgentOutput:
        return AgentOutput("", output.strip(), 0.0)

    def shell(self, command: str) -> Block:
        call: Block = execute(command) if self.model is None else run(command)
        return call

    def delegate(self, prompt: str) -> Block:
        raise NotImplementedError("no campaign gives Codex a sub-agent")


@attrs.frozen
class OtherOpencode(ByCommands, Opencode):
    provider: str

    def command(self, prompt: str, *, goes_on: bool = False, fork_of: str = "") -> list[str]:
        words = super().command(prompt, goes_on=goes_on, fork_of=fork_of)
        return [f"{self.provider}/gpt-5.5" if word.startswith("anthropic/") else word for word in words]

    def shell(self, command: str) -> Block:
        call: Block = bash(command)
        return call


CODEX, SIGNED_IN_CODEX = Codex(), Codex(environment={})
OPENCODE_OPENAI, OPENCODE_COMPATIBLE = OtherOpencode(OPENAI), OtherOpencode(COMPATIBLE)


def variables_of(agent: Agent, server: Server) -> dict[str, str]:
    """The environment variables that lead the agent to a server."""
    if not isinstance(agent, OtherOpencode):
        return {}
    way = {"npm": f"@ai-sdk/{agent.provider}"} if agent.provider == COMPATIBLE else {}
    options = {"baseURL": f"{server.url}/v1", "apiKey": "a-dummy-key"}
    named = {agent.provider: {**way, "options": options, "models": {"gpt-5.5": {}}}}
    config = {"provider": named, "permission": {"bash": "allow"}, "snapshot": False}
    return {"OPENCODE_CONFIG_CONTENT": json.dumps(config)}


def work(workspace: Workspace, prompt: str, *, goes_on: bool = False, options: Sequence[str] = ()) -> str:
    """Work on a prompt to its end; return the final text. ``goes_on`` resumes the conversation."""
    return workspace.run(
        prompt, goes_on=goes_on, options=options, **variables_of(workspace.agent, workspace.server)
    ).text
