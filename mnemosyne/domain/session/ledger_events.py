"""What is recorded of the account of a turn: what it used, and what it would have used without us."""

import attrs

from mnemosyne.domain.cost.prices import Tokens
from mnemosyne.domain.session.round_events import Mode


@attrs.frozen(kw_only=True)
class Held:
    """An entry that a request wrote to the provider's cache, or renewed: for an ``hour`` or for five minutes."""

    digest: bytes
    hour: bool
    expires: int
    readable_at: int


@attrs.frozen(kw_only=True)
class TurnAccounted:
    """A turn was billed. ``began`` is when its request left, ``rounds`` how many requests it took.

    ``actual`` is what the provider counted, ``expected`` what the rules of its cache say for the same requests; where
    the provider counted nothing credible, ``assumed`` is true and both are the same. ``shadow`` is what the client's
    own request would have used; nothing, where an earlier attempt at the turn was accounted.

    ``estimated`` and ``counted`` are the size of the last round's prompt as we and as the provider see it; 0 where it
    did not say. Without us the client would have compacted its history, for the last time before its message number
    ``since`` (0: never); ``compacted`` says that it would have done so at this turn.

    ``shadow_entries`` and ``wire_entries`` are what both requests left in the provider's cache; where the client's own
    bytes went they are the same, and only the first are recorded. ``deviates`` says whether the last turns cost
    markedly more than expected.
    """

    at: int
    began: int
    branch: str
    turn: int
    attempt: int
    mode: Mode
    model: str | None
    rounds: int
    shadow: Tokens
    expected: Tokens
    actual: Tokens
    assumed: bool
    estimated: int
    counted: int
    since: int
    compacted: bool
    shadow_entries: tuple[Held, ...]
    wire_entries: tuple[Held, ...]
    deviates: bool


LEDGER_EVENT_NAMES = {"session.turn_accounted.v1": TurnAccounted}
