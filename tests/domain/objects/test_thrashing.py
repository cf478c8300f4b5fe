"""Repeated fetches of the same content show that a window is too small for its task."""

from hypothesis import given, settings
from hypothesis import strategies as st

from mnemosyne.domain.objects.thrashing import THRASH_TURNS, Refault, refault_distance, thrash_index


def test_the_thrash_index_counts_repeated_faults_of_the_last_five_turns() -> None:
    faults = [Refault(1, "a"), Refault(6, "a"), Refault(7, "a"), Refault(8, "b"), Refault(10, "a"), Refault(11, "a")]
    assert thrash_index(faults, 10) == 2 / 5
    assert thrash_index([], 10) == 0


@settings(max_examples=50)
@given(st.lists(st.builds(Refault, st.integers(0, 120), st.sampled_from("abc"))), st.integers(5, 120))
def test_a_further_fault_never_lowers_the_thrash_index(faults: list[Refault], turn: int) -> None:
    index = thrash_index(faults, turn)
    more = thrash_index([*faults, Refault(turn, "a")], turn)
    assert index <= more <= index + 1 / THRASH_TURNS


def test_refault_distance_counts_turns_from_eviction_to_fault() -> None:
    assert refault_distance(left=10, turn=14) == 4
