"""Another table of models for a while."""

from collections.abc import Iterator
from contextlib import contextmanager

from mnemosyne.domain.cost.catalogue import Tables, catalogue_of, in_force, load_shipped, overlay, use


@contextmanager
def other_tables(over: Tables) -> Iterator[None]:
    """This process decides with the shipped rows and these."""
    before = in_force()
    use(catalogue_of(overlay(load_shipped(), over), "of a test"))
    try:
        yield
    finally:
        use(before)
