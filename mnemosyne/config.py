"""Every setting: its name, default, kind and meaning; and loading the values.

Command-line options override environment variables (``MNEMOSYNE_…``), which override the TOML file, which overrides the
defaults. ``mnemosyne config`` prints all of them.
"""

import difflib
import os
import re
import shlex
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import attrs

from mnemosyne import setting_values as values
from mnemosyne.errors import BadConfiguration, BadOption
from mnemosyne.regular_files import read_whole
from mnemosyne.setting_values import Kind, Shard, TenantKey, TenantQuota
from mnemosyne.upstreams import NamedUpstream

CONFIG_VARIABLE = "MNEMOSYNE_CONFIG"
OPTIONS_VARIABLE = "MNEMOSYNE_OPTIONS"
"""Set for a child process: the names of settings that were options of its parent, and are variables here."""
FILE_NAME = "config.toml"
LARGEST_FILE = 1 << 20
"""Maximum bytes of the configuration file."""
MODELS_NAME = "models.toml"

HELPER_MODEL = "claude-haiku-5-5"
HELPERS = ("extractive", "anthropic", "openai", "client")
MODES = ("observe", "manage")
GROUNDINGS = ("free", "cited", "strict")
RESTORES = ("both", "referenced", "model", "proxy")
POLICIES = ("economic", "zones")
FIDELITIES = ("graded", "thrifty")
LOG_FORMATS = ("text", "json")
LOG_LEVELS = ("error", "warning", "info", "debug")

MOST_PROCESSES, MOST_EMBEDDED = 64, 8
"""Maximum numbers of server processes: with any database, and with the embedded one, which accepts 50 connections."""

BUDGETS = ("session_budget_dollars", "day_budget_dollars", "session_hard_limit_dollars")
"""The settings that limit cost."""

OPENAI = NamedUpstream(
    "openai", "https://api.openai.com", models=("gpt-*", "ft:*", "chatgpt-*", "codex-*", "computer-use-*", "o[1-9]*")
)
"""Only OpenAI's own models: a request for Anthropic's models in another dialect has a key that OpenAI must not see."""

REMOVED_SETTINGS: Mapping[str, str | None] = {"memory_learning": None, "allowed_origins": None}
"""Settings of earlier versions: each with its successor, or None if it is no longer needed. A file that names one gets
a warning, and the value has no effect.
"""

_SECRETS = (
    (re.compile(r"(https?://)[^/\s]*@"), r"\1***@"),
    (re.compile(r"(://[^:@/\s]*:)\S{0,2048}@"), r"\1***@"),
    (re.compile(r"(password\s*=\s*)('[^']*'|[^\s&]+)", re.IGNORECASE), r"\1***"),
)
"""Passwords in a URL or a DSN, and their replacement."""


def list_settings(config: "Config") -> dict[str, str]:
    """The settings that a server reports to holders of its token. A password in the DSN is masked."""
    shown = {setting.name: render(getattr(config, setting.name)) for setting in SETTINGS}
    dsns = {"dsn": "embedded" if config.dsn is None else plain(config.dsn), "shards": plain(config.shards)}
    return {**shown, **dsns}


def databases_of(config: "Config") -> tuple[str, ...]:
    """The DSNs of all shards, in order; none for the embedded database."""
    return () if config.dsn is None else (config.dsn, *map(str, config.shards))


def upstreams_of(config: "Config") -> tuple[NamedUpstream, ...]:
    """The additional providers; the default is OpenAI if the upstream is Anthropic's own API."""
    is_anthropic = (urlsplit(config.upstream).hostname or "").endswith("anthropic.com")
    return config.upstreams or ((OPENAI,) if is_anthropic else ())


def models_path(config: "Config") -> Path | None:
    """The user's models file: the configured one, else the one in the data directory, else None."""
    file = config.data_dir / MODELS_NAME
    return config.models_file or (file if file.is_file() else None)


