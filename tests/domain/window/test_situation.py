"""How large a prompt can be."""

import attrs

from mnemosyne.domain.session.ledger import Ledger
from mnemosyne.domain.window.situation import find_limit

SMALL, MILLION = "claude-haiku-4-5", "claude-opus-5-5"


def test_where_nobody_wants_a_window_a_prompt_is_limited_by_where_its_client_compacts_or_its_model_ends() -> None:
    seen = attrs.evolve(Ledger(), compacts_at=400_000)
    assert find_limit(None, MILLION, Ledger()) == 967_000
    assert find_limit(None, MILLION, seen) == 400_000
    assert find_limit(None, SMALL, Ledger()) == 160_000  # it compacts at 155,000, but our window comes first
    assert find_limit(None, SMALL, seen) == 200_000


def test_a_window_that_somebody_wants_is_the_limit_too_whatever_it_is() -> None:
    for wanted in (45_000, 160_000, 400_000):
        assert find_limit(wanted, MILLION, Ledger()) == wanted
    assert find_limit(400_000, SMALL, Ledger()) == 200_000
