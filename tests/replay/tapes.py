"""A tape: a session as the steps of its client and its provider, in order, with their times."""

import hashlib
from collections.abc import Callable, Iterator

import attrs

from mnemosyne.domain.wire.dialect import Dialect
from mnemosyne.domain.wire.exchange import ReplyHead

TENANT = "local"
"""The default tenant of recorded sessions."""

Headers = tuple[tuple[str, str], ...]


@attrs.frozen
class Arrives:
    """A request arrives, in a ``dialect``. ``key`` identifies the step that ends it."""

    key: str
    at: int
    dialect: Dialect
    headers: Headers
    body: bytes = attrs.field(repr=False)


@attrs.frozen
class TapedReply:
    """The provider's reply arrives, complete or partial, as its bytes show."""

    key: str
    at: int
    head: ReplyHead
    payload: bytes = attrs.field(repr=False)


Step = Arrives | TapedReply


@attrs.frozen
class Tape:
    """One recording. Each call of ``steps`` starts from the beginning."""

    name: str
    steps: Callable[[], Iterator[Step]]
    tenant: str
    salt: bytes


def tape(name: str, steps: Callable[[], Iterator[Step]]) -> Tape:
    """A tape whose session's salt is derived from its name, so that every run generates the same ids."""
    return Tape(name, steps, TENANT, hashlib.sha256(f"replay\0{name}".encode()).digest()[:16])
