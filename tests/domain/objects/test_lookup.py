"""An unknown id is reported with similar ids, and a forgotten object cannot be changed."""

import pytest

from mnemosyne.domain.objects import memory
from mnemosyne.domain.objects.events import ObjectForgotten
from mnemosyne.domain.objects.lookup import find_wanted, living
from mnemosyne.domain.objects.memory import Memory
from mnemosyne.errors import NotFound
from tests.domain.remembered import made

ONE = memory.evolve(Memory(), made("abcdefg", 0))


def test_unknown_id_is_reported_with_similar_ids() -> None:
    with pytest.raises(NotFound, match="Did you mean abcdefg"):
        living(ONE, "abcdefx")


def test_id_is_accepted_as_the_model_sees_it() -> None:
    assert find_wanted(ONE, "#AbCdEfG") is ONE.objects["abcdefg"]


def test_forgotten_object_can_be_viewed_but_not_changed() -> None:
    gone = memory.evolve(ONE, ObjectForgotten(at=2, object="abcdefg", reason="r"))
    assert find_wanted(gone, "abcdefg").forgotten
    with pytest.raises(NotFound, match="was forgotten"):
        living(gone, "abcdefg")
