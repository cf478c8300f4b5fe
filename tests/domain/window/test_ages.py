"""Age limits: by kind, size, later operations on the file, and the faults of the session."""

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mnemosyne.domain.objects.kinds import ObjectKind
from mnemosyne.domain.window.ages import (
    AGES,
    SHORTEST,
    Age,
    Candidate,
    Later,
    Quotable,
    Reuse,
    WindowAges,
    find_quotable,
    later_of,
    slow_down,
)
from tests.domain.window.test_planning import candidate as usual

READ, PART, EDIT, WRITE = ("read", "whole"), ("read", "lines:1-20"), ("edit",), ("write", "whole")
PATH = "/a.py"


def candidate(tokens: int = 1_000, **changes: object) -> Candidate:
    """A file that was read whole in turn 10 and not used since."""
    whole = usual(tags=READ, tokens=(tokens, None, None, 40, 20))
    return attrs.evolve(whole, **changes)  # type: ignore[arg-type]  # the names of the fields


def turns(each: Candidate, *, exchange: int = 1, reuse: Reuse = Reuse(), hurry: int = 1) -> int:  # noqa: B008
    quotable = find_quotable(each.kind, each.tags)
    return WindowAges(AGES, exchange, {quotable: reuse} if quotable else {}, hurry).turns(each)


# Later operations


def test_each_read_of_a_file_knows_the_later_operations() -> None:
    looks = [
        ("a", PATH, READ),
        ("other", "/b.py", READ),
        ("b", PATH, EDIT),
        ("c", PATH, PART),
        ("d", PATH, EDIT),
        ("said", None, ()),
    ]
    assert later_of(looks) == {
        "a": Later.READ_IN_PART,
        "other": Later.NOTHING,
        "b": Later.READ_IN_PART,
        "c": Later.EDITED,
        "d": Later.NOTHING,
    }


@pytest.mark.parametrize("again", [READ, WRITE])
def test_whole_content_replaces_every_earlier_read(again: tuple[str, ...]) -> None:
    found = later_of([("a", PATH, READ), ("b", PATH, PART), ("c", PATH, again), ("d", PATH, PART)])
    assert found == {"a": Later.REPLACED, "b": Later.REPLACED, "c": Later.READ_IN_PART, "d": Later.NOTHING}


@given(st.lists(st.tuples(st.sampled_from([PATH, "/b.py", None]), st.sampled_from([READ, PART, EDIT, WRITE, ()]))))
def test_further_operations_never_lower_the_later_operation(looks: list[tuple[str | None, tuple[str, ...]]]) -> None:
    named = [(str(number), source, tags) for number, (source, tags) in enumerate(looks)]
    before, after = later_of(named[:-1]), later_of(named)
    assert all(after[key] >= later for key, later in before.items())


# Age limits


def test_a_file_that_was_read_whole_outlives_a_part_and_an_edit_outlives_both() -> None:
    whole, part, edit, written = (turns(candidate(tags=tags)) for tags in (READ, PART, EDIT, WRITE))
    assert part < whole < written < edit
    assert [whole, part, edit, written] == [each.turns for each in (AGES.whole, AGES.part, AGES.edit, AGES.write)]


def test_edit_shortens_the_life_of_a_read_until_a_part_is_read_again() -> None:
    for tags in (READ, PART):
        edited, returned = (candidate(4_000, tags=tags, later=later) for later in (Later.EDITED, Later.READ_IN_PART))
        assert turns(edited) < turns(candidate(4_000, tags=tags)) == turns(returned)


def test_object_replaced_by_newer_whole_content_is_old_at_once() -> None:
    assert [turns(candidate(tags=tags, later=Later.REPLACED)) for tags in (READ, PART, EDIT, WRITE)] == [1] * 4
    assert turns(candidate(stale=True)) == 1
    assert turns(candidate(stale=True, later=Later.READ_IN_PART)) > 1


def test_edit_does_not_change_the_age_limit_of_a_written_file() -> None:
    assert turns(candidate(tags=WRITE, stale=True)) == turns(candidate(tags=WRITE)) == AGES.write.turns


def test_whole_read_ages_half_as_fast_until_enough_changes() -> None:
    look = candidate(tags=READ, last_use=10)
    changes = [candidate(tags=EDIT, born=10 + number, last_use=10 + number) for number in range(5)]

    def last_use(*objects: Candidate) -> int:
        return slow_down([look, *objects], 30, 3)[0].last_use

    assert last_use() == last_use(*changes[:3]) == 20  # one of the three was made before the last use
    assert last_use(*changes[:4]) == last_use(*changes) == look.last_use


def test_only_quotable_objects_wait_for_changes() -> None:
    others = [
        candidate(tags=PART),
        candidate(tags=EDIT),
        candidate(kind=ObjectKind.TOOL_RESULT, tags=("search",)),
        candidate(tags=READ, later=Later.REPLACED),
        candidate(tags=READ, last_use=0, stale=True),  # released
    ]
    assert slow_down(others, 30, 3) == others


def test_tool_output_is_old_at_once_and_plans_stay_like_edits() -> None:
    assert turns(candidate(kind=ObjectKind.TOOL_RESULT, tags=("search",))) == 1
    for kind in (ObjectKind.PLAN, ObjectKind.DESIGN_DECISION):
        assert turns(candidate(kind=kind, tags=())) == AGES.edit.turns


def test_each_doubling_of_the_size_takes_as_many_turns_as_the_age_says() -> None:
    assert [Age(28, fewer=6).of(tokens) for tokens in (500, 1_000, 2_000, 8_000, 10**6)] == [34, 28, 22, 10, SHORTEST]
    assert Age(13).of(1) == Age(13).of(10**6) == 13


@given(st.integers(0, 10**7), st.integers(0, 10**7), st.sampled_from([READ, PART, EDIT, WRITE]))
def test_larger_object_never_outlives_a_smaller_one_and_all_stay_for_a_turn(
    one: int, other: int, tags: tuple[str, ...]
) -> None:
    small, large = sorted((one, other))
    assert turns(candidate(small, tags=tags)) >= turns(candidate(large, tags=tags)) >= 1


def test_new_user_task_shortens_the_age_limit_of_earlier_objects() -> None:
    each = candidate()
    assert turns(each, exchange=11) == round(AGES.away * turns(each, exchange=10)) < turns(each)


def test_a_session_scales_its_age_limits_by_its_own_rate_of_faults() -> None:
    each = candidate(tags=PART)
    usual = turns(each)
    assert turns(each, reuse=Reuse(evicted=5, needed=1)) == usual  # as many as expected
    kept = [turns(each, reuse=Reuse(evicted=5, needed=needed)) for needed in range(20)]
    assert kept == sorted(kept)
    assert kept[0] < usual < kept[2]
    assert kept[19] == AGES.scales[1] * usual
    fewer = [turns(each, reuse=Reuse(evicted=evicted)) for evicted in range(20)]
    assert fewer == sorted(fewer, reverse=True)
    assert fewer[0] == usual
    assert fewer[-1] == AGES.scales[0] * usual


def test_reuse_scales_only_quotable_kinds() -> None:
    same = attrs.evolve(AGES, answered=AGES.part)
    part, answer = candidate(tags=PART), candidate(kind=ObjectKind.TOOL_RESULT, tags=("run",))
    ages = [WindowAges(same, 1, {Quotable.PART: Reuse(needed=4)}).turns(each) for each in (part, answer)]
    assert ages == [3 * AGES.part.turns, AGES.part.turns]
