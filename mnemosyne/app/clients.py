"""Supported clients: how to recognise one by its command line, and the variables that point it at the proxy."""

import json
import os
import re
import shlex
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import attrs

from mnemosyne.errors import BadConfiguration, BadOption
from mnemosyne.memory_key import OWNER_HEADER
from mnemosyne.setting_values import is_loopback
from mnemosyne.upstreams import NamedUpstream

if TYPE_CHECKING:  # starting a client must not import the log
    from mnemosyne.services.forks import ForkPoint

BASE_URL = "ANTHROPIC_BASE_URL"
FIRST_PARTY = "_CLAUDE_CODE_ASSUME_FIRST_PARTY_BASE_URL"
"""Tells Claude Code that its base URL leads to its vendor's API unchanged. Without this variable, Claude Code omits
betas, a cache marker's scope, diagnostics and headers.
"""
CUSTOM_HEADERS = "ANTHROPIC_CUSTOM_HEADERS"
MODE_HEADER = "x-mnemosyne-mode"
CHOICES = {
    "manage_window": "x-mnemosyne-window",
    "policy": "x-mnemosyne-policy",
    "fidelity": "x-mnemosyne-fidelity",
    "grounding": "x-mnemosyne-grounding",
    "session_budget_dollars": "x-mnemosyne-budget",
}
"""The settings that a request can choose, each with its header (request_settings.py, spending_guard.py)."""
OPENCODE_CONFIG = "OPENCODE_CONFIG_CONTENT"
AIDER_BASE = "OPENAI_API_BASE"
CODEX_EXEC = ("exec", "e")
"""Codex's command for a single prompt without a terminal."""

SETTINGS_OPTION = "--settings"
HOOK_SECONDS = 60
"""How long Claude Code waits for a hook; then it continues without."""

LOOPBACK = ("127.0.0.1", "localhost", "::1")
DOOR = "mnemosyne-door-"  # in the name of a client's file of authorities

ELSEWHERE = ("CLAUDE_CODE_USE_BEDROCK", "CLAUDE_CODE_USE_VERTEX", "CLAUDE_CODE_USE_FOUNDRY")
"""Variables that make Claude Code use another provider's API instead of ANTHROPIC_BASE_URL."""


@attrs.frozen
class Route:
    """Where to point a client: the server's URL, its upstream, and the mode to request, if any. ``owner_token`` proves
    that the session is the owner's, which gives it access to memory. ``choices`` are the settings to request.
    """

    url: str
    upstream: str
    mode: str | None = None
    others: tuple[NamedUpstream, ...] = ()
    """Further upstreams behind it."""
    owner_token: str | None = attrs.field(default=None, repr=False)
    choices: Mapping[str, str] = attrs.field(factory=dict)

    @property
    def headers(self) -> dict[str, str]:
        """The headers of the client's requests for the proxy."""
        headers = {MODE_HEADER: self.mode, OWNER_HEADER: self.owner_token}
        headers |= {CHOICES[name]: value for name, value in self.choices.items()}
        return {name: value for name, value in headers.items() if value is not None}


@attrs.frozen
class Invocation:
    """A client's command line: the words up to its name, the words after it, and the working folder."""

    program: tuple[str, ...]
    words: tuple[str, ...]
    folder: Path


@attrs.frozen
class Client:
    """One client. ``names`` are the programs and packages that start it."""

    title: str
    names: tuple[str, ...]
    variables: Callable[[Route, Mapping[str, str]], dict[str, str]] = lambda _way, _environ: {}
    """Returns the variables, in addition to ANTHROPIC_BASE_URL, that route the client and keep its requests unchanged.
    """
    obstacles: Callable[[Mapping[str, str], Path], list[str]] = lambda _environ, _folder: []
    """Returns messages about settings that would bypass the proxy."""
    costs: Callable[[str, Mapping[str, str]], list[str]] = lambda _upstream, _environ: []
    """Returns the features that the client loses behind the proxy, given the upstream and the environment."""
    arguments: Callable[[Route], list[str]] = lambda _way: []
    """Returns the arguments to insert directly after its name."""
    dialects: tuple[str, ...] = ("messages",)
    """The dialects of its requests."""
    asks_for_mode: bool = True
    """Whether its requests can carry the mode header."""
    recorded_as: str | None = None
    """Its name in the log."""
    forks: "Callable[[ForkPoint, Invocation, Mapping[str, str]], str] | None" = None
    """Writes the client's session file for a fork and returns the new session's id; None if unsupported."""
    resumes: Callable[[str, Sequence[str]], list[str]] = lambda session, words: [*words]
    """Returns the arguments that resume the session with this id."""
    has_hooks: bool = False
    """Whether its option ``--settings`` adds hooks for one run, in Claude Code's format."""


