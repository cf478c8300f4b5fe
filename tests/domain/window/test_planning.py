"""A plan is valid in any situation, comes only when it pays off, and evicts the least needed objects."""

from collections.abc import Sequence
from fractions import Fraction
from math import ceil
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mnemosyne.domain.cost.tariffs import FOREVER
from mnemosyne.domain.objects.fidelity import Cause, Fidelity, FidelityMode, is_legal
from mnemosyne.domain.objects.kinds import ObjectKind, Role
from mnemosyne.domain.session.ledger import COMPACTED_TOKENS
from mnemosyne.domain.window.ages import AGES, Candidate, Later, Quotable, Reuse, WindowAges
from mnemosyne.domain.window.planning import (
    RULE,
    CostSoFar,
    NoRewrite,
    Plan,
    Situation,
    find_refusal,
    foresee,
    head_lasts_an_hour,
    plan_epoch,
    planner,
    price_of_rewrite,
    regret,
    sum_freed,
    want,
)
from tests.not_none import not_none
from tests.profiles import examples

MINUTE = 60_000_000
NUMBERS = st.integers(-(10**9), 10**9)
PRICES = st.fractions(0, 3)


def situation(**changes: object) -> Situation:
    """Turn 50 of a warm session that cost less than unmanaged."""
    usual = Situation(
        turn=50,
        prompt=100_000,
        fixed=20_000,
        new=1_000,
        idle=MINUTE,
        ttl=5 * MINUTE,
        write=Fraction(5, 4),
        read=Fraction(1, 10),
        window=160_000,
        limit=160_000,
        billed=Fraction(300_000),
        shadow=Fraction(500_000),
        unmanaged=10**6,
        last_epoch=None,
        exchange=40,
    )
    return attrs.evolve(usual, **changes)  # type: ignore[arg-type]  # the names of the fields


def candidate(position: int = 0, **changes: object) -> Candidate:
    """A large partial read of turn 10 that was not used since."""
    usual = Candidate(
        key=f"id{position}",
        kind=ObjectKind.FILE_CONTEXT,
        role=Role.TRANSCRIPT,
        tags=("read",),
        source_key="/a.py",
        fidelity=Fidelity.FULL,
        tokens=(8_000, 2_400, 400, 40, 20),
        thinking=0,
        born=10,
        last_use=10,
        last_fault=None,
        stale=False,
        kept=False,
    )
    return attrs.evolve(usual, **changes)  # type: ignore[arg-type]  # the names of the fields


def holding(objects: Sequence[Candidate], **changes: object) -> Situation:
    """The same situation with a history of only these objects."""
    now = situation(new=0, **changes)
    held = sum((each.at(each.fidelity) or 0) + each.thinking for each in objects)
    return attrs.evolve(now, prompt=now.fixed + held)


def age(each: Candidate, *, exchange: int = 0) -> int:
    """The turns without use for which an object stays."""
    return WindowAges(AGES, exchange).turns(each)


def planned(now: Situation, *objects: Candidate) -> Plan | None:
    return planner(now, lambda: objects)


def fidelity_of(now: Situation, each: Candidate) -> Fidelity:
    return want(now, [each]).get(each.key, each.fidelity)


# Any situation

SITUATIONS = st.builds(
    Situation,
    turn=NUMBERS,
    prompt=NUMBERS,
    fixed=NUMBERS,
    new=NUMBERS,
    idle=st.none() | NUMBERS,
    ttl=NUMBERS,
    write=PRICES,
    read=PRICES,
    window=NUMBERS,
    limit=NUMBERS,
    billed=st.fractions(0, 10**9),
    shadow=st.fractions(0, 10**9),
    unmanaged=NUMBERS,
    last_epoch=st.none() | NUMBERS,
    exchange=NUMBERS,
)
TOKENS = st.integers(0, 20_000)


CANDIDATE: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {
        "kind": st.sampled_from(ObjectKind),
        "tags": st.sampled_from([(), ("read",), ("edit",), ("write",), ("user",)]),
        "fidelity": st.sampled_from(Fidelity),
        "tokens": st.tuples(TOKENS, st.none() | TOKENS, st.none() | TOKENS, TOKENS, TOKENS),
        "thinking": TOKENS,
        "born": st.integers(0, 60),
        "last_use": st.integers(0, 60),
        "last_fault": st.none() | st.integers(0, 60),
        "stale": st.booleans(),
        "later": st.sampled_from(Later),
        "kept": st.booleans(),
    }
)


