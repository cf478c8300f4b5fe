"""Convert the model names of gateways and clouds to the vendor's own names."""

import re
from functools import lru_cache

_VENDOR = re.compile(r"(?:[a-z-]+\.)+(?=[a-z])")
"""The region and vendor in front of a name in Amazon Bedrock: ``us.anthropic.``."""

_VARIANT = re.compile(r":(?:beta|extended|online|thinking)\Z")
"""Variants in which OpenRouter serves a model at the model's own price."""


@lru_cache(maxsize=256)
def bare_name(model: str) -> str:
    """Return the vendor's own name of a model, including its date.

    Reads ``us.anthropic.claude-sonnet-5-v1:0``, ``anthropic/claude-sonnet-4.5`` (OpenRouter writes the version with a
    point), a path in Vertex AI (``publishers/anthropic/models/claude-sonnet-5@20260101``), and an ARN of Bedrock.
    """
    name = _VARIANT.sub("", model.rpartition("/")[2])
    prefix = _VENDOR.match(name)
    name = name[prefix.end() :] if prefix else name
    return re.sub(r"(?<=\d)\.(?=\d)", "-", name) if name.startswith("claude-") else name


def read_gpt_version(model: str) -> tuple[int, int]:
    """Return the version in a name that begins with ``gpt-``; zeros for any other name."""
    version = re.match(r"gpt-(\d{1,3})(?:\.(\d{1,3}))?(?!\d)", model)
    return (int(version[1]), int(version[2] or 0)) if version is not None else (0, 0)