def recognise(command: Sequence[str]) -> Client | None:
    """Return the client that a command line starts, directly, by path, or through npx, env or similar programs; not
    through a shell's ``-c``, because arguments after its command line do not reach the client.
    """
    at = _find_name(command)
    return _find_named(command[at - 1]) if at else None


_SCRIPT = re.compile("-[a-z]*c")
"""A shell's option before its command line, such as ``-lc``."""


def _find_named(word: str) -> Client | None:
    program = word.rpartition("/")[2].partition("@")[0]
    return next((client for client in CLIENTS if program in client.names), None)


def environment(command: Sequence[str], way: Route, environ: Mapping[str, str]) -> dict[str, str]:
    """Return the environment that routes ``command`` through the proxy: an unknown one may start any client."""
    client = recognise(command)
    known: dict[str, str] = {}
    for each in CLIENTS if client is None else (client,):
        with suppress(*() if client else (BadConfiguration,)):  # of a client that it need not start
            known |= each.variables(way, environ)
    return {**environ, BASE_URL: way.url, **_without_proxy(environ), **known}


def list_unrouted(command: Sequence[str], way: Route) -> list[str]:
    """Return sentences about clients that a shell may start, and that only arguments can route through the proxy."""
    words: set[str] = set()
    for each in () if recognise(command) else command:
        with suppress(ValueError):  # an open quotation: no line that a shell runs
            words.update(shlex.shlex(each, posix=True, punctuation_chars=True))
    return [
        f"If this starts {each.title}, it bypasses Mnemosyne: the command must begin with `{each.names[0]}`."
        for each in CLIENTS
        if each.arguments(way) and not words.isdisjoint(each.names)
    ]


def command_line(command: Sequence[str], way: Route) -> list[str]:
    """Return the command line that routes ``command`` through the proxy."""
    client = recognise(command)
    return _put_behind_name(command, client.arguments(way) if client is not None else ())


@attrs.frozen
class Fork:
    """A new client session that starts from a recorded one: its id and the command line that resumes it."""

    session: str
    command: tuple[str, ...]


def fork(command: Sequence[str], point: "ForkPoint", environ: Mapping[str, str], folder: Path) -> Fork:
    """Create a session of ``command``'s client in ``folder`` that continues from a recorded reply. Writes the session
    file to the client's own folder.

    Raises BadOption for a client without support, NotFound if the reply is missing.
    """
    client = recognise(command)
    if client is None or client.forks is None:
        raise BadOption(f"{command[0]} cannot start from another session; supported: {_list_able()}.")
    at = _find_name(command)
    called = Invocation(tuple(command[:at]), tuple(command[at:]), folder)
    session = client.forks(point, called, environ)
    return Fork(session, (*called.program, *client.resumes(session, called.words)))


def command_of(recorded_as: str) -> tuple[str, ...]:
    """Return the command of the client with this name in the log. Raises BadOption if it does not support forks."""
    for client in CLIENTS:
        if client.recorded_as == recorded_as and client.forks is not None:
            return client.names[:1]
    raise BadOption(
        f"The session's client ({recorded_as}) cannot start from a turn; supported: {_list_able()}. Name one of these"
        " after --, if it uses the same dialect."
    )


def _list_able() -> str:
    return ", ".join(client.title for client in CLIENTS if client.forks is not None)


