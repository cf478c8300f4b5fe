"""Whose requests are not answered, for where they come from; they are refused before their body is read.

A page of any site can make a browser send requests to a loopback port, and can point a domain name of its own at this
machine (DNS rebinding). A browser tells on both: by ``Origin``, by ``Sec-Fetch-Site`` (Fetch Metadata Request Headers,
W3C), and by a ``Host`` that is the page's domain. What is no browser sends neither of the first two.

And whoever names a tenant must be a proxy that is believed: who is not would read and write another's sessions.
"""

import ipaddress
from urllib.parse import urlsplit

import attrs

from mnemosyne.domain.wire.exchange import Headers
from mnemosyne.domain.wire.identity import TENANT_HEADER
from mnemosyne.setting_values import parse_tenant

IPNetwork = ipaddress.IPv4Network | ipaddress.IPv6Network

_LOOPBACK = "localhost"
"""This name, and those below it, mean this machine (RFC 6761, 6.3). Any other may be what a network says it is."""


@attrs.frozen
class AllowedHosts:
    """Who may call. ``hosts`` are names by which this server is reached, besides addresses and ``localhost``;
    ``origins`` are those of pages that may use it; ``proxies`` may name a tenant.
    """

    hosts: frozenset[str] = frozenset()
    origins: frozenset[str] = frozenset()
    proxies: tuple[IPNetwork, ...] = ()

    def refusal(self, headers: Headers) -> str | None:
        """Why the request may not be answered, for people; None if it may."""
        named = _value(headers, b"host")
        if named is not None and not self._is_ours(named):
            return f"the Host {named!r} is not a name of this server; use its address, or list it in `allowed_hosts`."
        origin = _value(headers, b"origin")
        if origin is not None:
            return None if self._may_use(origin, named) else _foreign(origin)
        if _value(headers, b"sec-fetch-site") in ("cross-site", "same-site"):
            return _foreign("another site")
        return None

    def refusal_of_tenant(self, headers: Headers, address: str | None) -> str | None:
        """Why the tenant that a request names is not taken from ``address``, for people; None if it is, or none is
        named.
        """
        named = _value(headers, TENANT_HEADER.encode())
        if named is None:
            return None
        if not self._believes(address):
            return (
                f"{TENANT_HEADER} is taken from the proxies in `tenant_proxies` alone, and {address} is none of them."
            )
        if not named.isascii():  # a header has no encoding: the name would be another one than the proxy means
            return f"{TENANT_HEADER} cannot be used: it is not ASCII."
        try:
            parse_tenant(named)
        except ValueError as reason:
            return f"{TENANT_HEADER} cannot be used: {reason}."
        return None

    def _believes(self, address: str | None) -> bool:
        try:
            caller = ipaddress.ip_address(address or "")
        except ValueError:
            return False
        # A socket for both families writes an address of IPv4 in the form of IPv6.
        caller = getattr(caller, "ipv4_mapped", None) or caller
        return any(caller in each for each in self.proxies)

    def page(self, headers: Headers) -> str | None:
        """The origin of the page that asks, where it is one of ``origins``."""
        origin = _value(headers, b"origin")
        return origin if origin in self.origins else None

    def _may_use(self, origin: str, named: str | None) -> bool:
        return origin in self.origins or origin in (f"http://{named}", f"https://{named}")

    def _is_ours(self, named: str) -> bool:
        try:
            name = (urlsplit(f"//{named}").hostname or "").rstrip(".")
        except ValueError:
            return False
        if name in self.hosts or name == _LOOPBACK or name.endswith(f".{_LOOPBACK}"):
            return True
        try:
            ipaddress.ip_address(name)
        except ValueError:
            return False
        return True


_DOCUMENTS = frozenset({"document", "iframe", "frame", "object", "embed"})


def shows_a_document(method: str, headers: Headers) -> bool:
    """Whether a browser would run what it gets as a page (Fetch Metadata: ``Sec-Fetch-Dest``)."""
    return wants_a_page(method, headers) or _value(headers, b"sec-fetch-dest") in _DOCUMENTS


def is_browser(headers: Headers) -> bool:
    """Whether a browser asks; one that sends no Fetch Metadata is known by how it calls itself."""
    names = any(name.lower().startswith(b"sec-fetch-") for name, _ in headers)
    return names or (_value(headers, b"user-agent") or "").startswith("Mozilla/")


def without_effect(headers: Headers) -> Headers:
    """The headers of a reply of the provider's that can do nothing in our origin: no script runs, no cookie is set."""
    kept = tuple(pair for pair in headers if pair[0].lower() not in (b"set-cookie", b"content-security-policy"))
    return (*kept, (b"content-security-policy", b"sandbox"))


def wants_a_page(method: str, headers: Headers) -> bool:
    """Whether a person opens an address in a browser (Fetch Metadata: ``Sec-Fetch-Mode: navigate``)."""
    return method == "GET" and _value(headers, b"sec-fetch-mode") == "navigate"


def is_preflight(method: str, headers: Headers) -> bool:
    """Whether a browser asks what a page may send (Fetch, CORS-preflight request)."""
    return method == "OPTIONS" and _value(headers, b"access-control-request-method") is not None


def preflight_reply(origin: str, headers: Headers) -> Headers:
    """The headers that let the page send what it asks for."""
    wanted = _value(headers, b"access-control-request-headers")
    allowed = ((b"access-control-allow-headers", wanted.encode("latin-1")),) if wanted else ()
    return (
        *readable_by(origin),
        (b"access-control-allow-methods", b"*"),
        *allowed,
        (b"access-control-max-age", b"600"),
    )


def readable_by(origin: str) -> Headers:
    """The headers that let a page of ``origin`` read a reply."""
    return ((b"access-control-allow-origin", origin.encode("latin-1")), (b"vary", b"origin"))


def _foreign(who: str) -> str:
    return (
        f"a web page of {who} may not use this proxy, nor read what it answers. "
        "If that page is yours, name its origin in `allowed_origins`."
    )


def _value(headers: Headers, wanted: bytes) -> str | None:
    """The header's value; where it was sent twice, none that anything matches."""
    found = [value for name, value in headers if name.lower() == wanted]
    return ", ".join(each.decode("latin-1").strip() for each in found) if found else None
