"""The room of a request for objects that are restored because a helper model expects that they will be needed."""

from mnemosyne.domain.session.state import Session
from mnemosyne.domain.window.planning import RULE
from mnemosyne.domain.window.situation import PendingRequest, Sizes, costs_of, count_prompt, find_limit
from mnemosyne.domain.window.window_size import choose_window
from mnemosyne.domain.wire import markers

MOST_TOKENS, SHARE = 4_000, 50
"""Maximum number of tokens, and the fraction of a window, that they may take."""

PREDICTING = ("both", "proxy")
"""The values of ``restores`` with which predicted objects are restored."""

OWN_TEXT = 200
"""Tokens of the proxy's own text around them."""

KEPT = 20
"""Number of requests that send them again, as assumed for their cost: until the next rewrite removes them."""


def find_room(asked: PendingRequest, session: Session, sizes: Sizes) -> int:
    """The tokens that fit the window and that the session can pay: even if nothing of them is used, it must not cost
    more than the margin over its cost without the proxy.
    """
    if asked.settings.restores not in PREDICTING:
        return 0
    window = choose_window(asked.settings.window, asked.model, session.find_stated_window(asked.model))
    free = find_limit(asked.settings.window, asked.model, session) - count_prompt(asked, session, sizes)
    costs = costs_of(asked.tariff, asked.model, session.ledger, hour=markers.asks_for_an_hour(asked.read))
    paid = min((RULE.margin * each.shadow - each.billed) / (each.write + KEPT * each.read) for each in costs)
    return max(0, min(MOST_TOKENS, window // SHARE, free, int(paid)) - OWN_TEXT)
