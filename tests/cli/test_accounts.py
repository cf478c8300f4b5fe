"""Sentences and JSON about the tokens and the cost of a turn, and about a subscription's limits."""

import time
from typing import Any
from uuid import UUID

import attrs
import pytest

from mnemosyne.cli.accounts import account_of, quota_as_json, quota_lines
from mnemosyne.domain.cost.prices import Tokens
from mnemosyne.domain.session.round_events import Mode
from mnemosyne.services.usage import QuotaWindow
from tests.domain.session_events import accounted


@pytest.mark.parametrize(
    ("event", "sentence"),
    [
        (
            accounted(1, 100, 300),
            "Without the proxy it would have used 300 written to it, 1 of output: it cost 250 less",
        ),
        (accounted(1, 300, 100), "it cost 250 more in input tokens."),
        (accounted(1, 100, 300, Mode.OBSERVE), "nothing was saved or lost."),
        (accounted(1, 100, 300, assumed=True), "because the provider reported no complete or plausible usage."),
        (accounted(1, 100, 300, rounds=3), "in 3 rounds, as billed."),
        (accounted(1, 100, 300, compacted=True), "the client would have compacted its history here."),
        (accounted(1, 100, 300, deviates=True), "billed considerably more"),
        (attrs.evolve(accounted(1, 100, 300), actual=Tokens(read=20_000)), "It used 20.0k read from the cache"),
    ],
)
def test_account_of_a_turn_names_its_tokens_and_the_difference(event: Any, sentence: str) -> None:
    assert sentence in " ".join(account_of(event))


def test_limit_of_a_subscription_is_shown_with_the_sessions_that_used_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    one, other = UUID(int=1), UUID(int=2)
    taken = {one: 0.01, other: 0.125}
    window = QuotaWindow(span="5h", at=0, used=0.42, reset=3_600_000_000, status="allowed", taken=taken)
    assert quota_lines([window], {other: "mine"}) == [
        "Subscription, five hours: 42.0% used (allowed), resets 1970-01-01 01:00:00",
        "  12.5% by 00000000 mine",
        "  1.0% by 00000000",
    ]
    (row,) = quota_as_json([window])
    assert (row["window"], row["used"], row["taken"]) == ("5h", 0.42, {str(one): 0.01, str(other): 0.125})
