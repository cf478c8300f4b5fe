"""Charts: round axis labels, coordinates of values, and names that never become markup."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from mnemosyne.services.charts import OFF, Plane, px, simplify, ticks


@given(st.floats(1, 1e9))
def test_a_scale_has_two_to_six_round_numbers_from_zero(top: float) -> None:
    marks = ticks(top)
    assert marks[0] == 0
    assert 2 <= len(marks) <= 6
    assert marks[-1] <= top
    assert set(str(marks[1]).rstrip("0")) <= set("125")


@given(st.integers(1, 500), st.integers(1, 500), st.floats(0, 100), st.floats(0.1, 100))
def test_coordinates_stay_inside_the_plane(first: int, more: int, value: float, highest: float) -> None:
    plane = Plane(left=10, right=90, top=5, base=50, first=first, last=first + more, highest=highest)
    assert (plane.x(first), plane.x(first + more)) == (10, 90)
    assert 5 <= plane.y(value) <= plane.y(0) == 50


@given(st.lists(st.integers(0, 40), min_size=1, max_size=60))
def test_a_simplified_line_is_near_every_point(heights: list[int]) -> None:
    places = [(float(x), height / 10) for x, height in enumerate(heights)]
    kept = simplify(places)
    assert (kept[0], kept[-1]) == (places[0], places[-1])
    for (left, low), (right, high) in pairwise(kept):
        for x, y in places[int(left) : int(right)]:
            assert abs(low + (high - low) * (x - left) / (right - left) - y) <= OFF + 1e-9


def test_coordinates_are_tenths() -> None:
    assert [px(value) for value in (1, 1.25, 1.2499, -0.05)] == ["1", "1.3", "1.2", "0"]
