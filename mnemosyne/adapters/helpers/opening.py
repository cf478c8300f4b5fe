"""Opens the configured helper model with its own HTTP client."""

import logging
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from urllib.parse import urlsplit

import httpx2

from mnemosyne.adapters.helpers.endpoint import EndpointHelper
from mnemosyne.adapters.helpers.openai import OpenAIHelper
from mnemosyne.adapters.outbound import open_client
from mnemosyne.bounded import Lru
from mnemosyne.config import HELPER_MODEL, Config, upstreams_of
from mnemosyne.domain.cost.catalogue import price_of, small_model_of
from mnemosyne.domain.cost.prices import Price
from mnemosyne.domain.helper.model import FREE, ClientKey, HelperModel, HelperSource, OneModel
from mnemosyne.errors import BadConfiguration
from mnemosyne.setting_values import is_loopback
from mnemosyne.upstreams import list_takers

log = logging.getLogger(__name__)

CONNECT_SECONDS = 15.0

MODELS_HELD = 256
"""Number of clients' keys whose model is kept."""


@asynccontextmanager
async def open_helper(config: Config, environ: Mapping[str, str]) -> AsyncIterator[HelperSource | None]:
    """Open the helper model; None for the extractive helper.

    Raises BadConfiguration if its key is not in the environment, or its price unknown.
    """
    if config.helper == "extractive":
        yield None
        return
    async with AsyncExitStack() as stack:
        if config.helper == "client":
            urls = dict.fromkeys((config.upstream, *(each.url for each in upstreams_of(config))))
            yield ClientHelpers(config, {url: await stack.enter_async_context(_client(config, url)) for url in urls})
            return
        url, key, model, price = _read_settings(config, environ)
        http = await stack.enter_async_context(_client(config, url))
        yield OneModel(_helper(config.helper, http, url, key, model, price))


class ClientHelpers:
    """A small model of the provider of each client's key (HelperSource). None for a session without a key, for an
    unknown model or price, and once the provider has refused the key.
    """

    def __init__(self, config: Config, http: Mapping[str, httpx2.AsyncClient]) -> None:
        self._config = config
        self._http = http
        self._models: Lru[tuple[str, str, str], EndpointHelper] = Lru(MODELS_HELD)

    def model_for(self, key: ClientKey | None) -> HelperModel | None:
        if key is None:
            return None
        takers = list_takers(upstreams_of(self._config), (key.dialect,), key.model)
        model = self._config.helper_model or small_model_of(key.model)
        price = None if model is None else _find_price(self._config, model)
        if model is None or price is None or len(takers) > 1:
            log.debug("no helper model is known for clients that use the model %s", key.model)
            return None
        url = takers[0].url if takers else self._config.upstream
        found = self._models.get((key.key, url, model))
        if found is None:
            api = "anthropic" if key.dialect == "messages" else "openai"
            base = url if api == "anthropic" or url.rstrip("/").endswith("/v1") else f"{url.rstrip('/')}/v1"
            opened = _helper(api, self._http[url], base, key.key, model, price, kind="client")
            found = self._models.put((key.key, url, model), opened)
        return None if found.is_refused else found


def _helper(
    api: str,
    http: httpx2.AsyncClient,
    url: str,
    key: str | None,
    model: str,
    price: Price,
    kind: str | None = None,
) -> EndpointHelper:
    if api == "openai":
        return OpenAIHelper(http, url, key, model, price, kind or api)
    from mnemosyne.adapters.helpers.anthropic import AnthropicHelper  # a slow import

    assert key is not None
    return AnthropicHelper(http, url, key, model, price, kind or api)


def check_helper(config: Config, environ: Mapping[str, str]) -> None:
    """Check that the helper model can be opened. Raises errors of ``open_helper``."""
    if config.helper not in ("extractive", "client"):
        _read_settings(config, environ)


def _read_settings(config: Config, environ: Mapping[str, str]) -> tuple[str, str | None, str, Price]:
    """The address, key, name and price of the only model."""
    url, model = config.helper_url or config.upstream, config.helper_model or HELPER_MODEL
    return url, _key(config, environ), model, _price(config, model, url)


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


def _find_price(config: Config, model: str) -> Price | None:
    if config.helper_price is not None:
        into, out = (round(dollars * 1_000) for dollars in config.helper_price)  # $ for 10⁶ tokens: nanodollars for 1
        return Price(into, out, read=into)
    return None if config.helper == "openai" else price_of(model)


def _price(config: Config, model: str, url: str) -> Price:
    known = _find_price(config, model)
    if known is not None:
        return known
    if is_loopback(urlsplit(url).hostname or ""):
        return FREE
    raise BadConfiguration(
        f"The price of {model} at {url} is unknown, so no budget can be enforced: set helper_price to its dollars per "
        "million tokens, input/output (0/0 if it is free)."
    )


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