@attrs.frozen
class Setting:
    """A setting: a field of ``Config``."""

    name: str
    default: object
    meaning: str
    kind: Kind
    unset: str = ""
    """Describes the default if it is None or an empty list."""
    is_masked: bool = False
    """Whether an invalid value is masked in messages, because it may be a credential."""

    @property
    def variable(self) -> str:
        return f"MNEMOSYNE_{self.name.upper()}"

    @property
    def option(self) -> str:
        return f"--{self.name.replace('_', '-')}"

    def show(self, value: object) -> str:
        """An invalid value, for a message."""
        return "***" if self.is_masked else mask(repr(value))

    @property
    def is_switch(self) -> bool:
        return isinstance(self.default, bool)

    @property
    def default_text(self) -> str:
        """The default, for people."""
        return self.text(self.default)

    def text(self, value: object) -> str:
        """A valid value, for people."""
        return self.unset if value in (None, ()) else plain(value)


def setting(default: object, kind: Kind, meaning: str, *, unset: str = "", is_masked: bool = False) -> Any:
    """A field of ``Config`` that is a ``Setting``."""
    return attrs.field(metadata={"setting": (default, meaning, kind, unset, is_masked)})


@attrs.frozen(kw_only=True)
class Config:
    """The effective settings. ``sources`` has the source of each value; ``file`` is the file that was read; ``warning``
    names the removed settings in it.
    """

    host: str = setting("127.0.0.1", values.HOST, "Address to listen on.")
    port: int = setting(8787, values.PORT, "Port to listen on; 0 picks a free one.")
    processes: int = setting(
        1,
        values.integer("NUMBER", 1, MOST_PROCESSES, f"a number from 1 to {MOST_PROCESSES} is needed"),
        "Number of server processes, each for one core; they share the address, the database and one worker.",
    )
    upstream: str = setting(
        "https://api.anthropic.com", values.URL, "The provider for requests that no other upstream takes."
    )
    upstreams: tuple[NamedUpstream, ...] = setting(
        (),
        values.UPSTREAMS,
        "Further providers by name, by default for OpenAI's dialects; see docs/clients.md.",
        unset="none; with Anthropic's own API, openai=https://api.openai.com for OpenAI's models",
    )
    data_dir: Path = setting(
        None,
        values.DIR,
        "Directory of the database, the token and the server's log.",
        unset="~/.local/share/mnemosyne; for root /var/lib/mnemosyne",
    )
    dsn: str | None = setting(
        None,
        values.DSN,
        "A PostgreSQL (16 or newer, with pgvector) to use instead of the embedded one.",
        unset="the embedded one",
    )
    shards: tuple[Shard, ...] = setting(
        (),
        values.SHARDS,
        "More databases for sessions; `dsn` is the first. Keep their order; append new ones.",
        unset="none",
        is_masked=True,
    )
    tenant: str = setting(
        "local", values.text("NAME"), "Owner of the sessions; tenants cannot see each other's sessions."
    )
    tenant_keys: tuple[TenantKey, ...] = setting(
        (),
        values.TENANT_KEYS,
        "Other tenants by the SHA-256 of their credentials. A request with none of these belongs to `tenant`.",
        unset="none",
        is_masked=True,
    )
    tenant_proxies: tuple[str, ...] = setting(
        (),
        values.NETWORKS,
        "Addresses or networks of proxies that are trusted to name a request's tenant in the header x-mnemosyne-"
        "tenant.",
        unset="none",
    )
    mode: str = setting(
        "observe",
        values.one_of(*MODES),
        "Mode of new conversations: observe records them; manage adds memory tools and compacts the context when "
        "that saves money.",
    )
    manage_window: int | None = setting(
        None,
        values.integer("TOKENS", 2_000, float("inf"), "at least 2,000 are needed, for the memory tools and an answer"),
        "Hard limit on the prompt tokens of a managed conversation. Default: compact around 160,000 tokens when "
        "that saves money, or where the client would compact.",
        unset="by the model and its client",
    )
    manage_small: bool = setting(
        True,
        values.SWITCH,
        "Manage small conversations from their first request on. Below about 15,000 tokens the memory tools cost "
        "more than 2 % of the prompt; with false, such a conversation is observed until they cost less.",
    )
    policy: str = setting(
        "economic",
        values.text(
            "NAME",
            rf"{'|'.join(POLICIES)}|[\w.]+:\w+",
            f"one of {', '.join(POLICIES)}, or MODULE:NAME, is needed",
        ),
        "When to compact, and what: economic when it pays, zones by how full the window is, or a planner of your own, "
        "which only the settings file may name (docs/internals/policies.md).",
    )
    fidelity: str = setting(
        "graded",
        values.one_of(*FIDELITIES),
        "How far a compaction takes an object that is due: graded one step (detailed, short, one line, gone), thrifty "
        "at once to what costs least.",
    )
    restores: str = setting(
        "both",
        values.one_of(*RESTORES),
        "How evicted content is restored: model, by the model's calls; proxy, when the client refers to it or a helper "
        "predicts its use; both; referenced, both without predictions.",
    )
    header_choices: tuple[str, ...] | None = setting(
        None,
        values.some_of(*POLICIES, *FIDELITIES),
        "What the headers x-mnemosyne-policy and x-mnemosyne-fidelity of a request may choose.",
        unset="the server's own and cheaper ones",
    )
    manage_tool_budget: int | None = setting(
        None,
        values.count("TOKENS"),
        "Experimental: token budget for the client's tool definitions in a managed conversation. Beyond it, the "
        "largest are shortened to a name and one line, and the model can request the rest.",
        unset="no limit",
    )
    memory_tokens: int = setting(
        600,
        values.count("TOKENS"),
        "Maximum tokens of saved facts at the start of a managed conversation; 0 for none.",
    )
    remember_words: tuple[str, ...] = setting(
        ("remember",),
        values.WORDS,
        "Words in any language. A prompt that begins with one saves the rest of its line.",
    )
    grounding: str = setting(
        "free",
        values.one_of(*GROUNDINGS),
        "Use of what left the context: free gives no instructions; cited asks the model to name the id of each record "
        "it relies on; strict asks it also to say nothing else of it.",
    )
    tell_repeats: bool = setting(
        False,
        values.SWITCH,
        "In a managed conversation, add one line when the model repeats a call with the same answer; Messages API "
        "only.",
    )
    allow_remote: bool = setting(False, values.SWITCH, "Allow listening on an address that other machines can reach.")
    allow_plain_http: bool = setting(
        False,
        values.SWITCH,
        "Allow http to a provider in the private network; prompts and credentials are then unencrypted.",
    )
    allowed_hosts: tuple[str, ...] = setting(
        (),
        values.HOSTS,
        "Additional host names of this server. Addresses, localhost, and the machine's name on a remote address "
        "are always allowed; other names could come from a web page.",
        unset="none",
    )
    max_body_bytes: int = setting(
        512 * 1024 * 1024, values.positive("BYTES"), "Largest request body that is forwarded, in bytes."
    )
    tariff: str | None = setting(
        None,
        values.text("NAME"),
        "Price list to use: api, subscription, openai, openai-before-5.6, local, or one from your models file.",
        unset="by each request's credential, model and upstream",
    )
    models_file: Path | None = setting(
        None,
        values.FILE,
        "TOML file that adds models and prices or changes shipped ones.",
        unset="models.toml in the data directory, if there is one",
    )
    ca_bundle: Path | None = setting(
        None,
        values.FILE,
        "PEM file of certificate authorities to trust for the upstream.",
        unset="the system's",
    )
    drain_seconds: int = setting(300, values.positive("SECONDS"), "Time limit for running replies after SIGTERM.")
    stall_seconds: int = setting(
        20, values.positive("SECONDS"), "Time limit for a client that reads nothing during shutdown."
    )
    patience: int = setting(
        1,
        values.positive("TIMES"),
        "Factor for the time a request waits for a slow database or a busy machine before it continues without.",
    )
    log_level: str = setting(
        "info",
        values.one_of(*LOG_LEVELS, placeholder="LEVEL"),
        f"Level of the server's log: {', '.join(LOG_LEVELS)}.",
    )
    log_format: str = setting(
        "text",
        values.one_of(*LOG_FORMATS),
        "Format of the log: text, or json objects with time, level, session, turn and tokens.",
    )
    log_file: Path | None = setting(
        None,
        values.FILE,
        "Log file, readable by its owner only; when it is moved, the next line starts a new file.",
        unset="stderr",
    )
    otlp_endpoint: str | None = setting(
        None,
        values.COLLECTOR,
        "OpenTelemetry collector for spans of turns, rounds and appends over HTTP, for example http://127.0.0.1:4318.",
        unset="none",
    )
    retain_days: int | None = setting(
        None,
        values.positive("DAYS"),
        "Forget sessions that were inactive for this many days: `serve` daily, `mnemosyne retain` at once.",
        unset="never",
    )
    retain_bytes: int | None = setting(
        None,
        values.positive("BYTES"),
        "Forget the oldest sessions beyond this many stored bytes: `serve` daily, `mnemosyne retain` at once.",
        unset="no limit",
    )
    tenant_quotas: tuple[TenantQuota, ...] = setting(
        (),
        values.TENANT_QUOTAS,
        "Forget the oldest sessions of other tenants than `tenant` beyond this many stored bytes: `serve` daily, "
        "`mnemosyne retain` at once.",
        unset="none",
    )
    session_budget_dollars: float | None = setting(
        None,
        values.DOLLARS,
        "Cost of a session from which no prompt is sent; its page, the status line and `run` warn from 80 % on. "
        "Running work of an agent goes on.",
        unset="no limit",
    )
    day_budget_dollars: float | None = setting(
        None, values.DOLLARS, "The same for all sessions of a UTC day, in all servers of a database.", unset="no limit"
    )
    session_hard_limit_dollars: float | None = setting(
        None,
        values.DOLLARS,
        "Cost of a session from which no request is sent, even between two calls of tools.",
        unset="no limit",
    )
    semantic_search: bool = setting(
        True,
        values.SWITCH,
        "Search by meaning as well as by words. If the extra `embedding` is installed, the model is downloaded once "
        "(91 MB) and runs on this machine.",
    )
    helper: str = setting(
        "extractive",
        values.one_of(*HELPERS, placeholder="NAME"),
        f"Helper model for summaries, answers and other tasks: {', '.join(HELPERS)}. The first uses no model, the "
        "others send content to one; `client` uses the API key of the client's requests, never the token of a login.",
    )
    helper_model: str | None = setting(
        None,
        values.text("MODEL"),
        "The helper's model.",
        unset=f"{HELPER_MODEL} for anthropic, the cheapest of the same provider for client",
    )
    helper_url: str | None = setting(
        None,
        values.URL,
        "The helper's address; for openai including /v1, for example http://127.0.0.1:11434/v1.",
        unset="the upstream for anthropic",
    )
    helper_key_variable: str | None = setting(
        None,
        values.VARIABLE,
        "Environment variable with the helper's key.",
        unset="ANTHROPIC_API_KEY for anthropic, no key for openai",
    )
    helper_price: tuple[float, float] | None = setting(
        None,
        values.PRICE,
        "The helper's price in dollars per million tokens, input/output.",
        unset="the list price; 0/0 at a loopback address",
    )
    helper_fallback: str | None = setting(
        None,
        values.MODEL_AT,
        "The model to ask if the helper gives no accepted answer: an Anthropic model with ANTHROPIC_API_KEY, or "
        "MODEL@URL of a server on this machine, for example qwen3:4b@http://127.0.0.1:11434/v1.",
        unset="none",
    )
    helper_budget_dollars_per_day: float = setting(0.5, values.DOLLARS, "Maximum cost of the helper for each UTC day.")
    helper_budget_share: float = setting(
        0.02, values.SHARE, "Maximum cost of the helper, as a share of the cost of that day's turns."
    )

    sources: Mapping[str, str] = attrs.field(factory=dict, eq=False)
    file: Path | None = attrs.field(default=None, eq=False)
    warning: str | None = attrs.field(default=None, eq=False)


