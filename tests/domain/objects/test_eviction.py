"""What is wished to leave is legal, worth it, in order, and never what the conversation stands on."""

from random import Random
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mnemosyne.domain.objects import eviction
from mnemosyne.domain.objects.aggregate import MemoryObject, Pin, Rendition, accessed, evolve
from mnemosyne.domain.objects.events import Admission, FaultKind, Losses, ObjectFaulted, Place, Supersession
from mnemosyne.domain.objects.eviction import Now, Refault, Standing, is_kept, protected_through, victim_score, wishes
from mnemosyne.domain.objects.fidelity import Cause, Fidelity, is_legal
from mnemosyne.domain.objects.kinds import Kind, Role
from mnemosyne.domain.objects.pressure import Window, Zone, zone
from tests.profiles import examples

ADMISSION = Admission(type_prior=0, novelty=0, utility=0, recency=0, score=0, admitted=True)
PLAIN = MemoryObject(
    id="o",
    branch="b",
    kind=Kind.TOOL_RESULT,
    role=Role.TRANSCRIPT,
    source_tool="Read",
    source_key=None,
    tags=(),
    first_turn=1,
    last_turn=1,
    places=(Place(1, 0),),
    content=b"",
    size=4_000,
    tokens=1_000,
    stub="Read a.py",
    stub_tokens=20,
    key_entities=(),
    links=(),
    admission=ADMISSION,
    last_use=1,
)
NOW = Now(turn=100, message_count=200, exchange_first_message=150, last_user_messages=(100, 150))


def rendition(tokens: int) -> Rendition:
    return Rendition(text=b"", size=4 * tokens, tokens=tokens, helper="h", losses=Losses())


def faulted(each: MemoryObject, turn: int, kind: FaultKind = FaultKind.EXPLICIT) -> MemoryObject:
    event = ObjectFaulted(
        at=0,
        object=each.id,
        branch="b",
        turn=turn,
        kind=kind,
        reason="",
        distance=1,
        tokens=0,
        avoided_tokens=0,
        latency=0,
    )
    return evolve(each, event)


TURNS = st.integers(0, 120)
OBJECTS = st.builds(
    attrs.evolve,
    st.just(PLAIN),
    kind=st.sampled_from(Kind),
    role=st.sampled_from(Role),
    source_tool=st.sampled_from([None, "Read", "Bash", "Task"]),
    places=st.lists(st.builds(Place, st.integers(0, 199), st.just(0)), max_size=2).map(tuple),
    tokens=st.integers(0, 3_000),
    stub_tokens=st.integers(0, 100),
    renditions=st.dictionaries(
        st.sampled_from([Fidelity.DETAILED, Fidelity.COMPACT]), st.integers(0, 3_500).map(rendition)
    ),
    pin=st.none() | st.builds(Pin, st.just("why"), st.none() | TURNS),
    superseded=st.none() | st.sampled_from(Supersession),
    superseded_by=st.none() | st.just("other"),
    accesses=st.integers(0, 6),
    faults=st.integers(0, 5),
    last_use=TURNS,
    last_fault=st.none() | TURNS,
    released=st.booleans(),
    forgotten=st.booleans(),
)
STANDINGS = st.lists(st.builds(Standing, OBJECTS, st.sampled_from(Fidelity)), max_size=12).map(
    lambda found: [Standing(attrs.evolve(each.object, id=str(i)), each.fidelity) for i, each in enumerate(found)]
)
WINDOWS = st.integers(0, 20_000).map(lambda tokens: Window(model_tokens=tokens))


def shown(standings: list[Standing]) -> int:
    return sum(each.tokens for each in standings)


def freed(standings: list[Standing], tokens: int, window: Window) -> dict[str, int]:
    return {wish.object_id: wish.tokens_freed for wish in wishes(standings, NOW, tokens, window)}


