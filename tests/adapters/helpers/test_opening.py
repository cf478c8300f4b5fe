"""A helper model is opened only with a key and a known price."""

import attrs
import pytest

from mnemosyne.adapters.helpers.opening import check_helper, open_helper
from mnemosyne.config import load
from mnemosyne.domain.cost.catalogue import in_force
from mnemosyne.domain.cost.prices import Price
from mnemosyne.domain.helper.model import FREE, ClientKey, HelperFailed
from mnemosyne.errors import BadConfiguration
from tests.adapters.helpers.asking import CLIENT_KEYS, ENVIRON, HELPERS, KINDS, PROMPT, open_both, open_model, settings
from tests.scripted_helper import open_endpoint, says

NOWHERE = "http://127.0.0.1:9"


async def test_the_extractive_helper_needs_no_model() -> None:
    config = load({"data_dir": "/nowhere"}, {})
    check_helper(config, {})
    async with open_helper(config, {}) as source:
        assert source is None


@pytest.mark.parametrize("kind", HELPERS)
async def test_the_key_is_read_from_the_named_variable(kind: str) -> None:
    async with open_both(kind, lambda path, _: says(path, "x"), helper_key_variable="OTHER_KEY") as (endpoint, model):
        await model.complete(PROMPT)
        assert "sk-other" in str(endpoint.requests[0][1])
    missing = settings(kind, NOWHERE, helper_key_variable="NO_KEY")
    with pytest.raises(BadConfiguration, match="NO_KEY is not set"):
        async with open_helper(missing, ENVIRON):
            pass


@pytest.mark.parametrize("kind", KINDS)
async def test_the_price_is_known_or_configured(kind: str) -> None:
    async with open_model(settings(kind, NOWHERE), kind) as model:
        name = model.name.partition(":")[2]
        assert model.price == (FREE if kind == "openai" else in_force().prices[name])
    async with open_model(settings(kind, "https://h.example", helper_price="0.25/1.5"), kind) as model:
        assert model.price == Price(250, 1_500, read=250)
    unpriced = settings(kind, "https://h.example", helper_model="unheard-of")
    if kind in CLIENT_KEYS:
        async with open_helper(unpriced, ENVIRON) as source:
            assert source is not None
            assert not source.models_for(CLIENT_KEYS[kind])
    else:
        with pytest.raises(BadConfiguration, match="helper_price"):
            async with open_helper(unpriced, ENVIRON):
                pass


@pytest.mark.parametrize("kind", HELPERS)
async def test_a_check_raises_the_error_of_opening(kind: str) -> None:
    fit = settings(kind, NOWHERE, helper_key_variable="OTHER_KEY")
    check_helper(fit, ENVIRON)
    for unfit, environ in ((fit, {}), (attrs.evolve(fit, helper_url="https://h.example", helper_model="new"), ENVIRON)):
        with pytest.raises(BadConfiguration) as checked:
            check_helper(unfit, environ)
        with pytest.raises(BadConfiguration, match=str(checked.value).split(".")[0][:30]):
            async with open_helper(unfit, environ):
                pass


async def test_only_the_provider_s_own_helper_needs_a_key_by_default() -> None:
    with pytest.raises(BadConfiguration, match="ANTHROPIC_API_KEY is not set"):
        check_helper(settings("anthropic", NOWHERE), {"ANTHROPIC_API_KEY": " "})
    check_helper(settings("openai", NOWHERE), {})
    check_helper(settings("client/chat", NOWHERE), {})


async def test_the_fallback_follows_the_helper_and_is_alone_without_a_client_s_key() -> None:
    local = "qwen3:4b@http://127.0.0.1:11434/v1"
    for kind, first in (("anthropic", ["anthropic:claude-haiku-5-5"]), ("client/chat", [])):
        async with open_helper(settings(kind, NOWHERE, helper_fallback=local), ENVIRON) as source:
            assert source is not None
            assert [each.name for each in source.models_for(None)] == [*first, "openai:qwen3:4b"]
    paid = settings("openai", NOWHERE, helper_fallback="claude-haiku-5-5", helper_price="0/0")
    async with open_helper(paid, ENVIRON) as source:
        assert source is not None
        assert [each.price for each in source.models_for(None)] == [FREE, in_force().prices["claude-haiku-5-5"]]
    with pytest.raises(BadConfiguration, match="ANTHROPIC_API_KEY is not set"):
        check_helper(paid, {})


@pytest.mark.parametrize(
    ("kind", "fallback", "reason"),
    [
        ("extractive", "claude-haiku-5-5", "needs a helper"),
        ("anthropic", "small@https://h.example/v1", "loopback"),
        ("anthropic", "small@http://127.0.0.1:8787/v1", "proxy's own address"),
    ],
)
def test_a_fallback_without_a_helper_or_on_another_machine_is_refused(kind: str, fallback: str, reason: str) -> None:
    with pytest.raises(BadConfiguration, match=reason):
        load({"helper": kind, "data_dir": "/nowhere", "helper_fallback": fallback}, {})


async def test_a_client_without_a_key_or_with_an_unknown_model_has_no_helper() -> None:
    async with open_helper(settings("client/chat", NOWHERE), ENVIRON) as source:
        assert source is not None
        assert not source.models_for(None)
        for model in (None, "qwen3:4b", "anthropic/claude-sonnet-4.5", "us.anthropic.claude-sonnet-5-v1:0"):
            assert not source.models_for(ClientKey(key="sk-a", dialect="chat", model=model))


async def test_a_key_goes_to_the_provider_of_its_request() -> None:
    async with open_endpoint(lambda path, _: says(path, "x")) as first, open_endpoint(first.answer) as second:
        config = settings("client/chat", first.url, upstreams=f"other={second.url}/v1")
        for kind in CLIENT_KEYS:
            async with open_model(config, kind) as model:
                await model.complete(PROMPT)
        assert [[path for path, _, _ in each.requests] for each in (first, second)] == [
            ["/v1/messages"],
            ["/v1/chat/completions"],
        ]


async def test_a_refused_key_is_not_used_again_and_others_are() -> None:
    key = CLIENT_KEYS["client/messages"]
    async with (
        open_endpoint(lambda *_: (403, b"{}")) as endpoint,
        open_helper(settings("client/messages", endpoint.url), ENVIRON) as source,
    ):
        assert source is not None
        model = source.models_for(key)[0]
        with pytest.raises(HelperFailed):
            await model.complete(PROMPT)
        assert not source.models_for(key)
        assert not source.models_for(attrs.evolve(key, model="claude-sonnet-5"))
        assert source.models_for(attrs.evolve(key, key="sk-ant-api03-of-another"))