@st.composite
def candidates(draw: st.DrawFn) -> list[Candidate]:
    return [candidate(position, **draw(CANDIDATE)) for position in range(draw(st.integers(0, 12)))]


@examples(300)
@given(SITUATIONS | st.just(situation()) | st.just(situation(idle=10 * MINUTE)), candidates())
def test_plan_takes_only_legal_steps_to_smaller_renditions_of_evictable_objects(
    now: Situation, objects: Sequence[Candidate]
) -> None:
    plan = planner(now, lambda: objects)
    assert plan == planner(now, lambda: list(objects))  # planning is deterministic
    if plan is None:
        return
    assert plan.fidelities
    assert plan.reason
    there = {each.key: each for each in objects}
    for key, after in plan.fidelities.items():
        each = there[key]
        before, tokens = each.at(each.fidelity), each.at(after)
        assert not each.kept
        assert is_legal(each.fidelity, after, Cause.ECONOMY)
        assert before is not None
        assert tokens is not None
        assert tokens < before


@given(SITUATIONS | st.just(situation()), candidates())
def test_no_rewrite_has_a_reason(now: Situation, objects: Sequence[Candidate]) -> None:
    found = plan_epoch(now, lambda: objects)
    assert planner(now, lambda: objects) == (found if isinstance(found, Plan) else None)
    assert found.reason


@given(SITUATIONS)
def test_nothing_is_planned_or_computed_before_the_first_request(now: Situation) -> None:
    def never() -> list[Candidate]:
        raise AssertionError("asked for the objects")

    assert planner(attrs.evolve(now, idle=None), never) is None


SUMS = st.fractions(0, 10**6)
READS = st.sampled_from([Fraction(1, 10), Fraction(1)])
PROMPTS = st.sampled_from([100_000, 159_000, 300_000, 900_000])
OWN = st.sampled_from([30_000, 90_000, 10**6])
"""The size of the prompt that the client would send."""


def may_spend(now: Situation) -> list[tuple[Situation, Fraction]]:
    """The remaining budget of a session in each unit."""
    return [(each, RULE.margin * each.shadow - each.billed) for each in now.in_each_unit()]


@given(candidates(), SUMS, SUMS, SUMS, SUMS, PROMPTS, OWN)
def test_warm_rewrite_never_exceeds_the_cost_limit_before_client_compaction(
    objects: Sequence[Candidate],
    billed: Fraction,
    shadow: Fraction,
    in_other: Fraction,
    other: Fraction,
    prompt: int,
    own: int,
) -> None:
    also = CostSoFar(read=Fraction(1), write=Fraction(1), billed=in_other, shadow=other)
    now = situation(billed=billed, shadow=shadow, prompt=prompt, unmanaged=own, limit=967_000, also=(also,))
    for mode in FidelityMode:
        plan = planner(attrs.evolve(now, mode=mode), lambda: objects)
        assert plan is None or find_refusal(now, objects, plan.fidelities) is None
        for each, rest in may_spend(now):
            if plan is not None and rest >= 0:
                assert price_of_rewrite(each, objects, plan.fidelities) <= rest


def test_a_graded_rewrite_shows_no_more_than_the_session_can_afford() -> None:
    objects = [candidate(number, tokens=(3_000, 900, 600, 40, 20)) for number in range(10)]
    spent = {"billed": Fraction(368_000), "shadow": Fraction(368_000)}
    now = holding(objects, turn=60, mode=FidelityMode.GRADED, **spent)
    plan = not_none(planned(now, *objects))
    assert find_refusal(now, objects, plan.fidelities) is None
    freed = sum_freed(objects, plan.fidelities)
    assert plan.payback == max(1, ceil(plan.price / (freed * now.read)))


@given(candidates(), SUMS, SUMS, READS)
def test_forced_rewrite_is_affordable_or_evicts_everything_possible(
    objects: Sequence[Candidate], billed: Fraction, shadow: Fraction, read: Fraction
) -> None:
    also = CostSoFar(read=Fraction(1, 20), write=Fraction(2), billed=billed, shadow=shadow)
    now = holding(objects, billed=billed, shadow=shadow, read=read, also=(also,))
    now = attrs.evolve(now, window=now.prompt, limit=now.prompt)
    plan = planner(now, lambda: objects)
    if plan is None:
        return
    is_paid = all(price_of_rewrite(each, objects, plan.fidelities) <= rest for each, rest in may_spend(now))
    left = [each for each in objects if plan.fidelities.get(each.key, each.fidelity) is not Fidelity.EVICTED]
    assert is_paid or not any(_is_evictable(now, each, plan) for each in left)


