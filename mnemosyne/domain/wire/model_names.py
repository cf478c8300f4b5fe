"""A model's own name under the names that gateways and clouds give it."""

import re
from functools import lru_cache

_VENDOR = re.compile(r"(?:[a-z-]+\.)+(?=[a-z])")
"""A region and a vendor before the name, as Amazon Bedrock writes them: ``us.anthropic.``."""

_VARIANT = re.compile(r":(?:beta|extended|online|thinking)\Z")
"""Ways in which OpenRouter serves a model at the model's own price."""


@lru_cache(maxsize=256)
def bare_name(model: str) -> str:
    """The vendor's own name of a model, with its date: of ``us.anthropic.claude-sonnet-5-v1:0``, of
    ``anthropic/claude-sonnet-4.5`` (OpenRouter writes the version with a point), of a path in Vertex AI
    (``publishers/anthropic/models/claude-sonnet-5@20260101``) and of an ARN of Bedrock.
    """
    name = _VARIANT.sub("", model.rpartition("/")[2])
    prefix = _VENDOR.match(name)
    name = name[prefix.end() :] if prefix else name
    return re.sub(r"(?<=\d)\.(?=\d)", "-", name) if name.startswith("claude-") else name
