"""Every setting, as data: its name, default, meaning, and where a value may come from.

A value is looked for on the command line, then in the environment (``MNEMOSYNE_…``), then in the TOML file, then the
default holds. ``mnemosyne config`` prints this table with the source of each value.
"""

import ipaddress
import os
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import attrs

from mnemosyne.errors import BadConfiguration


def _port(value: object) -> int:
    port = _integer(value)
    if not 0 <= port <= 65535:
        raise ValueError("a port is a number from 0 (pick a free one) to 65535")
    return port


def _integer(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise ValueError("a whole number is needed")
    return int(value)


def _positive(value: object) -> int:
    number = _integer(value)
    if number <= 0:
        raise ValueError("a whole number above 0 is needed")
    return number


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError("text is needed")
    return value


def _boolean(value: object) -> bool:
    if isinstance(value, bool):
        return value
    words = {"1": True, "true": True, "yes": True, "on": True, "0": False, "false": False, "no": False, "off": False}
    if not isinstance(value, str) or value.lower() not in words:
        raise ValueError("true or false is needed")
    return words[value.lower()]


def _path(value: object) -> Path:
    return Path(_text(value)).expanduser()


def _upstream(value: object) -> str:
    url = _text(value).rstrip("/")
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError("a URL like https://api.anthropic.com is needed")
    if parts.username or parts.password or parts.query or parts.fragment:
        raise ValueError("only scheme, host, port and path may stand in the URL; credentials come from the client")
    if parts.scheme == "http" and not is_loopback(parts.hostname):
        raise ValueError("http is allowed for loopback only; use https, or credentials would travel in the clear")
    return url


def is_loopback(host: str) -> bool:
    """Whether ``host`` (a name or an address) can only mean this machine."""
    if host in ("localhost", ""):
        return host == "localhost"
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def default_data_dir(environ: Mapping[str, str]) -> Path:
    """Where state lives when nobody says otherwise: the system's place for root, the XDG one for people."""
    if os.geteuid() == 0:
        return Path("/var/lib/mnemosyne")
    base = environ.get("XDG_DATA_HOME") or str(Path(environ.get("HOME", "~")).expanduser() / ".local/share")
    return Path(base) / "mnemosyne"


@attrs.frozen
class Setting:
    """One setting: ``parse`` turns text or a TOML value into the value, raising ValueError with the reason."""

    name: str
    default: object
    meaning: str
    parse: Callable[[object], object]

    @property
    def variable(self) -> str:
        return f"MNEMOSYNE_{self.name.upper()}"

    @property
    def option(self) -> str:
        return f"--{self.name.replace('_', '-')}"


SETTINGS: tuple[Setting, ...] = (
    Setting("host", "127.0.0.1", "Address to listen on.", _text),
    Setting("port", 8787, "Port to listen on; 0 picks a free one.", _port),
    Setting("upstream", "https://api.anthropic.com", "The provider: where requests go, and nowhere else.", _upstream),
    Setting("data_dir", None, "Where the database, the token and the log of the server live.", _path),
    Setting("dsn", None, "A PostgreSQL (16 or newer, with pgvector) to use instead of the embedded one.", _text),
    Setting("tenant", "local", "Whose sessions these are; sessions of different tenants never meet.", _text),
    Setting("allow_remote", False, "Allow listening on an address that other machines can reach.", _boolean),
    Setting("max_body_bytes", 512 * 1024 * 1024, "Largest request body that is forwarded, in bytes.", _positive),
    Setting("ca_bundle", None, "A PEM file of certificate authorities to trust for the upstream.", _path),
    Setting("drain_seconds", 300, "How long running replies may take after SIGTERM before they are cut.", _positive),
    Setting("stall_seconds", 20, "How long a client may read nothing during shutdown before it is cut.", _positive),
    Setting("log_level", "info", "How much the server says on stderr: error, warning, info or debug.", _text),
)


@attrs.frozen(kw_only=True)
class Config:
    """The settings in force. ``sources`` says where each value came from."""

    host: str
    port: int
    upstream: str
    data_dir: Path
    dsn: str | None
    tenant: str
    allow_remote: bool
    max_body_bytes: int
    ca_bundle: Path | None
    drain_seconds: int
    stall_seconds: int
    log_level: str
    sources: Mapping[str, str] = attrs.field(factory=dict, eq=False)


def load(options: Mapping[str, object], environ: Mapping[str, str], *, config_file: Path | None = None) -> Config:
    """Put the settings together from options (None: not given), environment and TOML file.

    ``config_file`` None means ``MNEMOSYNE_CONFIG``, else ``config.toml`` in the data directory if there is one.
    Raises BadConfiguration naming the setting, where it was found and what would do.
    """
    named = config_file or (Path(environ["MNEMOSYNE_CONFIG"]) if environ.get("MNEMOSYNE_CONFIG") else None)
    file = named or _data_dir_without_file(options, environ) / "config.toml"
    table = _read_toml(file, must_exist=named is not None)
    values: dict[str, Any] = {}
    sources: dict[str, str] = {}
    for setting in SETTINGS:
        found, source = _find(setting, options, environ, table, file)
        try:
            values[setting.name] = None if found is None else setting.parse(found)
        except ValueError as reason:
            raise BadConfiguration(f"{setting.name} = {found!r} ({source}): {reason}.") from None
        sources[setting.name] = source
    if values["data_dir"] is None:
        values["data_dir"] = default_data_dir(environ)
    config = Config(**values, sources=sources)
    _check(config)
    return config


def _data_dir_without_file(options: Mapping[str, object], environ: Mapping[str, str]) -> Path:
    given = options.get("data_dir") or environ.get("MNEMOSYNE_DATA_DIR")
    return _path(str(given)) if given else default_data_dir(environ)


def _read_toml(file: Path, *, must_exist: bool) -> Mapping[str, object]:
    try:
        table = tomllib.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        if must_exist:
            raise BadConfiguration(f"The configuration file {file} does not exist.") from None
        return {}
    except (OSError, UnicodeDecodeError) as error:
        if not must_exist and isinstance(error, PermissionError | NotADirectoryError):
            return {}
        raise BadConfiguration(f"The configuration file {file} cannot be read: {error}.") from None
    except tomllib.TOMLDecodeError as error:
        raise BadConfiguration(f"The configuration file {file} is not TOML: {error}.") from None
    unknown = sorted(set(table) - {setting.name for setting in SETTINGS})
    if unknown:
        raise BadConfiguration(
            f"The configuration file {file} has unknown settings: {', '.join(unknown)}. `mnemosyne config` lists all."
        )
    return table


def _find(
    setting: Setting,
    options: Mapping[str, object],
    environ: Mapping[str, str],
    table: Mapping[str, object],
    file: Path,
) -> tuple[object, str]:
    if options.get(setting.name) is not None:
        return options[setting.name], f"option {setting.option}"
    if setting.variable in environ:
        return environ[setting.variable], f"environment {setting.variable}"
    if setting.name in table:
        return table[setting.name], f"file {file}"
    return setting.default, "default"


def _check(config: Config) -> None:
    if not is_loopback(config.host) and not config.allow_remote:
        raise BadConfiguration(
            f"host = {config.host!r} can be reached from other machines, and everything that goes through would be "
            "open to them. Listen on 127.0.0.1, or set allow_remote = true if you mean it."
        )
    if config.log_level not in ("error", "warning", "info", "debug"):
        raise BadConfiguration(f"log_level = {config.log_level!r}: one of error, warning, info, debug is needed.")
    if config.ca_bundle is not None and not config.ca_bundle.is_file():
        raise BadConfiguration(f"ca_bundle = {config.ca_bundle}: there is no such file.")
