"""Recognition of clients, and the settings that route them to the proxy."""

import json
import os
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from mnemosyne.actors.spending_guard import BUDGET_HEADER
from mnemosyne.app.clients import (
    CHOICES,
    CLIENTS,
    FIRST_PARTY,
    Route,
    add_hooks,
    command_line,
    command_of,
    environment,
    fork,
    list_unrouted,
    recognise,
)
from mnemosyne.domain.window import request_settings
from mnemosyne.domain.wire.dialect import Dialect
from mnemosyne.domain.wire.messages import MESSAGES
from mnemosyne.domain.wire.responses import RESPONSES
from mnemosyne.errors import BadConfiguration, BadOption
from mnemosyne.services.forks import ForkPoint
from mnemosyne.upstreams import NamedUpstream

URL = "http://127.0.0.1:8787"
PROVIDER = "https://api.anthropic.com"
WAY = Route(URL, PROVIDER)
CLAUDE, OPENCODE, CODEX, AIDER = CLIENTS


@pytest.mark.parametrize(
    ("command", "title"),
    [
        ("claude", "Claude Code"),
        ("/usr/local/bin/claude --resume", "Claude Code"),
        ("npx -y @anthropic-ai/claude-code@2.1.0 -p hello", "Claude Code"),
        ("env A=1 claude", "Claude Code"),
        ("claude -p opencode", "Claude Code"),
        ("opencode run hello", "opencode"),
        ("bunx opencode-ai@latest", "opencode"),
        ("codex exec hello", "Codex"),
        ("npx @openai/codex@0.169.0", "Codex"),
        ("/venv/bin/aider --message hello", "aider"),
        ("python agent.py", None),
        ("claudette", None),
    ],
)
def test_a_command_line_shows_its_client(command: str, title: str | None) -> None:
    client = recognise(command.split())
    assert (client and client.title) == title


def test_every_client_gets_the_base_url_and_keeps_the_rest() -> None:
    for command in (["claude"], ["opencode"], ["python"]):
        variables = environment(command, WAY, {"HOME": "/home/me", "ANTHROPIC_BASE_URL": "https://other"})
        assert variables["ANTHROPIC_BASE_URL"] == URL
        assert variables["HOME"] == "/home/me"
        assert ("OPENCODE_CONFIG_CONTENT" in variables) == (command != ["claude"])


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (["sh", "-c", "cd /src; codex exec 'Fix it'"], ["Codex"]),
        (["sh", "-c", "codex"], ["Codex"]),
        (["bash", "-lc", "codex", "codex"], ["Codex"]),
        (["sh", "-c", "claude"], []),
        (["taskset", "-c", "0", "codex"], []),
        (["sh", "-c", "cd /src/codex; claude -p 'Fix it'"], []),
        (["codex", "exec", "Fix it"], []),
    ],
)
def test_client_that_a_shell_starts_and_variables_cannot_route_is_named(command: list[str], said: list[str]) -> None:
    assert [sentence.split()[3].strip(",") for sentence in list_unrouted(command, WAY)] == said


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({}, {"NO_PROXY": "127.0.0.1,localhost,::1", "no_proxy": "127.0.0.1,localhost,::1"}),
        ({"NO_PROXY": "a, b"}, {"NO_PROXY": "a,b,127.0.0.1,localhost,::1", "no_proxy": "a,b,127.0.0.1,localhost,::1"}),
        (
            {"NO_PROXY": "a", "no_proxy": "b,localhost"},
            {"NO_PROXY": "a,127.0.0.1,localhost,::1", "no_proxy": "b,localhost,127.0.0.1,::1"},
        ),
        ({"no_proxy": "*"}, {"NO_PROXY": "*", "no_proxy": "*"}),
    ],
)
def test_a_proxy_does_not_swallow_loopback(before: dict[str, str], after: dict[str, str]) -> None:
    """In both spellings: a variable that the user did not set must not hide the other one."""
    variables = environment(["anything"], WAY, before)
    assert {name: variables[name] for name in after} == after


