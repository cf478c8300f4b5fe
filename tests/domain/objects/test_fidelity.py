"""The ladder: its steps go up or down by cause, and every object can be evicted and restored."""

from itertools import product

import pytest

from mnemosyne.domain.objects.fidelity import DOWN, UP, Cause, Fidelity, is_legal


def test_step_has_only_causes_of_its_own_direction() -> None:
    for before, after, cause in product(Fidelity, Fidelity, Cause):
        if is_legal(before, after, cause):
            assert cause in (DOWN if after > before else UP)


def test_illegal_steps_are_unchanged_fidelity_restore_to_a_stub_and_eviction_by_goal() -> None:
    for before, cause in product(Fidelity, Cause):
        assert not is_legal(before, before, cause)
        if before > Fidelity.STUB:
            assert not is_legal(before, Fidelity.STUB, cause)
    for before, after in product(Fidelity, (Fidelity.STUB, Fidelity.EVICTED)):
        assert not is_legal(before, after, Cause.GOAL)


@pytest.mark.parametrize("fidelity", [each for each in Fidelity if each is not Fidelity.FULL])
def test_degraded_object_can_be_restored_in_one_step(fidelity: Fidelity) -> None:
    assert is_legal(Fidelity.FULL, fidelity, Cause.PRESSURE)
    assert all(is_legal(fidelity, Fidelity.FULL, cause) for cause in UP)