def _is_evictable(now: Situation, each: Candidate, plan: Plan) -> bool:
    missed = each.last_fault is not None and now.turn - each.last_fault <= RULE.missed
    shown = each.at(plan.fidelities.get(each.key, each.fidelity))
    gone = each.at(Fidelity.EVICTED)
    return not (each.kept or missed) and shown is not None and gone is not None and gone < shown


@given(st.fractions(0, 10**6), st.fractions(0, 10**6), st.integers(0, 10**5), st.booleans())
def test_one_hour_cache_is_used_only_after_a_break_and_from_savings(
    billed: Fraction, shadow: Fraction, freed: int, cold: bool
) -> None:
    now = situation(billed=billed, shadow=shadow, idle=(6 if cold else 1) * MINUTE)
    if head_lasts_an_hour(now, freed):
        assert cold
        assert billed + now.fixed * Fraction(3, 4) - freed * now.write <= RULE.margin * shadow


# When to rewrite


def test_cold_cache_triggers_a_rewrite() -> None:
    plan = not_none(planned(situation(idle=5 * MINUTE), candidate(last_use=30)))
    assert plan.fidelities == {"id0": Fidelity.EVICTED}
    assert plan.price == 0
    assert plan.payback is None


def test_clock_set_back_is_not_a_cold_cache() -> None:
    assert not situation(idle=-MINUTE).cold


# After a compaction by the client


def edits(number: int) -> list[Candidate]:
    """Edits that are not due for a long time, 3,000 tokens each."""
    return [candidate(each, tags=("edit",), last_use=45, tokens=(3_000, None, None, 40, 20)) for each in range(number)]


def with_left(now: Situation, left: int) -> Situation:
    """The situation of a session that may still spend this much."""
    return attrs.evolve(now, billed=RULE.margin * now.shadow - left)


def test_a_client_that_compacted_is_followed_with_the_last_request_in_which_that_is_affordable() -> None:
    """The client would send 40,000 tokens of 80,000: each request costs 3,920 more than 102 %. Writing its 20,000
    tokens of history, and 10,000 that the next request may add, costs 34,500.
    """
    now = holding(edits(20), unmanaged=40_000)
    assert planned(with_left(now, 38_420), *edits(20)) is None
    poor = with_left(now, 38_419)
    plan = not_none(planned(poor, *edits(20)))
    assert [*plan.fidelities] == [f"id{number}" for number in range(14)]  # the oldest ones
    assert now.prompt - sum_freed(edits(20), plan.fidelities) <= RULE.margin * now.unmanaged
    assert planned(attrs.evolve(poor, unmanaged=79_000), *edits(20)) is None  # the client would send as much


def test_the_last_affordable_request_is_determined_in_each_unit_of_cost() -> None:
    quota = holding(edits(20), unmanaged=40_000, read=Fraction(1), write=Fraction(1))
    dollars = CostSoFar(read=Fraction(1, 10), write=Fraction(5, 4), billed=Fraction(471_581), shadow=Fraction(500_000))
    assert planned(attrs.evolve(quota, also=(dollars,)), *edits(20)) is not None
    assert planned(attrs.evolve(quota, also=(attrs.evolve(dollars, billed=Fraction(471_580)),)), *edits(20)) is None


def test_a_client_is_not_followed_where_its_larger_prompts_cost_no_more() -> None:
    assert planned(with_left(holding(edits(20), unmanaged=40_000, read=Fraction(0)), 30_000), *edits(20)) is None


def test_protected_objects_stay_after_the_client_compacted() -> None:
    objects = [attrs.evolve(each, kept=True) for each in edits(20)]
    assert planned(with_left(holding(objects, unmanaged=40_000), 30_000), *objects) is None