OURS = {"baseURL": f"{URL}/v1"}


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("", {"provider": {"anthropic": {"options": OURS}}}),
        ('{"provider": null}', {"provider": {"anthropic": {"options": OURS}}}),
        ('{"provider": {"anthropic": []}}', {"provider": {"anthropic": {"options": OURS}}}),
        (
            '{"theme": "dark", "provider": {"openai": {}, "anthropic": {"options": {"timeout": 5, "baseURL": "x"}}}}',
            {"theme": "dark", "provider": {"openai": {}, "anthropic": {"options": {"timeout": 5, **OURS}}}},
        ),
    ],
)
def test_opencode_s_own_configuration_is_kept_except_for_the_base_url(before: str, after: object) -> None:
    variables = environment(["opencode"], WAY, {"OPENCODE_CONFIG_CONTENT": before})
    assert json.loads(variables["OPENCODE_CONFIG_CONTENT"]) == after


@pytest.mark.parametrize("content", ["{", "[]", "1"])
def test_an_invalid_opencode_configuration_is_refused(content: str) -> None:
    with pytest.raises(BadConfiguration, match="not a JSON object"):
        environment(["opencode"], WAY, {"OPENCODE_CONFIG_CONTENT": content})
    assert environment(["make"], WAY, {"OPENCODE_CONFIG_CONTENT": content})["OPENCODE_CONFIG_CONTENT"] == content


@pytest.mark.parametrize(
    ("upstream", "value"),
    [
        (PROVIDER, "1"),
        ("http://127.0.0.1:9009", "1"),
        ("https://gateway.example.com/anthropic", None),
        ("https://api.anthropic.com.example.com", None),
    ],
)
def test_claude_code_treats_a_first_party_upstream_as_its_vendor(upstream: str, value: str | None) -> None:
    """A gateway refuses what only the vendor's API accepts."""
    assert environment(["claude"], Route(URL, upstream), {}).get(FIRST_PARTY) == value
    assert FIRST_PARTY not in environment(["opencode"], Route(URL, upstream), {})
    (*_, last) = CLAUDE.costs(upstream, {})
    assert (FIRST_PARTY in last) == (value is None)


@pytest.mark.parametrize("value", ["0", "1", ""])
def test_the_user_s_own_first_party_variable_is_kept(value: str) -> None:
    assert environment(["claude"], WAY, {FIRST_PARTY: value})[FIRST_PARTY] == value
    assert any(FIRST_PARTY in cost for cost in CLAUDE.costs(PROVIDER, {FIRST_PARTY: value})) == (value != "1")


def test_the_mode_header_is_added_to_the_user_s_own_headers() -> None:
    manage = Route(URL, PROVIDER, "manage")
    assert environment(["claude"], manage, {"ANTHROPIC_CUSTOM_HEADERS": "X-A: b\n"})["ANTHROPIC_CUSTOM_HEADERS"] == (
        "X-A: b\nx-mnemosyne-mode: manage"
    )
    config = json.loads(environment(["opencode"], manage, {})["OPENCODE_CONFIG_CONTENT"])
    assert config["provider"]["anthropic"]["options"]["headers"] == {"x-mnemosyne-mode": "manage"}


def test_chosen_settings_are_sent_in_the_headers_that_a_server_reads() -> None:
    of_planner = request_settings
    by_planner = (of_planner.WINDOW_HEADER, of_planner.POLICY_HEADER, of_planner.FIDELITY_HEADER)
    assert tuple(CHOICES.values()) == (*by_planner, of_planner.GROUNDING_HEADER, BUDGET_HEADER)
    way = Route(URL, PROVIDER, choices={"policy": "zones", "manage_window": "60000"})
    lines = "x-mnemosyne-policy: zones\nx-mnemosyne-window: 60000"
    assert environment(["claude"], way, {})["ANTHROPIC_CUSTOM_HEADERS"] == lines


def test_the_owner_token_is_sent_with_or_without_a_mode() -> None:
    for mode, headers in ((None, {}), ("manage", {"x-mnemosyne-mode": "manage"})):
        way = Route(URL, PROVIDER, mode, owner_token="secret")
        wanted = {**headers, "x-mnemosyne-owner-token": "secret"}
        lines = [f"{name}: {each}" for name, each in wanted.items()]
        assert environment(["claude"], way, {})["ANTHROPIC_CUSTOM_HEADERS"] == "\n".join(lines)
        config = json.loads(environment(["opencode"], way, {})["OPENCODE_CONFIG_CONTENT"])
        assert config["provider"]["anthropic"]["options"]["headers"] == wanted
        assert "secret" not in repr(way)


