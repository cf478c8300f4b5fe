"""Additional providers, and the choice of one for a request."""

from collections.abc import Collection, Sequence
from fnmatch import fnmatchcase
from ipaddress import ip_address
from urllib.parse import urlsplit

import attrs

DIALECTS = ("messages", "chat", "responses")
OPENAI_DIALECTS = ("chat", "responses")


@attrs.frozen
class NamedUpstream:
    """A provider that receives the requests of these ``dialects`` for ``models`` (shell patterns) instead of the
    upstream. Without a ``tariff`` of its own, the general tariff applies.
    """

    name: str
    url: str
    dialects: tuple[str, ...] = OPENAI_DIALECTS
    models: tuple[str, ...] = ("*",)
    tariff: str | None = None

    @property
    def host(self) -> str:
        """The host in its URL."""
        return urlsplit(self.url).hostname or ""

    def __str__(self) -> str:
        return f"{self.name}={self.url}"

    def takes(self, dialect: str, model: str | None) -> bool:
        """Whether a request goes there; one that names no model goes where every model does."""
        return dialect in self.dialects and any(fnmatchcase(model or "", each) for each in self.models)


def list_takers(others: Sequence[NamedUpstream], dialects: Collection[str], model: str | None) -> list[NamedUpstream]:
    """The providers among ``others`` for a request of one of these dialects; none if it goes to the upstream. Without a
    model, a request of OpenAI's dialects goes to the provider of that dialect; several candidates are ambiguous.
    """
    for other in others:
        if any(other.takes(each, model) for each in dialects):
            return [other]
    if model is not None or not set(dialects) & set(OPENAI_DIALECTS):
        return []
    return [other for other in others if set(dialects) & set(other.dialects)]


_PRIVATE = (".localhost", ".local", ".internal", ".home.arpa", ".lan")
"""Suffixes that no public server has: RFC 6761, 6762 and 8375, ICANN's .internal, and .lan of routers. A name without a
dot is not public either.
"""


def is_at_home(host: str) -> bool:
    """Whether a host (a name or an address) is this machine or one in the same private network."""
    name = host.strip("[]").lower()
    try:
        return ip_address(name).is_private
    except ValueError:
        return bool(name) and ("." not in name or name.endswith(_PRIVATE))
