"""Managing is switched on at turn 500 of sessions with signed thinking."""

import pytest

from tests.http.test_joining_tools import switch_on_after, switch_on_openai_after
from tests.http.test_managed_dialects import ChatTalk, ResponsesTalk, Talk

pytestmark = pytest.mark.soak


async def test_switch_at_turn_500_changes_neither_the_head_nor_any_byte_before_the_first_eviction() -> None:
    await switch_on_after(500)


@pytest.mark.parametrize("make", [ResponsesTalk, ChatTalk])
async def test_switch_at_turn_500_changes_no_byte_before_the_tools_join_in_openai_s_dialects(
    make: type[Talk],
) -> None:
    await switch_on_openai_after(make, 500)
