"""Kinds of settings: parsers of text and TOML values. They raise ValueError with the reason."""

import ipaddress
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import attrs

from mnemosyne.upstreams import DIALECTS, OPENAI_DIALECTS, NamedUpstream, is_at_home

_SHA256 = re.compile(r"[0-9a-f]{64}")
_TENANT = re.compile(r"[^\s,=\x00-\x1f\x7f]{1,64}")
_UPSTREAM = re.compile(r"[a-z][a-z0-9-]{0,31}")
_UPSTREAM_MEMBERS = ("url", "dialects", "models", "tariff")
_WORDS = {"1": True, "true": True, "yes": True, "on": True, "0": False, "false": False, "no": False, "off": False}


@attrs.frozen
class Kind:
    """A kind of settings: ``parse`` turns text or a TOML value into the value. ``placeholder`` is for help."""

    placeholder: str
    parse: Callable[[object], Any]


@attrs.frozen
class TenantKey:
    """Assigns the requests with a credential, known by its SHA-256 in hexadecimal digits, to a tenant."""

    sha256: str
    tenant: str

    def __str__(self) -> str:
        return f"{self.sha256}={self.tenant}"


@attrs.frozen
class TenantQuota:
    """The maximum stored size of a tenant's sessions."""

    tenant: str
    stored_bytes: int

    def __str__(self) -> str:
        return f"{self.tenant}={self.stored_bytes}"


@attrs.frozen
class Shard:
    """A database for a part of the sessions."""

    dsn: str

    def __str__(self) -> str:
        return self.dsn


def is_loopback(host: str) -> bool:
    """Whether ``host`` (a name or an address) can only mean this machine."""
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def integer(placeholder: str, least: int, most: float, reason: str) -> Kind:
    """Whole numbers of this range; ``reason`` is the error for one outside of it."""

    def parse(value: object) -> int:
        # int() would also take 8_787 and the digits of every script.
        if isinstance(value, str) and re.fullmatch(r"[+-]?[0-9]{1,18}", value.strip()):
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int):
            raise ValueError("a whole number is needed")
        if not least <= value <= most:
            raise ValueError(reason)
        return value

    return Kind(placeholder, parse)


def positive(unit: str) -> Kind:
    return integer(unit, 1, float("inf"), "a whole number above 0 is needed")


def count(unit: str) -> Kind:
    return integer(unit, 0, float("inf"), "a whole number from 0 is needed")


def text(placeholder: str, pattern: str = ".*", reason: str = "") -> Kind:
    """Text that matches a regular expression; ``reason`` is the error for one that does not."""

    def parse(value: object) -> str:
        parsed = _parse_text(value)
        if not re.fullmatch(pattern, parsed, re.DOTALL):
            raise ValueError(reason)
        return parsed

    return Kind(placeholder, parse)


def one_of(*words: str, placeholder: str | None = None) -> Kind:
    """One of these words, in any case."""

    def parse(value: object) -> str:
        word = _parse_text(value).lower()
        if word not in words:
            raise ValueError(f"one of {', '.join(words)} is needed")
        return word

    return Kind(placeholder or "|".join(words), parse)


def some_of(*words: str) -> Kind:
    """A list of these words."""
    return _list_of("NAMES", one_of(*words).parse)


def _list_of(placeholder: str, parse: Callable[[object], str]) -> Kind:
    """A TOML list, or text with commas."""

    def parse_all(value: object) -> tuple[str, ...]:
        parts = value if isinstance(value, list | tuple) else _parse_text(value).split(",")
        return tuple(parse(part) for part in parts)

    return Kind(placeholder, parse_all)


def _table_of(placeholder: str, table: str, what: str, parse_row: Callable[[int, str, object], object]) -> Kind:
    """A TOML table, or text such as ``KEY=VALUE,KEY=VALUE``. Errors do not quote the text, because it may be a
    credential. ``table`` describes the table, ``what`` its key.
    """

    def parse(value: object) -> tuple[object, ...]:
        rows = dict(value) if isinstance(value, Mapping) else {}
        if isinstance(value, str):
            for row in filter(str.strip, value.split(",")):
                key, _, held = row.partition("=")
                if key.strip() in rows:
                    raise ValueError(f"{what} has two rows")
                rows[key.strip()] = held.strip()
        elif value != () and not isinstance(value, Mapping):
            raise ValueError(f"{placeholder} is needed, or {table}")
        return tuple(parse_row(number, str(key), held) for number, (key, held) in enumerate(rows.items(), 1))

    return Kind(placeholder, parse)


