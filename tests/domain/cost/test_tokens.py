import base64
import math
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mnemosyne.domain.cost.tokens import (
    Estimator,
    Features,
    MeasuredPrompt,
    apportion,
    features_of_block,
    features_of_text,
    features_of_tools,
)

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
FIELDS = ("type", "text", "thinking", "signature", "data", "name", "input", "tool_use_id", "content", "source")
KINDS = ("text", "thinking", "redacted_thinking", "tool_use", "tool_result", "image", "document", "unheard_of")
BLOCKS = st.dictionaries(st.sampled_from(FIELDS), st.sampled_from(KINDS) | JSON)

FEATURES = st.builds(Features, st.integers(0, 10**9), st.integers(0, 10**6))
TURN = Features(1_000_000)


# Features


@given(BLOCKS)
def test_every_block_has_features_however_malformed(block: dict[str, Any]) -> None:
    features = features_of_block(block)
    assert features.text >= 0
    assert features.fixed >= 0


def test_deep_nesting_is_not_an_error() -> None:
    block: dict[str, Any] = {"type": "text", "text": "deep down"}
    for _ in range(10_000):
        block = {"type": "tool_result", "tool_use_id": "t", "content": [block]}
    assert features_of_block(block).text >= features_of_text("deep down").text


def test_a_result_weighs_the_same_as_text_and_as_blocks_and_its_marker_does_not_count() -> None:
    result = {"type": "tool_result", "tool_use_id": "toolu_1", "content": "a line\n"}
    as_blocks = {**result, "content": [{"type": "text", "text": "a line\n"}]}
    assert features_of_block(result) == features_of_block(as_blocks)
    unknown = {"type": "unheard_of", "value": "a line"}
    assert features_of_block(unknown) == features_of_block({**unknown, "cache_control": {"type": "ephemeral"}})


