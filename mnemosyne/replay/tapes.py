"""What is played back: a session as the steps that its client and its provider took, in order, with their times."""

import hashlib
from collections.abc import Callable, Iterator
from pathlib import Path

import attrs

from mnemosyne.domain.session.decide import Gap
from mnemosyne.domain.wire.dialect import Dialect
from mnemosyne.domain.wire.exchange import ReplyHead

TENANT = "local"
"""What a server calls whose sessions it records, if nobody says otherwise."""

Headers = tuple[tuple[str, str], ...]


@attrs.frozen
class Arrives:
    """A request comes, in a ``dialect``. ``key`` is what its end is known by."""

    key: str
    at: int
    dialect: Dialect
    headers: Headers
    body: bytes = attrs.field(repr=False)


@attrs.frozen
class TapedReply:
    """The provider's reply comes, as far as it came: whether it is whole is seen in its bytes."""

    key: str
    at: int
    head: ReplyHead
    payload: bytes = attrs.field(repr=False)


@attrs.frozen
class Broken:
    """The record says that the reply did not come whole; ``body`` is what it holds of the message."""

    key: str
    at: int
    status: int | None
    body: bytes | None = attrs.field(repr=False)
    reason: str


@attrs.frozen
class Missed:
    """Turns went through without a record."""

    external_id: str
    gap: Gap


Step = Arrives | TapedReply | Broken | Missed


@attrs.frozen
class Tape:
    """One recording. ``steps`` begins anew each time it is called."""

    name: str
    steps: Callable[[], Iterator[Step]]
    tenant: str
    salt: bytes


@attrs.frozen
class NotATape:
    """Input that cannot be played; ``line`` is None where the file as a whole is meant."""

    path: Path
    line: int | None
    what: str

    @property
    def sentence(self) -> str:
        where = f"{self.path}, line {self.line}" if self.line is not None else str(self.path)
        return f"{where}: {self.what}."


class Unplayable(ValueError):
    """What a reader finds wrong with one recording; ``NotATape`` says where."""


def tape(name: str, steps: Callable[[], Iterator[Step]]) -> Tape:
    """A tape whose session's salt is made of its name, so that every run makes the same ids."""
    return Tape(name, steps, TENANT, hashlib.sha256(f"replay\0{name}".encode()).digest()[:16])
