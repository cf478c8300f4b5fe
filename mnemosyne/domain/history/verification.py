"""Verify that a session's log can reproduce the sent bytes: rebuild and hash every body, assemble every reply.

A ``Verifier`` processes the requests in order. For each body that later ones build on it keeps the recipe, never the
bytes, and intermediate SHA-256 states: the prefix that a body shares with its base is neither fetched nor hashed again.
So verification reads a session's contents once, and in addition, for each turn, the bytes after the change (with Claude
Code 2.1.329: the system prompt and the tools).
"""

import json
from collections.abc import Callable, Container, Iterable, Sequence
from hashlib import sha256

import attrs

from mnemosyne.domain.history import time_travel
from mnemosyne.domain.history.time_travel import Attempt, History
from mnemosyne.domain.session.address import Address
from mnemosyne.domain.session.events import TurnFinished
from mnemosyne.domain.wire import recipe
from mnemosyne.domain.wire.recipe import Piece, Recipe
from mnemosyne.domain.wire.transcript import HashState

Fetch = Callable[[bytes], bytes]
"""Returns the content for a digest."""


@attrs.define(eq=False)
class _Mark:
    """An offset in a body and, once it was reached, the hash state there."""

    length: int
    state: HashState | None = None


@attrs.frozen
class Discrepancy:
    """A deviation from the record: its location and a description."""

    attempt: Attempt
    what: str

    @property
    def address(self) -> Address:
        return self.attempt.address

    @property
    def sentence(self) -> str:
        at, round_ = self.address, self.attempt.round
        number = "" if round_ is None else f"/{round_.began.round}"
        return f"turn {at.turn}.{at.attempt}{number} of branch {at.branch}: {self.what}"


@attrs.frozen(eq=False)
class Task:
    """A check of one rebuilt body or reply.

    The hash continues from ``mark`` if the state there is known, else it starts over; its state at ``next_mark`` is
    kept.
    """

    attempt: Attempt
    recipe: Recipe
    is_reply: bool = False
    mark: _Mark = attrs.field(factory=lambda: _Mark(0, sha256()))
    next_mark: _Mark | None = None

    @property
    def needs(self) -> set[bytes]:
        """The contents that ``check`` will fetch, as far as known before the preceding tasks are done."""
        return time_travel.digests_in(self.recipe.between(self.mark.length, self.recipe.length))

    def first_of(self, digests: Container[bytes]) -> bytes | None:
        """The first of these contents that its recipe uses, if any."""
        pieces = (piece for piece in self.recipe.pieces if isinstance(piece, Piece))
        return next((piece.digest for piece in pieces if piece.digest in digests), None)

    @property
    def weight(self) -> int:
        """The number of bytes to read for it."""
        return self.recipe.length - self.mark.length

    def check(self, fetch: Fetch) -> Discrepancy | None:
        """Rebuild, compare, and keep the hash state for later tasks. Raises the errors of ``fetch``."""
        return self._check_reply(fetch) if self.is_reply else self._check_body(fetch)

    def _check_body(self, fetch: Fetch) -> Discrepancy | None:
        at, state = (self.mark.length, self.mark.state.copy()) if self.mark.state is not None else (0, sha256())
        if self.next_mark is not None:
            state.update(recipe.assemble(self.recipe.between(at, self.next_mark.length), fetch))
            at, self.next_mark.state = self.next_mark.length, state.copy()
        state.update(recipe.assemble(self.recipe.between(at, self.recipe.length), fetch))
        found, wanted = state.digest(), self.attempt.proof
        if found == wanted:
            return None
        return self._difference(f"the rebuilt body has the SHA-256 {found.hex()}, and {wanted.hex()} was recorded")

    def _check_reply(self, fetch: Fetch) -> Discrepancy | None:
        body = recipe.assemble(self.recipe.pieces, fetch)
        ended = self.attempt.ended
        if self.attempt.round is not None or not isinstance(ended, TurnFinished) or ended.message_id is None:
            return None  # not a message, but for example a gateway's error page or a partial reply
        try:
            message = json.loads(body)
        except (ValueError, RecursionError):
            return self._difference("the reply is not JSON")
        message_id = message.get("id") if isinstance(message, dict) else None
        # A lone surrogate is recorded as a replacement character, so ids are compared if they are ASCII.
        if not isinstance(message_id, str) or (message_id.isascii() and message_id != ended.message_id):
            return self._difference(f"the reply is not the message {ended.message_id}")
        return None

    def _difference(self, what: str) -> Discrepancy:
        return Discrepancy(self.attempt, what)


@attrs.frozen
class _Body:
    recipe: Recipe
    marks: tuple[_Mark, ...]


class Verifier:
    """Produces the checks of one session, in the order of its events."""

    def __init__(self, history: History) -> None:
        self._history = history
        self._bodies: dict[int, _Body] = {0: _Body(Recipe(), (_Mark(0, sha256()),))}
        self._last_use = {began.base: version for version, began in sorted(history.bodies.items())}

    def tasks(self) -> Iterable[Task | Discrepancy]:
        """The checks, turn by turn; a Discrepancy if an error is visible without reading contents."""
        for attempt in self._in_order():
            yield self._body(attempt)
            reply = self._reply(attempt)
            if reply is not None:
                yield reply

    def _in_order(self) -> list[Attempt]:
        """All requests, both the client's and those that the proxy sent for them, in the order of their events: each
        body builds on earlier ones.
        """
        sent = [
            each
            for attempt in self._history.attempts
            for each in (attempt, *(attrs.evolve(attempt, round=round_) for round_ in attempt.rounds))
        ]
        return sorted(sent, key=lambda attempt: attempt.body_version)

    def _body(self, attempt: Attempt) -> Task | Discrepancy:
        began = attempt.sent
        base = self._bodies.get(began.base)
        if base is None:
            return Discrepancy(attempt, f"the body of event {began.base}, which it builds on, is not known")
        try:
            change = recipe.decode(began.body)
            body = recipe.apply(base.recipe, change)
        except ValueError as error:
            return Discrepancy(attempt, str(error))
        if began.base and self._last_use[began.base] == attempt.body_version:
            del self._bodies[began.base]
        if body.length != began.size:
            return Discrepancy(attempt, f"the rebuilt body has {body.length} bytes, and not {began.size}")
        return self._task(attempt, body, base.marks, change.head)

    def _task(self, attempt: Attempt, body: Recipe, base_marks: Sequence[_Mark], head: int) -> Task:
        marks = [mark for mark in base_marks if mark.length <= head]
        next_mark = _Mark(head) if head > marks[-1].length else None
        if attempt.body_version in self._last_use:
            kept = (*marks, next_mark) if next_mark is not None else tuple(marks)
            self._bodies[attempt.body_version] = _Body(body, kept)
        return Task(attempt, body, mark=marks[-1], next_mark=next_mark)

    def _reply(self, attempt: Attempt) -> Task | Discrepancy | None:
        try:
            reply = time_travel.reply_of(attempt)
        except ValueError as error:
            return Discrepancy(attempt, f"the reply: {error}")
        return None if reply is None else Task(attempt, reply, is_reply=True)
