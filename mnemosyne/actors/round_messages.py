"""What is said to a session's actor about the rounds of a managed branch."""

import attrs

from mnemosyne.domain.ports import Ticket
from mnemosyne.domain.session.round_events import Mode
from mnemosyne.domain.session.state import Address
from mnemosyne.domain.wire.reply import HiddenCall, Reply


@attrs.define(eq=False)
class Wish:
    """The wish that the actor says what goes upstream. Whoever wished may withdraw it as long as nobody took it up: a
    body that is not sent must not be recorded as sent.
    """

    taken: bool = False
    withdrawn: bool = False

    def take(self) -> bool:
        """Take it up; whether it still stands."""
        self.taken = not self.withdrawn
        return self.taken

    def withdraw(self) -> bool:
        """Take it back; whether that came before somebody took it up."""
        self.withdrawn = not self.taken
        return self.withdrawn


@attrs.define(eq=False)
class Offer(Wish):
    """The wish for the first round of a turn, in ``mode`` if the branch begins with it."""

    mode: Mode = attrs.field(kw_only=True)


@attrs.frozen(kw_only=True)
class RoundEnd:
    """A round's reply came whole; ``calls`` are to be answered. ``request`` is the client's body, for an actor that did
    not begin the turn.
    """

    reply: Reply = attrs.field(repr=False)
    calls: tuple[HiddenCall, ...] = ()
    request: bytes = attrs.field(default=b"", repr=False)


@attrs.frozen(kw_only=True)
class AnswerCalls:
    """The model called memory tools alone: answer them and say what goes upstream next."""

    at: int
    address: Address
    round: RoundEnd
    correlation_id: str
    wish: Wish = attrs.field(factory=Wish)


@attrs.frozen(kw_only=True)
class Strip:
    """The provider refused the request because thinking in it is bound to another conversation: leave all of it out."""

    at: int
    address: Address
    refusal: Reply = attrs.field(repr=False)
    correlation_id: str
    wish: Wish = attrs.field(factory=Wish)


@attrs.frozen
class Upstream:
    """What goes upstream: the ``body`` of a round, and the promise that it becomes durable.

    ``mode`` is that of its branch. Without a body the client's own bytes go, or there is no other round to be had.
    """

    mode: Mode
    body: bytes | None = attrs.field(repr=False)
    ticket: Ticket | None = None
