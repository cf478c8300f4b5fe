"""The account of a turn: the tokens that it used, and those that it would have used without the proxy.

`docs/events.md` explains each field.
"""

import attrs

from mnemosyne.domain.cost.prices import Tokens
from mnemosyne.domain.session.address import AttemptEvent
from mnemosyne.domain.session.round_events import Mode


@attrs.frozen(kw_only=True)
class Held:
    """An entry that a request wrote to the provider's cache, or renewed: for an ``hour`` or for five minutes."""

    digest: bytes
    hour: bool
    expires: int
    readable_at: int


@attrs.frozen(kw_only=True)
class TurnAccounted(AttemptEvent):
    """A turn was billed."""

    began: int
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
    far: bool | None


LEDGER_EVENT_NAMES = {"session.turn_accounted.v2": TurnAccounted}
