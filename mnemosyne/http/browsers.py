"""Refuse requests from foreign web pages and untrusted tenant headers, before reading the body.

A page of any site can make a browser send requests to a loopback port, and can point its own domain name at this
machine (DNS rebinding). A browser reveals both: by ``Origin``, by ``Sec-Fetch-Site`` (Fetch Metadata Request Headers,
W3C), and by a ``Host`` that is the page's domain. Other clients do not send the first two.

Only a trusted proxy may name a tenant: any other client could read and write another tenant's sessions.
"""

import ipaddress
from urllib.parse import urlsplit

import attrs

from mnemosyne.domain.wire.exchange import Headers
from mnemosyne.domain.wire.identity import TENANT_HEADER
from mnemosyne.setting_values import parse_tenant

IPNetwork = ipaddress.IPv4Network | ipaddress.IPv6Network

_LOOPBACK = "localhost"
"""This name and its subdomains mean this machine (RFC 6761, 6.3). A network can resolve any other name as it likes."""


@attrs.frozen
class AllowedHosts:
    """Allowed callers. ``hosts`` are this server's names, in addition to IP addresses and ``localhost``; ``proxies``
    may name a tenant. ``provider`` is the host whose requests a door passes on, with the origins that the provider
    accepts.
    """

    hosts: frozenset[str] = frozenset()
    proxies: tuple[IPNetwork, ...] = ()
    provider: str | None = None

    def refusal(self, headers: Headers) -> str | None:
        """Return the error message for a request from a foreign host or page; None if it is allowed."""
        named = _value(headers, b"host")
        if named is not None and not self._is_ours(named):
            return f"the Host {named!r} is not a name of this server; use its address, or list it in `allowed_hosts`."
        if self.is_for_provider(headers):
            return None
        origin = _value(headers, b"origin")
        if origin is not None:
            return None if origin in (f"http://{named}", f"https://{named}") else _foreign(origin)
        if _value(headers, b"sec-fetch-site") in ("cross-site", "same-site"):
            return _foreign("another site")
        return None

    def is_for_provider(self, headers: Headers) -> bool:
        """Whether a request came through a door. A web page could name this host only if its DNS were forged."""
        return self.provider is not None and _value(headers, b"host") == self.provider

    def refusal_of_tenant(self, headers: Headers, address: str | None) -> str | None:
        """Return the error message for a tenant header that ``address`` may not send; None if it may, or sends none."""
        named = _value(headers, TENANT_HEADER.encode())
        if named is None:
            return None
        if not self._believes(address):
            return f"{TENANT_HEADER} is accepted only from proxies in `tenant_proxies`, and {address} is not one."
        if not named.isascii():  # headers have no defined encoding, so the name could be misread
            return f"{TENANT_HEADER} is invalid: it is not ASCII."
        try:
            parse_tenant(named)
        except ValueError as reason:
            return f"{TENANT_HEADER} is invalid: {reason}."
        return None

    def _believes(self, address: str | None) -> bool:
        try:
            caller = ipaddress.ip_address(address or "")
        except ValueError:
            return False
        # A dual-stack socket reports IPv4 addresses in IPv6 form.
        caller = getattr(caller, "ipv4_mapped", None) or caller
        return any(caller in network for network in self.proxies)

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
    """Whether a browser would render the response as a document (Fetch Metadata: ``Sec-Fetch-Dest``)."""
    return wants_a_page(method, headers) or _value(headers, b"sec-fetch-dest") in _DOCUMENTS


def is_browser(headers: Headers) -> bool:
    """Whether the client is a browser, by Fetch Metadata headers or its user agent."""
    names = any(name.lower().startswith(b"sec-fetch-") for name, _ in headers)
    return names or (_value(headers, b"user-agent") or "").startswith("Mozilla/")


def without_effect(headers: Headers) -> Headers:
    """Make a provider's reply harmless in the proxy's origin: no scripts run and no cookies are set."""
    kept = tuple(pair for pair in headers if pair[0].lower() not in (b"set-cookie", b"content-security-policy"))
    return (*kept, (b"content-security-policy", b"sandbox"))


def wants_a_page(method: str, headers: Headers) -> bool:
    """Whether a user opens the address in a browser (Fetch Metadata: ``Sec-Fetch-Mode: navigate``)."""
    return method == "GET" and _value(headers, b"sec-fetch-mode") == "navigate"


def _foreign(who: str) -> str:
    return f"a web page of {who} may not use this proxy or read its replies."


def _value(headers: Headers, wanted: bytes) -> str | None:
    """Return the header's value; a repeated header is joined, which matches no valid value."""
    values = [value for name, value in headers if name.lower() == wanted]
    return ", ".join(value.decode("latin-1").strip() for value in values) if values else None
