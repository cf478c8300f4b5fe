"""A policy decides within the guard: no impossible step, no session dearer than the limit, no overflowing window."""

from collections.abc import Sequence
from fractions import Fraction
from functools import partial

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mnemosyne import config
from mnemosyne.domain.objects.fidelity import Cause, Fidelity, is_legal
from mnemosyne.domain.window.ages import Candidate
from mnemosyne.domain.window.planning import (
    RULE,
    NoRewrite,
    Plan,
    Situation,
    find_refusal,
    plan_epoch,
    price_of_rewrite,
    sum_freed,
)
from mnemosyne.domain.window.policies import BUILT_IN, ZONES, PolicyFailed, guard, lower, plan, plan_of, zones
from tests.domain.window.test_planning import SITUATIONS, candidate, candidates, holding, situation
from tests.not_none import not_none
from tests.profiles import examples

RUNGS = st.dictionaries(st.sampled_from([f"id{number}" for number in range(13)]), st.sampled_from(Fidelity))


def test_built_in_policies_are_those_of_the_settings() -> None:
    assert tuple(BUILT_IN) == config.POLICIES


@examples(150)
@given(SITUATIONS | st.just(situation()), candidates(), RUNGS)
def test_guard_follows_only_legal_affordable_plans_and_refuses_impossible_ones(
    now: Situation, objects: Sequence[Candidate], rungs: dict[str, Fidelity]
) -> None:
    there = {each.key: each for each in objects}
    impossible = any(
        key not in there
        or (there[key].fidelity is not rung and there[key].kept)
        or there[key].fidelity > rung
        or (there[key].fidelity is not rung and there[key].at(rung) is None)
        for key, rung in rungs.items()
    )
    try:
        found = guard(now, objects, Plan(fidelities=rungs, reason="mine"))
    except PolicyFailed:
        assert impossible or now.prompt > now.limit * RULE.overflow or now.cold
        return
    assert not impossible
    if isinstance(found, NoRewrite) or found.reason != "mine":
        return
    for key, rung in found.fidelities.items():
        assert is_legal(there[key].fidelity, rung, Cause.PRESSURE)
        assert lower(there[key], rung) is rung
    if not now.cold and now.prompt <= now.limit:
        assert find_refusal(now, objects, found.fidelities) is None
        assert found.price == price_of_rewrite(now, objects, found.fidelities)


@pytest.mark.parametrize(
    ("key", "rung", "why"),
    [
        ("id9", Fidelity.STUB, "it plans for an object that is not in the window: 'id9'"),
        ("id1", Fidelity.STUB, "it plans id1 at L3, but id1 must stay as it is"),
        ("id2", Fidelity.FULL, "it plans id2 at L0, above L3: a plan only degrades"),
        ("id0", Fidelity.DETAILED, "it plans id0 at L1, and there is no such form of it"),
    ],
)
def test_an_impossible_plan_is_refused_with_its_reason(key: str, rung: Fidelity, why: str) -> None:
    objects = [
        candidate(0, tokens=(8_000, None, None, 40, 20)),
        candidate(1, kept=True),
        candidate(2, fidelity=Fidelity.STUB),
    ]
    with pytest.raises(PolicyFailed) as raised:
        guard(holding(objects), objects, Plan(fidelities={key: rung}, reason=""))
    assert str(raised.value) == why


def test_a_window_that_overflows_is_compacted_whatever_the_policy_plans() -> None:
    objects = [candidate(number, last_use=1) for number in range(25)]
    now = holding(objects, window=160_000, limit=160_000)
    assert now.prompt > now.limit
    assert guard(now, objects, None) == plan_epoch(now, lambda: objects)
    with pytest.raises(PolicyFailed, match="its plan leaves about"):
        guard(now, objects, Plan(fidelities={"id0": Fidelity.DETAILED}, reason="a little"))


def test_a_client_that_compacted_is_followed_whatever_the_policy_plans() -> None:
    """The policy's plan would leave 76,000 tokens, and the client would send 40,000."""
    objects = [
        candidate(number, tags=("edit",), last_use=45, tokens=(4_000, None, None, 40, 20)) for number in range(15)
    ]
    now = holding(objects, unmanaged=40_000, billed=Fraction(480_000))
    for planned in (None, Plan(fidelities={"id14": Fidelity.EVICTED}, reason="mine")):
        allowed = guard(now, objects, planned)
        assert isinstance(allowed, Plan)
        assert allowed.reason == "the client would send less by now"
        assert guard(attrs.evolve(now, unmanaged=80_000), objects, planned) != allowed