def test_a_rewrite_that_leaves_more_than_the_client_sends_leaves_budget_for_another() -> None:
    """It leaves 62,000 tokens and costs 46,600, and the client would send 40,000, which later costs 34,500."""
    read = [candidate(number, tokens=(3_000, None, None, 40, 20)) for number in range(20, 26)]
    objects = [*(attrs.evolve(each, last_use=195) for each in edits(14)), *read]
    now = holding(objects, unmanaged=40_000, turn=200)
    for left, is_rewritten in ((82_000, True), (80_000, False)):
        assert (planned(with_left(now, left), *objects) is not None) is is_rewritten, left
    assert planned(attrs.evolve(with_left(now, 80_000), unmanaged=80_000), *objects) is not None


def test_a_cold_rewrite_leaves_no_more_than_the_client_sends_if_writing_it_costs_too_much() -> None:
    """Nothing but one object is due, and writing what stays costs 47,000 more than the client's own prompt."""
    objects = [*edits(20), candidate(20, tokens=(3_000, None, None, 40, 20))]
    now = holding(objects, unmanaged=42_000, idle=5 * MINUTE)
    rich, poor = (not_none(planned(with_left(now, left), *objects)) for left in (90_000, 60_000))
    assert [*rich.fidelities] == ["id20"]
    as_large = attrs.evolve(now, unmanaged=now.prompt - 12_000)
    assert planned(with_left(as_large, -1_000_000), *objects) == rich
    assert now.prompt - sum_freed(objects, poor.fidelities) <= RULE.margin * now.unmanaged


def test_session_over_the_cost_limit_allows_only_free_or_quickly_paid_rewrites() -> None:
    old, rest = candidate(tokens=(12_000, None, None, 40, 20)), candidate(1, tokens=(5_000, None, None, 40, 20))
    stays = attrs.evolve(rest, kept=True)
    large = attrs.evolve(stays, tokens=(60_000, None, None, 40, 20))
    behind = {"billed": Fraction(511_000), "turn": 200}
    assert planned(holding([old, large], **behind), old, large) is None
    assert planned(holding([old, large], **{**behind, "billed": Fraction(300_000)}), old, large) is not None
    assert planned(holding([old, large], idle=5 * MINUTE, **behind), old, large) is not None
    assert planned(holding([old, stays], **behind), old, stays) is None
    deep = [attrs.evolve(old, key=f"other{number}") for number in range(2)]
    plan = not_none(planned(holding([*deep, stays], **behind), *deep, stays))
    assert plan.payback is not None
    assert plan.payback <= RULE.soon


@given(candidates(), st.fractions(0, 10**6), st.integers(30_000, 153_000))
def test_warm_rewrite_over_the_cost_limit_pays_off_within_a_few_requests(
    objects: Sequence[Candidate], billed: Fraction, prompt: int
) -> None:
    now = situation(billed=billed, shadow=billed / 2, prompt=prompt)
    plan = planner(now, lambda: objects)
    if plan is not None and billed > 0:
        assert plan.payback is not None
        assert plan.payback <= RULE.soon


def test_warm_rewrite_waits_until_keeping_cost_more_than_the_rewrite() -> None:
    objects = [candidate(0), candidate(1), candidate(2, tokens=(30_000, None, None, 40, 20), kept=True)]
    plans = {turn: planned(holding(objects, turn=turn), *objects) for turn in range(20, 60)}
    first = next(turn for turn, plan in plans.items() if plan is not None)
    assert first > 20
    assert all((plan is not None) == (turn >= first) for turn, plan in plans.items())
    before, then = (holding(objects, turn=turn) for turn in (first - 1, first))
    for now, pays in ((before, False), (then, True)):
        fidelities = want(now, objects)
        price = price_of_rewrite(now, objects, fidelities)
        assert (regret(now, objects, fidelities) >= RULE.regret * price) is pays


def test_the_expected_payback_is_the_price_over_what_each_request_saves() -> None:
    objects = [candidate(0), candidate(1), candidate(2, tokens=(10_000, None, None, 40, 20), kept=True)]
    plan = not_none(planned(holding(objects, turn=60), *objects))
    price = (10_000 + 2 * 20) * Fraction(115, 100) - 2 * 7_980 * Fraction(1, 10)
    assert plan.price == price
    assert plan.payback == ceil(price / (2 * 7_980 * Fraction(1, 10)))


def test_rewrite_that_keeps_almost_nothing_pays_off_with_the_next_request() -> None:
    large = candidate(tokens=(12_000, None, None, 40, 20))
    plan = not_none(planned(holding([large]), large))
    assert plan.price < 0
    assert plan.payback == 1


