"""A policy of the operator's own may fail in any way: the request goes on, and the session records why."""

from collections.abc import Sequence
from threading import Event as ThreadEvent
from typing import Any

import attrs
import pytest

from mnemosyne.actors.actor_services import ActorServices
from mnemosyne.actors.plug_ins import MOST_FAILURES, MOST_THREADS, PlugInRunner
from mnemosyne.domain.session.input_events import GroundsNoted, SettingsTaken
from mnemosyne.domain.session.round_events import EpochBegan
from mnemosyne.domain.window.policies import PlugIn, PolicyFailed
from mnemosyne.replay.deciding import review
from mnemosyne.sdk.policies import Candidates, Fidelity, Plan, Situation
from tests.actors.support import PATIENT
from tests.domain.window.test_planning import candidate, situation
from tests.http.managing import Stage
from tests.http.test_epochs import MINUTES, SMALL, Clock, open_work, reads, violations
from tests.plain.archive import MemoryArchive


def runner(planner: Any) -> PlugInRunner:
    return PlugInRunner(PlugIn("mine:plan", "1.2", planner))


def exits(situation: Situation, candidates: Candidates) -> Plan | None:
    raise SystemExit(3)


def divides(situation: Situation, candidates: Candidates) -> Plan | None:
    return Plan(fidelities={str(1 // 0): Fidelity.STUB}, reason="")


def plan_from(fidelities: Any) -> Plan:
    return Plan(fidelities=fidelities, reason="")


class Untold(Exception):
    def __str__(self) -> str:
        raise ValueError


def raises(error: type[Exception], *details: str) -> Any:
    def planner(situation: Situation, candidates: Candidates) -> Plan | None:
        raise error(*details)

    return planner


@pytest.mark.parametrize(
    ("planner", "why"),
    [
        (exits, "it raised SystemExit: 3"),
        (divides, "it raised ZeroDivisionError: integer division or modulo by zero"),
        (lambda situation: None, "it raised TypeError"),
        (lambda situation, candidates: {"a": 3}, "it returned dict instead of a Plan or None"),
        (lambda situation, candidates: plan_from({"a": 3}), "its plan does not assign a Fidelity"),
        (lambda situation, candidates: plan_from(None), "it raised TypeError"),
        (raises(Untold), "it raised Untold"),
    ],
)
async def test_whatever_a_policy_does_is_a_failure_with_a_reason(planner: Any, why: str) -> None:
    with pytest.raises(PolicyFailed, match=why):
        await runner(planner).plan(situation(), [candidate()], 10.0)


async def test_a_policy_rests_after_impossible_plans_too() -> None:
    asked = runner(lambda situation, candidates: plan_from({"private": Fidelity.EVICTED}))
    for _ in range(MOST_FAILURES):
        with pytest.raises(PolicyFailed, match="not in the window: 'private'"):
            await asked.plan(situation(), [candidate()], 10.0)
    with pytest.raises(PolicyFailed, match="it rests after 3 failures in a row"):
        await asked.plan(situation(), [candidate()], 10.0)


@pytest.mark.parametrize("kind", [ValueError, PolicyFailed])
async def test_the_servers_log_names_only_the_type_of_a_policys_exception(
    kind: type[Exception], caplog: pytest.LogCaptureFixture
) -> None:
    services = ActorServices(patience=PATIENT, plug_in=runner(raises(kind, "private")))
    with pytest.raises(PolicyFailed) as failure:
        await services.ask_policy("mine:plan", situation(), [])
    services.note_policy(failure.value)
    assert services.noted.policy == f"it raised {kind.__name__}: private"
    assert f"it raised {kind.__name__}" in caplog.text
    assert "private" not in caplog.text


async def test_a_slow_policy_is_left_behind_and_rests_after_repeated_failures() -> None:
    may_end = ThreadEvent()
    slow = runner(lambda situation, candidates: may_end.wait())
    try:
        for _ in range(MOST_FAILURES):
            with pytest.raises(PolicyFailed, match=r"it took longer than 0\.001 s"):
                await slow.plan(situation(), [], 0.001)
        with pytest.raises(PolicyFailed, match="it rests after 3 failures in a row"):
            await slow.plan(situation(), [], 0.001)
        slow._rests_until = 0.0
        for _ in range(MOST_THREADS - MOST_FAILURES):
            with pytest.raises(PolicyFailed, match="it took longer"):
                await slow.plan(situation(), [], 0.001)
        with pytest.raises(PolicyFailed, match="4 earlier calls have not returned"):
            await slow.plan(situation(), [], 0.001)
    finally:
        may_end.set()


# Through a complete proxy


def evict_largest(situation: Situation, candidates: Candidates) -> Plan | None:
    """Evict all results at once; the guard allows it after the break."""
    large = [each for each in candidates() if not each.kept and each.tokens[0] > 500]
    large = [each for each in large if each.fidelity is Fidelity.FULL]
    return Plan(fidelities={each.key: Fidelity.EVICTED for each in large}, reason="large") if large else None


def plan_nonsense(situation: Situation, candidates: Candidates) -> Plan | None:
    return Plan(fidelities={"abc2345": Fidelity.EVICTED}, reason="nonsense")


async def play(policy: PlugIn, turns: int = 8, window: int = SMALL) -> tuple[Stage, Sequence[Any]]:
    """Some turns that fill the window, and two more after a break in which the provider's cache expired."""
    clock, patience = Clock(), attrs.evolve(PATIENT, policy=5.0)
    async with open_work(window=window, plug_in=policy, clock=clock, patience=patience) as (stage, client):
        message = await reads(client, stage, {"content": []}, turns)
        clock.now += 60 * MINUTES
        await reads(client, stage, message, 2, first=turns)
        assert violations(stage) == []
        return stage, await stage.events()


async def test_a_session_whose_policy_plans_nonsense_goes_on_and_is_kept_within_its_window() -> None:
    stage, events = await play(PlugIn("mine:plan", "1.2", plan_nonsense), turns=5)
    why = {event.policy for event in events if isinstance(event, GroundsNoted)}
    impossible = "it plans for an object that is not in the window: 'abc2345'"
    assert why == {impossible, "it rests after 3 failures in a row"}
    assert {event.reason for event in events if isinstance(event, EpochBegan)} == {"the window overflows"}
    (stream,) = await stage.log.streams()
    again = await review(MemoryArchive(stage.log), str(stream))
    assert (again.differences, again.skipped) == ([], [])  # no policy is needed where it failed


@pytest.mark.release
async def test_replay_asks_a_policy_again_and_says_so_where_it_has_none() -> None:
    policy = PlugIn("mine:plan", "1.2", evict_largest)
    stage, events = await play(policy, turns=4, window=3 * SMALL)
    (taken,) = (event for event in events if isinstance(event, SettingsTaken))
    assert (taken.policy, taken.policy_version) == ("mine:plan", "1.2")
    assert "the policy plans it" in {event.reason for event in events if isinstance(event, EpochBegan)}
    (stream,) = await stage.log.streams()
    archive = MemoryArchive(stage.log)
    again = await review(archive, str(stream), plug_in=policy)
    assert (again.differences, again.skipped) == ([], [])
    for other, here in ((None, "no such policy"), (attrs.evolve(policy, version="2"), "mine:plan 2")):
        found = await review(archive, str(stream), plug_in=other)
        assert found.differences == []
        assert f"its policy was mine:plan 1.2; {here} is in the settings here." in {each.why for each in found.skipped}
