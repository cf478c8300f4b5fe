"""Another table of models for a while."""

from collections.abc import Iterator
from contextlib import contextmanager

from mnemosyne.domain.cost.catalogue import Tables, catalogue_of, in_force, overlay, shipped_tables, use


@contextmanager
def other_tables(over: Tables) -> Iterator[None]:
    """This process decides with the shipped rows and these."""
    before = in_force()
    use(catalogue_of(overlay(shipped_tables(), over), "of a test"))
    try:
        yield
    finally:
        use(before)