def _parse_text(value: object) -> str:
    if not isinstance(value, str) or not value.strip():
        raise ValueError("text is needed")
    return value.strip()


def _parse_shards(value: object) -> tuple[Shard, ...]:
    parts = value if isinstance(value, list | tuple) else _parse_text(value).split(";")
    return tuple(Shard(DSN.parse(part)) for part in parts)


def _parse_boolean(value: object) -> bool:
    if isinstance(value, bool):
        return value
    if not isinstance(value, str) or value.strip().lower() not in _WORDS:
        raise ValueError("true or false is needed")
    return _WORDS[value.strip().lower()]


def _parse_path(value: object) -> Path:
    path = str(value) if isinstance(value, Path) else _parse_text(value)
    if "\0" in path:
        raise ValueError("a path cannot hold a NUL character")
    try:
        return Path(path).expanduser()
    except RuntimeError:
        raise ValueError("there is no such home directory") from None


def _parse_host(value: object) -> str:
    host = _parse_text(value)
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    try:
        return str(ipaddress.ip_address(host))
    except ValueError:
        pass
    if not re.fullmatch(r"[A-Za-z0-9._-]+", host):
        raise ValueError("an address or a name is needed, without scheme and port")
    return host.lower()


def _parse_network(value: object) -> str:
    try:
        network = ipaddress.ip_network(_parse_text(value))
    except ValueError:
        raise ValueError("an address or a network is needed, as in 10.0.0.5 or 10.0.0.0/24") from None
    if not network.prefixlen:
        raise ValueError("a network of all addresses would trust every client")
    return str(network)


def _parse_collector(value: object) -> str:
    """A URL of any host, also without TLS, because no credential is sent there."""
    url = _parse_text(value).rstrip("/")
    if not re.fullmatch(r"https?://[A-Za-z0-9._\-\[\]:]+(/[A-Za-z0-9._~/-]*)?", url):
        raise ValueError("a URL like http://127.0.0.1:4318 is needed, without a user or a query")
    return url


def _parse_url(value: object) -> str:
    url = _parse_text(value).rstrip("/")
    wrong = ValueError("a URL like https://api.anthropic.com is needed")
    if not re.fullmatch(r"[!-~]+", url):
        raise wrong
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise wrong from None
    if parts.scheme not in ("http", "https") or not parts.hostname or port == 0:
        raise wrong
    if "@" in parts.netloc or "?" in url or "#" in url:
        raise ValueError("the URL may have only a scheme, host, port and path; credentials come from the client")
    if parts.scheme == "http" and not is_at_home(parts.hostname):
        raise ValueError("http is allowed for a private address only; use https, or credentials travel in the clear")
    return url


def _parse_model_at(value: object) -> str:
    model, at, rest = _parse_text(value).partition("@http")
    if not model:
        raise ValueError("MODEL or MODEL@URL is needed")
    return f"{model}@{_parse_url(f'http{rest}')}" if at else model


