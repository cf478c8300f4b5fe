"""The account of a turn: the tokens that it used, and those that it would have used without the proxy."""

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
    """A turn was billed. ``began`` is when its request was sent, ``rounds`` the number of requests it took.

    ``actual`` is the usage that the provider counted, ``expected`` the usage that its cache rules predict for the same
    requests; if the provider counted nothing credible, ``assumed`` is true and both are equal. ``shadow`` is the usage
    that the client's own request would have had; 0 if an earlier attempt at the turn was accounted.

    ``estimated`` and ``counted`` are the size of the last round's prompt, as the proxy estimates and as the provider
    counts it (0 if it did not). Without the proxy the client would have compacted its history, the last time before its
    message number ``since`` (0: never); ``compacted`` is true if it would have done so at this turn.

    ``shadow_entries`` and ``wire_entries`` are the cache entries that both requests wrote; if the proxy sent the
    client's own bytes they are equal, and only the first are recorded. ``deviates`` is true if the last turns cost
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
