"""A tape: a session as the steps of its client and its provider, in order, with their times."""

import hashlib
from collections.abc import Callable, Iterator
from pathlib import Path

import attrs

from mnemosyne.domain.session.decide import Gap
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


@attrs.frozen
class Broken:
    """The reply is recorded as incomplete; ``body`` is the recorded part of the message."""

    key: str
    at: int
    status: int | None
    body: bytes | None = attrs.field(repr=False)
    reason: str


@attrs.frozen
class Missed:
    """Turns passed unrecorded."""

    external_id: str
    gap: Gap


Step = Arrives | TapedReply | Broken | Missed


@attrs.frozen
class Tape:
    """One recording. Each call of ``steps`` starts from the beginning."""

    name: str
    steps: Callable[[], Iterator[Step]]
    tenant: str
    salt: bytes


@attrs.frozen
class NotATape:
    """Input that cannot be played; ``line`` is None if the error concerns the whole file."""

    path: Path
    line: int | None
    what: str

    @property
    def sentence(self) -> str:
        where = f"{self.path}, line {self.line}" if self.line is not None else str(self.path)
        return f"{where}: {self.what}."


class Unplayable(ValueError):
    """An error in a recording; ``NotATape`` adds its location."""


def tape(name: str, steps: Callable[[], Iterator[Step]]) -> Tape:
    """A tape whose session's salt is derived from its name, so that every run generates the same ids."""
    return Tape(name, steps, TENANT, hashlib.sha256(f"replay\0{name}".encode()).digest()[:16])