@given(STANDINGS, WINDOWS)
def test_each_wish_is_legal_frees_what_it_says_and_leads_to_a_rendition_that_exists(
    standings: list[Standing], window: Window
) -> None:
    by_id = {each.object.id: each for each in standings}
    found = wishes(standings, NOW, shown(standings), window)
    for wish in found:
        standing = by_id[wish.object_id]
        size = standing.object.tokens_at(wish.after)
        assert size is not None
        assert wish.before is standing.fidelity
        assert wish.tokens_freed == standing.tokens - size > 0
        assert is_legal(wish.before, wish.after, wish.cause)
        assert 0 < len(wish.why) <= 80
    assert len({wish.object_id for wish in found}) == len(found)


@given(STANDINGS, WINDOWS)
def test_what_is_kept_is_never_wished_away(standings: list[Standing], window: Window) -> None:
    kept = {each.object.id for each in standings if is_kept(each, NOW)}
    assert kept.isdisjoint(freed(standings, shown(standings), window))


@given(STANDINGS, WINDOWS, st.integers(0, 20_000))
def test_a_fuller_window_never_asks_for_less_of_any_object(
    standings: list[Standing], window: Window, more: int
) -> None:
    tokens = shown(standings)
    less = freed(standings, tokens, window)
    full = freed(standings, tokens + more, window)
    assert all(full.get(each, 0) >= amount for each, amount in less.items())


@given(STANDINGS, WINDOWS, st.integers(0, 20_000))
def test_a_smaller_window_never_asks_for_less_of_any_object(
    standings: list[Standing], window: Window, smaller: int
) -> None:
    tokens = shown(standings)
    less = freed(standings, tokens, window)
    small = freed(standings, tokens, Window(model_tokens=max(0, window.model_tokens - smaller)))
    assert all(small.get(each, 0) >= amount for each, amount in less.items())


@given(STANDINGS, WINDOWS, st.randoms(use_true_random=False))
def test_the_order_in_which_objects_are_told_does_not_matter(
    standings: list[Standing], window: Window, random: Random
) -> None:
    tokens = shown(standings)
    shuffled = random.sample(standings, len(standings))
    assert wishes(shuffled, NOW, tokens, window) == wishes(standings, NOW, tokens, window)


@given(STANDINGS)
def test_an_emergency_takes_everything_that_is_free_out_of_the_window(standings: list[Standing]) -> None:
    tokens = shown(standings)
    found = freed(standings, tokens, Window(model_tokens=0))
    free = {
        each.object.id: each.tokens
        for each in standings
        if each.tokens and each.object.places and not each.object.forgotten and is_kept(each, NOW) is None
    }
    assert found == free


def test_nobody_is_even_asked_in_normal() -> None:
    standings = iter(olds(2))
    assert wishes(standings, NOW, 49, Window(model_tokens=100)) == ()
    assert len(list(standings)) == 2


def olds(count: int, **changes: Any) -> list[Standing]:
    renditions = {Fidelity.DETAILED: rendition(300), Fidelity.COMPACT: rendition(50)}
    return [
        Standing(
            attrs.evolve(PLAIN, id=f"o{i}", places=(Place(i, 0),), last_use=i, **{"renditions": renditions, **changes}),
            Fidelity.FULL,
        )
        for i in range(count)
    ]


def test_caution_makes_the_oldest_shorter_and_stops_when_the_window_is_normal_again() -> None:
    found = wishes(olds(10), NOW, 10_000, Window(model_tokens=17_000))
    assert [(wish.object_id, wish.after) for wish in found] == [
        ("o0", Fidelity.DETAILED),
        ("o1", Fidelity.DETAILED),
        ("o2", Fidelity.DETAILED),
    ]
    left = 10_000 - sum(wish.tokens_freed for wish in found)
    assert zone(left, Window(model_tokens=17_000)) is Zone.NORMAL
    assert found[0].why == "caution: unused for 100 turns"


