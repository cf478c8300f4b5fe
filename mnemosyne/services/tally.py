"""Counts of the events that this process has recorded since it started, for monitoring. No database is queried."""

from collections import Counter
from uuid import UUID

import attrs

from mnemosyne.domain.cost.prices import Terms
from mnemosyne.domain.objects.events import FaultKind, ObjectDegraded, ObjectFaulted, ObjectRestored
from mnemosyne.domain.objects.fidelity import Fidelity
from mnemosyne.domain.ports import Append
from mnemosyne.domain.session.events import GapRecorded, TurnFinished, TurnInterrupted
from mnemosyne.domain.session.input_events import GroundsNoted, HelperAsked, HelperWorked
from mnemosyne.domain.session.ledger_events import TurnAccounted
from mnemosyne.errors import LogFailed
from mnemosyne.services.billed_replies import BilledReplies, ReplyEvent
from mnemosyne.services.savings import Balance, balance_of_replies, balance_of_turn

MOST_MODELS = 50
"""Maximum number of models counted separately: their names come from outside, and a monitor keeps each for long."""

OTHER_MODELS = "other"

MOST_WAITING = 1_000
"""Maximum number of attempts kept until they are accounted."""


@attrs.define
class RecordTally:
    """The counts. ``turns`` are ended turns by outcome: ``finished``, ``refused`` (the reply was an error) or
    ``interrupted``. ``gap_turns`` went unrecorded. ``policy_failures`` are requests for which a policy gave no usable
    plan. ``rounds`` are the turns' upstream requests, ``helpers`` the cost of helper models in nanodollars.
    ``fidelities`` are the changes of objects' fidelities, by the new one, ``faults`` the page faults. ``bytes`` are
    those of durable appends before compression.
    """

    turns: Counter[str] = attrs.field(factory=Counter)
    gap_turns: int = 0
    policy_failures: int = 0
    rounds: int = 0
    helpers: int = 0
    fidelities: Counter[Fidelity] = attrs.field(factory=Counter)
    faults: Counter[FaultKind] = attrs.field(factory=Counter)
    appends: int = 0
    failed_appends: int = 0
    events: int = 0
    bytes: int = 0
    _added: dict[str, Balance] = attrs.field(factory=dict)
    _replies: dict[tuple[UUID, str, int, int], BilledReplies] = attrs.field(factory=dict, eq=False)
    """The replies of unaccounted attempts, not added yet because nearly all are accounted at once."""

    @property
    def balances(self) -> dict[str, Balance]:
        """The actual and simulated usage by model."""
        balances = dict(self._added)
        for attempt in self._replies.values():
            _add_replies(balances, attempt)
        return balances

    def note(self, append: Append, size: int, error: LogFailed | None) -> None:
        """Count an append of ``size`` bytes after its outcome."""
        if error is not None:
            self.failed_appends += 1
            return
        self.appends += 1
        self.events += len(append.envelopes)
        self.bytes += size
        for envelope in append.envelopes:
            self._note_event(append.stream, envelope.event)

    def _note_event(self, stream: UUID, event: object) -> None:
        if isinstance(event, ReplyEvent):
            place = stream, event.branch, event.turn, event.attempt
            if place not in self._replies and len(self._replies) == MOST_WAITING:
                _add_replies(self._added, self._replies.pop(next(iter(self._replies))))
            self._replies.setdefault(place, BilledReplies()).note(event)
        match event:
            case TurnFinished():
                self.turns["finished" if event.status < 400 else "refused"] += 1
            case TurnInterrupted():
                self.turns["interrupted"] += 1
            case GapRecorded():
                self.gap_turns += event.turns
            case ObjectDegraded() | ObjectRestored():
                self.fidelities[event.after] += 1
            case ObjectFaulted():
                self.faults[event.kind] += 1
            case GroundsNoted():
                self.policy_failures += event.policy is not None
            case HelperAsked() | HelperWorked():
                self.helpers += event.nanodollars
            case TurnAccounted():
                self.rounds += event.rounds
                place = stream, event.branch, event.turn, event.attempt
                known = self._replies.pop(place, None)
                attempt = known or BilledReplies(event.model, {0: (event.actual, Terms())})
                balance = balance_of_turn(event, attempt.replies)
                # An earlier process has counted replies that are not known here: only the difference is new.
                _add(self._added, event.model, balance if known else balance - balance_of_replies(attempt))
            case _:
                pass


def _add_replies(balances: dict[str, Balance], attempt: BilledReplies) -> None:
    if attempt.replies:
        _add(balances, attempt.asked, balance_of_replies(attempt))


def _add(balances: dict[str, Balance], model: str | None, balance: Balance) -> None:
    row = model or "unknown"
    if row not in balances and len(balances) >= MOST_MODELS:
        row = OTHER_MODELS
    balances[row] = balances.get(row, Balance()) + balance
