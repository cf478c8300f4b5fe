"""An unknown id is told with those that are nearly so, and what was forgotten cannot be decided on."""

import pytest

from mnemosyne.domain.objects import memory
from mnemosyne.domain.objects.events import ObjectForgotten
from mnemosyne.domain.objects.lookup import find_wanted, living
from mnemosyne.domain.objects.memory import Memory
from mnemosyne.errors import NotFound
from tests.domain.memory_objects import made

ONE = memory.evolve(Memory(), made("abcdefg", 0))


def test_an_unknown_id_is_told_with_its_neighbours() -> None:
    with pytest.raises(NotFound, match="Is it abcdefg"):
        living(ONE, "abcdefx")


def test_an_id_may_be_written_as_the_model_reads_it() -> None:
    assert find_wanted(ONE, "#AbCdEfG") is ONE.objects["abcdefg"]


def test_what_was_forgotten_can_be_looked_at_and_is_no_more() -> None:
    gone = memory.evolve(ONE, ObjectForgotten(at=2, object="abcdefg", reason="r"))
    assert find_wanted(gone, "abcdefg").forgotten
    with pytest.raises(NotFound, match="was forgotten"):
        living(gone, "abcdefg")
