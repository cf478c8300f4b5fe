"""What the text or the TOML value of a setting means. Each function raises ValueError with the reason."""

import ipaddress
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from urllib.parse import urlsplit

import attrs

from mnemosyne.upstreams import NamedUpstream, is_at_home, parse_upstreams

HELPERS = ("extractive", "anthropic", "openai")

MODES = ("observe", "manage")

GROUNDINGS = ("free", "strict")

LOG_FORMATS = ("text", "json")

LOG_LEVELS = ("error", "warning", "info", "debug")


_SHA256 = re.compile(r"[0-9a-f]{64}")
_TENANT = re.compile(r"[^\s,=\x00-\x1f\x7f]{1,64}")


@attrs.frozen
class TenantKey:
    """Requests that show the credential with this ``sha256``, in hexadecimal digits, are the tenant's."""

    sha256: str
    tenant: str

    def __str__(self) -> str:
        return f"{self.sha256}={self.tenant}"


@attrs.frozen
class TenantQuota:
    """How many bytes a tenant's sessions may take up where they are stored."""

    tenant: str
    stored_bytes: int

    def __str__(self) -> str:
        return f"{self.tenant}={self.stored_bytes}"


def is_loopback(host: str) -> bool:
    """Whether ``host`` (a name or an address) can only mean this machine."""
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def parse_integer(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise ValueError("a whole number is needed")
    # int() would also take 8_787 and the digits of every script.
    if isinstance(value, str) and not re.fullmatch(r"[+-]?[0-9]{1,18}", value.strip()):
        raise ValueError("a whole number is needed")
    return int(value)


def parse_port(value: object) -> int:
    port = parse_integer(value)
    if not 0 <= port <= 65535:
        raise ValueError("a port is a number from 0 (pick a free one) to 65535")
    return port


def parse_positive(value: object) -> int:
    number = parse_integer(value)
    if number <= 0:
        raise ValueError("a whole number above 0 is needed")
    return number


def parse_count(value: object) -> int:
    number = parse_integer(value)
    if number < 0:
        raise ValueError("a whole number from 0 is needed")
    return number


def parse_text(value: object) -> str:
    if not isinstance(value, str) or not value.strip():
        raise ValueError("text is needed")
    return value.strip()


def parse_boolean(value: object) -> bool:
    if isinstance(value, bool):
        return value
    words = {"1": True, "true": True, "yes": True, "on": True, "0": False, "false": False, "no": False, "off": False}
    if not isinstance(value, str) or value.strip().lower() not in words:
        raise ValueError("true or false is needed")
    return words[value.strip().lower()]


def parse_path(value: object) -> Path:
    text = str(value) if isinstance(value, Path) else parse_text(value)
    if "\0" in text:
        raise ValueError("a path cannot hold a NUL character")
    try:
        return Path(text).expanduser()
    except RuntimeError:
        raise ValueError("there is no such home directory") from None


def parse_host(value: object) -> str:
    host = parse_text(value)
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    try:
        return str(ipaddress.ip_address(host))
    except ValueError:
        pass
    if not re.fullmatch(r"[A-Za-z0-9._-]+", host):
        raise ValueError("an address or a name is needed, without scheme and port")
    return host.lower()


def _parse_list(value: object, parse: Callable[[object], str]) -> tuple[str, ...]:
    """A TOML list, or text with commas."""
    listed = value if isinstance(value, list | tuple) else parse_text(value).split(",")
    return tuple(parse(each) for each in listed)


def parse_hosts(value: object) -> tuple[str, ...]:
    return _parse_list(value, parse_host)


def parse_origins(value: object) -> tuple[str, ...]:
    return _parse_list(value, parse_origin)


def parse_networks(value: object) -> tuple[str, ...]:
    return _parse_list(value, parse_network)


def parse_network(value: object) -> str:
    try:
        network = ipaddress.ip_network(parse_text(value))
    except ValueError:
        raise ValueError("an address or a network is needed, as in 10.0.0.5 or 10.0.0.0/24") from None
    if not network.prefixlen:
        raise ValueError("a network of all addresses has anybody believed")
    return str(network)


def parse_origin(value: object) -> str:
    origin = parse_text(value).rstrip("/")
    if not re.fullmatch(r"[a-z][a-z0-9+.-]*://[A-Za-z0-9.:\[\]_-]+", origin):
        raise ValueError("an origin is needed: scheme, host and port, as in https://chat.example.com")
    return origin


def parse_collector(value: object) -> str:
    """No credential goes there, so that it may be any host without TLS."""
    url = parse_text(value).rstrip("/")
    if not re.fullmatch(r"https?://[A-Za-z0-9._\-\[\]:]+(/[A-Za-z0-9._~/-]*)?", url):
        raise ValueError("a URL like http://127.0.0.1:4318 is needed, without a user or a query")
    return url


def parse_upstream(value: object) -> str:
    url = parse_text(value).rstrip("/")
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
        raise ValueError("only scheme, host, port and path may stand in the URL; credentials come from the client")
    if parts.scheme == "http" and not is_at_home(parts.hostname):
        raise ValueError("http is allowed for a private address only; use https, or credentials travel in the clear")
    return url


def parse_named_upstreams(value: object) -> tuple[NamedUpstream, ...]:
    return parse_upstreams(value, parse_upstream)


def parse_tenant_keys(value: object) -> tuple[TenantKey, ...]:
    """A table of SHA-256 and tenant, or text as in ``SHA256=red,SHA256=blue``. Raises ValueError with the reason, which
    quotes nothing: somebody may have written the credential itself.
    """
    if value == ():
        return ()
    if isinstance(value, str):
        value = _split_rows(value, "a credential")
    if not isinstance(value, Mapping):
        raise ValueError("SHA256=TENANT is needed, or a table [tenant_keys] of such rows")
    return tuple(_parse_row(number, *row) for number, row in enumerate(value.items(), 1))


def parse_tenant_quotas(value: object) -> tuple[TenantQuota, ...]:
    """A table of tenant and bytes, or text as in ``red=5000000000,blue=1000000000``. Raises ValueError with the
    reason.
    """
    if value == ():
        return ()
    if isinstance(value, str):
        value = _split_rows(value, "a tenant")
    if not isinstance(value, Mapping):
        raise ValueError("TENANT=BYTES is needed, or a table [tenant_quotas] of such rows")
    return tuple(TenantQuota(parse_tenant(tenant), parse_positive(size)) for tenant, size in value.items())


def parse_tenant(value: object) -> str:
    """The name of a tenant in such a row. Raises ValueError with the reason."""
    if not isinstance(value, str) or not _TENANT.fullmatch(value):
        raise ValueError("a tenant's name is 1 to 64 characters without spaces, commas and =")
    return value


def _split_rows(text: str, what: str) -> dict[str, str]:
    rows: dict[str, str] = {}
    for each in filter(str.strip, text.split(",")):
        key, _, value = each.partition("=")
        if key.strip() in rows:
            raise ValueError(f"{what} has two rows")
        rows[key.strip()] = value.strip()
    return rows


def _parse_row(number: int, digest: object, tenant: object) -> TenantKey:
    if not isinstance(digest, str) or not _SHA256.fullmatch(digest):
        raise ValueError(
            f"row {number} has no SHA-256 of 64 hexadecimal digits in lower case; a credential itself must not stand "
            "there, and `mnemosyne config tenant-key TENANT` prints the row for one"
        )
    try:
        return TenantKey(digest, parse_tenant(tenant))
    except ValueError as reason:
        raise ValueError(f"row {number}: {reason}") from None


def parse_dsn(value: object) -> str:
    dsn = parse_text(value)
    if not re.match(r"postgres(ql)?://", dsn) and not re.match(r"\w+\s*=", dsn):
        raise ValueError("postgresql://USER@HOST/DATABASE is needed, or the same as keywords: host=… dbname=…")
    return dsn


def parse_log_level(value: object) -> str:
    level = parse_text(value).lower()
    if level not in LOG_LEVELS:
        raise ValueError(f"one of {', '.join(LOG_LEVELS)} is needed")
    return level


def parse_log_format(value: object) -> str:
    form = parse_text(value).lower()
    if form not in LOG_FORMATS:
        raise ValueError(f"one of {', '.join(LOG_FORMATS)} is needed")
    return form


def parse_mode(value: object) -> str:
    mode = parse_text(value).lower()
    if mode not in MODES:
        raise ValueError(f"one of {', '.join(MODES)} is needed")
    return mode


def parse_grounding(value: object) -> str:
    grounding = parse_text(value).lower()
    if grounding not in GROUNDINGS:
        raise ValueError(f"one of {', '.join(GROUNDINGS)} is needed")
    return grounding


def parse_helper(value: object) -> str:
    helper = parse_text(value).lower()
    if helper not in HELPERS:
        raise ValueError(f"one of {', '.join(HELPERS)} is needed")
    return helper


def parse_variable(value: object) -> str:
    name = parse_text(value)
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
        raise ValueError("the name of an environment variable is needed, not the key itself")
    return name


def parse_dollars(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise ValueError("an amount in dollars is needed")
    if isinstance(value, str) and not re.fullmatch(r"[0-9]{1,6}(\.[0-9]{1,9})?", value.strip()):
        raise ValueError("an amount in dollars is needed, as in 0.50")
    if not 0 <= float(value) < 1_000_000:
        raise ValueError("an amount from 0 to 999999 is needed")
    return float(value)


def parse_share(value: object) -> float:
    share = parse_dollars(value)
    if share > 1:
        raise ValueError("a share from 0 to 1 is needed")
    return share


def parse_price(value: object) -> tuple[float, float]:
    prices = parse_text(value).split("/")
    if len(prices) != 2:
        raise ValueError("two prices are needed, as in 0.10/0.50")
    return parse_dollars(prices[0]), parse_dollars(prices[1])