def _parse_dollars(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise ValueError("an amount in dollars is needed")
    if isinstance(value, str) and not re.fullmatch(r"[0-9]{1,6}(\.[0-9]{1,9})?", value.strip()):
        raise ValueError("an amount in dollars is needed, as in 0.50")
    if not 0 <= float(value) < 1_000_000:
        raise ValueError("an amount from 0 to 999999 is needed")
    return float(value)


def _parse_share(value: object) -> float:
    share = _parse_dollars(value)
    if share > 1:
        raise ValueError("a share from 0 to 1 is needed")
    return share


def _parse_price(value: object) -> tuple[float, float]:
    prices = _parse_text(value).split("/")
    if len(prices) != 2:
        raise ValueError("two prices are needed, as in 0.10/0.50")
    return _parse_dollars(prices[0]), _parse_dollars(prices[1])


def parse_tenant(value: object) -> str:
    """The name of a tenant in a row. Raises ValueError with the reason."""
    if not isinstance(value, str) or not _TENANT.fullmatch(value):
        raise ValueError("a tenant's name is 1 to 64 characters without spaces, commas and =")
    return value


def _parse_key(number: int, sha256: str, tenant: object) -> TenantKey:
    if not _SHA256.fullmatch(sha256):
        raise ValueError(
            f"row {number} has no SHA-256 of 64 hexadecimal digits in lower case; never put the credential itself "
            "there: `mnemosyne config tenant-key TENANT` prints the row"
        )
    try:
        return TenantKey(sha256, parse_tenant(tenant))
    except ValueError as reason:
        raise ValueError(f"row {number}: {reason}") from None


def _parse_quota(_number: int, tenant: str, size: object) -> TenantQuota:
    if size == "":
        raise ValueError("TENANT=BYTES is needed, as in team=1000000000")
    return TenantQuota(parse_tenant(tenant), positive("BYTES").parse(size))


def _parse_upstream(_number: int, name: str, value: object) -> NamedUpstream:
    if value == "":
        raise ValueError("NAME=URL is needed, as in openai=https://api.openai.com")
    if not _UPSTREAM.fullmatch(name):
        raise ValueError(f"{name!r} is not a valid name: use lower-case letters, digits and -")
    table: Mapping[str, Any] = value if isinstance(value, Mapping) else {"url": value}
    unknown = [member for member in table if member not in _UPSTREAM_MEMBERS]
    if unknown:
        raise ValueError(f"{name} has {', '.join(map(str, unknown))}; valid are {', '.join(_UPSTREAM_MEMBERS)}")
    if "url" not in table:
        raise ValueError(f"{name} has no url")
    for member in ("dialects", "models"):
        texts = table.get(member, ["*"])
        if not isinstance(texts, list) or not texts or not all(isinstance(entry, str) for entry in texts):
            raise ValueError(f"{name}.{member} must be a list of texts")
    dialects, models, tariff = table.get("dialects", OPENAI_DIALECTS), table.get("models", ["*"]), table.get("tariff")
    if wrong := [dialect for dialect in dialects if dialect not in DIALECTS]:
        raise ValueError(f"{name} has the dialects {', '.join(wrong)}; valid are {', '.join(DIALECTS)}")
    if not (tariff is None or isinstance(tariff, str)):
        raise ValueError(f"{name}.tariff must be the name of a tariff")
    return NamedUpstream(name, _parse_url(table["url"]), tuple(dialects), tuple(models), tariff)


HOST = Kind("HOST", _parse_host)
HOSTS = _list_of("NAMES", _parse_host)
NETWORKS = _list_of("NETWORKS", _parse_network)
PORT = integer("PORT", 0, 65535, "a port is a number from 0 (pick a free one) to 65535")
URL = Kind("URL", _parse_url)
MODEL_AT = Kind("MODEL", _parse_model_at)
COLLECTOR = Kind("URL", _parse_collector)
SWITCH = Kind("true|false", _parse_boolean)
DIR = Kind("DIR", _parse_path)
FILE = Kind("FILE", _parse_path)
WORDS = _list_of("WORDS", _parse_text)
DOLLARS = Kind("DOLLARS", _parse_dollars)
SHARE = Kind("SHARE", _parse_share)
PRICE = Kind("INPUT/OUTPUT", _parse_price)
VARIABLE = text(
    "VARIABLE", r"[A-Za-z_][A-Za-z0-9_]*", "the name of an environment variable is needed, not the key itself"
)
DSN = text(
    "DSN",
    r"(postgres(ql)?://|\w+\s*=).*",
    "postgresql://USER@HOST/DATABASE is needed, or the same as keywords: host=… dbname=…",
)
SHARDS = Kind("DSN;DSN", _parse_shards)
"""A TOML list, or text with semicolons, because a DSN may contain commas."""
UPSTREAMS = _table_of("NAME=URL", "a table [upstreams.NAME] with a url", "a name", _parse_upstream)
TENANT_KEYS = _table_of("SHA256=TENANT", "a table [tenant_keys] of such rows", "a credential", _parse_key)
TENANT_QUOTAS = _table_of("TENANT=BYTES", "a table [tenant_quotas] of such rows", "a tenant", _parse_quota)