def add_hooks(command: Sequence[str], data_dir: Path) -> list[str]:
    """Return the command line with hooks for this run, if the client has any: one that vouches for the prompts that the
    user submits, and one that closes the session when the client ends it. They are merged into the command's own
    settings, unless these cannot be read: the client reports that.
    """
    client = recognise(command)
    if client is None or not client.has_hooks:
        return [*command]
    # -P: do not import modules from the working directory, which is untrusted.
    words = (sys.executable, "-P", "-m", "mnemosyne", "hook", "--data-dir", str(data_dir.absolute()))
    hook = {"type": "command", "command": shlex.join(words), "timeout": HOOK_SECONDS}
    own, rest = _split_settings(command)
    settings = _read_settings(own) if own is not None else {}
    if settings is None:
        return [*command]
    merged = dict(settings["hooks"]) if isinstance(settings.get("hooks"), dict) else {}
    for event in ("UserPromptSubmit", "SessionEnd"):
        given = merged.get(event)
        merged[event] = [*(given if isinstance(given, list) else []), {"hooks": [hook]}]
    return _put_behind_name(rest, [SETTINGS_OPTION, json.dumps({**settings, "hooks": merged})])


def _split_settings(command: Sequence[str]) -> tuple[str | None, list[str]]:
    """The value of the last ``--settings`` after the client's name, which counts, and the command without any."""
    own, rest = None, [*command[: _find_name(command)]]
    words = iter(command[len(rest) :])
    for word in words:
        name, equals, value = word.partition("=")
        if word == "--":
            return own, [*rest, word, *words]
        if name == SETTINGS_OPTION:
            own = value if equals else next(words, "")
        else:
            rest.append(word)
    return own, rest


def _read_settings(given: str) -> dict[str, Any] | None:
    """The settings in a value of ``--settings``, JSON or the path of a file; None if they cannot be read."""
    try:
        text = given if given.lstrip().startswith("{") else Path(given).read_text(encoding="utf-8")
        settings = json.loads(text)
    except (OSError, ValueError, RecursionError):
        return None
    return settings if isinstance(settings, dict) else None


def _put_behind_name(command: Sequence[str], arguments: Sequence[str]) -> list[str]:
    at = _find_name(command)
    return [*command[:at], *arguments, *command[at:]]


def _find_name(command: Sequence[str]) -> int:
    """Return the number of words up to and including the client's name; 0 without one."""
    at = next((number for number, word in enumerate(command, 1) if _find_named(word) is not None), 0)
    return 0 if at > 1 and _SCRIPT.fullmatch(command[at - 2]) else at


def is_first_party(upstream: str) -> bool:
    """Whether Claude Code may treat the upstream as its vendor's API: it is that API or a server on this machine. A
    gateway elsewhere may refuse requests that the vendor's API accepts.
    """
    host = urlsplit(upstream).hostname or ""
    return host == "anthropic.com" or host.endswith(".anthropic.com") or is_loopback(host)


def lacks_provider(dialect: str, upstream: str) -> bool:
    """Whether the upstream's API is known not to support a dialect."""
    host = urlsplit(upstream).hostname or ""
    domain = {"responses": "anthropic.com", "messages": "openai.com"}.get(dialect)
    return domain is not None and (host == domain or host.endswith(f".{domain}"))


def _without_proxy(environ: Mapping[str, str]) -> dict[str, str]:
    """Exclude loopback from the user's HTTP_PROXY, in both spellings of NO_PROXY."""
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
        own = environ.get(CUSTOM_HEADERS, "")  # one header per line
        before = own.rstrip("\n") + "\n" if own.strip() else ""
        variables[CUSTOM_HEADERS] = before + "\n".join(f"{name}: {value}" for name, value in way.headers.items())
    return variables


def _claude_costs(upstream: str, environ: Mapping[str, str]) -> list[str]:
    """List Claude Code's lost features, as of 2.1.329; see docs/clients.md."""
    costs = ["Remote Control", "the beta mid-conversation-system-clear-at", "keeping a subscription's idle cache warm"]
    if not _is_on(environ.get(FIRST_PARTY, "1" if is_first_party(upstream) else "")):
        costs.append(f'everything that {FIRST_PARTY}=1 enables (the cache scope "global", betas, diagnostics)')
    return costs


def _opencode_variables(way: Route, environ: Mapping[str, str]) -> dict[str, str]:
    """Set the base URL in the variable that overrides opencode's own configuration."""
    config = _opencode_config(environ)
    providers = config.get("provider")
    config["provider"] = dict(providers) if isinstance(providers, dict) else {}
    providers_to_set = ["anthropic", *(["openai"] if any("responses" in one.dialects for one in way.others) else [])]
    for name in providers_to_set:
        own = config["provider"].get(name)
        provider = dict(own) if isinstance(own, dict) else {}
        config["provider"][name] = {**provider, "options": _opencode_options(provider.get("options"), way)}
    return {OPENCODE_CONFIG: json.dumps(config)}


