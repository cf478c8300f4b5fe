"""The clients we know: how a command line shows which one it is, and which variables lead it to our server."""

import json
import os
import shlex
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import attrs

from mnemosyne.errors import BadConfiguration, BadOption
from mnemosyne.memory_key import OWNER_HEADER
from mnemosyne.setting_values import is_loopback
from mnemosyne.upstreams import NamedUpstream

if TYPE_CHECKING:  # who starts a client need not know of the log
    from mnemosyne.services.forks import ForkPoint

BASE_URL = "ANTHROPIC_BASE_URL"
FIRST_PARTY = "_CLAUDE_CODE_ASSUME_FIRST_PARTY_BASE_URL"
"""Tells Claude Code that its base URL leads to its vendor, and that all is forwarded there unchanged. Without it, it
leaves out betas, a cache marker's scope, diagnostics and headers.
"""
CUSTOM_HEADERS = "ANTHROPIC_CUSTOM_HEADERS"
MODE_HEADER = "x-mnemosyne-mode"
OPENCODE_CONFIG = "OPENCODE_CONFIG_CONTENT"
AIDER_BASE = "OPENAI_API_BASE"
CODEX_EXEC = ("exec", "e")
"""The command of Codex's that asks once, without a terminal."""

SETTINGS_OPTION = "--settings"
CHANGING = "Bash|Edit|MultiEdit|Write|NotebookEdit|Task|Agent|mcp__.*"
"""Tools of Claude Code's that may change files, as its hooks name them."""
HOOK_SECONDS = 60
"""How long it waits for files to be kept; then it goes on without."""

LOOPBACK = ("127.0.0.1", "localhost", "::1")

ELSEWHERE = ("CLAUDE_CODE_USE_BEDROCK", "CLAUDE_CODE_USE_VERTEX", "CLAUDE_CODE_USE_FOUNDRY")
"""Variables with which Claude Code talks to another provider's API and not to ANTHROPIC_BASE_URL."""


@attrs.frozen
class Route:
    """Where a client is led: our server's URL, the upstream behind it, and the mode it shall ask for, if any.
    ``owner_token`` is what it presents so that memory is its user's.
    """

    url: str
    upstream: str
    mode: str | None = None
    others: tuple[NamedUpstream, ...] = ()
    """Further upstreams behind it."""
    owner_token: str | None = attrs.field(default=None, repr=False)

    @property
    def headers(self) -> dict[str, str]:
        """What its requests say to our server."""
        said = {MODE_HEADER: self.mode, OWNER_HEADER: self.owner_token}
        return {name: value for name, value in said.items() if value is not None}


@attrs.frozen
class Invocation:
    """A client's command line: the words up to its name, what stands behind that, and the folder that it works in."""

    program: tuple[str, ...]
    words: tuple[str, ...]
    folder: Path


@attrs.frozen
class Client:
    """One client. ``names`` are the programs and packages that start it."""

    title: str
    names: tuple[str, ...]
    variables: Callable[[Route, Mapping[str, str]], dict[str, str]]
    """What it needs, besides ANTHROPIC_BASE_URL, to go that way and to send what it would send without us."""
    obstacles: Callable[[Mapping[str, str], Path], list[str]]
    """What would lead it past us all the same, in sentences."""
    costs: Callable[[str, Mapping[str, str]], list[str]]
    """What it does without through us, given the upstream and the environment, in a few words each."""
    arguments: Callable[[Route], list[str]] = lambda _way: []
    """What its command line needs, directly behind its name."""
    dialects: tuple[str, ...] = ("messages",)
    """The dialects of its requests."""
    asks_for_mode: bool = True
    """Whether its requests can be made to ask for a mode."""
    recorded_as: str | None = None
    """How the log calls it."""
    forks: "Callable[[ForkPoint, Invocation, Mapping[str, str]], str] | None" = None
    """Writes what it needs to go on from there as a session of its own, whose id this is; None where it cannot."""
    resumes: Callable[[str, Sequence[str]], list[str]] = lambda session, words: [*words]
    """What stands behind its name so that it goes on in its session of that id."""
    keeps_files: Callable[[], list[str]] | None = None
    """What its command line needs, directly behind its name, to have files kept before its calls; None where it cannot.
    """


