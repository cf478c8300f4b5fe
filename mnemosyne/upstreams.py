"""More providers than one: which requests go to which, as a setting."""

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from fnmatch import fnmatchcase
from ipaddress import ip_address
from urllib.parse import urlsplit

import attrs

DIALECTS = ("messages", "chat", "responses")
OPENAI_DIALECTS = ("chat", "responses")
_NAME = re.compile(r"[a-z][a-z0-9-]{0,31}")
_MEMBERS = ("url", "dialects", "models", "tariff")


@attrs.frozen
class NamedUpstream:
    """A provider that gets the requests of these ``dialects`` for ``models`` (shell patterns), not the upstream. Where
    it has no ``tariff`` of its own, that of the others holds.
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
    """Which of the ``others`` a request of one of these dialects goes to: none where it goes to the upstream. Without a
    model, one of OpenAI's dialects goes to whoever speaks its own; where several do, nobody can say to which.
    """
    for other in others:
        if any(other.takes(each, model) for each in dialects):
            return [other]
    if model is not None or not set(dialects) & set(OPENAI_DIALECTS):
        return []
    return [other for other in others if set(dialects) & set(other.dialects)]


def parse_upstreams(value: object, parse_url: Callable[[object], str]) -> tuple[NamedUpstream, ...]:
    """A table of tables, or text as in ``openai=https://api.openai.com``. Raises ValueError with the reason."""
    if value == ():
        return ()
    if isinstance(value, str):
        value = dict(_split(each) for each in value.split(",") if each.strip())
    if not isinstance(value, Mapping):
        raise ValueError("NAME=URL is needed, or a table [upstreams.NAME] with a url")
    return tuple(_parse(str(name), each, parse_url) for name, each in value.items())


def _split(text: str) -> tuple[str, str]:
    name, equals, url = text.strip().partition("=")
    if not equals:
        raise ValueError("NAME=URL is needed, as in openai=https://api.openai.com")
    return name, url


def _parse(name: str, told: object, parse_url: Callable[[object], str]) -> NamedUpstream:
    if not _NAME.fullmatch(name):
        raise ValueError(f"{name!r} is no name: lower-case letters, digits and - are needed")
    table = told if isinstance(told, Mapping) else {"url": told}
    unknown = [each for each in table if each not in _MEMBERS]
    if unknown:
        raise ValueError(f"{name} has {', '.join(map(str, unknown))}; known are {', '.join(_MEMBERS)}")
    if "url" not in table:
        raise ValueError(f"{name} has no url")
    dialects = _parse_texts(name, "dialects", table.get("dialects", list(OPENAI_DIALECTS)))
    if wrong := [each for each in dialects if each not in DIALECTS]:
        raise ValueError(f"{name} has the dialects {', '.join(wrong)}; known are {', '.join(DIALECTS)}")
    models = _parse_texts(name, "models", table.get("models", ["*"]))
    tariff = table.get("tariff")
    if not (tariff is None or isinstance(tariff, str)):
        raise ValueError(f"{name}.tariff must be the name of a tariff")
    return NamedUpstream(name, parse_url(table["url"]), dialects, models, tariff)


def _parse_texts(name: str, member: str, value: object) -> tuple[str, ...]:
    if not isinstance(value, list) or not value or not all(isinstance(each, str) for each in value):
        raise ValueError(f"{name}.{member} must be a list of texts")
    return tuple(value)


_PRIVATE = (".localhost", ".local", ".internal", ".home.arpa", ".lan")
"""How names end that no public server has: RFC 6761, 6762 and 8375, ICANN's .internal, and .lan, which routers give.
Nor has a public server a name without a dot.
"""


def is_at_home(host: str) -> bool:
    """Whether a host (a name or an address) is this machine or one in the same private network."""
    name = host.strip("[]").lower()
    try:
        return ip_address(name).is_private
    except ValueError:
        return bool(name) and ("." not in name or name.endswith(_PRIVATE))