SETTINGS = tuple(
    Setting(field.name, *field.metadata["setting"]) for field in attrs.fields(Config) if "setting" in field.metadata
)


def render(value: object) -> str:
    """A value as users type it; ``Kind.parse`` reads it."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple):
        if any(isinstance(item, Shard) for item in value):
            return "; ".join(map(str, value))  # with a space, so that passwords are masked one by one
        rows = str | NamedUpstream | TenantKey | TenantQuota
        return ("," if all(isinstance(item, rows) for item in value) else "/").join(map(str, value))
    return str(value)


def plain(value: object) -> str:
    """A value as users type it, with passwords masked."""
    return mask(render(value))


def mask(text: str) -> str:
    """Mask the passwords of URLs and DSNs in a text."""
    for secret, shown in _SECRETS:
        text = secret.sub(shown, text)
    return text


def load(options: Mapping[str, object], environ: Mapping[str, str], *, config_file: Path | None = None) -> Config:
    """Load the settings from options (None: not given), environment and TOML file.

    The file is ``config_file``, else ``MNEMOSYNE_CONFIG``, else ``config.toml`` in the data directory if it exists. An
    empty variable counts as not set; a relative path in the file is resolved against the file's directory. Raises
    BadConfiguration with the setting, its source and the reason.
    """
    file, must_exist = find_file(options, environ, config_file)
    text = _read(file, must_exist=must_exist)
    return load_text(text, file, options, environ)


def load_text(text: str | None, file: Path, options: Mapping[str, object], environ: Mapping[str, str]) -> Config:
    """Like ``load``, with this text of ``file``; None if there is no file."""
    table = None if text is None else parse_file(text, file)
    values: dict[str, Any] = {}
    sources: dict[str, str] = {}
    for setting in SETTINGS:
        value, source = _find(setting, options, environ, table or {}, file)
        base = file.parent if source.startswith("file") else Path.cwd()
        values[setting.name] = None if value is None else _parse(setting, value, source, base)
        sources[setting.name] = source
    if values["data_dir"] is None:
        values["data_dir"] = Path(default_data_dir(environ))
    warning = _removal_warning(table or {}, file)
    config = Config(**values, sources=sources, file=None if table is None else file, warning=warning)
    _check(config)
    return config


def default_data_dir(environ: Mapping[str, str]) -> str:
    """The default data directory: the system's location for root, the XDG location for other users."""
    if os.geteuid() == 0:
        return "/var/lib/mnemosyne"
    base = environ.get("XDG_DATA_HOME", "")
    if not os.path.isabs(base):  # "All paths set in these environment variables must be absolute" (XDG, basics)
        base = os.path.join(environ.get("HOME") or os.path.expanduser("~"), ".local/share")
    return os.path.join(os.path.abspath(base), "mnemosyne")