def recognise(command: Sequence[str]) -> Client | None:
    """The client that a command line starts: itself, by its path, or through npx, env and their like."""
    return next((client for word in command if (client := _find_named(word)) is not None), None)


def _find_named(word: str) -> Client | None:
    program = word.rpartition("/")[2].partition("@")[0]
    return next((client for client in CLIENTS if program in client.names), None)


def environment(command: Sequence[str], way: Route, environ: Mapping[str, str]) -> dict[str, str]:
    """The environment in which ``command`` goes that way."""
    client = recognise(command)
    known = client.variables(way, environ) if client else {}
    return {**environ, BASE_URL: way.url, **_without_proxy(environ), **known}


def command_line(command: Sequence[str], way: Route) -> list[str]:
    """The command line with which ``command`` goes that way."""
    client = recognise(command)
    return _put_behind_name(command, client.arguments(way) if client is not None else ())


@attrs.frozen
class Fork:
    """A session of a client's own that begins with another one: its id, and the command line that goes on in it."""

    session: str
    command: tuple[str, ...]


def fork(command: Sequence[str], point: "ForkPoint", environ: Mapping[str, str], folder: Path) -> Fork:
    """Have the client of ``command`` go on in ``folder`` from a recorded reply, as a session of its own. What it needs
    for that is written where it looks for it.

    Raises BadOption for a client that cannot, NotFound where what it would go on from is not there.
    """
    client = recognise(command)
    if client is None or client.forks is None:
        raise BadOption(f"{command[0]} cannot be told to go on from another session; {_list_able()} can.")
    at = _find_name(command)
    called = Invocation(tuple(command[:at]), tuple(command[at:]), folder)
    session = client.forks(point, called, environ)
    return Fork(session, (*called.program, *client.resumes(session, called.words)))


def command_of(recorded_as: str) -> tuple[str, ...]:
    """The command of the client that the log calls so. Raises BadOption where it cannot go on from a reply."""
    for client in CLIENTS:
        if client.recorded_as == recorded_as and client.forks is not None:
            return client.names[:1]
    raise BadOption(
        f"The session is of a client ({recorded_as}) that cannot be told to go on from a turn; {_list_able()} can. Name"
        " one of these behind --, if it speaks the same dialect."
    )


def _list_able() -> str:
    return ", ".join(each.title for each in CLIENTS if each.forks is not None)


def files_line(command: Sequence[str]) -> list[str]:
    """The command line with which ``command`` has files kept before calls that may change them. Raises BadOption."""
    client = recognise(command)
    if client is None or client.keeps_files is None:
        able = " and ".join(each.title for each in CLIENTS if each.keeps_files is not None)
        raise BadOption(f"--record-worktree works with {able}: {command[0]} does not tell of its calls.")
    if SETTINGS_OPTION in {word.partition("=")[0] for word in command}:
        raise BadOption(
            f"--record-worktree gives {client.title} {SETTINGS_OPTION}, which it takes once; yours is there."
        )
    return _put_behind_name(command, client.keeps_files())


def _put_behind_name(command: Sequence[str], arguments: Sequence[str]) -> list[str]:
    at = _find_name(command)
    return [*command[:at], *arguments, *command[at:]]


def _find_name(command: Sequence[str]) -> int:
    """How many words there are up to the client's name, with it."""
    client = recognise(command)
    return next((number for number, word in enumerate(command, 1) if _find_named(word) is client), len(command))


