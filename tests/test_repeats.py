"""`make test` leaves out only tests whose branches other tests take."""

from hypothesis import given
from hypothesis import strategies as st

from tests.repeats import KEPT, LEAST, LIST, SEEN, find_repeats, read_list

ROOT = LIST.parents[1]

BRANCHES = st.dictionaries(
    st.sampled_from([f"{folder}test_{n}" for folder in (KEPT[0], "tests/") for n in range(8)]),
    st.frozensets(st.integers(0, 6)).map(lambda few: {*few, *range(100, 100 + SEEN)} if few else few),
    max_size=12,
)


@given(BRANCHES, st.integers(0, 3))
def test_every_branch_of_a_repeat_is_covered_by_a_test_that_stays(branches: dict[str, set[int]], short: int) -> None:
    seconds = {test: LEAST * (0.5 if at < short else 2) for at, test in enumerate(branches)}
    found = find_repeats(seconds, branches)
    kept = {branch for test, taken in branches.items() if test not in found for branch in taken}
    assert kept == {branch for taken in branches.values() for branch in taken}
    assert all(seconds[test] >= LEAST and not test.startswith(KEPT) for test in found)


def test_slower_of_two_equal_tests_is_the_repeat() -> None:
    same = {"tests/fast": set(range(SEEN)), "tests/slow": set(range(SEEN))}
    assert find_repeats({"tests/fast": LEAST, "tests/slow": 2 * LEAST}, same) == ["tests/slow"]


def test_every_repeat_exists() -> None:
    names = {(file, test.split("[")[0]) for file, *_, test in (each.split("::") for each in read_list())}
    assert [(file, test) for file, test in sorted(names) if f"def {test}(" not in (ROOT / file).read_text()] == []
