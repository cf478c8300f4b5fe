"""For how long an object stays: by its kind, its size, what was done to its file, and what this session missed."""

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mnemosyne.domain.objects.kinds import ObjectKind
from mnemosyne.domain.window.keeping import AGES, Age, Candidate, Later, WindowAges, later_of, slow_down
from tests.domain.window.test_planning import candidate as usual

READ, PART, EDIT, WRITE = ("read", "whole"), ("read", "lines:1-20"), ("edit",), ("write", "whole")
PATH = "/a.py"


def candidate(tokens: int = 1_000, **changes: object) -> Candidate:
    """A file that was read whole in turn 10, and has not been used since."""
    whole = usual(tags=READ, tokens=(tokens, None, None, 40, 20))
    return attrs.evolve(whole, **changes)  # type: ignore[arg-type]  # names are those of the fields


def turns(each: Candidate, *, exchange: int = 1, missed: int = 0, hurry: int = 1) -> int:
    return WindowAges(AGES, exchange, missed, hurry).turns(each)


# What was done to a file


def test_what_was_done_to_a_file_later_is_told_of_each_look_at_it() -> None:
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
def test_what_shows_all_of_a_file_replaces_every_earlier_look(again: tuple[str, ...]) -> None:
    found = later_of([("a", PATH, READ), ("b", PATH, PART), ("c", PATH, again), ("d", PATH, PART)])
    assert found == {
        "a": Later.REPLACED,
        "b": Later.REPLACED,
        "c": Later.READ_IN_PART,
        "d": Later.NOTHING,
    }


@given(st.lists(st.tuples(st.sampled_from([PATH, "/b.py", None]), st.sampled_from([READ, PART, EDIT, WRITE, ()]))))
def test_more_done_to_a_file_never_means_less(looks: list[tuple[str | None, tuple[str, ...]]]) -> None:
    named = [(str(number), source, tags) for number, (source, tags) in enumerate(looks)]
    before, after = later_of(named[:-1]), later_of(named)
    assert all(after[key] >= later for key, later in before.items())


# How long


def test_a_file_that_was_read_whole_outlives_a_part_and_an_edit_outlives_both() -> None:
    whole, part, edit, written = (turns(candidate(tags=tags)) for tags in (READ, PART, EDIT, WRITE))
    assert part < whole < written < edit
    assert [whole, part, edit, written] == [each.turns for each in (AGES.whole, AGES.part, AGES.edit, AGES.write)]


def test_an_edit_shortens_the_life_of_a_look_and_a_return_to_the_file_lengthens_it() -> None:
    for tags in (READ, PART):
        edited, returned = (candidate(4_000, tags=tags, later=later) for later in (Later.EDITED, Later.READ_IN_PART))
        assert turns(edited) < turns(candidate(4_000, tags=tags))
        assert turns(edited) < turns(returned)


def test_what_something_newer_shows_whole_is_old_at_once() -> None:
    assert turns(candidate(later=Later.REPLACED)) == 1
    assert turns(candidate(stale=True)) == 1
    assert turns(candidate(stale=True, later=Later.READ_IN_PART)) > 1


def test_a_written_file_stays_as_long_whether_or_not_it_was_edited_since() -> None:
    assert turns(candidate(tags=WRITE, stale=True)) == turns(candidate(tags=WRITE)) == AGES.write.turns


def test_a_file_that_was_read_whole_ages_half_as_fast_until_so_much_was_changed_since() -> None:
    look = candidate(tags=READ, last_use=10)
    changes = [candidate(tags=EDIT, born=10 + number, last_use=10 + number) for number in range(5)]

    def last_use(*objects: Candidate) -> int:
        return slow_down([look, *objects], 30, 3)[0].last_use

    assert last_use() == last_use(*changes[:3]) == 20  # of the three one was made before the last use
    assert last_use(*changes[:4]) == last_use(*changes) == look.last_use


def test_only_what_an_edit_may_still_quote_waits_for_changes() -> None:
    others = [
        candidate(tags=PART),
        candidate(tags=EDIT),
        candidate(kind=ObjectKind.TOOL_RESULT, tags=("search",)),
        candidate(tags=READ, later=Later.REPLACED),
        candidate(tags=READ, last_use=0, stale=True),  # released
    ]
    assert slow_down(others, 30, 3) == others


def test_answers_leave_at_once_and_plans_stay_like_edits() -> None:
    assert turns(candidate(kind=ObjectKind.TOOL_RESULT, tags=("search",))) == 1
    for kind in (ObjectKind.PLAN, ObjectKind.DESIGN_DECISION):
        assert turns(candidate(kind=kind, tags=())) == AGES.edit.turns


def test_each_doubling_of_the_size_takes_as_many_turns_as_the_age_says() -> None:
    assert [Age(28, fewer=6).of(tokens) for tokens in (500, 1_000, 2_000, 8_000)] == [34, 28, 22, 10]
    assert Age(13).of(1) == Age(13).of(10**6) == 13


@given(st.integers(0, 10**7), st.integers(0, 10**7), st.sampled_from([READ, PART, EDIT, WRITE]))
def test_the_larger_never_outlives_the_smaller_and_all_stay_for_a_turn(
    one: int, other: int, tags: tuple[str, ...]
) -> None:
    small, large = sorted((one, other))
    assert turns(candidate(small, tags=tags)) >= turns(candidate(large, tags=tags)) >= 1


def test_a_new_task_of_the_user_makes_what_was_used_before_it_older() -> None:
    each = candidate()
    assert turns(each, exchange=11) == round(AGES.away * turns(each, exchange=10)) < turns(each)


def test_what_a_session_missed_makes_it_keep_more_up_to_a_limit() -> None:
    each = candidate(tags=PART)
    kept = [turns(each, missed=missed) for missed in range(10)]
    assert kept == sorted(kept)
    assert kept[4] == 2 * kept[0]
    assert kept[6:] == [round(AGES.learnt_at_most * kept[0])] * 4
    answer = candidate(kind=ObjectKind.TOOL_RESULT, tags=("run",))
    assert turns(answer, missed=9) == turns(answer)  # no edit quotes it, however much was missed


def test_it_is_the_kind_that_is_learnt_from_and_not_how_long_it_stays() -> None:
    same = attrs.evolve(AGES, answered=AGES.part)
    part, answer = candidate(tags=PART), candidate(kind=ObjectKind.TOOL_RESULT, tags=("run",))
    ages = [WindowAges(same, 1, 4).turns(each) for each in (part, answer)]
    assert ages == [2 * AGES.part.turns, AGES.part.turns]


def test_in_a_hurry_everything_is_old_sooner() -> None:
    for tags in (READ, PART, EDIT, WRITE):
        each = candidate(tags=tags)
        assert turns(each, hurry=2) in (turns(each) // 2, turns(each) // 2 + 1)
