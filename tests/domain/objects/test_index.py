"""The index of files, sources and recent work, and its bounds."""

import attrs
from hypothesis import given
from hypothesis import strategies as st

from mnemosyne.domain.objects.events import BlockPlace
from mnemosyne.domain.objects.index import KEYS, READS, RECENT, ObjectPaths, Showing
from mnemosyne.domain.objects.kinds import ObjectKind
from tests.not_none import not_none

RANGES = st.tuples(st.integers(1, 50), st.integers(1, 50)).map(lambda both: (min(both), max(both)))


@attrs.frozen(kw_only=True)
class Thing:
    """The fields of an object that the index reads."""

    kind: ObjectKind = ObjectKind.FILE_CONTEXT
    source_key: str | None = "a.py"
    tags: tuple[str, ...] = ("read", "whole")
    first_turn: int = 1
    places: tuple[BlockPlace, ...] = (BlockPlace(1, 0),)


def after(*things: Thing) -> ObjectPaths:
    index = ObjectPaths()
    for number, thing in enumerate(things):
        index = index.after(f"o{number}", thing, ())
    return index


@given(RANGES, RANGES, st.booleans())
def test_later_read_covers_the_lines_inside_its_range(new: tuple[int, int], old: tuple[int, int], later: bool) -> None:
    one = Showing("new", BlockPlace(2 if later else 0, 0), (new,))
    other = Showing("old", BlockPlace(1, 0), (old,))
    assert one.covers(other) == (later and new[0] <= old[0] and old[1] <= new[1])


def test_edit_is_the_latest_change_and_makes_earlier_reads_stale() -> None:
    index = after(Thing(), Thing(tags=("edit",), places=(BlockPlace(3, 0),)))
    assert index.changed["a.py"].target == "o1"
    assert [each.target for each in index.fresh("a.py", BlockPlace(9, 0))] == ["o0"]
    assert list(index.supersede("o0").fresh("a.py", BlockPlace(9, 0))) == []


def test_source_is_found_only_after_its_place() -> None:
    index = after(Thing(kind=ObjectKind.TOOL_RESULT, source_key="ls", places=(BlockPlace(4, 0),)))
    assert index.find_before("ls", BlockPlace(4, 0)) is None
    assert not_none(index.find_before("ls", BlockPlace(5, 0))).target == "o0"


def test_index_size_is_bounded() -> None:
    many = [Thing(source_key=f"{number}.py", places=(BlockPlace(number, 0),)) for number in range(KEYS + 9)]
    index = after(*many)
    assert len(index.showing) == KEYS
    assert "0.py" not in index.showing
    assert len(index.recent) == RECENT
    parts = [Thing(tags=("read", f"lines:{n}-{n}"), places=(BlockPlace(n, 0),)) for n in range(1, READS + 9)]
    assert len(after(*parts).showing["a.py"]) == READS


def test_failed_run_is_marked_failed_and_a_parent_removes_its_parts_from_recent() -> None:
    index = after(Thing(kind=ObjectKind.ERROR_CONTEXT, tags=("error", "run")), Thing(places=(BlockPlace(3, 0),)))
    assert [(each.target, each.failed) for each in index.recent] == [("o0", True), ("o1", False)]
    parent = Thing(kind=ObjectKind.DEBUGGING_SESSION, places=())
    assert [each.target for each in index.after("p", parent, ["o0"]).recent] == ["o1"]


NUMBERS = st.tuples(st.integers(0, 3), st.integers(0, 3))


@given(NUMBERS, NUMBERS)
def test_places_are_ordered_as_pairs_of_message_and_block(one: tuple[int, int], other: tuple[int, int]) -> None:
    first, second = BlockPlace(*one), BlockPlace(*other)
    assert (first < second, first <= second) == (one < other, one <= other)
    assert (first > second, first >= second) == (one > other, one >= other)
