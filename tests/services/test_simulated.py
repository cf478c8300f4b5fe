"""The map of a simulated branch has a band for each fidelity, on the scales of the recorded branch."""

from mnemosyne.domain.objects.fidelity import Fidelity
from mnemosyne.services.map_chart import map_chart
from mnemosyne.services.simulated import SimulatedBranch, SimulatedTurn, draw_branch


def branch(*held: tuple[int, int, int, int]) -> SimulatedBranch:
    turns = [
        SimulatedTurn(turn=number, fixed=100, held=each, is_rewritten=number == 2)
        for number, each in enumerate(held, 1)
    ]
    return SimulatedBranch(
        policy="cold", about="", turns=turns, nanodollars=1, nanodollars_unmanaged=2, verdict="It is so."
    )


SMALL, LARGE = branch((400, 0, 0, 0), (100, 0, 0, 20)), branch((400, 0, 0, 0), (900, 0, 0, 0), (1_500, 0, 0, 0))


def test_a_turn_has_its_fixed_part_and_a_band_for_each_fidelity() -> None:
    found = draw_branch(SMALL, "main")
    assert [(each.tokens, each.fixed, each.epoch) for each in found.turns] == [(500, 100, False), (220, 100, True)]
    assert [(each.first, each.fidelity, each.tokens) for each in found.spans] == [
        (1, Fidelity.FULL, 400),
        (2, Fidelity.FULL, 100),
        (2, Fidelity.STUB, 20),
    ]


def test_adjacent_maps_share_one_scale() -> None:
    small, large = draw_branch(SMALL, "main"), draw_branch(LARGE, "main")
    alone, beside = (map_chart([small], beside=each) for each in ([], [large]))
    assert 'data-last="3"' in alone
    assert 'data-right="952"' in alone
    assert 'data-last="3"' in beside
    assert f'data-right="{56 + 896 * 2 / 3:g}"' in beside
    assert 'data-right="952"' in map_chart([large], beside=[small])
