"""Request bodies in transfer share one budget; a single one may use all of it."""

from contextlib import suppress

import pytest

from mnemosyne.errors import TooMuchAtOnce
from mnemosyne.http.unfinished import PIECE, Unfinished


def test_all_bodies_share_a_bound_and_a_finished_one_frees_its_part() -> None:
    room = Unfinished(most=10_000)
    with room.body() as one:
        with room.body() as other:
            one.take(5_000)
            other.take(4_000)
            with pytest.raises(TooMuchAtOnce, match="Try again"):
                other.take(1_000)
        one.take(4_000)
    assert room.held == 0


def test_single_body_may_be_larger() -> None:
    with Unfinished(most=10).body() as alone:
        alone.take(1_000_000)
        alone.take(1_000_000)


def test_small_pieces_count_with_their_overhead() -> None:
    room = Unfinished(most=100 * PIECE)
    with room.body() as one, room.body() as other:
        one.take(1)
        for _ in range(98):
            other.take(1)
        with pytest.raises(TooMuchAtOnce):
            other.take(1)


def test_incomplete_bodies_free_their_memory() -> None:
    room = Unfinished()
    with room.body() as whole:
        whole.take(1_000)
    for _ in range(2):
        with suppress(ConnectionError), room.body() as part:
            part.take(1_000)
            raise ConnectionError
    assert room.held == 0