def find_file(options: Mapping[str, object], environ: Mapping[str, str], given: Path | None) -> tuple[Path, bool]:
    """The configuration file, and whether the user named it. Raises BadConfiguration."""
    named = given or environ.get(CONFIG_VARIABLE)
    if named:
        return Path(named).expanduser().absolute(), True
    setting = next(setting for setting in SETTINGS if setting.name == "data_dir")
    value, source = _find(setting, options, environ, {}, Path())
    directory = Path(default_data_dir(environ)) if value is None else _parse(setting, value, source, Path.cwd())
    assert isinstance(directory, Path)
    return directory / FILE_NAME, False


def _read(file: Path, *, must_exist: bool) -> str | None:
    """The file's text; None if it does not exist and need not."""
    try:
        return read_whole(file, LARGEST_FILE).decode("utf-8")
    except (FileNotFoundError, NotADirectoryError):
        if must_exist:
            raise BadConfiguration(f"The configuration file {file} does not exist.") from None
        return None
    except OSError as error:
        raise BadConfiguration(
            f"The configuration file {file} cannot be read: {error.strerror or error}. "
            "Make it readable, or name another with --config."
        ) from None
    except UnicodeDecodeError:
        raise BadConfiguration(f"The configuration file {file} is not UTF-8 text.") from None


