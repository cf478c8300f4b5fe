"""The clients we know: how a command line shows which one it is, and which variables lead it to our server."""

import json
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs

from mnemosyne.errors import BadConfiguration

BASE_URL = "ANTHROPIC_BASE_URL"
CUSTOM_HEADERS = "ANTHROPIC_CUSTOM_HEADERS"
MODE_HEADER = "x-mnemosyne-mode"
OPENCODE_CONFIG = "OPENCODE_CONFIG_CONTENT"

LOOPBACK = ("127.0.0.1", "localhost", "::1")

ELSEWHERE = ("CLAUDE_CODE_USE_BEDROCK", "CLAUDE_CODE_USE_VERTEX", "CLAUDE_CODE_USE_FOUNDRY")
"""Variables with which Claude Code talks to another provider's API and not to ANTHROPIC_BASE_URL."""


@attrs.frozen
class Client:
    """One client. ``names`` are the programs and packages that start it."""

    title: str
    names: tuple[str, ...]
    variables: Callable[[str, Mapping[str, str], str | None], dict[str, str]]
    """What it needs, besides ANTHROPIC_BASE_URL, to reach the server at a URL, and to ask it for a mode."""
    obstacles: Callable[[Mapping[str, str], Path], list[str]]
    """What would lead it past us all the same, in sentences."""


def recognise(command: Sequence[str]) -> Client | None:
    """The client that a command line starts: itself, by its path, or through npx, env and their like."""
    for word in command:
        program = word.rpartition("/")[2].partition("@")[0]
        for client in CLIENTS:
            if program in client.names:
                return client
    return None


def environment(
    command: Sequence[str], url: str, environ: Mapping[str, str], mode: str | None = None
) -> dict[str, str]:
    """The environment in which ``command`` talks to the server at ``url``, and asks it for a mode."""
    client = recognise(command)
    known = client.variables(url, environ, mode) if client else {}
    return {**environ, BASE_URL: url, **_without_proxy(environ), **known}


def _without_proxy(environ: Mapping[str, str]) -> dict[str, str]:
    """A user's HTTP_PROXY must not swallow requests for this machine. Programs read either spelling."""
    variables = {}
    for name, other in (("NO_PROXY", "no_proxy"), ("no_proxy", "NO_PROXY")):
        hosts = [host.strip() for host in (environ.get(name) or environ.get(other, "")).split(",") if host.strip()]
        variables[name] = ",".join(hosts + [host for host in LOOPBACK if host not in hosts and "*" not in hosts])
    return variables


def _claude_variables(_url: str, environ: Mapping[str, str], mode: str | None) -> dict[str, str]:
    if mode is None:
        return {}
    own = environ.get(CUSTOM_HEADERS, "")  # one header on a line
    return {CUSTOM_HEADERS: (own.rstrip("\n") + "\n" if own.strip() else "") + f"{MODE_HEADER}: {mode}"}


def _opencode_variables(url: str, environ: Mapping[str, str], mode: str | None) -> dict[str, str]:
    """opencode's own configuration may name another base URL; what stands in this variable comes last."""
    config = _opencode_config(environ)
    options = config
    for key in ("provider", "anthropic", "options"):
        inner = options.get(key)
        options[key] = options = dict(inner) if isinstance(inner, dict) else {}
    options["baseURL"] = f"{url}/v1"
    if mode is not None:
        own = options.get("headers")
        options["headers"] = {**(own if isinstance(own, dict) else {}), MODE_HEADER: mode}
    return {OPENCODE_CONFIG: json.dumps(config)}


def _opencode_config(environ: Mapping[str, str]) -> dict[str, Any]:
    try:
        config = json.loads(environ.get(OPENCODE_CONFIG) or "{}")
    except ValueError:
        config = None
    if not isinstance(config, dict):
        raise BadConfiguration(f"{OPENCODE_CONFIG} is set and is not a JSON object; correct it or unset it.")
    return config


def _claude_obstacles(environ: Mapping[str, str], directory: Path) -> list[str]:
    found = [
        f"{name} is set: Claude Code will talk to that provider and not to Mnemosyne. Unset it."
        for name in ELSEWHERE
        if environ.get(name, "").lower() not in ("", "0", "false", "no", "off")
    ]
    return found + [
        f"{file} sets {BASE_URL}, which Claude Code prefers to the environment. Remove it there."
        for file in _claude_settings(environ, directory)
        if BASE_URL in _claude_environment(file)
    ]


def _claude_settings(environ: Mapping[str, str], directory: Path) -> list[Path]:
    home = environ.get("CLAUDE_CONFIG_DIR") or os.path.join(environ.get("HOME") or os.path.expanduser("~"), ".claude")
    project = directory / ".claude"
    files = [Path(home) / "settings.json", project / "settings.json", project / "settings.local.json"]
    return list(dict.fromkeys(files))


def _claude_environment(file: Path) -> dict[str, Any]:
    """The variables that a settings file of Claude Code sets; none if it cannot be read, which is not our concern."""
    try:
        settings = json.loads(file.read_text(encoding="utf-8"))
        variables = settings["env"]
    except (OSError, ValueError, KeyError, TypeError):
        return {}
    return variables if isinstance(variables, dict) else {}


def _no_obstacles(_environ: Mapping[str, str], _directory: Path) -> list[str]:
    return []


CLIENTS: tuple[Client, ...] = (
    Client("Claude Code", ("claude", "claude-code"), _claude_variables, _claude_obstacles),
    Client("opencode", ("opencode", "opencode-ai"), _opencode_variables, _no_obstacles),
)