def test_hidden_thinking_weighs_about_as_much_as_shown_thinking() -> None:
    text = "The user wants the tests to pass, so I look at what they say first. " * 30
    signature = "s" * (232 + len(text) * 4 // 3)
    shown = features_of_block({"type": "thinking", "thinking": text, "signature": signature}).text
    omitted = features_of_block({"type": "thinking", "thinking": "", "signature": signature}).text
    assert omitted == pytest.approx(shown, rel=0.3)


def test_an_image_weighs_by_its_pixels_and_not_by_its_data() -> None:
    def image(data: str) -> Features:
        return features_of_block({"type": "image", "source": {"type": "base64", "data": data}})

    # A PNG's header: 280 pixels wide, 140 high; then 28,000 wide and high.
    assert image("iVBORw0KGgoAAAANSUhEUgAAARgAAACM" + "A" * 4000) == Features(fixed=10 * 5)
    assert image("iVBORw0KGgoAAAANSUhEUgAAbWAAAG1g") == image("no image") == image("") == Features(fixed=1600)


def test_a_pdf_weighs_by_its_pages_and_an_uncountable_one_as_one_page() -> None:
    def document(data: bytes) -> Features:
        encoded = base64.b64encode(data).decode()
        source = {"type": "base64", "media_type": "application/pdf", "data": encoded}
        return features_of_block({"type": "document", "source": source})

    assert document(b"%PDF-1.4 " + b"<</Type /Page>> " * 12 + bytes(100_000)) == Features(fixed=12 * 3000)
    assert document(b"%PDF-1.4 broken") == document(b"") == Features(fixed=3000)
    assert features_of_block({"type": "document", "source": {"type": "file", "file_id": "f"}}) == Features(fixed=3000)


def test_tools_include_the_prompt_that_the_provider_adds() -> None:
    tools = [{"name": "Bash", "input_schema": {"type": "object"}}]
    assert features_of_tools(tools, "claude-opus-5").fixed == 286
    assert features_of_tools([], "claude-opus-5") == features_of_tools("x", "claude-opus-5") == Features()


# The estimator


def test_fixed_tokens_do_not_depend_on_the_model_but_text_does() -> None:
    old, new = Estimator.of("claude-opus-4-5"), Estimator.of("claude-opus-5-5")
    assert old.tokens(Features(fixed=50)) == new.tokens(Features(fixed=50)) == 50
    assert new.tokens(TURN) > 1.3 * old.tokens(TURN)


@pytest.mark.parametrize("truth", [0.7, 1.4, 1.9])
def test_a_session_with_unusual_texts_is_learned_in_twenty_turns(truth: float) -> None:
    estimator = Estimator.of("claude-opus-5-5")
    for _ in range(20):
        estimator = estimator.observe(TURN, round(1000 * truth))
    assert estimator.tokens(TURN) == pytest.approx(1000 * truth, rel=0.05)


@pytest.mark.parametrize("usage", [None, 0, -5, True, math.nan, math.inf, "12", 100, 10_000, 10**400])
def test_a_missing_or_absurd_usage_is_ignored(usage: object) -> None:
    estimator = Estimator.of("claude-opus-4-5")
    assert estimator.observe(TURN, usage) == estimator
    assert estimator.observe(Features(), usage) == estimator


def test_an_occasional_turn_with_much_unseen_content_hardly_changes_the_estimate() -> None:
    estimator = Estimator.of("claude-opus-4-5")
    for turn in range(100):
        estimator = estimator.observe(TURN, 2900 if turn % 10 == 5 else 1000)
    assert estimator.tokens(TURN) == pytest.approx(1000, rel=0.1)


@given(st.lists(st.tuples(FEATURES, st.integers(-10, 10**12))))
def test_no_usage_breaks_the_estimator(observed: list[tuple[Features, int]]) -> None:
    estimator = Estimator.of("claude-opus-5-5")
    for features, actual in observed:
        estimator = estimator.observe(features, actual)
        assert 0.5 <= estimator.scale <= 2
        assert 0 < estimator.variance < 1


@pytest.mark.parametrize(("each_time", "bound"), [(2.9, 2.0), (0.4, 0.5)])
def test_the_scale_follows_extreme_counts_only_to_a_bound(each_time: float, bound: float) -> None:
    estimator = Estimator.of("claude-opus-5-5")
    for _ in range(200):
        estimator = estimator.observe(TURN, round(each_time * estimator.tokens(TURN)))
    assert estimator.scale == bound


# Prompts


def test_an_unchanged_prompt_has_the_size_that_the_provider_reported() -> None:
    anchor = MeasuredPrompt(41_234, Features(40_000_000))
    assert Estimator.of("claude-opus-4-5").prompt(anchor, Features()) == 41_234


def test_removed_content_is_a_share_of_the_exact_size() -> None:
    """The provider counted a quarter more than estimated, so half of the content is a quarter more, too."""
    anchor = MeasuredPrompt(50_286, Features(40_000_000, fixed=286))
    assert Estimator.of("claude-opus-4-5").prompt(anchor, Features(), Features(20_000_000)) == 25_286
    assert Estimator.of("claude-opus-4-5").prompt(anchor, Features(), Features(40_000_000, fixed=286)) == 0


@given(FEATURES, FEATURES, st.integers(-10, 10**9))
def test_less_added_is_more_removed(held: Features, removed: Features, total: int) -> None:
    estimator, anchor = Estimator.of("claude-opus-5-5"), MeasuredPrompt(total, held)
    assert estimator.prompt(anchor, Features() - removed) == estimator.prompt(anchor, Features(), removed) >= 0


@pytest.mark.parametrize("total", [0, -1, 4000, 400_000])
def test_an_impossible_total_is_ignored(total: int) -> None:
    estimator = Estimator.of("claude-opus-4-5")
    assert estimator.prompt(MeasuredPrompt(total, Features(40_000_000)), TURN) == 41_000
    assert estimator.prompt(None, TURN) == 1000


@given(st.integers(1, 10**6), st.lists(st.integers(0, 10**5), min_size=1))
def test_the_parts_of_a_turn_add_up_to_its_size(total: int, estimates: list[int]) -> None:
    parts = apportion(total, estimates)
    if sum(estimates) == 0:
        assert parts == tuple(estimates)
    else:
        assert sum(parts) == total
        assert all(
            abs(part - total * estimate / sum(estimates)) <= 1 for part, estimate in zip(parts, estimates, strict=True)
        )


def test_the_providers_count_sets_the_scale_of_the_remaining_content() -> None:
    """If a prompt is 1.5 times its estimate, so are its parts, including those that a compaction removes."""
    usual = Estimator.of("claude-opus-4-5")
    scaled = usual.at(Fraction(3, 2))
    assert scaled.tokens(Features(10_000_000)) == 15_000
    assert scaled.at(Fraction(2, 3)) == usual
    assert usual.at(Fraction(10**9)).tokens(Features(1_000)) == 2, "no prompt makes more of it than twice the estimate"