def test_caution_takes_nothing_below_a_detailed_summary() -> None:
    assert wishes(olds(10, renditions={}), NOW, 10_000, Window(model_tokens=17_000)) == ()


def test_warning_goes_down_to_the_stub_where_no_summary_was_made() -> None:
    found = wishes(olds(10, renditions={}), NOW, 10_000, Window(model_tokens=13_000))
    assert {wish.after for wish in found} == {Fidelity.STUB}
    assert zone(10_000 - sum(wish.tokens_freed for wish in found), Window(model_tokens=13_000)) is Zone.NORMAL


def test_only_from_critical_on_may_an_object_leave() -> None:
    stubs_save_little = olds(10, renditions={}, stub_tokens=990)
    warning = wishes(stubs_save_little, NOW, 10_000, Window(model_tokens=13_000))
    critical = wishes(stubs_save_little, NOW, 10_000, Window(model_tokens=11_000))
    assert [wish.after for wish in warning] == [Fidelity.STUB] * 10
    assert [wish.after for wish in critical] == [Fidelity.EVICTED] * 3 + [Fidelity.STUB] * 7


def test_nothing_goes_up_the_ladder_even_where_that_would_be_smaller() -> None:
    renditions = {Fidelity.DETAILED: rendition(100), Fidelity.COMPACT: rendition(500)}
    odd = [Standing(attrs.evolve(PLAIN, renditions=renditions, stub_tokens=600), Fidelity.COMPACT)]
    assert wishes(odd, NOW, 500, Window(model_tokens=650)) == ()


def test_of_equal_victims_the_older_goes_first() -> None:
    equal = [Standing(attrs.evolve(each.object, last_use=1), each.fidelity) for each in olds(10)]
    found = wishes(reversed(equal), NOW, 10_000, Window(model_tokens=17_000))
    assert [wish.object_id for wish in found] == ["o0", "o1", "o2"]


def test_what_was_used_lately_goes_only_in_an_emergency() -> None:
    young = [Standing(attrs.evolve(each.object, last_use=98), each.fidelity) for each in olds(10)]
    assert wishes(young, NOW, 10_000, Window(model_tokens=10_600)) == ()
    assert len(wishes(young, NOW, 10_000, Window(model_tokens=10_000))) > 0


def test_what_the_model_released_goes_however_young_and_says_so() -> None:
    released = [Standing(attrs.evolve(PLAIN, last_use=99, released=True, renditions={}), Fidelity.FULL)]
    (wish,) = wishes(released, NOW, 1_000, Window(model_tokens=1_300))
    assert (wish.cause, wish.after, wish.why) == (
        Cause.RELEASE,
        Fidelity.STUB,
        "warning: unused for 1 turns, released",
    )


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"pin": Pin("goal", None)}, "pinned"),
        ({"pin": Pin("goal", 100)}, "pinned"),
        ({"pin": Pin("goal", 99)}, None),
        ({"places": (Place(150, 0),)}, "among the user's last messages"),
        ({"places": (Place(151, 0),)}, None),
        ({"places": (Place(194, 0),)}, "in the exchange's recent rounds"),
        ({"places": (Place(193, 0), Place(194, 1))}, "in the exchange's recent rounds"),
        ({"places": (Place(193, 0),)}, None),
        ({"last_fault": 92, "faults": 1}, "needed again lately"),
        ({"last_fault": 91, "faults": 1}, None),
        ({"last_fault": 84, "faults": 2}, "needed again lately"),
        ({"last_fault": 99, "faults": 1, "released": True}, None),
        ({"last_fault": 99, "faults": 1, "superseded_by": "x"}, None),
    ],
)
def test_what_is_kept_and_why(changes: dict[str, Any], reason: str | None) -> None:
    assert is_kept(Standing(attrs.evolve(PLAIN, **changes), Fidelity.FULL), NOW) == reason


def test_the_rounds_of_an_exchange_before_are_not_recent() -> None:
    now = attrs.evolve(NOW, exchange_first_message=198, last_user_messages=(198,))
    assert is_kept(Standing(attrs.evolve(PLAIN, places=(Place(197, 0),)), Fidelity.FULL), now) is None


