"""Servers, their database, the provider and clients on a fake network and clock, in any order and conditions that a
seed draws: the invariants hold after each step and at the end, and violations are found.
"""

from collections.abc import Callable
from functools import cache

import attrs
import pytest
import trio

from campaigns.simulation.schedule import Deadlock, make_run
from campaigns.simulation.world import Plan, SimulationResult, draw_plan, simulate
from mnemosyne.actors.patience import USUAL
from mnemosyne.actors.registry import SessionRegistry
from mnemosyne.actors.session import SessionActor
from mnemosyne.http.client_reply import ClientReply

SEEDS = (6, 14, 18, 36)
"""A few that pass through much in little time."""

SOAKED, PORTION = 4_000, 50
"""Seeds of the campaign, and how many are one test of it."""

simulated = cache(simulate)


@pytest.mark.parametrize("seed", SEEDS)
def test_invariants_hold_for_any_seed(seed: int) -> None:
    assert simulated(seed).whole > 0


def test_tested_seeds_include_two_servers_deaths_bad_conditions_hidden_rounds_and_lost_replies() -> None:
    plans = [draw_plan(make_run(seed).chance) for seed in SEEDS]
    assert {each.servers for each in plans} == {1, 2}
    assert any(each.deaths for each in plans)
    assert any(each.weathers for each in plans)
    found = [simulated(seed) for seed in SEEDS]
    assert sum(each.rounds for each in found) > sum(each.requests for each in found) > sum(each.whole for each in found)


def test_one_seed_is_one_run() -> None:
    assert simulate(SEEDS[2]) == simulated(SEEDS[2])
    assert len({simulated(seed).trace for seed in SEEDS}) == len(SEEDS)


def test_tasks_that_wait_for_each_other_are_reported() -> None:
    async def deadlock() -> None:
        one, two = trio.Event(), trio.Event()

        async def wait(for_this: trio.Event, then: trio.Event) -> None:
            await for_this.wait()
            then.set()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(wait, one, two)
            nursery.start_soon(wait, two, one)

    with pytest.raises(Deadlock):
        make_run(0).run(deadlock)


def _with_two_servers_on_a_slow_database(plan: Plan) -> Plan:
    """Each access takes 0.4 s, and nothing else goes wrong."""
    quiet = attrs.evolve(plan, deaths=0, weathers=(), troubled=0.0, refused=0.0, refuses=0.0)
    return attrs.evolve(quiet, servers=2, seconds=(0.4,), equipment=attrs.evolve(plan.equipment, patience=USUAL))


@pytest.mark.parametrize("seed", [0, 3, 5, 11])
def test_two_servers_on_a_slow_database_lose_nothing_and_break_no_prefix(seed: int) -> None:
    result = simulate(seed, _with_two_servers_on_a_slow_database)
    assert result.conflicts
    assert (result.gaps, result.lost, result.refusals) == (0, 0, 0)


# Violations are found


def _forget_ends(patch: pytest.MonkeyPatch) -> None:
    async def forget(*given: object) -> None:
        """Nothing of a whole reply is recorded."""

    patch.setattr(SessionActor, "_finish", forget)


def _end_nothing(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ClientReply, "close", lambda reply, failure: None)


def _keep_actors(patch: pytest.MonkeyPatch) -> None:
    find = SessionRegistry.ask

    def start(registry: SessionRegistry, *given: object) -> object:
        registry._awake.clear()
        return find(registry, *given)  # type: ignore[arg-type]

    patch.setattr(SessionRegistry, "ask", start)


@pytest.mark.parametrize(
    ("plant", "seed", "found"),
    [
        (_forget_ends, 3, "which its client saw whole, is 0 times on record"),
        (_end_nothing, 3, "waits for a reply for ever"),
        (_keep_actors, 3, "has 2 actors"),
    ],
)
def test_planted_fault_is_found_and_reported_with_the_seed(
    plant: Callable[[pytest.MonkeyPatch], None], seed: int, found: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)
    with pytest.raises((AssertionError, ExceptionGroup)) as caught:
        simulate(seed)
    error: BaseException = caught.value
    assert f"python -m campaigns.simulation {seed}" in error.__notes__[-1]
    while isinstance(error, ExceptionGroup):
        error = error.exceptions[0]
    assert found in str(error)


# The campaign


@pytest.mark.soak
@pytest.mark.parametrize("first", range(0, SOAKED, PORTION))
def test_invariants_hold_for_thousands_of_seeds(first: int) -> None:
    found = [simulate(seed) for seed in range(first, first + PORTION)]
    for name in attrs.fields_dict(SimulationResult):
        if name not in ("seed", "trace"):
            print(f"{name} {sum(getattr(each, name) for each in found):.0f}", end=" ")  # noqa: T201
