"""Policies do what their descriptions say, stay within their limits, and lose nothing silently."""

from typing import Any

import pytest
from hypothesis import given

from mnemosyne.domain.objects.events import BlockPlace
from mnemosyne.domain.objects.fidelity import Fidelity
from mnemosyne.domain.window.assembly import ObjectRendering
from mnemosyne_lab.evaluation.demand import demands
from mnemosyne_lab.evaluation.driver import simulate
from mnemosyne_lab.evaluation.policies import CLEARED, POLICIES, UNMANAGED, clear
from mnemosyne_lab.evaluation.reading import recording
from mnemosyne_lab.evaluation.results import SessionResult
from mnemosyne_lab.evaluation.trace import Trace, trace_of
from tests.domain.recorded import sessions
from tests.lab.evaluation.recordings import LONG, STEPS, Step, long_trace, sized, traced
from tests.profiles import examples

pytestmark = pytest.mark.release

MANAGING = [policy for policy in POLICIES if policy.history == "whole"]


def results(trace: Trace, *, fixed: int = 20_000) -> dict[str, SessionResult]:
    """A trace under every policy."""
    measured, wanted = sized(trace, fixed=fixed), demands(trace)
    reality = simulate(measured, wanted, UNMANAGED)
    return {policy.name: simulate(measured, wanted, policy, reality) for policy in POLICIES}


def test_every_policy_has_a_unique_name_and_a_description() -> None:
    names = [policy.name for policy in POLICIES]
    assert len(set(names)) == len(names)
    assert {"unmanaged", "uncompacted", "oracle", "mnemosyne"} <= set(names)
    assert all(policy.about.endswith(".") for policy in POLICIES)


EVICTING = ("uncompacted", "simple")
"""Policies with the oracle's actions: tool results are reduced to a stub or a line, and dialogue stays."""


@examples(20)
@given(STEPS)
def test_no_evicting_policy_without_faults_bills_less_than_the_free_oracle(steps: list[Step]) -> None:
    found = results(traced(steps))
    assert found["oracle"].exact_faults == 0
    for name in EVICTING:
        assert found[name].exact_faults or found[name].billed >= found["oracle"].billed, name


@examples(20)
@given(STEPS)
def test_nothing_is_lost_silently(steps: list[Step]) -> None:
    found = results(traced(steps))
    assert {policy.name: found[policy.name].silent for policy in MANAGING} == {policy.name: 0 for policy in MANAGING}


def test_the_oracle_never_faults_on_an_exact_text() -> None:
    found = results(long_trace())
    assert found["oracle"].exact_faults == 0
    assert found["oracle"].evictions > 0


def test_only_limits_apply_when_nothing_is_old_cold_or_large() -> None:
    for name, result in results(traced(LONG[:8])).items():
        if name != "oracle":
            assert not result.epochs, name
            assert result.billed == result.billed_unmanaged, name


def test_clearing_replaces_results_and_keeps_calls_and_thinking() -> None:
    call = {"type": "tool_use", "id": "a", "name": "Read", "input": {"path": "x" * 1_000}}
    thought = {"type": "thinking", "thinking": "Hm.", "signature": "s"}
    result = {"type": "tool_result", "tool_use_id": "a", "content": "y" * 1_000}
    messages: list[dict[str, Any]] = [
        {"role": "assistant", "content": [thought, call]},
        {"role": "user", "content": [result]},
    ]
    rendering = ObjectRendering(id="i", fidelity=Fidelity.STUB, text="t", line="l")
    renderings = {BlockPlace(5, 1): rendering, BlockPlace(6, 0): rendering}
    assert clear(messages, renderings, 9, 5) == [
        messages[0],
        {"role": "user", "content": [{**result, "content": CLEARED}]},
    ]


@pytest.fixture(scope="module")
def recorded() -> dict[str, dict[str, SessionResult]]:
    """A few recorded sessions of different agents under every policy."""
    chosen = ("entire-880d23f9", "entire-45f2ccfd", "mini-django__django-14725", "tau-airline-109")
    found = {each["name"]: trace_of(recording("x", each)) for each in sessions() if each["name"] in chosen}
    return {name: results(trace, fixed=41_000) for name, trace in found.items()}


def test_recorded_sessions_break_no_rule_and_lose_nothing_silently(
    recorded: dict[str, dict[str, SessionResult]],
) -> None:
    assert len(recorded) == 4
    for found in recorded.values():
        for policy in MANAGING:
            assert found[policy.name].wire_violations == 0
            assert found[policy.name].silent == 0


def test_recorded_sessions_without_faults_never_cost_less_than_the_free_oracle(
    recorded: dict[str, dict[str, SessionResult]],
) -> None:
    for found in recorded.values():
        assert found["oracle"].exact_faults == 0
        for name, result in found.items():
            if result.exact_faults == 0:
                assert result.billed >= found["oracle"].billed, name


def test_recorded_sessions_are_worth_managing(recorded: dict[str, dict[str, SessionResult]]) -> None:
    found = recorded["entire-880d23f9"]
    assert found["unmanaged"].ratio == 1
    assert found["oracle"].ratio < found["mnemosyne"].ratio < 1