@given(OBJECTS.filter(lambda each: not each.released and each.superseded_by is None), st.integers(0, 200))
def test_a_fault_protects_and_each_further_one_for_no_shorter_time(each: MemoryObject, turn: int) -> None:
    once = faulted(each, turn)
    twice = faulted(once, turn)
    first, second = protected_through(once), protected_through(twice)
    assert first is not None
    assert second is not None
    assert turn + eviction.FAULT_PROTECTION <= first <= second <= turn + 8 * eviction.FAULT_PROTECTION


@given(OBJECTS, st.integers(0, 100))
def test_waiting_makes_a_better_victim_and_use_a_worse_one(each: MemoryObject, waited: int) -> None:
    standing = Standing(each, Fidelity.FULL)
    later = attrs.evolve(NOW, turn=NOW.turn + waited)
    score = victim_score(standing, NOW).total
    assert victim_score(standing, later).total >= score
    used = Standing(accessed(attrs.evolve(each, released=False), NOW.turn), Fidelity.FULL)
    missed = Standing(faulted(attrs.evolve(each, released=False), NOW.turn), Fidelity.FULL)
    assert victim_score(used, NOW).total <= score
    assert victim_score(missed, NOW).total <= score


@given(OBJECTS, st.sampled_from(Supersession))
def test_being_out_of_date_released_or_larger_makes_a_better_victim(each: MemoryObject, how: Supersession) -> None:
    plain = attrs.evolve(each, superseded=None, released=False)
    score = victim_score(Standing(plain, Fidelity.FULL), NOW).total
    for better in (
        attrs.evolve(plain, superseded=how),
        attrs.evolve(plain, released=True),
        attrs.evolve(plain, tokens=plain.tokens + 1),
    ):
        assert victim_score(Standing(better, Fidelity.FULL), NOW).total > score


@given(OBJECTS)
def test_the_parts_of_a_score_add_up_to_it(each: MemoryObject) -> None:
    score = victim_score(Standing(each, Fidelity.FULL), NOW)
    assert score.total == pytest.approx(sum(part for _, part in score.parts))


def test_results_leave_before_prose_cheap_ones_before_dear_ones_and_claims_last() -> None:
    objects = [
        PLAIN,
        attrs.evolve(PLAIN, source_tool="Bash"),
        attrs.evolve(PLAIN, source_tool="Task"),
        attrs.evolve(PLAIN, kind=Kind.CONVERSATION_PHASE, source_tool=None),
        attrs.evolve(PLAIN, kind=Kind.DESIGN_DECISION, role=Role.CLAIM, source_tool=None),
    ]
    totals = [victim_score(Standing(each, Fidelity.FULL), NOW).total for each in objects]
    assert totals == sorted(totals, reverse=True)
    assert len(set(totals)) == len(totals)


def test_the_thrash_index_counts_repeated_faults_of_the_last_five_turns() -> None:
    faults = [Refault(1, "a"), Refault(6, "a"), Refault(7, "a"), Refault(8, "b"), Refault(10, "a"), Refault(11, "a")]
    assert eviction.thrash_index(faults, 10) == 2 / 5
    assert eviction.thrash_index([], 10) == 0


@examples(50)
@given(st.lists(st.builds(Refault, TURNS, st.sampled_from("abc"))), st.integers(5, 120))
def test_a_further_fault_never_lowers_the_thrash_index(faults: list[Refault], turn: int) -> None:
    index = eviction.thrash_index(faults, turn)
    more = eviction.thrash_index([*faults, Refault(turn, "a")], turn)
    assert index <= more <= index + 1 / eviction.THRASH_TURNS


def test_the_refault_distance_is_the_turns_that_an_object_was_not_missed() -> None:
    assert eviction.refault_distance(left=10, turn=14) == 4