def test_small_gain_does_not_justify_a_warm_rewrite() -> None:
    assert planned(situation(turn=1_000), candidate(tokens=(9_000, None, None, 40, 20))) is None
    assert planned(situation(turn=1_000), candidate(tokens=(11_000, None, None, 40, 20))) is not None


def test_nearly_full_window_does_not_wait_for_regret_and_evicts_more() -> None:
    young = candidate(tokens=(12_000, None, None, 40, 20), last_use=42)
    assert planned(situation(), young) is None
    plan = not_none(planned(situation(prompt=130_000), young))
    assert plan.fidelities == {"id0": Fidelity.EVICTED}
    assert planned(situation(prompt=130_000, billed=Fraction(520_000)), young) is None


def test_overflowing_window_is_rewritten_at_any_price_only_if_that_saves_the_turn() -> None:
    objects = [candidate(number, last_use=48) for number in range(2)]
    assert planned(situation(prompt=155_000, billed=Fraction(900_000)), *objects) is None
    assert planned(situation(prompt=190_000, billed=Fraction(900_000)), *objects) is None
    plan = not_none(planned(situation(prompt=161_000, billed=Fraction(900_000)), *objects))
    assert plan.fidelities == {"id0": Fidelity.EVICTED, "id1": Fidelity.EVICTED}


def test_overflow_keeps_as_much_as_the_session_can_afford_to_write_and_to_send_while_a_window_fills() -> None:
    """Nothing here is old. Keeping as much as the window holds would cost 140,000, and 2 % of the bill are 14,000. It
    took 50 turns to fill the window, and the client's own compaction would leave 20,000 tokens of history.
    """
    sizes = (2_500, None, None, 40, 20)
    objects = [candidate(number, last_use=48, tags=("edit",), tokens=sizes) for number in range(56)]
    now = holding(objects, billed=Fraction(700_000), shadow=Fraction(700_000))
    rich = planned(attrs.evolve(now, shadow=Fraction(2_000_000)), *objects)
    poor = planned(now, *objects)
    assert rich is not None
    assert poor is not None
    assert [*rich.fidelities] == [f"id{number}" for number in range(len(rich.fidelities))]
    assert [*poor.fidelities] == [f"id{number}" for number in range(len(poor.fidelities))]
    assert len(rich.fidelities) < 10
    excess = now.prompt - sum_freed(objects, poor.fidelities) - now.fixed - COMPACTED_TOKENS
    left = 14_000 - poor.price
    assert 0 <= left - excess * now.read * 50 < 2_500 * (now.write + now.read * 50)


def test_rewrite_in_a_default_window_waits_for_budget_until_client_compaction() -> None:
    large = candidate(tokens=(90_000, None, None, 40, 20), kept=True)
    objects = [*(candidate(number, last_use=30) for number in range(1, 12)), large]
    poor = {"billed": Fraction(500_000), "limit": 967_000}
    reason = "a rewrite costs 94975 tokens of input: the session could end dearer than unmanaged"
    assert plan_epoch(holding(objects, **poor), lambda: objects) == NoRewrite(reason)
    for changes in ({"shadow": Fraction(600_000)}, {"limit": 160_000}, {"idle": 5 * MINUTE}):
        assert planned(holding(objects, **{**poor, **changes}), *objects) is not None, changes


def test_hurry_increases_until_there_is_room() -> None:
    """Partial reads in a small window: half of their age limit frees no room, an eighth does."""
    parts = [candidate(number, born=39 + number, last_use=39 + number) for number in range(10)]
    sizes = {number: attrs.evolve(each, tokens=(2_500, None, None, 40, 20)) for number, each in enumerate(parts)}
    now = holding(list(sizes.values()), window=52_000, exchange=1)
    plan = not_none(planned(now, *sizes.values(), candidate(99, tags=("edit",), born=48, last_use=48, kept=True)))
    assert now.prompt - 2_480 * len(plan.fidelities) <= RULE.room * now.window
    assert [*plan.fidelities] == [each.key for each in parts[: len(plan.fidelities)]]