def parse_file(text: str, file: Path) -> Mapping[str, object]:
    """Parse the text of a file. Raises BadConfiguration for invalid TOML and for unknown settings."""
    try:
        table = tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise BadConfiguration(f"The configuration file {file} is not TOML: {error}.") from None
    _refuse_unknown(table, file)
    return table


def _refuse_unknown(table: Mapping[str, object], file: Path) -> None:
    names = [setting.name for setting in SETTINGS]
    unknown = sorted(set(table) - set(names) - set(REMOVED_SETTINGS))
    if not unknown:
        return
    near = [close[0] for name in unknown if (close := difflib.get_close_matches(name.replace("-", "_"), names, 1))]
    hint = f"Did you mean {', '.join(near)}? " if near else ""
    raise BadConfiguration(
        f"The configuration file {file} has unknown settings: {', '.join(unknown)}. {hint}`mnemosyne config` lists all."
    )


def _removal_warning(table: Mapping[str, object], file: Path) -> str | None:
    removed = [f"{name} ({explain_removal(name)})" for name in REMOVED_SETTINGS if name in table]
    return f"{file} names removed settings: {', '.join(removed)}. They have no effect." if removed else None


def explain_removal(name: str) -> str | None:
    """The advice for a removed setting; None if ``name`` is not one."""
    if name not in REMOVED_SETTINGS:
        return None
    successor = REMOVED_SETTINGS[name]
    return "no longer needed" if successor is None else f"use {successor} instead"


