r"""Through the proxy, the provider's bill under each tariff is within two percent of `evaluate` for the same
session.

The provider is the strict scripted one, which reports usage by the tariff's own rules: markers of five minutes or an
hour, the prefix of the last half hour or five minutes, or one slot. The application is the real one on a real
socket; its log is in memory, and its clock follows the recording.
"""

import json
from collections.abc import Container
from itertools import islice

import pytest

from campaigns.payers.playing import PAYERS, WITHIN, Payer, hold
from mnemosyne_lab.evaluation.policy import API_1H, OPENAI_BEFORE, QUOTA, JudgedTariff
from tests.domain.recorded import folder
from tests.lab.evaluation.recordings import session as make_session

AS_OTHERS = (API_1H, QUOTA, OPENAI_BEFORE)
"""Tariffs that bill by the rules of another, at other prices or for another time."""


BREAKS = {15: 400, 28: 4_000}
"""Seconds before the user asks for a file: after one break entries of five minutes have expired, after the other those
of an hour.
"""

WORK = make_session(
    [
        step
        for number in range(40)
        for step in (("read", number, BREAKS.get(number, 40)), ("edit", number, 15), ("say", number + 1, 15))
    ]
)


def by_tariff(*, but: Container[JudgedTariff] = ()) -> pytest.MarkDecorator:
    """Parametrize by tariff; some tariffs only in long campaigns."""
    return pytest.mark.parametrize(
        "payer",
        [
            pytest.param(each, id=each.judged.name, marks=[pytest.mark.soak] if each.judged in but else [])
            for each in PAYERS
        ],
    )


@by_tariff(but=AS_OTHERS)
async def test_bill_of_a_made_session_agrees_with_evaluate_and_managing_is_no_dearer(payer: Payer) -> None:
    """Sizes are estimates, and a rewrite near the break-even point happens some requests earlier or later."""
    held = await hold(payer, WORK)
    assert abs(held.unmanaged.share) < WITHIN, held
    assert held.managed.share < WITHIN, held


@pytest.mark.soak
@by_tariff()
async def test_bill_of_a_recorded_session_agrees_with_evaluate(payer: Payer) -> None:
    with (folder("sessions") / "claude_code.jsonl").open() as lines:
        (session,) = islice((each for each in map(json.loads, lines) if 40 <= len(each["turns"]) < 50), 1)
    held = await hold(payer, session)
    assert abs(held.unmanaged.share) < WITHIN, held
    assert abs(held.managed.share) < WITHIN, held