def test_small_overflow_gain_is_taken_only_if_it_saves_the_turn() -> None:
    assert planned(situation(prompt=155_000), candidate(last_use=48)) is None
    assert planned(situation(prompt=161_000), candidate(last_use=48)) is not None
    assert planned(situation(prompt=190_000), candidate(last_use=48)) is None


def test_overflow_evicts_least_recently_used_first_until_the_limit_holds() -> None:
    """Nothing here is old: each object was used two turns ago, and was written, or is conversation."""
    said = candidate(
        0, kind=ObjectKind.CONVERSATION_PHASE, tags=("said",), last_use=47, tokens=(9_000, None, None, 40, 20)
    )
    written = [
        candidate(number, tags=("write",), last_use=48, born=48 - number, tokens=(5_000, None, None, 40, 20))
        for number in range(1, 9)
    ]
    rich = situation(prompt=165_000, shadow=Fraction(1_500_000))
    plan = not_none(planned(rich, said, candidate(9, kept=True), *written))
    assert [*plan.fidelities] == [f"id{number}" for number in range(8, 3, -1)]
    plan = not_none(planned(attrs.evolve(rich, prompt=200_000), said, candidate(9, kept=True), *written))
    assert [*plan.fidelities] == [*(f"id{number}" for number in range(8, 0, -1)), "id0"]


def test_age_pressure_and_a_release_each_evict() -> None:
    now, fresh = situation(), candidate(1, born=49, last_use=49)
    assert fidelity_of(now, fresh) is Fidelity.FULL
    assert fidelity_of(now, attrs.evolve(fresh, born=1, last_use=1)) is Fidelity.EVICTED
    assert fidelity_of(now, attrs.evolve(fresh, last_use=0, stale=True)) is Fidelity.EVICTED, "as released"
    full = planned(situation(prompt=165_000, shadow=Fraction(1_500_000)), *(evolved(fresh, n) for n in range(9)))
    assert full is not None
    assert Fidelity.EVICTED in full.fidelities.values()


def evolved(each: Candidate, number: int) -> Candidate:
    return attrs.evolve(each, key=f"id{number}", source_key=f"/{number}.py")


def test_overflow_keeps_little_if_only_uncached_input_has_a_price() -> None:
    """With a dedicated slot only uncached input counts, and a refetch costs no more than the object itself."""
    sizes = (4_000, None, None, 40, 20)
    objects = [candidate(number, last_use=12 + number, tags=("edit",), tokens=sizes) for number in range(34)]
    at_home = holding(objects, read=Fraction(0), write=Fraction(1))
    plan = not_none(planned(at_home, *objects))
    left = at_home.prompt - sum(3_980 for _ in plan.fidelities)
    assert at_home.fixed < left <= at_home.fixed + RULE.reread
    assert [*plan.fidelities] == [each.key for each in objects[: len(plan.fidelities)]]
    elsewhere = not_none(planned(attrs.evolve(at_home, read=Fraction(1, 10)), *objects))
    assert len(elsewhere.fidelities) < len(plan.fidelities)


@given(candidates(), st.integers(0, 10**5), st.integers(0, 10**4), PRICES, PRICES)
def test_price_is_the_extra_cost_over_no_rewrite(
    objects: Sequence[Candidate], more: int, new: int, write: Fraction, read: Fraction
) -> None:
    now = holding(objects, write=write, read=read)
    now = attrs.evolve(now, new=new, prompt=now.prompt + more + new)
    fidelities = want(now, objects)
    freed = sum(
        (each.at(each.fidelity) or 0) - (each.at(fidelities.get(each.key, each.fidelity)) or 0) for each in objects
    )
    after = now.prompt - freed - sum(each.thinking for each in objects if each.born > 0)
    unchanged = (now.prompt - new) * read + new * write
    rewritten = now.fixed * read + (after - now.fixed) * write
    assert price_of_rewrite(now, objects, fidelities) == rewritten - unchanged


def test_thinking_is_dropped_by_an_epoch_and_counted_once() -> None:
    objects = [candidate(0, thinking=500, last_use=50), candidate(1)]
    fidelities = {"id1": Fidelity.EVICTED}
    now = holding(objects)
    stays, goes = 8_020, 7_980
    assert price_of_rewrite(now, objects, fidelities) == stays * Fraction(115, 100) - (goes + 500) * now.read
    later = attrs.evolve(now, last_epoch=30, prompt=now.prompt - 500)
    assert price_of_rewrite(later, objects, fidelities) == stays * Fraction(115, 100) - goes * now.read


