"""The price of a turn is the sum of its requests', and of its kinds of tokens."""

from typing import Any

import pytest

from mnemosyne.services.read_models import Row
from mnemosyne.services.turn_prices import prices_of
from mnemosyne.services.usage import add_up

TERMS = {"replied": None, "size": 0, "service_tier": None, "inference_geo": None, "speed": None, "web_searches": 0}


def row(turn: int, /, model: str = "claude-opus-5-5", **counts: Any) -> Row:
    """One request of a turn, as ``used_by_turn`` answers."""
    tokens = {"input": 0, "output": 0, "read": 0, "write_5m": 0, "write_1h": 0, **counts}
    return {"branch": "main", "turn": turn, "attempt": 1, "model": model, "replies": 1, **TERMS, **tokens}


def test_price_of_a_turn_is_the_one_that_usage_reports_and_the_sum_of_its_parts() -> None:
    rows = [row(1, input=7, output=90, read=1_000), row(1, write_5m=50, write_1h=20), row(2, output=3)]
    prices = prices_of(rows)
    by_turn = add_up(rows, lambda each: each["turn"])
    for turn in (1, 2):
        price = prices["main", turn, 1]
        assert price.nanodollars == by_turn[turn].price == sum(price.parts.values())


def test_average_price_of_input_excludes_what_the_cache_returned() -> None:
    price = prices_of([row(1, input=10, write_5m=10, read=1_000)])["main", 1, 1]
    assert price.input_rate(cached=False) == pytest.approx((price.parts["input"] + price.parts["write_5m"]) / 20)
    assert price.input_rate(cached=True) == pytest.approx(price.parts["read"] / 1_000)


def test_turn_with_a_request_of_unknown_price_has_no_price() -> None:
    price = prices_of([row(1, input=10), row(1, "unheard-of", input=10)])["main", 1, 1]
    assert (price.nanodollars, price.parts, price.input_rate(cached=False)) == (None, {}, 0.0)
