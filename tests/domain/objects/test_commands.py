"""Pinning: what is so already is not recorded again, and an unknown id is told with those that are nearly so."""

from functools import reduce

import pytest

from mnemosyne.domain.objects import memory
from mnemosyne.domain.objects.commands import Pin, Unpin, decide, wanted
from mnemosyne.domain.objects.events import ObjectForgotten
from mnemosyne.domain.objects.memory import Memory
from mnemosyne.errors import NotFound
from tests.domain.memory_objects import made

ONE = memory.evolve(Memory(), made("abcdefg", 0))
PIN = Pin(at=1, object="ABCDEFG", reason="why", until_turn=None)
UNPIN = Unpin(at=2, object="abcdefg", reason="done")


def test_to_pin_and_to_unpin_twice_is_to_do_it_once() -> None:
    pinned = reduce(memory.evolve, decide(PIN, ONE), ONE)
    assert pinned.objects["abcdefg"].is_pinned(10**6)
    assert decide(PIN, pinned) == ()
    free = reduce(memory.evolve, decide(UNPIN, pinned), pinned)
    assert free.objects["abcdefg"].pin is None
    assert decide(UNPIN, free) == ()


def test_to_pin_again_with_another_end_changes_the_pin() -> None:
    pinned = reduce(memory.evolve, decide(PIN, ONE), ONE)
    (event,) = decide(Pin(at=3, object="abcdefg", reason="why", until_turn=7), pinned)
    again = memory.evolve(pinned, event)
    assert [again.objects["abcdefg"].is_pinned(turn) for turn in (7, 8)] == [True, False]


def test_an_unknown_id_is_told_with_its_neighbours() -> None:
    with pytest.raises(NotFound, match="Is it abcdefg"):
        decide(Unpin(at=1, object="abcdefx", reason="r"), ONE)


def test_an_id_may_be_written_as_the_model_reads_it() -> None:
    assert wanted(ONE, "#AbCdEfG") is ONE.objects["abcdefg"]


def test_what_was_forgotten_cannot_be_pinned() -> None:
    gone = memory.evolve(ONE, ObjectForgotten(at=2, object="abcdefg", reason="r"))
    with pytest.raises(NotFound, match="was forgotten"):
        decide(PIN, gone)