def test_regret_counts_from_the_due_turn_or_the_last_epoch() -> None:
    objects, fidelities = [candidate()], {"id0": Fidelity.EVICTED}
    assert regret(situation(), objects, fidelities) == 7_980 * (50 - 10 - age(objects[0], exchange=40)) * Fraction(
        1, 10
    )
    assert regret(situation(last_epoch=45), objects, fidelities) == 7_980 * 5 * Fraction(1, 10)


# What to evict

COLD = situation(idle=10 * MINUTE)


def ages_of(each: Candidate, fidelity: Fidelity, *, exchange: int = 200) -> int:
    """The fewest turns without use after which it is shown at that fidelity or less, the user having typed something
    in a turn.
    """
    return next(
        turns
        for turns in range(200)
        if fidelity_of(
            situation(turn=200, exchange=exchange), attrs.evolve(each, born=200 - turns, last_use=200 - turns)
        )
        >= fidelity
    )


def test_stale_reads_are_evicted_first_and_writes_last() -> None:
    read, stale, written = candidate(), candidate(stale=True), candidate(tags=("write",))
    ages = [ages_of(each, Fidelity.EVICTED) for each in (stale, read, written)]
    assert ages == [age(each, exchange=201) + 1 for each in (stale, read, written)] == sorted(ages)


def test_files_read_for_the_current_task_stay_until_something_is_written() -> None:
    read, stale, answer = candidate(), candidate(stale=True), candidate(kind=ObjectKind.TOOL_RESULT, tags=("search",))
    ages = [ages_of(each, Fidelity.EVICTED, exchange=100) for each in (read, stale, answer)]
    assert ages == [RULE.gathered + 1, age(stale) + 1, age(answer) + 1]
    now = situation(turn=50, exchange=20)
    old = [candidate(number, born=20 + number, last_use=20 + number) for number in range(20)]
    assert want(now, old) == {}
    assert len(want(now, [*old, candidate(99, tags=("edit",), born=45, last_use=45)])) >= 17


def test_full_window_keeps_the_newest_files_read_for_the_task() -> None:
    files = [candidate(number, born=20 + number, last_use=20 + number) for number in range(18)]
    now = holding(files, exchange=20, turn=40)
    plan = not_none(planned(now, *files))
    stay = [each for each in files if each.key not in plan.fidelities]
    assert stay == files[-len(stay) :]
    assert len(stay) > 5
    assert now.fixed + sum(each.tokens[0] for each in stay) <= RULE.room * now.window


def test_a_caption_is_shown_in_one_rewrite_before_the_object_is_evicted() -> None:
    def after(**changes: object) -> Fidelity | None:
        tokens = (1_600, 120, None, 40, 20)
        shot = candidate(0, kind=ObjectKind.TOOL_RESULT, tags=(), tokens=tokens, **changes)
        return want(situation(), [shot]).get(shot.key)

    assert after(captioned=True) is Fidelity.DETAILED
    assert after(captioned=True, fidelity=Fidelity.DETAILED) is Fidelity.EVICTED
    assert after() is Fidelity.EVICTED


def test_evictions_are_predicted_once_a_rewrite_is_affordable() -> None:
    said = candidate(0, kind=ObjectKind.CONVERSATION_PHASE, tags=(), last_use=50 - AGES.said.turns, born=10)
    soon = attrs.evolve(said, last_use=said.last_use + RULE.ahead - 1)
    later = attrs.evolve(said, last_use=said.last_use + RULE.ahead)
    assert foresee(situation(last_epoch=9), [soon]) == {said.key: Fidelity.COMPACT}
    assert foresee(situation(last_epoch=9), [later]) == {}
    assert foresee(situation(shadow=Fraction(0)), [soon]) == {}


def test_session_with_faults_keeps_more() -> None:
    each = candidate(born=35, last_use=38)
    assert each.key in want(attrs.evolve(COLD, exchange=36), [each])
    assert each.key not in want(attrs.evolve(COLD, exchange=36, reuse={Quotable.ANY: Reuse(50, needed=1)}), [each])


