"""A model's own name under the names of clouds and gateways."""

import pytest

from mnemosyne.domain.wire.model_names import bare_name


@pytest.mark.parametrize(
    ("model", "bare"),
    [
        ("claude-sonnet-5", "claude-sonnet-5"),
        ("us.anthropic.claude-sonnet-5-v1:0", "claude-sonnet-5-v1:0"),
        ("anthropic/claude-sonnet-4.5:thinking", "claude-sonnet-4-5"),
        ("publishers/anthropic/models/claude-opus-5@20260101", "claude-opus-5@20260101"),
        ("arn:aws:bedrock:us-east-1:0:inference-profile/eu.anthropic.claude-opus-5", "claude-opus-5"),
        ("bedrock/converse/global.anthropic.claude-opus-4-6-v1", "claude-opus-4-6-v1"),
        ("openai/gpt-5.10-mini", "gpt-5.10-mini"),
        ("gpt-6.2-sol", "gpt-6.2-sol"),
        ("qwen2.5-coder:7b", "qwen2.5-coder:7b"),
        ("o3.mini", "o3.mini"),
        ("anthropic/", ""),
        ("", ""),
    ],
)
def test_prefixes_of_clouds_and_gateways_are_removed_from_a_models_name(model: str, bare: str) -> None:
    assert bare_name(model) == bare
    assert bare_name(bare) == bare
