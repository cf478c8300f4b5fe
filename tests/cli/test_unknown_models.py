"""A model that is not in the table is named wherever its numbers could be taken for known ones."""

from collections.abc import Iterator

import attrs
import pytest
from click.testing import CliRunner

from mnemosyne.cli import main
from mnemosyne.domain.cost.catalogue import in_force, use
from tests.tables import other_tables


@pytest.fixture(autouse=True)
def nothing_known() -> Iterator[None]:
    with other_tables({}):
        use(attrs.evolve(in_force(), prices={}, models={}))
        yield


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("sessions", "No price is known for claude-opus-5-5"),
        ("usage", "No price is known for claude-opus-5-5"),
        ("explain SESSION", "The table of models has incomplete data for claude-opus-5-5"),
        ("doctor", "no price is known for another-model, claude-opus-5-5"),
    ],
)
def test_an_unknown_model_is_named(command: str, said: str, conversation: str) -> None:
    CliRunner().invoke(main, ["usage"], catch_exceptions=False)  # which brings the read model up to date
    result = CliRunner().invoke(main, command.replace("SESSION", conversation).split(), catch_exceptions=False)
    assert said in " ".join(result.output.split())