def test_claude_code_may_be_set_to_another_provider(tmp_path: Path) -> None:
    home = {"HOME": str(tmp_path)}
    assert CLAUDE.obstacles(home, tmp_path) == []
    assert CLAUDE.obstacles(home | {"CLAUDE_CODE_USE_BEDROCK": "0"}, tmp_path) == []
    (found,) = CLAUDE.obstacles(home | {"CLAUDE_CODE_USE_BEDROCK": "1"}, tmp_path)
    assert found.startswith("CLAUDE_CODE_USE_BEDROCK is set")


@pytest.mark.parametrize("place", ["home/.claude/settings.json", "project/.claude/settings.local.json"])
def test_settings_of_claude_code_that_name_a_base_url_are_found(place: str, tmp_path: Path) -> None:
    """Seen with 2.1.197: what a settings file sets wins over the environment."""
    file = tmp_path / place
    file.parent.mkdir(parents=True)
    file.write_text('{"env": {"ANTHROPIC_BASE_URL": "https://other"}}')
    (found,) = CLAUDE.obstacles({"HOME": str(tmp_path / "home")}, tmp_path / "project")
    assert found.startswith(f"{file} sets ANTHROPIC_BASE_URL")
    for harmless in ("{", "[]", '{"env": 1}', '{"env": {"OTHER": "1"}}'):
        file.write_text(harmless)
        assert CLAUDE.obstacles({"HOME": str(tmp_path / "home")}, tmp_path / "project") == []
    assert OPENCODE.obstacles({}, tmp_path) == []


@pytest.mark.parametrize(
    ("command", "led"),
    [
        ("codex exec hello", 'codex -c openai_base_url="http://127.0.0.1:8787/v1" exec hello'),
        ("npx @openai/codex@1 -q", 'npx @openai/codex@1 -c openai_base_url="http://127.0.0.1:8787/v1" -q'),
        ("claude -p codex", "claude -p codex"),
        ("python agent.py", "python agent.py"),
    ],
)
def test_codex_gets_its_base_url_by_option(command: str, led: str) -> None:
    assert command_line(command.split(), WAY) == led.split()


def test_opencode_s_openai_provider_is_routed_only_with_a_responses_upstream() -> None:
    taken = Route(URL, PROVIDER, others=(NamedUpstream("openai", "https://api.openai.com"),))
    for way, providers in ((WAY, {"anthropic"}), (taken, {"anthropic", "openai"})):
        config = json.loads(environment(["opencode"], way, {})["OPENCODE_CONFIG_CONTENT"])
        assert {
            name for name, each in config["provider"].items() if each["options"]["baseURL"] == f"{URL}/v1"
        } == providers


def test_aider_is_routed_with_a_chat_upstream_unless_the_user_set_a_server() -> None:
    taken = Route(URL, PROVIDER, others=(NamedUpstream("openai", "https://api.openai.com"),))
    own = {"OPENAI_API_BASE": "http://127.0.0.1:1234/v1"}
    assert "OPENAI_API_BASE" not in environment(["aider"], WAY, {})
    assert environment(["aider"], taken, {})["OPENAI_API_BASE"] == f"{URL}/v1"
    assert environment(["aider"], taken, own)["OPENAI_API_BASE"] == own["OPENAI_API_BASE"]
    assert AIDER.obstacles({}, Path()) == []
    assert "OPENAI_API_BASE is set" in AIDER.obstacles(own, Path())[0]


def fork_point(dialect: Dialect = MESSAGES) -> ForkPoint:
    return ForkPoint("claude-code", "s", 3, 3, "msg_1", dialect, {}, {}, UUID(int=1), 0)


