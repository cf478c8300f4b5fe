"""The simulated prompt cache follows the rules of the documentation."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mnemosyne.domain.cost.prices import Tokens
from mnemosyne_lab.provider.cache import PromptCache, steps
from tests.lab.provider.building import TOOL, Json, assistant, body, user

MARK = {"type": "ephemeral"}
HOUR = {"type": "ephemeral", "ttl": "1h"}
LONG = "word " * 1000
SCHEMA = TOOL["input_schema"]


def block(text: str = LONG, mark: Json | None = None) -> Json:
    return {"type": "text", "text": text, **({"cache_control": mark} if mark else {})}


def ask(cache: PromptCache, request: Json, at: float = 0) -> Tokens:
    """The cost of a request whose reply begins at once."""
    used, begin = cache.request(request, at)
    begin()
    return used


def test_second_request_reads_the_prompt_that_the_first_one_wrote() -> None:
    cache, request = PromptCache(), body(user(block(mark=MARK), "tail"))
    first, second = ask(cache, request), ask(cache, request)
    assert first.read == 0 < first.write_5m
    assert second == Tokens(read=first.write_5m, input=first.input)


def test_moved_marker_still_hits_because_markers_are_not_part_of_the_prefix() -> None:
    cache = PromptCache()
    first = ask(cache, body(user(block(mark=MARK))))
    second = ask(cache, body(user(block()), assistant("ok"), user(block("more", MARK))))
    assert second.read == first.write_5m
    assert second.write_5m > 0


def test_prompt_below_the_models_minimum_is_silently_not_cached() -> None:
    small = body(user(block("x" * 3000, MARK)), tools=[])
    for model, cached in (("claude-opus-5-5", True), ("claude-opus-4-7", False), ("claude-haiku-4-5", False)):
        use = ask(PromptCache(), {**small, "model": model})
        assert (use.write_5m > 0) is cached


def test_one_hour_and_five_minutes_are_billed_separately() -> None:
    use = ask(PromptCache(), body(user(block(mark=HOUR), block(mark=MARK), "tail")))
    sizes = [step.tokens for step in steps(body(user(block(mark=HOUR), block(mark=MARK), "tail")))]
    assert (use.write_1h, use.write_5m, use.input) == (sizes[1], sizes[2] - sizes[1], sizes[3] - sizes[2])


def test_top_level_marker_is_on_the_last_block_that_may_carry_one() -> None:
    cache, request = PromptCache(), body(user(block()), cache_control=MARK)
    assert ask(cache, request).input == 0
    assert ask(cache, request).write_5m == 0


KEYED: dict[str, tuple[dict[str, Any], int]] = {
    # The change, and how many of the three marked tiers (tools, system, messages) still hit.
    "nothing": ({}, 3), "max_tokens": ({"max_tokens": 7}, 3), "stream": ({"stream": True}, 3),
    "metadata": ({"metadata": {"user_id": "x"}}, 3), "tool_choice": ({"tool_choice": {"type": "auto"}}, 2),
    "an image": ({"messages": [user(block(mark=MARK), {"type": "image", "source": {}})]}, 2),
    "speed": ({"speed": "fast"}, 1), "system": ({"system": [block("other " + LONG, MARK)]}, 1),
    "model": ({"model": "claude-sonnet-5-5"}, 0), "effort": ({"output_config": {"effort": "low"}}, 0),
    "thinking": ({"thinking": {"type": "adaptive"}}, 0),
    "key order in a tool": ({"tools": [{"description": LONG, "name": "Look", "input_schema": SCHEMA}]}, 0),
}  # fmt: skip


@pytest.mark.parametrize("name", KEYED)
def test_change_invalidates_the_tiers_that_depend_on_it(name: str) -> None:
    change, tiers = KEYED[name]
    tools = [{**TOOL, "description": LONG, "cache_control": MARK}]
    request = body(user(block(mark=MARK)), tools=tools, system=[block(mark=MARK)])
    sizes = [0, *(step.tokens for step in steps(request))]
    cache = PromptCache()
    ask(cache, request)
    assert ask(cache, {**request, **change}).read == sizes[tiers]


_MARKED = st.sampled_from([None, MARK, HOUR])
_TEXTS = st.lists(st.tuples(st.sampled_from(["a", "b", LONG]), _MARKED), min_size=1, max_size=8)


@given(st.lists(_TEXTS, min_size=1, max_size=6), st.lists(st.integers(0, 400), min_size=6, max_size=6))
def test_parts_always_sum_to_the_size_of_the_prompt(requests: list[Any], gaps: list[int]) -> None:
    cache, now = PromptCache(), 0
    for texts, gap in zip(requests, gaps, strict=False):
        now += gap
        request = body(user(*[block(text, mark) for text, mark in texts]))
        use = ask(cache, request, now)
        assert use.prompt == steps(request)[-1].tokens
        assert min(use.read, use.write_5m, use.write_1h, use.input) >= 0
