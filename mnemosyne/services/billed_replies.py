"""The billed replies of an attempt from its events: the rule of SQL's ``billed_replies()``, without a database."""

from collections.abc import Sequence

import attrs

from mnemosyne.domain.cost.prices import Terms, Tokens, find_last_usage, terms_of, tokens_of, window_of
from mnemosyne.domain.session.events import TurnBegan, TurnFinished, TurnInterrupted
from mnemosyne.domain.session.round_events import RoundBegan, RoundFinished

BilledReply = tuple[Tokens, Terms]
AttemptEnd = TurnFinished | TurnInterrupted
ReplyEvent = TurnBegan | RoundBegan | RoundFinished | AttemptEnd


@attrs.define
class BilledReplies:
    """The replies of one attempt so far. ``asked`` is the requested model. ``last`` is the last round that began, 0 for
    none; ``by_round`` has no tokens for a finished round without a count. The attempt's only reply, or an interrupted
    last one, has the key ``last``.
    """

    asked: str | None = None
    by_round: dict[int, tuple[Tokens | None, Terms]] = attrs.field(factory=dict)
    last: int = 0

    def note(self, event: ReplyEvent) -> None:
        if isinstance(event, TurnBegan):
            self.asked = event.model
        elif isinstance(event, RoundBegan):
            self.last = event.round
        elif isinstance(event, RoundFinished):
            self.by_round[event.round] = tokens_of(event.usage), terms_of_end(event)
        elif self.last not in self.by_round:
            before = [self.by_round.get(number, (None,))[0] for number in range(1, self.last)]
            used = find_last_usage(window_of(event.usage), before) if self.last else tokens_of(event.usage)
            terms, searched = terms_of_end(event), sum(each.searches for _, each in self.replies)
            self.by_round[self.last] = used, attrs.evolve(terms, searches=max(0, terms.searches - searched))

    @property
    def replies(self) -> Sequence[BilledReply]:
        """The replies with a count, which are billed, in order."""
        return [(used, terms) for used, terms in self.by_round.values() if used is not None]


def terms_of_end(ended: RoundFinished | AttemptEnd) -> Terms:
    """The terms on which a reply is billed, with its model unless it was interrupted: that event names none."""
    return terms_of(ended.usage, None if isinstance(ended, TurnInterrupted) else ended.model)
