"""The price of a model is set in the user's own table, and nothing else of that changes."""

from pathlib import Path

import pytest

from mnemosyne.cli.prices_file import set_price
from mnemosyne.domain.cost.catalogue import read_tables
from mnemosyne.errors import BadConfiguration

FILE = Path("models.toml")


def priced(text: str, model: str = "gpt-6.2-astra", given: str = "10") -> str:
    return set_price(text, FILE, model, given=given, output="50", read="1")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "# mine\n[models]\nqwen = { cache_minimum = 1 }\n",
        "[prices] # dollars\nqwen = { input = 1, output = 2, read = 0 }\n\n[models]\nqwen = { cache_minimum = 1 }\n",
    ],
)
def test_a_price_is_added_or_changed_and_the_rest_of_the_file_stays(text: str) -> None:
    once = priced(text)
    before = read_tables(text, "x")
    prices = read_tables(once, "x")["prices"]
    assert {key: str(value) for key, value in prices["gpt-6.2-astra"].items()} == {
        "input": "10",
        "output": "50",
        "read": "1",
    }
    assert {**read_tables(once, "x"), "prices": before.get("prices")} == {**before, "prices": before.get("prices")}
    assert set(text.splitlines()) <= set(once.splitlines())
    twice = priced(once, given="7.5")
    assert str(read_tables(twice, "x")["prices"]["gpt-6.2-astra"]["input"]) == "7.5"
    assert len(twice.splitlines()) == len(once.splitlines())


@pytest.mark.parametrize("given", ["much", "-1", "0", "1 }\n[models", ""])
def test_what_is_no_price_changes_nothing(given: str) -> None:
    with pytest.raises(BadConfiguration):
        priced("", given=given)


def test_a_file_that_cannot_be_changed_line_by_line_is_left_alone() -> None:
    with pytest.raises(BadConfiguration, match="edit the file"):
        priced("prices.qwen = { input = 1, output = 2, read = 0 }\n")
