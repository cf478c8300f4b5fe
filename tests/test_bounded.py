"""A mapping of bounded size evicts the least recently used entry."""

from hypothesis import given
from hypothesis import strategies as st

from mnemosyne.bounded import Lru

STEPS = st.lists(st.tuples(st.booleans(), st.integers(0, 6)), max_size=40)


@given(st.integers(1, 4), STEPS)
def test_most_recently_used_keys_are_kept(size: int, steps: list[tuple[bool, int]]) -> None:
    held: Lru[int, int] = Lru(size)
    order: list[int] = []
    """The keys that should be held, the one that goes next first."""
    for number, (is_put, key) in enumerate(steps):
        if is_put:
            assert held.put(key, number) == number
            order = [*(each for each in order if each != key), key][-size:]
        else:
            assert (held.get(key) is not None) == (key in order)
            order = [*(each for each in order if each != key), *(each for each in order if each == key)]
    assert len(held.values()) == len(order)
    assert [held.get(key) is not None for key in order] == [True] * len(order)


def test_key_has_its_last_value() -> None:
    held: Lru[str, int] = Lru(2)
    held.put("a", 1)
    held.put("a", 2)
    assert (held.get("a"), list(held.values())) == (2, [2])
    assert (held.pop("a"), held.pop("a"), held.get("a")) == (2, None, None)
    held.put("a", 3)
    held.clear()
    assert held.get("a") is None


@given(st.integers(1, 9), st.lists(st.tuples(st.integers(0, 6), st.integers(1, 9)), min_size=1, max_size=40))
def test_total_weight_is_within_the_bound_except_for_a_single_newest_entry(
    most: int, steps: list[tuple[int, int]]
) -> None:
    held: Lru[int, int] = Lru(most, weight=lambda weight: weight)
    for key, weight in steps:
        held.put(key, weight)
        assert held.values()[-1] == weight
        assert sum(held.values()) <= most or held.values() == [weight]
    copied = held.copy()
    copied.put(-1, most)
    assert copied.values() == [most]
    held.clear()
    held.put(0, most)
    assert held.values() == [most]


def test_entry_that_fits_is_not_evicted() -> None:
    held: Lru[str, int] = Lru(10, weight=lambda weight: weight)
    held.put("a", 9)
    held.put("a", 4)
    held.put("b", 6)
    assert held.pop("c") is None
    assert (held.get("a"), held.get("b")) == (4, 6)
