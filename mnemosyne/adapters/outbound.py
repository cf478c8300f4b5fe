"""The proxy and certificate authorities of outgoing connections, from the environment.

An unusable variable is reported and ignored, so that a mistake in a shell profile does not stop the server.
"""

import ipaddress
import os
import ssl
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import getproxies

import attrs
import httpx2

from mnemosyne.errors import BadConfiguration
from mnemosyne.setting_values import is_loopback

PROXY_SCHEMES = ("http", "https")

REPLACING = ("SSL_CERT_FILE", "SSL_CERT_DIR")
"""OpenSSL's variables for authorities instead of the system's; the first one counts."""

ADDING = ("REQUESTS_CA_BUNDLE", "NODE_EXTRA_CA_CERTS", "CURL_CA_BUNDLE", "CODEX_CA_CERTIFICATE")
"""Variables of other programs (Python's requests, Node.js, curl, Codex) for additional authorities."""


@attrs.frozen
class ProxyChoice:
    """The proxy for a URL, or None, and a sentence for each ignored variable."""

    url: str | None
    ignored: tuple[str, ...] = ()


@attrs.frozen
class Authorities:
    """The certificate authorities: their names for display, and a sentence for each ignored variable."""

    context: ssl.SSLContext
    names: tuple[str, ...]
    ignored: tuple[str, ...] = ()


def choose_proxy(url: str, environ: Mapping[str, str] = os.environ) -> ProxyChoice:
    """The first usable proxy for ``url``; none for loopback or a host in NO_PROXY."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    if is_loopback(host) or _is_excepted(host, parts.port, environ.get("no_proxy") or environ.get("NO_PROXY", "")):
        return ProxyChoice(None)
    ignored: list[str] = []
    for name, value in _list_proxies(parts.scheme, environ):
        proxy = value if "://" in value else f"http://{value}"
        reason = _find_fault(proxy)
        if reason is None:
            return ProxyChoice(proxy, tuple(ignored))
        ignored.append(f"{name} is ignored: {reason}.")  # without its value, which may hold a password
    if ignored:
        ignored.append(f"No proxy is used for {parts.scheme}://{host}; name one with {parts.scheme.upper()}_PROXY.")
    return ProxyChoice(None, tuple(ignored))


def _list_proxies(scheme: str, environ: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Variables and values, best first. An empty lower-case variable disables the proxies of its scheme."""
    found = False
    for kind in (scheme, "all"):
        for name in (f"{kind}_proxy", f"{kind}_proxy".upper()):
            value = environ.get(name)
            found = found or value is not None
            if value is not None and not value.strip():
                break
            if value is not None and not (name == "HTTP_PROXY" and "REQUEST_METHOD" in environ):  # CGI sets it
                yield name, value.strip()
    if not found and environ is os.environ:
        system = getproxies()  # on macOS, those of its settings
        yield from ((f"the system's {kind} proxy", system[kind]) for kind in (scheme, "all") if kind in system)


def _find_fault(proxy: str) -> str | None:
    """The reason why an address is not usable as a proxy, or None."""
    try:
        parts = urlsplit(proxy)
        host, _ = parts.hostname, parts.port
        httpx2.Proxy(f"http://{parts.netloc}")
    except (ValueError, httpx2.InvalidURL):
        return "it is not a URL such as http://HOST:PORT"
    if parts.scheme.lower() not in PROXY_SCHEMES:
        return f"{parts.scheme} proxies are not supported, only {' and '.join(PROXY_SCHEMES)}"
    return None if host else "it names no host"


def _is_excepted(host: str, port: int | None, entries: str) -> bool:
    """Whether NO_PROXY contains the host: by name, parent domain, address or network, optionally with a port."""
    return any(excepts(entry, host, port) for entry in entries.split(",") if entry.strip())


def excepts(entry: str, host: str, port: int | None) -> bool:
    """Whether this entry of NO_PROXY names the host."""
    entry, host = entry.strip().lower(), host.lower()
    if entry == "*":
        return True
    try:
        return ipaddress.ip_address(host) in ipaddress.ip_network(entry.strip("[]"), strict=False)
    except ValueError:
        pass  # one of them is a name
    name, _, wanted = entry.rpartition("://")[2].partition(":")
    if wanted.isdecimal() and int(wanted) != port:
        return False
    name = name.removeprefix("*").removeprefix(".")
    return bool(name) and (host == name or host.endswith(f".{name}"))


def read_authorities(ca_bundle: Path | None, environ: Mapping[str, str] = os.environ) -> Authorities:
    """The trusted authorities: ``ca_bundle`` alone, or those of the environment, or the system's.

    Raises BadConfiguration for an unusable ``ca_bundle``.
    """
    if ca_bundle is not None:
        try:
            return Authorities(ssl.create_default_context(cafile=str(ca_bundle)), (str(ca_bundle),))
        except (OSError, ssl.SSLError) as error:
            raise BadConfiguration(f"ca_bundle = {ca_bundle} holds no usable certificates: {error}.") from None
    ignored: list[str] = []
    names = []
    base = next(((name, path) for name in REPLACING if (path := environ.get(name))), None)
    context: ssl.SSLContext | None = None
    if base is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        if _load(context, *base, ignored):
            names.append(base[1])
        else:
            context = None
    if context is None:
        context = httpx2.create_ssl_context(trust_env=False)
        names.append("the system's")
    for name in ADDING:
        path = environ.get(name)
        if path and path not in names and _load(context, name, path, ignored):
            names.append(path)
    return Authorities(context, tuple(names), tuple(ignored))


def _load(context: ssl.SSLContext, name: str, path: str, ignored: list[str]) -> bool:
    """Add the certificates of a file or OpenSSL folder, or a sentence to ``ignored``."""
    try:
        if Path(path).is_dir():
            context.load_verify_locations(capath=path)
        elif Path(path).exists() and not Path(path).is_file():
            raise OSError("it is neither a file nor a folder")
        else:
            context.load_verify_locations(cafile=path)
    except (OSError, ValueError) as error:  # an SSLError is an OSError
        reason = "it holds no certificates that can be read" if isinstance(error, ssl.SSLError) else _words(error)
        ignored.append(f"{name} = {path} is ignored: {reason}.")
        return False
    return True


def _words(error: Exception) -> str:
    return (isinstance(error, OSError) and error.strerror) or str(error)


def open_client(
    url: str, *, ca_bundle: Path | None = None, transport: httpx2.AsyncBaseTransport | None = None, **options: Any
) -> tuple[httpx2.AsyncClient, tuple[str, ...]]:
    """A client for requests to the host of ``url``, and a sentence for each ignored variable. It does not follow
    redirects. A given ``transport`` bypasses proxies.
    """
    choice = choose_proxy(url) if transport is None else ProxyChoice(None)
    ignored = list(choice.ignored)
    verify: ssl.SSLContext | bool = False
    if "https" in (urlsplit(url).scheme, urlsplit(choice.url or "").scheme):
        authorities = read_authorities(ca_bundle)
        ignored += authorities.ignored
        verify = authorities.context
    proxy = None
    if choice.url is not None:
        tls = verify if choice.url.lower().startswith("https:") and isinstance(verify, ssl.SSLContext) else None
        proxy = httpx2.Proxy(choice.url, ssl_context=tls)
    client = httpx2.AsyncClient(
        verify=verify, proxy=proxy, transport=transport, trust_env=False, follow_redirects=False, **options
    )
    return client, tuple(ignored)