def is_first_party(upstream: str) -> bool:
    """Whether Claude Code may be told that its vendor's API stands there: it does, or something on this machine that
    the user runs himself. A gateway elsewhere may refuse what the vendor's API takes.
    """
    host = urlsplit(upstream).hostname or ""
    return host == "anthropic.com" or host.endswith(".anthropic.com") or is_loopback(host)


def lacks_provider(dialect: str, upstream: str) -> bool:
    """Whether the API behind an upstream is one that is known not to take a dialect."""
    host = urlsplit(upstream).hostname or ""
    domain = {"responses": "anthropic.com", "messages": "openai.com"}.get(dialect)
    return domain is not None and (host == domain or host.endswith(f".{domain}"))


def _without_proxy(environ: Mapping[str, str]) -> dict[str, str]:
    """A user's HTTP_PROXY must not swallow requests for this machine. Programs read either spelling."""
    variables = {}
    for name, other in (("NO_PROXY", "no_proxy"), ("no_proxy", "NO_PROXY")):
        hosts = [host.strip() for host in (environ.get(name) or environ.get(other, "")).split(",") if host.strip()]
        variables[name] = ",".join(hosts + [host for host in LOOPBACK if host not in hosts and "*" not in hosts])
    return variables


def _claude_variables(way: Route, environ: Mapping[str, str]) -> dict[str, str]:
    variables = {}
    if FIRST_PARTY not in environ and is_first_party(way.upstream):
        variables[FIRST_PARTY] = "1"
    if way.headers:
        own = environ.get(CUSTOM_HEADERS, "")  # one header on a line
        before = own.rstrip("\n") + "\n" if own.strip() else ""
        variables[CUSTOM_HEADERS] = before + "\n".join(f"{name}: {value}" for name, value in way.headers.items())
    return variables


def _claude_costs(upstream: str, environ: Mapping[str, str]) -> list[str]:
    """Seen in 2.1.329; docs/clients.md tells more of each."""
    costs = ["Remote Control", "the beta mid-conversation-system-clear-at", "keeping a subscription's idle cache warm"]
    if not _is_on(environ.get(FIRST_PARTY, "1" if is_first_party(upstream) else "")):
        costs.append(f'all that {FIRST_PARTY}=1 would bring (the cache scope "global", betas, diagnostics)')
    return costs


def _opencode_variables(way: Route, environ: Mapping[str, str]) -> dict[str, str]:
    """opencode's own configuration may name another base URL; what stands in this variable comes last."""
    config = _opencode_config(environ)
    providers = config.get("provider")
    config["provider"] = dict(providers) if isinstance(providers, dict) else {}
    leads = ["anthropic", *(["openai"] if any("responses" in each.dialects for each in way.others) else [])]
    for name in leads:
        own = config["provider"].get(name)
        provider = dict(own) if isinstance(own, dict) else {}
        config["provider"][name] = {**provider, "options": _opencode_options(provider.get("options"), way)}
    return {OPENCODE_CONFIG: json.dumps(config)}


def _opencode_options(own: object, way: Route) -> dict[str, Any]:
    """The options of one of its providers."""
    options = {**(own if isinstance(own, dict) else {}), "baseURL": f"{way.url}/v1"}
    if way.headers:
        headers = options.get("headers")
        options["headers"] = {**(headers if isinstance(headers, dict) else {}), **way.headers}
    return options


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
        if _is_on(environ.get(name, ""))
    ]
    return found + [
        f"{file} sets {BASE_URL}, which Claude Code prefers to the environment. Remove it there."
        for file in _claude_settings(environ, directory)
        if BASE_URL in _claude_environment(file)
    ]


def _is_on(value: str) -> bool:
    """How Claude Code reads a variable that switches something on."""
    return value.lower() not in ("", "0", "false", "no", "off")


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


def _codex_variables(way: Route, environ: Mapping[str, str]) -> dict[str, str]:
    return {}


