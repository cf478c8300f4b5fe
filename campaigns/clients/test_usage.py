"""The size of its window that a real client reads from a managed reply is that of the provider's last prompt, not of
the rounds before it or of its own longer history. Otherwise it would compact.
"""

import json
from pathlib import Path

import pytest

from mnemosyne_lab.provider import Standin
from mnemosyne_lab.provider.reading import Json
from tests.clients.agents import CLAUDE_CODE, OPENCODE
from tests.clients.provider import standin_in_a_thread
from tests.clients.test_codex import codex
from tests.clients.workspace import MNEMOSYNE, finished, open_workspace, serving, visit
from tests.http.managing import recall, think

pytestmark = pytest.mark.clients

ROUNDS = {"content": [think("What was it?"), recall()]}, {"content": [recall("and that?")]}, {"text": "It is teal."}
"""The two recalls are hidden rounds: the client gets one reply."""


def last_prompt(standin: Standin) -> int:
    """The tokens of the provider's last prompt, as it reported them."""
    usages = [_find_usages(bytes(each.payload)) for each in standin.messages if b"It is teal." in bytes(each.payload)]
    (found,) = usages
    return max(found)


def _find_usages(payload: bytes) -> list[int]:
    texts = [line.removeprefix(b"data: ") for line in payload.splitlines() if line.startswith(b"data: {")]
    events = [json.loads(each) for each in texts]
    held = [each.get("message", each.get("response", each)).get("usage") or {} for each in events]
    return [_size(each) for each in held]


def _size(usage: Json) -> int:
    return sum(
        usage.get(name, 0) for name in ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
    )


def test_codex(programs: Path, tmp_path: Path) -> None:
    with standin_in_a_thread() as standin, serving(standin, "--manage") as server:
        visit(server).script({"when": {"prompt": "colour"}, "replies": ROUNDS})
        assert codex(server, programs, tmp_path, tmp_path, "Which colour is it?") == "It is teal."
        (rollout,) = (tmp_path / "codex/sessions").rglob("*.jsonl")
        entries = [json.loads(line)["payload"] for line in rollout.read_text().splitlines()]
        told = [each["info"] for each in entries if each.get("type") == "token_count" and each.get("info")]
        assert told[-1]["last_token_usage"]["input_tokens"] == last_prompt(standin)


def test_claude_code(programs: Path, tmp_path: Path) -> None:
    with standin_in_a_thread() as standin, serving(standin, "--manage") as server:
        workspace = open_workspace(CLAUDE_CODE, programs, server, tmp_path)
        workspace.script({"when": {"prompt": "colour", "tools": True}, "replies": ROUNDS})
        workspace.run("Which colour is it?")
        (transcript,) = (workspace.home / ".claude/projects").rglob("*.jsonl")
        entries = [json.loads(line) for line in transcript.read_text().splitlines()]
        usages = [each["message"]["usage"] for each in entries if each["type"] == "assistant"]
        assert _size(usages[-1]["iterations"][-1]) == last_prompt(standin) < _size(usages[-1])


def test_opencode(programs: Path, tmp_path: Path) -> None:
    with standin_in_a_thread() as standin, serving(standin, "--manage") as server:
        workspace = open_workspace(OPENCODE, programs, server, tmp_path)
        workspace.script({"when": {"prompt": "colour", "tools": True}, "replies": ROUNDS}, {"reply": {"text": "Title"}})
        command = [*MNEMOSYNE, "run", *server.options, "--", *OPENCODE.command("Which colour is it?")]
        said = finished(command, workspace.environment, workspace.project)
        parts = [each["part"] for each in map(json.loads, said.splitlines()) if each["type"] == "step_finish"]
        tokens = parts[-1]["tokens"]
        assert tokens["input"] + tokens["cache"]["read"] + tokens["cache"]["write"] == last_prompt(standin)


def test_claude_code_continues_with_the_session_s_system_prompt_so_that_only_a_switched_model_is_a_miss(
    programs: Path, tmp_path: Path
) -> None:
    """An option for another system prompt changes no byte of a continued session."""
    with standin_in_a_thread() as standin, serving(standin) as server:
        workspace = open_workspace(CLAUDE_CODE, programs, server, tmp_path)
        workspace.script({"reply": {"text": "All is done."}})
        workspace.run("Begin here")
        go_on = [*MNEMOSYNE, "run", *server.options, "--", *CLAUDE_CODE.command("Go on", goes_on=True)]
        for option in (("--append-system-prompt", "Be brief."), ("--model", "claude-opus-4-8")):
            finished([*go_on, *option], workspace.environment, workspace.project)
        workspace.conversations()
        assert not any(b"Be brief" in each.body for each in standin.messages)
        usage = [*MNEMOSYNE, "usage", "--misses", "--json", "--data-dir", str(server.data_dir)]
        rows = json.loads(finished(usage, workspace.environment, workspace.project))
        assert [row["cause"] for row in rows if row["is_miss"]] == ["the model was switched"]
