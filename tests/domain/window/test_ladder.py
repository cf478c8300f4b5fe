"""In graded mode a rewrite takes an object one rung down, further in a full window, and never past its target."""

from fractions import Fraction

import attrs

from mnemosyne.domain.objects.fidelity import Fidelity, FidelityMode
from mnemosyne.domain.objects.kinds import ObjectKind
from mnemosyne.domain.objects.pressure import Zone
from mnemosyne.domain.window.ages import Candidate
from mnemosyne.domain.window.ladder import descend
from tests.domain.window.test_planning import candidate, holding, planned

L1, L2, L4 = Fidelity.DETAILED, Fidelity.COMPACT, Fidelity.EVICTED
BARE = (8_000, 2_400, None, 40, 20)
"""Without a helper there is no L2."""


def after(
    each: Candidate, zone: Zone = Zone.NORMAL, *, share: int = 10_000, most: int = 10_000, since: int = 0
) -> Fidelity:
    return descend([each], {each.key: L4}, Fraction(share), Fraction(most), zone, since)[each.key]


def test_an_object_goes_one_rung_down_at_each_rewrite() -> None:
    assert after(candidate()) is L1
    assert after(candidate(fidelity=L1)) is L2
    assert after(candidate(fidelity=L2)) is L4
    assert after(candidate(fidelity=L1, tokens=BARE)) is L4


def test_a_form_that_saves_little_is_no_rung() -> None:
    assert after(candidate(tokens=(300, 280, None, 40, 20))) is L4
    assert after(candidate(tokens=(300, None, None, 40, 20))) is L4


def test_an_l2_by_a_helper_may_exceed_the_share_but_not_what_the_session_can_afford() -> None:
    assert after(candidate(), share=300) is L2
    assert after(candidate(tokens=BARE), share=300) is L4
    assert [after(candidate(), most=most) for most in (2_380, 2_379, 380, 379, -1)] == [L1, L2, L2, L4, L4]


def test_a_fuller_window_takes_old_objects_two_rungs_and_a_critical_one_all() -> None:
    assert [after(candidate(), zone, since=20) for zone in Zone] == [L1, L2, L2, L4, L4]
    assert after(candidate(last_use=30), Zone.CAUTION, since=20) is L1


def test_a_released_object_goes_to_its_target_at_once() -> None:
    assert after(candidate(last_use=0)) is L4


def test_the_cheapest_forms_come_first_when_not_all_have_room() -> None:
    objects = [candidate(1, tokens=BARE), candidate(2, tokens=(3_000, 500, None, 40, 20))]
    fidelities = descend(objects, {each.key: L4 for each in objects}, Fraction(2_500), Fraction(2_500), Zone.NORMAL, 0)
    assert fidelities == {"id1": L4, "id2": L1}


def test_only_graded_mode_takes_rungs() -> None:
    objects = [
        candidate(number, kind=ObjectKind.TOOL_RESULT, tags=(), tokens=(9_000, 300, None, 40, 20))
        for number in range(9)
    ]
    thrifty = holding(objects, idle=10**9)
    graded = holding(objects, idle=10**9, mode=FidelityMode.GRADED)
    assert {*getattr(planned(thrifty, *objects), "fidelities", {}).values()} == {L4}
    assert {*getattr(planned(graded, *objects), "fidelities", {}).values()} == {L1}


def test_a_graded_session_keeps_a_file_whose_return_it_could_not_pay() -> None:
    file, result = candidate(1, tokens=(31_000, *BARE[1:])), candidate(2, kind=ObjectKind.TOOL_RESULT, tags=())
    objects = [file, attrs.evolve(result, tokens=(31_000, *BARE[1:]))]
    money = {"billed": Fraction(100_000), "shadow": Fraction(100_000), "window": 100_000, "limit": 100_000}
    poor = holding(objects, mode=FidelityMode.GRADED, **money)
    assert planned(attrs.evolve(poor, mode=FidelityMode.THRIFTY), *objects) is not None
    assert planned(attrs.evolve(poor, billed=Fraction(0)), *objects) is not None
    assert planned(poor, *objects) is None