def _opencode_options(own: object, way: Route) -> dict[str, Any]:
    """Return the options of an opencode provider with the proxy's URL and headers."""
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
    obstacles = [
        f"{name} is set: Claude Code will use that provider and bypass Mnemosyne. Unset it."
        for name in ELSEWHERE
        if _is_on(environ.get(name, ""))
    ]
    return obstacles + [
        f"{file} sets {BASE_URL}, which Claude Code prefers to the environment. Remove it there."
        for file in _claude_settings(environ, directory)
        if BASE_URL in _claude_environment(file)
    ]


def _is_on(value: str) -> bool:
    """Parse a boolean variable as Claude Code does."""
    return value.lower() not in ("", "0", "false", "no", "off")


def _claude_settings(environ: Mapping[str, str], directory: Path) -> list[Path]:
    home = environ.get("CLAUDE_CONFIG_DIR") or os.path.join(environ.get("HOME") or os.path.expanduser("~"), ".claude")
    project = directory / ".claude"
    files = [Path(home) / "settings.json", project / "settings.json", project / "settings.local.json"]
    return list(dict.fromkeys(files))


def _claude_environment(file: Path) -> dict[str, Any]:
    """Return the variables in a Claude Code settings file; empty if the file is unreadable."""
    try:
        settings = json.loads(file.read_text(encoding="utf-8"))
        variables = settings["env"]
    except (OSError, ValueError, KeyError, TypeError):
        return {}
    return variables if isinstance(variables, dict) else {}


def _codex_arguments(way: Route) -> list[str]:
    """Set the base URL by option: Codex 0.169.0 ignores OPENAI_BASE_URL, and the user's file may have another URL."""
    return ["-c", f'openai_base_url="{way.url}/v1"']


def _aider_variables(way: Route, environ: Mapping[str, str]) -> dict[str, str]:
    """Set the variable that aider 0.86.2 reads for OpenAI's models. A value set by the user is kept: it names a server
    of their own.
    """
    takes_chat = any("chat" in upstream.dialects for upstream in way.others)
    return {AIDER_BASE: f"{way.url}/v1"} if takes_chat and not environ.get(AIDER_BASE) else {}


def _aider_obstacles(environ: Mapping[str, str], directory: Path) -> list[str]:
    if not environ.get(AIDER_BASE):
        return []
    return [
        f"{AIDER_BASE} is set: aider will use that server and bypass Mnemosyne, except for Anthropic's models. Unset it"
        f" and name that server with --upstreams."
    ]


def _fork_claude(point: "ForkPoint", called: Invocation, environ: Mapping[str, str]) -> str:
    from mnemosyne.adapters.claude_transcripts import list_folders, write_fork

    return write_fork(list_folders(environ), point.session, point.message_id, point.calls)


def _fork_opencode(point: "ForkPoint", called: Invocation, environ: Mapping[str, str]) -> str:
    from mnemosyne.adapters.opencode_sessions import import_session, write_session

    session = write_session(point, called.words, called.folder, time.time_ns() // 1000)
    import_session(called.program, session, called.folder, environ)
    return str(session["info"]["id"])


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
        variables=_claude_variables,
        obstacles=_claude_obstacles,
        costs=_claude_costs,
        recorded_as="claude-code",
        forks=_fork_claude,
        resumes=lambda session, words: ["--resume", session, *words],
        has_hooks=True,
    ),
    Client(
        "opencode",
        ("opencode", "opencode-ai"),
        variables=_opencode_variables,
        dialects=("messages", "responses"),
        recorded_as="opencode",
        forks=_fork_opencode,
        resumes=lambda session, words: ["--session", session, *words],
    ),
    Client(
        "Codex",
        ("codex",),
        arguments=_codex_arguments,
        dialects=("responses",),
        asks_for_mode=False,
        recorded_as="codex",
        forks=_fork_codex,
        resumes=_resume_codex,
    ),
    Client(
        "aider",
        ("aider",),
        variables=_aider_variables,
        obstacles=_aider_obstacles,
        dialects=("messages", "chat"),
        asks_for_mode=False,
    ),
)
