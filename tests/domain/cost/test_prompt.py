"""A prompt is a chain of blocks that shares its beginning with other prompts."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mnemosyne.domain.cost.prompt import Keys, Prompt, PromptBlock, Tier, block_of, serialize, with_automatic


def block(name: str, tokens: int = 10, tier: Tier = Tier.MESSAGES, kind: str = "text") -> PromptBlock:
    return PromptBlock(name.encode(), tokens, tier, kind)


def of(value: dict[str, Any], role: str = "user") -> PromptBlock:
    return block_of(Tier.MESSAGES, value, serialize(value), 1, role)


BLOCKS = st.lists(st.builds(block, st.sampled_from("abc"), st.integers(0, 99)), max_size=12)
EDITS = st.lists(st.tuples(st.integers(0, 12), BLOCKS), max_size=6)


@given(BLOCKS, EDITS)
def test_equal_prompts_can_be_built_in_different_ways_and_building_changes_no_prompt(
    first: list[PromptBlock], edits: list[tuple[int, list[PromptBlock]]]
) -> None:
    prompts, contents = [Prompt(Keys(), first)], [first]
    for cut, more in edits:
        cut = min(cut, len(contents[-1]))
        prompts.append(prompts[-1].truncate(cut).extend(more))
        contents.append([*contents[-1][:cut], *more])
    assert prompts == [Prompt(Keys(), blocks) for blocks in contents]


def test_an_index_beyond_a_prompts_end_is_an_error() -> None:
    stem = Prompt(Keys(), [block("a")])
    stem.extend([block("b")])
    with pytest.raises(IndexError):
        stem[1]
    with pytest.raises(ValueError, match="cannot be cut to 2"):
        stem.truncate(2)


def test_tiers_must_be_in_order() -> None:
    with pytest.raises(ValueError, match="tools cannot follow messages"):
        Prompt(Keys(), [block("a"), block("b", tier=Tier.TOOLS)])


THREE = [block("t", tier=Tier.TOOLS), block("s", tier=Tier.SYSTEM), block("m")]


@pytest.mark.parametrize(
    ("keys", "kept"),
    [
        (Keys(model="another"), 0),
        (Keys(thinking="high"), 0),
        (Keys(speed="fast"), 1),
        (Keys(features="citations"), 1),
        (Keys(messages="image"), 2),
    ],
)
def test_a_changed_key_changes_the_prompt_from_its_tier_on(keys: Keys, kept: int) -> None:
    pairs = zip(Prompt(Keys(), THREE), Prompt(keys, THREE), strict=True)
    assert [one.digest == other.digest for one, other in pairs] == [number < kept for number in range(3)]


def test_a_key_counts_even_if_its_tier_is_empty() -> None:
    assert Prompt(Keys(model="a"), THREE[2:])[0].digest != Prompt(Keys(model="b"), THREE[2:])[0].digest


def test_a_block_is_identified_by_its_role_and_its_text_without_marker_in_key_order() -> None:
    value = {"type": "text", "text": "x"}
    assert of({**value, "cache_control": {"type": "ephemeral"}}) == of(value)
    others = [of({"text": "x", "type": "text"}), of({**value, "text": "y"}), of(value, "assistant")]
    assert len({other.digest for other in [of(value), *others]}) == 4


@pytest.mark.parametrize(
    ("value", "markable"),
    [
        ({"type": "text", "text": "x"}, True),
        ({"type": "text", "text": " \n"}, False),
        ({"type": "thinking", "thinking": "x"}, False),
        ({"type": "redacted_thinking", "data": "x"}, False),
        ({"type": "tool_result", "content": ""}, True),
    ],
)
def test_thinking_and_blank_text_carry_no_marker(value: dict[str, Any], markable: bool) -> None:
    assert of(value).markable is markable


def test_a_text_with_half_a_surrogate_pair_is_a_valid_block() -> None:
    assert of({"type": "text", "text": "\ud800"}).markable


# Markers

THINKING = PromptBlock(b"thought", 10, Tier.MESSAGES, "thinking", markable=False)


def test_the_automatic_marker_is_on_the_last_markable_block() -> None:
    prompt = Prompt(Keys(), [*(block(name) for name in "abcde"), THINKING])
    assert with_automatic(prompt, {}) == {4: "5m"}
    assert with_automatic(Prompt(), {}) == {}
