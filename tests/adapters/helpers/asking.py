"""Either helper model with a scripted endpoint."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from mnemosyne.adapters.helpers.opening import open_helper
from mnemosyne.config import Config, load
from mnemosyne.domain.helper.model import HelperFailed, HelperModel, HelperPrompt
from tests.adapters.endpoint import Answer, Endpoint, Json, open_endpoint

HELPERS = ("anthropic", "openai")
PROMPT = HelperPrompt(system="the system prompt", user="the question", most_tokens=123, schema={"type": "object"})
ENVIRON = {"ANTHROPIC_API_KEY": "sk-ours", "OTHER_KEY": "sk-other"}


def settings(helper: str, url: str, **options: str) -> Config:
    base = url if helper == "anthropic" else f"{url}/v1"
    return load(
        {"helper": helper, "helper_url": base, "helper_model": "claude-haiku-5-5", "data_dir": "/nowhere", **options},
        {},
    )


@asynccontextmanager
async def open_both(
    helper: str, answer: Callable[[str, Json], Answer], **options: str
) -> AsyncIterator[tuple[Endpoint, HelperModel]]:
    async with (
        open_endpoint(answer) as endpoint,
        open_helper(settings(helper, endpoint.url, **options), ENVIRON) as model,
    ):
        assert model is not None
        yield endpoint, model


async def failure(helper: str, answer: Callable[[str, Json], Answer]) -> HelperFailed:
    async with open_both(helper, answer) as (_, model):
        with pytest.raises(HelperFailed) as raised:
            await model.complete(PROMPT)
    return raised.value