def _codex_arguments(way: Route) -> list[str]:
    """Seen in 0.169.0: the variable OPENAI_BASE_URL is read no more, and the user's own file may name another place."""
    return ["-c", f'openai_base_url="{way.url}/v1"']


def _aider_variables(way: Route, environ: Mapping[str, str]) -> dict[str, str]:
    """Seen in 0.86.2: its library reads another variable for OpenAI's models than for Anthropic's. What the user has
    set there leads to a server of his own, which we may know nothing of.
    """
    takes_chat = any("chat" in each.dialects for each in way.others)
    return {AIDER_BASE: f"{way.url}/v1"} if takes_chat and not environ.get(AIDER_BASE) else {}


def _aider_obstacles(environ: Mapping[str, str], directory: Path) -> list[str]:
    if not environ.get(AIDER_BASE):
        return []
    return [
        f"{AIDER_BASE} is set: aider will talk to that server and not to Mnemosyne, unless its model is one of"
        f" Anthropic's. Unset it, and name that server with --upstreams."
    ]


def _nothing(_first: object, _second: object) -> list[str]:
    return []


def _hook_claude() -> list[str]:
    # -P: an agent works in directories that nobody vouches for, and Python would import from them.
    hook = f"{shlex.quote(sys.executable)} -P -m mnemosyne hook"
    entry = {"matcher": CHANGING, "hooks": [{"type": "command", "command": hook, "timeout": HOOK_SECONDS}]}
    return [SETTINGS_OPTION, json.dumps({"hooks": {"PreToolUse": [entry]}})]


def _fork_claude(point: "ForkPoint", called: Invocation, environ: Mapping[str, str]) -> str:
    from mnemosyne.adapters.claude_transcripts import list_folders, write_fork

    return write_fork(list_folders(environ), point.session, point.message_id)


def _resume_claude(session: str, words: Sequence[str]) -> list[str]:
    return ["--resume", session, *words]


def _fork_opencode(point: "ForkPoint", called: Invocation, environ: Mapping[str, str]) -> str:
    from mnemosyne.adapters.opencode_sessions import import_session, write_session

    session = write_session(point, called.folder, time.time_ns() // 1000)
    import_session(called.program, session, called.folder, environ)
    return str(session["info"]["id"])


def _resume_opencode(session: str, words: Sequence[str]) -> list[str]:
    return ["--session", session, *words]


def _fork_codex(point: "ForkPoint", called: Invocation, environ: Mapping[str, str]) -> str:
    from mnemosyne.adapters.codex_rollouts import find_folder, write_rollout

    return write_rollout(find_folder(environ), point, called.folder, time.time_ns() // 1000)


def _resume_codex(session: str, words: Sequence[str]) -> list[str]:
    at = next((number for number, word in enumerate(words, 1) if word in CODEX_EXEC), 0)
    return [*words[:at], "resume", session, *words[at:]]


CLIENTS: tuple[Client, ...] = (
    Client(
        "Claude Code",
        ("claude", "claude-code"),
        _claude_variables,
        _claude_obstacles,
        _claude_costs,
        recorded_as="claude-code",
        forks=_fork_claude,
        resumes=_resume_claude,
        keeps_files=_hook_claude,
    ),
    Client(
        "opencode",
        ("opencode", "opencode-ai"),
        _opencode_variables,
        _nothing,
        _nothing,
        dialects=("messages", "responses"),
        recorded_as="opencode",
        forks=_fork_opencode,
        resumes=_resume_opencode,
    ),
    Client(
        "Codex",
        ("codex",),
        _codex_variables,
        _nothing,
        _nothing,
        _codex_arguments,
        dialects=("responses",),
        asks_for_mode=False,
        recorded_as="codex",
        forks=_fork_codex,
        resumes=_resume_codex,
    ),
    Client(
        "aider",
        ("aider",),
        _aider_variables,
        _aider_obstacles,
        _nothing,
        dialects=("messages", "chat"),
        asks_for_mode=False,
    ),
)