def test_claude_code_can_fork_and_unsupported_clients_are_refused(tmp_path: Path) -> None:
    folder = tmp_path / "projects" / "-app"
    folder.mkdir(parents=True)
    entry = {"type": "assistant", "uuid": "u-1", "message": {"id": "msg_1"}}
    (folder / "s.jsonl").write_text(json.dumps(entry) + "\n")
    environ = {"CLAUDE_CONFIG_DIR": str(tmp_path)}
    made = fork(["npx", "claude", "-p", "go on"], fork_point(), environ, tmp_path)
    assert made.command == ("npx", "claude", "--resume", made.session, "-p", "go on")
    assert (folder / f"{made.session}.jsonl").is_file()
    for command in (["aider"], ["python", "agent.py"]):
        with pytest.raises(BadOption, match="from another session; supported: Claude Code, opencode, Codex"):
            fork(command, fork_point(), environ, tmp_path)


def test_codex_resumes_the_written_rollout_with_and_without_a_terminal(tmp_path: Path) -> None:
    environ = {"CODEX_HOME": str(tmp_path)}
    for command, behind, rest in (
        (["codex", "-m", "gpt-5.5", "exec", "go on"], ["codex", "-m", "gpt-5.5", "exec"], ["go on"]),
        (["npx", "codex", "go on"], ["npx", "codex"], ["go on"]),
    ):
        made = fork(command, fork_point(RESPONSES), environ, tmp_path)
        assert made.command == (*behind, "resume", made.session, *rest)
        assert list(tmp_path.rglob(f"*{made.session}.jsonl"))


def test_opencode_resumes_the_imported_session(tmp_path: Path) -> None:
    program = tmp_path / "opencode"
    program.write_text('#!/bin/sh\nexec cat "$2"\n')
    program.chmod(0o700)
    made = fork([str(program), "run", "go on"], fork_point(), {"PATH": os.environ["PATH"]}, tmp_path)
    assert made.command == (str(program), "--session", made.session, "run", "go on")
    assert made.session.startswith("ses_")


def test_a_session_s_client_is_found_by_its_name_in_the_log() -> None:
    assert [command_of(each) for each in ("claude-code", "opencode", "codex")] == [
        ("claude",),
        ("opencode",),
        ("codex",),
    ]
    with pytest.raises(BadOption, match=r"client \(other\) cannot start"):
        command_of("other")


def hooks_in(line: list[str]) -> dict[str, Any]:
    """The hooks of a command line with hooks, by event."""
    assert line.count("--settings") == 1
    hooks: dict[str, Any] = json.loads(line[line.index("--settings") + 1])["hooks"]
    return hooks


def test_only_a_client_with_hooks_gets_them(tmp_path: Path) -> None:
    line = add_hooks(["npx", "claude", "-p", "go on"], tmp_path)
    assert [line[:3], line[4:]] == [["npx", "claude", "--settings"], ["-p", "go on"]]
    assert hooks_in(line).keys() == {"UserPromptSubmit", "SessionEnd"}
    for (entry,) in hooks_in(line).values():
        assert entry["hooks"][0]["command"].endswith(f"-m mnemosyne hook --data-dir {tmp_path}")
    for command in (["codex"], ["python", "agent.py"], ["sh", "-c", "claude"]):
        assert add_hooks(command, tmp_path) == command


def test_hooks_are_merged_into_the_settings_of_the_command(tmp_path: Path) -> None:
    own = {"model": "m", "hooks": {"UserPromptSubmit": [{"hooks": []}], "Stop": [{"hooks": []}]}}
    (tmp_path / "own.json").write_text(json.dumps(own))
    for given in (["--settings", json.dumps(own)], [f"--settings={tmp_path / 'own.json'}"]):
        line = add_hooks(["claude", *given, "-p", "--", "--settings", "of the prompt"], tmp_path)
        assert line[3:] == ["-p", "--", "--settings", "of the prompt"]
        assert json.loads(line[2])["model"] == "m"
        hooks = json.loads(line[2])["hooks"]
        assert [len(hooks["UserPromptSubmit"]), hooks["Stop"]] == [2, [{"hooks": []}]]


@pytest.mark.parametrize("given", ["{", "[]", "/no/such/file", ""])
def test_unreadable_settings_are_left_to_the_client(given: str, tmp_path: Path) -> None:
    command = ["claude", "--settings", given]
    assert add_hooks(command, tmp_path) == command