def _find(
    setting: Setting,
    options: Mapping[str, object],
    environ: Mapping[str, str],
    table: Mapping[str, object],
    file: Path,
) -> tuple[object, str]:
    if options.get(setting.name) is not None:
        return options[setting.name], f"option {setting.option}"
    if environ.get(setting.variable):
        is_option = setting.name in environ.get(OPTIONS_VARIABLE, "").split(",")
        source = f"option {setting.option}" if is_option else f"environment {setting.variable}"
        return environ[setting.variable], source
    if setting.name in table:
        return table[setting.name], f"file {file}"
    return setting.default, "default"


def _parse(setting: Setting, given: object, source: str, base: Path) -> object:
    try:
        value = setting.kind.parse(given)
    except ValueError as reason:
        kind = BadOption if source == f"option {setting.option}" else BadConfiguration
        raise kind(f"{setting.name} = {setting.show(given)} ({source}): {reason}.") from None
    return base.absolute() / value if isinstance(value, Path) else value


def check_reach(host: str, *, allow_remote: bool) -> None:
    """Raise BadConfiguration if other machines can reach this address, and that is not allowed."""
    if not values.is_loopback(host) and not allow_remote:
        raise BadConfiguration(
            f"host = {host!r} can be reached from other machines, which could then use this proxy. "
            "Listen on 127.0.0.1, or set allow_remote = true to allow it."
        )


