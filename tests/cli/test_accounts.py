"""What the ledger says of a turn, in sentences."""

from typing import Any

import attrs
import pytest

from mnemosyne.cli.accounts import account_of
from mnemosyne.domain.cost.prices import Tokens
from mnemosyne.domain.session.round_events import Mode
from tests.projections.test_savings import accounted


@pytest.mark.parametrize(
    ("event", "said"),
    [
        (accounted(1, 100, 300), "Without us it would have used 300 written to it, 1 of output: it cost 250 less"),
        (accounted(1, 300, 100), "it cost 250 more (in tokens of input)."),
        (accounted(1, 100, 300, Mode.OBSERVE), "nothing was saved and nothing lost."),
        (accounted(1, 100, 300, assumed=True), "because the provider did not say."),
        (accounted(1, 100, 300, rounds=3), "in 3 rounds, as billed."),
        (accounted(1, 100, 300, compacted=True), "the client would have compacted its history here."),
        (accounted(1, 100, 300, deviates=True), "bills markedly more"),
        (attrs.evolve(accounted(1, 100, 300), actual=Tokens(read=20_000)), "It used 20.0k read from the cache"),
    ],
)
def test_the_account_of_a_turn_is_told_in_sentences(event: Any, said: str) -> None:
    assert said in " ".join(account_of(event))
