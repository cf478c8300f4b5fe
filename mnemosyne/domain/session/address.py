"""The address of a request within a session."""

import attrs


@attrs.frozen(order=True)
class Address:
    """An attempt at a turn of a branch."""

    branch: str
    turn: int
    attempt: int


@attrs.frozen(kw_only=True)
class TurnEvent:
    """The first fields of an event about a turn."""

    at: int
    branch: str
    turn: int


@attrs.frozen(kw_only=True)
class AttemptEvent(TurnEvent):
    """The first fields of an event about an attempt at a turn."""

    attempt: int

    @property
    def address(self) -> Address:
        return Address(self.branch, self.turn, self.attempt)


@attrs.frozen(kw_only=True)
class BodyEvent(AttemptEvent):
    """A request that was sent: its body as a change on the body of event ``base``, its size and its hashes."""

    base: int
    body: bytes
    size: int
    sha256: bytes
    stored_sha256: bytes | None
