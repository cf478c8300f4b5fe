"""A temporary table of models."""

from collections.abc import Iterator
from contextlib import contextmanager

from mnemosyne.domain.cost.catalogue import Tables, catalogue_of, in_force, load_shipped, overlay, use


@contextmanager
def other_tables(over: Tables) -> Iterator[None]:
    """Use the shipped rows and these in this process."""
    before = in_force()
    use(catalogue_of(overlay(load_shipped(), over), "of a test"))
    try:
        yield
    finally:
        use(before)
