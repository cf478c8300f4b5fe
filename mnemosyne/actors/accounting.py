"""The account of each turn of one session: what was sent for it, until it is over and the ledger can say what it came
to. Nothing here is on a turn's path.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence

import attrs

from mnemosyne.domain.cost.prices import Tokens, tokens_of
from mnemosyne.domain.cost.prompt_layout import Layout, lay_out
from mnemosyne.domain.session.events import Event, Kind, SessionForgotten, TurnBegan, TurnFinished, TurnInterrupted
from mnemosyne.domain.session.ledger import AccountTurn, Sent, account
from mnemosyne.domain.session.ledger_events import TurnAccounted
from mnemosyne.domain.session.round_events import Mode, RoundBegan, RoundFinished
from mnemosyne.domain.session.state import Address, Session
from mnemosyne.domain.wire.transcript import Transcript

HELD = 6
"""Of how many branches the last layouts are kept, the client's and that of what went upstream."""

UNACCOUNTED = frozenset({Kind.SIDE, Kind.COMPACTION, Kind.OPAQUE})
"""Requests of these are never managed: without us they cost the same."""


@attrs.define
class _Turn:
    """A turn under way: the client's request, and what went upstream for it."""

    began: TurnBegan
    client: Layout
    rounds: list[Sent] = attrs.field(factory=list)


class Accounting:
    """Follows the events of a session, and says what is to be recorded in its ledger."""

    def __init__(self, state: Callable[[], Session]) -> None:
        self._state = state
        self._layouts: OrderedDict[tuple[str, bool], Layout] = OrderedDict()
        self._turns: dict[Address, _Turn] = {}
        self._awaited: dict[Address, RoundBegan] = {}
        self._over: list[tuple[Address, TurnFinished | TurnInterrupted]] = []

    def note(self, event: Event) -> None:
        """Follow what happened."""
        match event:
            case RoundBegan():
                self._awaited[_address(event)] = event
            case RoundFinished():
                turn = self._turns.get(_address(event))
                if turn is not None and turn.rounds:
                    turn.rounds[-1] = attrs.evolve(turn.rounds[-1], usage=tokens_of(event.usage))
            case TurnFinished() | TurnInterrupted():
                self._over.append((_address(event), event))
            case SessionForgotten():
                self._layouts.clear()

    def begun(self, began: TurnBegan, read: Transcript) -> None:
        """Lay out the request of the turn that has just begun."""
        branch = self._state().branches[began.branch]
        if branch.kind in UNACCOUNTED:
            return
        client = self._laid_out(began.branch, read, wire=False)
        if client is not None:
            self._turns[_address(began)] = _Turn(began, client)

    @property
    def awaiting(self) -> tuple[Address, ...]:
        """The turns of which a round began whose body is not laid out yet."""
        return tuple(self._awaited)

    def sent(self, address: Address, read: Transcript | None) -> None:
        """Lay out what went upstream in the round that began last; None if that is not held any more."""
        awaited, turn = self._awaited.pop(address), self._turns.get(address)
        if turn is None or read is None or read.sha256 != awaited.sha256:
            return
        layout = self._laid_out(address.branch, read, wire=True)
        if layout is not None:
            turn.rounds.append(Sent(at=awaited.at, layout=layout, usage=None))

    def due(self) -> Iterator[TurnAccounted]:
        """What is to be recorded of the turns that ended since the last call. Each is to be recorded before the next
        is asked for.
        """
        over, self._over = self._over, []
        for address, ended in over:
            event = self._account(address, ended)
            if event is not None:
                yield event

    def _account(self, address: Address, ended: TurnFinished | TurnInterrupted) -> TurnAccounted | None:
        turn = self._turns.pop(address, None)
        self._awaited.pop(address, None)
        usage = tokens_of(ended.usage)
        refused = ended.status != 200 or (isinstance(ended, TurnFinished) and ended.error_type is not None)
        if turn is None or (refused and usage is None):
            return None  # what the provider refuses costs nothing
        state = self._state()
        mode = state.branches[address.branch].mode
        rounds = turn.rounds
        if not rounds:
            # The client's own bytes went, in a managed branch, too, where we could not say better.
            rounds = [Sent(at=turn.began.at, layout=turn.client, usage=usage)]
        elif rounds[-1].usage is None:
            rounds[-1] = attrs.evolve(rounds[-1], usage=_of_last_round(usage, rounds[:-1]))
        command = AccountTurn(
            at=ended.at,
            branch=address.branch,
            turn=address.turn,
            attempt=address.attempt,
            mode=mode if turn.rounds else Mode.OBSERVE,
            model=turn.began.model,
            client=turn.client,
            rounds=rounds,
        )
        return account(command, state.ledger)

    def _laid_out(self, branch: str, read: Transcript, *, wire: bool) -> Layout | None:
        """By way of the branch's last layout, or of its parent's where it has none yet."""
        parent = self._state().branches[branch].parent or ""
        before = self._layouts.get((branch, wire)) or self._layouts.get((parent, wire))
        layout = lay_out(read, before)
        if layout is not None:
            self._layouts[branch, wire] = layout
            self._layouts.move_to_end((branch, wire))
            while len(self._layouts) > 2 * HELD:
                self._layouts.popitem(last=False)
        return layout


def _of_last_round(usage: Tokens | None, before: Sequence[Sent]) -> Tokens | None:
    """What a round used that was cut short, from the usage of its turn: that is the last round's, but for the output,
    which is that of all.
    """
    if usage is None:
        return None
    output = usage.output - sum(each.usage.output for each in before if each.usage is not None)
    return attrs.evolve(usage, output=max(0, output))


def _address(event: TurnBegan | TurnFinished | TurnInterrupted | RoundBegan | RoundFinished) -> Address:
    return Address(event.branch, event.turn, event.attempt)
