"""Opens the configured helper model with its own HTTP client."""

import logging
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from urllib.parse import urlsplit

import httpx2

from mnemosyne.adapters.helpers.openai import OpenAIHelper
from mnemosyne.adapters.outbound import open_client
from mnemosyne.config import HELPER_MODEL, Config
from mnemosyne.domain.cost.catalogue import price_of
from mnemosyne.domain.cost.prices import Price
from mnemosyne.domain.helper.model import FREE, HelperModel
from mnemosyne.errors import BadConfiguration
from mnemosyne.setting_values import is_loopback

log = logging.getLogger(__name__)

CONNECT_SECONDS = 15.0


@asynccontextmanager
async def open_helper(config: Config, environ: Mapping[str, str]) -> AsyncIterator[HelperModel | None]:
    """Open the helper model; None for the extractive helper.

    Raises BadConfiguration if its key is not in the environment, or its price unknown.
    """
    if config.helper == "extractive":
        yield None
        return
    url = config.helper_url or config.upstream
    async with _client(config, url) as http:
        yield _helper(config, environ, http, url)


def _helper(config: Config, environ: Mapping[str, str], http: httpx2.AsyncClient, url: str) -> HelperModel:
    key = _key(config, environ)
    model = config.helper_model or HELPER_MODEL
    price = _price(config, model, url)
    if config.helper == "openai":
        return OpenAIHelper(http, url, key, model, price)
    from mnemosyne.adapters.helpers.anthropic import AnthropicHelper  # a slow import

    assert key is not None
    return AnthropicHelper(http, url, key, model, price)


def _key(config: Config, environ: Mapping[str, str]) -> str | None:
    variable = config.helper_key_variable or ("ANTHROPIC_API_KEY" if config.helper == "anthropic" else None)
    if variable is None:
        return None
    key = environ.get(variable, "").strip()
    if not key:
        raise BadConfiguration(
            f"helper = {config.helper} needs a key, and the environment variable {variable} is not set. Set it where "
            "the server starts, name another with helper_key_variable, or choose helper = extractive."
        )
    return key


def _price(config: Config, model: str, url: str) -> Price:
    if config.helper_price is not None:
        into, out = (round(dollars * 1_000) for dollars in config.helper_price)  # $ for 10⁶ tokens: nanodollars for 1
        return Price(into, out, read=into)
    known = price_of(model)
    if config.helper == "anthropic" and known is not None:
        return known
    if is_loopback(urlsplit(url).hostname or ""):
        return FREE
    raise BadConfiguration(
        f"The price of {model} at {url} is unknown, so no budget can be enforced: set helper_price to its dollars per "
        "million tokens, input/output (0/0 if it is free)."
    )


def check_helper(config: Config, environ: Mapping[str, str]) -> None:
    """Check that the helper model can be opened. Raises errors of ``open_helper``."""
    if config.helper != "extractive":
        _key(config, environ)
        _price(config, config.helper_model or HELPER_MODEL, config.helper_url or config.upstream)


def _client(config: Config, url: str) -> httpx2.AsyncClient:
    """A client like the provider's: no redirects, and no proxy for loopback."""
    client, ignored = open_client(
        url,
        ca_bundle=config.ca_bundle,
        timeout=httpx2.Timeout(None, connect=CONNECT_SECONDS),
        limits=httpx2.Limits(max_connections=4),
    )
    for sentence in ignored:
        log.warning("%s", sentence)
    return client