@pytest.mark.parametrize("policy", BUILT_IN)
@pytest.mark.parametrize("window", [1_000, 30_000])
def test_a_window_that_is_too_small_does_not_make_a_session_dearer(policy: str, window: int) -> None:
    """60 turns with 20,000 tokens of system prompt and tools; each adds 400 tokens that stay and 600 that may go."""
    billed = shadow = Fraction(0)
    objects: list[Candidate] = []
    last_epoch = None
    for turn in range(1, 61):
        for size, kept in ((400, True), (600, False)):
            sizes = (size, None, None, 20, 0)
            objects.append(candidate(len(objects), born=turn, last_use=turn, tokens=sizes, kept=kept))
        now = holding(objects, turn=turn, exchange=1, window=window, limit=window, last_epoch=last_epoch)
        now = attrs.evolve(now, new=1_000, billed=billed, shadow=shadow)
        planned = plan(policy, now, partial(list, objects))
        billed += (now.prompt - now.new) * now.read + now.new * now.write
        shadow += (now.fixed + 1_000 * (turn - 1)) * now.read + now.new * now.write
        if isinstance(planned, Plan):
            billed += price_of_rewrite(now, objects, planned.fidelities)
            objects = [attrs.evolve(each, fidelity=planned.fidelities.get(each.key, each.fidelity)) for each in objects]
            last_epoch = turn
    assert billed <= RULE.margin * shadow


# The zones


def filled(share: Fraction, **changes: object) -> Situation:
    """A situation with a history that fills this share of the usable window."""
    now = situation(window=141_000, fixed=41_000, **changes)
    return attrs.evolve(now, prompt=41_000 + int(share * 100_000))


@pytest.mark.parametrize(
    ("percent", "steps"),
    [
        (49, {}),
        (51, {Fidelity.FULL: Fidelity.DETAILED}),
        (72, {Fidelity.FULL: Fidelity.DETAILED, Fidelity.DETAILED: Fidelity.COMPACT, Fidelity.COMPACT: Fidelity.STUB}),
        (
            86,
            {
                Fidelity.FULL: Fidelity.DETAILED,
                Fidelity.DETAILED: Fidelity.COMPACT,
                Fidelity.COMPACT: Fidelity.STUB,
                Fidelity.STUB: Fidelity.EVICTED,
            },
        ),
    ],
)
def test_each_zone_takes_its_objects_down_one_rung(percent: int, steps: dict[Fidelity, Fidelity]) -> None:
    sizes = (400, 300, 200, 100, 0)
    objects = [candidate(rung, fidelity=rung, tokens=sizes) for rung in Fidelity]
    planned = zones(filled(Fraction(percent, 100)), lambda: objects)
    found = {objects[int(key[2:])].fidelity: rung for key, rung in planned.fidelities.items()} if planned else {}
    assert found == steps


def test_a_zone_degrades_the_longest_unused_until_it_is_left_and_nothing_recent() -> None:
    now = filled(Fraction(51, 100))
    objects = [candidate(number, last_use=number + 1, tokens=(900, 100, 50, 40, 20)) for number in range(4)]
    assert list(not_none(zones(now, lambda: objects)).fidelities) == ["id0", "id1"]
    assert zones(now, lambda: [candidate(last_use=now.turn - 2)]) is None


def test_an_emergency_leaves_the_last_two_turns_of_the_user() -> None:
    said = [candidate(number, tags=("user",), born=10 * number, tokens=(90,) * 5) for number in (1, 2, 3)]
    results = [candidate(number, born=number - 4 + 9) for number in range(4, 30)]
    planned = not_none(zones(filled(Fraction(96, 100), exchange=30), lambda: [*said, *results]))
    assert planned.fidelities == {each.key: Fidelity.EVICTED for each in results if each.born < 20}


def test_zones_in_a_server_rewrite_only_what_the_session_can_afford() -> None:
    objects = [candidate(number, last_use=1) for number in range(14)]
    now = attrs.evolve(holding(objects, window=160_000, limit=160_000), billed=Fraction(10**6), shadow=Fraction(10**6))
    assert zones(now, lambda: objects) is not None
    assert isinstance(plan(ZONES, now, lambda: objects), NoRewrite)
    cold = attrs.evolve(now, idle=now.ttl)
    allowed = plan(ZONES, cold, lambda: objects)
    assert isinstance(allowed, Plan)
    assert sum_freed(objects, allowed.fidelities) > 0
    assert plan_of(cold, lambda: objects, lambda _, each: each.fidelity, "nothing") is None
