"""Counts of the events that this process has recorded since it started, for monitoring. No database is queried."""

from collections import Counter
from uuid import UUID

import attrs

from mnemosyne.bounded import Lru
from mnemosyne.domain.cost.prices import Terms
from mnemosyne.domain.objects.events import FaultKind, ObjectDegraded, ObjectFaulted, ObjectRestored
from mnemosyne.domain.objects.fidelity import Fidelity
from mnemosyne.domain.ports import Append
from mnemosyne.domain.session.events import GapRecorded, TurnFinished, TurnInterrupted
from mnemosyne.domain.session.input_events import GroundsNoted, HelperAsked, HelperWorked
from mnemosyne.domain.session.ledger_events import TurnAccounted
from mnemosyne.errors import LogFailed
from mnemosyne.services.billed_replies import AttemptEnd, BilledReplies, ReplyEvent
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
    plan. ``rounds`` are the turns' upstream requests, ``balances`` the actual and simulated usage by model, ``helpers``
    the cost of helper models in nanodollars. ``fidelities`` are the changes of objects' fidelities, by the new one,
    ``faults`` the page faults. ``bytes`` are those of durable appends before compression.
    """

    turns: Counter[str] = attrs.field(factory=Counter)
    gap_turns: int = 0
    policy_failures: int = 0
    rounds: int = 0
    balances: dict[str, Balance] = attrs.field(factory=dict)
    helpers: int = 0
    fidelities: Counter[Fidelity] = attrs.field(factory=Counter)
    faults: Counter[FaultKind] = attrs.field(factory=Counter)
    appends: int = 0
    failed_appends: int = 0
    events: int = 0
    bytes: int = 0
    _replies: Lru[tuple[UUID, str, int, int], BilledReplies] = attrs.field(factory=lambda: Lru(MOST_WAITING), eq=False)
    """The replies of unaccounted attempts."""

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
            attempt = self._replies.get(place) or self._replies.put(place, BilledReplies())
            attempt.note(event)
            if isinstance(event, AttemptEnd) and attempt.replies:
                self._add(attempt.asked, balance_of_replies(attempt))
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
                # An earlier process has counted replies that are not known here: only the difference is new.
                attempt = self._replies.pop(place) or BilledReplies(event.model, {0: (event.actual, Terms())})
                self._add(event.model, balance_of_turn(event, attempt.replies) - balance_of_replies(attempt))
            case _:
                pass

    def _add(self, model: str | None, balance: Balance) -> None:
        row = model or "unknown"
        if row not in self.balances and len(self.balances) >= MOST_MODELS:
            row = OTHER_MODELS
        self.balances[row] = self.balances.get(row, Balance()) + balance
