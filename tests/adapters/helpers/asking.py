"""Each kind of helper model, in each dialect, with a scripted endpoint."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from mnemosyne.adapters.helpers.opening import open_helper
from mnemosyne.config import Config, load
from mnemosyne.domain.helper.model import ClientKey, HelperFailed, HelperImage, HelperModel, HelperPrompt
from tests.scripted_helper import Answer, Endpoint, Json, open_endpoint

HELPERS = ("anthropic", "openai")
KINDS = (*HELPERS, "client/messages", "client/chat")
PROMPT = HelperPrompt(system="the system prompt", user="the question", most_tokens=123, schema={"type": "object"})
IMAGE = HelperImage("image/png", "aW1hZ2U=")
ENVIRON = {"ANTHROPIC_API_KEY": "sk-ours", "OTHER_KEY": "sk-other"}
CLIENT_KEYS = {
    "client/messages": ClientKey(key="sk-ant-api03-of-a-client", dialect="messages", model="claude-opus-5-5"),
    "client/chat": ClientKey(key="sk-proj-of-a-client", dialect="chat", model="gpt-6-sol"),
}
MODELS = {"client/chat": "gpt-6-luna"}
"""The models that are not Anthropic's smallest."""


def model_of(kind: str) -> str:
    """The model that a kind of helper asks."""
    return MODELS.get(kind, "claude-haiku-5-5")


def settings(kind: str, url: str, **options: str) -> Config:
    """The settings for a helper with an endpoint at this URL."""
    own: dict[str, str] = {"helper": kind.partition("/")[0], "data_dir": "/nowhere"}
    if kind in CLIENT_KEYS:
        own["upstream"] = url
    else:
        own |= {"helper_url": url if kind == "anthropic" else f"{url}/v1", "helper_model": model_of(kind)}
    return load({**own, **options}, {})


@asynccontextmanager
async def open_model(config: Config, kind: str) -> AsyncIterator[HelperModel]:
    """The helper model of a kind with these settings."""
    async with open_helper(config, ENVIRON) as source:
        assert source is not None
        model = source.models_for(CLIENT_KEYS.get(kind))[0]
        yield model


@asynccontextmanager
async def open_both(
    kind: str, answer: Callable[[str, Json], Answer], **options: str
) -> AsyncIterator[tuple[Endpoint, HelperModel]]:
    """A scripted endpoint and the helper model that asks it."""
    async with open_endpoint(answer) as endpoint, open_model(settings(kind, endpoint.url, **options), kind) as model:
        yield endpoint, model


async def failure(kind: str, answer: Callable[[str, Json], Answer], prompt: HelperPrompt = PROMPT) -> HelperFailed:
    async with open_both(kind, answer) as (_, model):
        with pytest.raises(HelperFailed) as raised:
            await model.complete(prompt)
    return raised.value
