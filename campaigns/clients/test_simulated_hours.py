"""The simulated long session: an agent rereads only text that left its window."""

from typing import Any

import pytest

from campaigns.clients.simulate_hours import LIMIT, Run
from campaigns.clients.ten_hours import Plan

WINDOW = {"window": 60_000, "limit": 60_000}


@pytest.mark.parametrize(
    ("settings", "is_again"),
    [({}, False), ({"compacts": 60_000}, True), (WINDOW, True), (WINDOW | {"knows": True}, False)],
)
def test_only_text_that_left_the_window_before_its_use_is_read_again(settings: dict[str, Any], is_again: bool) -> None:
    plan = Plan.load()
    plan.kinds, plan.sizes, plan.parts = plan.kinds[:250], plan.sizes[:250], plan.parts[:250]
    run = Run(plan=plan, **settings).play()
    assert (run.counts["u"] + run.counts["e"] > 0) == is_again
    assert run.peak <= settings.get("window", LIMIT)