def _check(config: Config) -> None:
    """Check the rules that concern several settings."""
    check_reach(config.host, allow_remote=config.allow_remote)
    further = ((f"upstreams.{upstream.name}", upstream.url) for upstream in config.upstreams)
    for name, url in (("upstream", config.upstream), *further):
        _check_plain_http(config, name, url)
        target = urlsplit(url)
        if values.is_loopback(target.hostname or "") and target.port == config.port:
            raise BadConfiguration(
                f"{name} = {url} is the proxy's own address: requests would loop. "
                "Name the provider, or choose another --port."
            )
    if ":" in config.policy and not config.sources["policy"].startswith("file"):
        raise BadConfiguration(
            f"policy = {config.policy} ({config.sources['policy']}): only the settings file may name a module, because "
            "the server runs its code. `mnemosyne config set policy MODULE:NAME` writes it there."
        )
    if config.shards and config.dsn is None:
        raise BadConfiguration("shards: the embedded database cannot be the first of several. Set dsn too.")
    if config.dsn is None and config.processes > MOST_EMBEDDED:
        raise BadConfiguration(
            f"processes = {config.processes}: the embedded database takes {MOST_EMBEDDED} at most. Set dsn for more."
        )
    _check_helper(config)
    if config.ca_bundle is not None:
        _check_readable(config.ca_bundle)


def _check_plain_http(config: Config, name: str, url: str) -> None:
    parts = urlsplit(url)
    if parts.scheme == "http" and not values.is_loopback(parts.hostname or "") and not config.allow_plain_http:
        raise BadConfiguration(
            f"{name} = {url} is plain http to another machine: prompts and credentials would be sent unencrypted. "
            "Use https, or set allow_plain_http = true if you trust the network."
        )


def _check_helper(config: Config) -> None:
    _check_plain_http(config, "helper_url", config.helper_url or "")
    fallback = config.helper_fallback or ""
    own, second = urlsplit(config.helper_url or ""), urlsplit(read_fallback(fallback)[1])
    for name, value, url in (("helper_url", config.helper_url, own), ("helper_fallback", fallback, second)):
        if values.is_loopback(url.hostname or "") and url.port == config.port:
            raise BadConfiguration(
                f"{name} = {value} is the proxy's own address: calls to the helper "
                "would be recorded as a session. Name the model's own endpoint."
            )
    if fallback and config.helper == "extractive":
        raise BadConfiguration(f"helper_fallback = {fallback} needs a helper that is asked first: set helper.")
    if second.geturl() and not values.is_loopback(second.hostname or ""):
        raise BadConfiguration(f"helper_fallback = {fallback}: its server must be at a loopback address.")
    unused = [name for name in ("helper_url", "helper_key_variable") if getattr(config, name) is not None]
    if config.helper == "client" and unused:
        raise BadConfiguration(
            f"helper = client sends a client's key to that client's own provider only: remove {' and '.join(unused)}."
        )
    if config.helper != "openai":
        return
    missing = [name for name in ("helper_url", "helper_model") if getattr(config, name) is None]
    if missing:
        raise BadConfiguration(f"helper = openai also needs {' and '.join(missing)}: set them together.")


def read_fallback(value: str) -> tuple[str, str]:
    """The model and the address of ``helper_fallback``; the address is empty for an Anthropic model."""
    model, at, rest = value.partition("@http")
    return model, f"http{rest}" if at else ""


def _check_readable(ca_bundle: Path) -> None:
    try:
        with ca_bundle.open("rb"):
            pass
    except OSError as error:
        raise BadConfiguration(f"ca_bundle = {ca_bundle} cannot be read: {error.strerror or error}.") from None


def repeat_options(config: Config) -> str:
    """The given options that locate the log, for the next command. ``dsn`` is left out: it may hold a password."""
    given = {"data-dir": config.data_dir.absolute(), "tenant": config.tenant}
    chosen = {name: value for name, value in given.items() if config.sources[name.replace("-", "_")][:6] == "option"}
    return "".join(f" --{name} {shlex.quote(str(value))}" for name, value in chosen.items())