def test_later_operations_on_a_file_decide_how_long_its_read_stays() -> None:
    looks = [candidate(number, later=later) for number, later in enumerate(Later)]
    ages = {each.later: ages_of(each, Fidelity.EVICTED) for each in looks}
    assert ages == {each.later: age(each, exchange=201) + 1 for each in looks}
    assert ages[Later.REPLACED] < ages[Later.EDITED] < ages[Later.READ_IN_PART] == ages[Later.NOTHING]


def test_edit_first_drops_its_replaced_text() -> None:
    edit = candidate(tags=("edit",))
    assert ages_of(edit, Fidelity.DETAILED) == RULE.replaced + 1
    assert ages_of(edit, Fidelity.EVICTED) == age(edit, exchange=201) + 1


def test_an_edit_without_a_detailed_rendition_stays_whole() -> None:
    assert fidelity_of(
        situation(), candidate(tags=("edit",), born=30, last_use=30, tokens=(8_000, None, None, 4, 2))
    ) is (Fidelity.FULL)


def test_conversation_becomes_compact_if_that_is_smaller() -> None:
    said = candidate(kind=ObjectKind.CONVERSATION_PHASE, tags=())
    assert ages_of(said, Fidelity.COMPACT) == AGES.said.turns + 1
    assert fidelity_of(COLD, said) is Fidelity.COMPACT
    words_of_the_user = attrs.evolve(said, tags=("user",), tokens=(8_000, None, None, 8_000, 8_000))
    assert fidelity_of(COLD, words_of_the_user) is Fidelity.FULL


def test_use_resets_the_age_and_a_fault_protects() -> None:
    assert fidelity_of(COLD, candidate(last_use=49)) is Fidelity.FULL
    assert fidelity_of(COLD, candidate(last_fault=50 - RULE.missed)) is Fidelity.FULL
    assert fidelity_of(COLD, candidate(last_fault=49 - RULE.missed)) is Fidelity.EVICTED


def test_small_window_requires_a_smaller_gain() -> None:
    objects = [candidate(tokens=(4_000, None, None, 40, 20))]
    nearly = situation(window=40_000, prompt=38_000, fixed=1_000)
    assert planner(nearly, lambda: objects) is not None
    assert planner(attrs.evolve(nearly, window=160_000, prompt=152_000), lambda: objects) is None


@pytest.mark.parametrize(
    ("now", "objects", "reason"),
    [
        (situation(idle=None), [], "nothing was sent yet"),
        (situation(idle=5 * MINUTE), [candidate(kept=True)], "nothing is old enough"),
        (situation(), [candidate(kept=True)], "a rewrite would free 0 tokens, and pays from 10000 tokens on"),
        (
            situation(prompt=200_000),
            [candidate(number, kept=True, tokens=(60_000, None, None, 40, 20)) for number in range(3)],
            "the window overflows, but a rewrite would free only 0 tokens",
        ),
        (
            situation(prompt=100_000, shadow=Fraction(0), billed=Fraction(0)),
            [candidate(tokens=(12_000, None, None, 40, 20))],
            "a rewrite costs 75875 tokens of input: the session could end dearer than unmanaged",
        ),
    ],
)
def test_no_rewrite_names_its_reason(now: Situation, objects: Sequence[Candidate], reason: str) -> None:
    assert plan_epoch(now, lambda: objects) == NoRewrite(reason)


def test_only_a_full_window_is_rewritten_if_cache_reads_are_free() -> None:
    objects = [candidate(number) for number in range(12)]
    free = {"read": Fraction(0), "write": Fraction(1), "ttl": FOREVER, "idle": 60 * MINUTE}
    for prompt in (100_000, 150_000):
        assert planner(situation(prompt=prompt, **free), lambda: objects) is None
    plan = not_none(planner(situation(prompt=159_000, **free), lambda: objects))
    assert plan.reason == "the window overflows"


def test_rewrite_that_pays_off_in_quota_waits_until_it_pays_off_in_dollars() -> None:
    objects = [candidate(number) for number in range(6)]
    quota = {"prompt": 140_000, "read": Fraction(1), "write": Fraction(1)}
    assert planner(situation(**quota), lambda: objects) is not None
    money = CostSoFar(read=Fraction(1, 10), write=Fraction(2), billed=Fraction(100_000), shadow=Fraction(100_000))
    assert planner(situation(**quota, also=(money,)), lambda: objects) is None
    saved = attrs.evolve(money, shadow=Fraction(1_000_000))
    assert planner(situation(**quota, also=(saved,)), lambda: objects) is not None
