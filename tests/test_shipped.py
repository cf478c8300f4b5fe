"""The data that is shipped with the package."""

from mnemosyne import shipped
from mnemosyne.domain.cost.catalogue import catalogue_of, read_tables


def test_the_shipped_table_of_models_can_be_used_as_it_is() -> None:
    found = catalogue_of(read_tables(shipped.models(), "that is shipped"), "that is shipped")
    assert "claude-opus-5-5" in found.prices
    assert "claude-opus-5-5" in found.models
