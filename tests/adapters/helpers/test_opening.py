"""A helper model is opened only with a configured key and a known price."""

import attrs
import pytest

from mnemosyne.adapters.helpers.opening import check_helper, open_helper
from mnemosyne.config import load
from mnemosyne.domain.cost.catalogue import in_force
from mnemosyne.domain.cost.prices import Price
from mnemosyne.domain.helper.model import FREE
from mnemosyne.errors import BadConfiguration
from tests.adapters.endpoint import says
from tests.adapters.helpers.asking import ENVIRON, HELPERS, PROMPT, open_both, settings


async def test_the_extractive_helper_needs_no_model() -> None:
    config = load({"data_dir": "/nowhere"}, {})
    check_helper(config, {})
    async with open_helper(config, {}) as model:
        assert model is None


@pytest.mark.parametrize("helper", HELPERS)
async def test_the_key_is_read_from_the_named_variable(helper: str) -> None:
    async with open_both(helper, lambda path, _: says(path, "x"), helper_key_variable="OTHER_KEY") as (endpoint, model):
        await model.complete(PROMPT)
        assert "sk-other" in str(endpoint.requests[0][1])
    missing = settings(helper, "http://127.0.0.1:9", helper_key_variable="NO_KEY")
    with pytest.raises(BadConfiguration, match="NO_KEY is not set"):
        async with open_helper(missing, ENVIRON):
            pass


@pytest.mark.parametrize("helper", HELPERS)
async def test_the_price_is_known_or_configured(helper: str) -> None:
    async with open_helper(settings(helper, "http://127.0.0.1:9"), ENVIRON) as model:
        assert model is not None
        assert model.price == (in_force().prices["claude-haiku-5-5"] if helper == "anthropic" else FREE)
    async with open_helper(settings(helper, "https://h.example", helper_price="0.25/1.5"), ENVIRON) as model:
        assert model is not None
        assert model.price == Price(250, 1_500, read=250)
    with pytest.raises(BadConfiguration, match="helper_price"):
        async with open_helper(settings(helper, "https://h.example", helper_model="unheard-of"), ENVIRON):
            pass


@pytest.mark.parametrize("helper", HELPERS)
async def test_a_check_raises_the_error_of_opening(helper: str) -> None:
    fit = settings(helper, "http://127.0.0.1:9", helper_key_variable="OTHER_KEY")
    check_helper(fit, ENVIRON)
    for unfit, environ in ((fit, {}), (attrs.evolve(fit, helper_url="https://h.example", helper_model="new"), ENVIRON)):
        with pytest.raises(BadConfiguration) as checked:
            check_helper(unfit, environ)
        with pytest.raises(BadConfiguration, match=str(checked.value).split(".")[0][:30]):
            async with open_helper(unfit, environ):
                pass


async def test_only_the_provider_s_own_helper_needs_a_key_by_default() -> None:
    with pytest.raises(BadConfiguration, match="ANTHROPIC_API_KEY is not set"):
        check_helper(settings("anthropic", "http://127.0.0.1:9"), {"ANTHROPIC_API_KEY": " "})
    check_helper(settings("openai", "http://127.0.0.1:9"), {})
