"""A model without a known price is named wherever its numbers are shown."""

from collections.abc import Iterator

import attrs
import pytest
from click.testing import CliRunner

from mnemosyne.cli import main
from mnemosyne.domain.cost.catalogue import in_force, use
from mnemosyne.figures import price_sentence
from tests.cli.running import run
from tests.profiles import rarely
from tests.tables import other_tables


@pytest.fixture(autouse=True)
def no_known_models() -> Iterator[None]:
    with other_tables({}):
        use(attrs.evolve(in_force(), prices={}, models={}))
        yield


@pytest.mark.parametrize(
    ("command", "sentence"),
    [
        ("sessions", "No price is known for claude-opus-5-5"),
        ("usage", "No price is known for claude-opus-5-5"),
        ("explain SESSION", "The table of models has incomplete data for claude-opus-5-5"),
        *rarely([("doctor", "no price for another-model, claude-opus-5-5")]),
    ],
)
def test_unknown_model_is_named(command: str, sentence: str, conversation: str) -> None:
    run("usage")  # updates the read model
    done = CliRunner().invoke(main, command.replace("SESSION", conversation).split(), catch_exceptions=False)
    assert sentence in " ".join(done.output.split())


def test_suggested_command_quotes_a_model_that_the_shell_would_interpret() -> None:
    assert price_sentence(["a-<b>x</b>"], "it is").endswith("config price 'a-<b>x</b>' INPUT OUTPUT CACHE-READ")
