"""Opens the configured helper model with its own HTTP client."""

import logging
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from urllib.parse import urlsplit

import attrs
import httpx2

from mnemosyne.adapters.helpers.endpoint import EndpointHelper
from mnemosyne.adapters.helpers.openai import OpenAIHelper
from mnemosyne.adapters.outbound import open_client
from mnemosyne.bounded import Lru
from mnemosyne.config import HELPER_MODEL, Config, read_fallback, upstreams_of
from mnemosyne.domain.cost.catalogue import price_of, small_model_of
from mnemosyne.domain.cost.prices import Price
from mnemosyne.domain.helper.model import FREE, ClientKey, HelperModel, HelperSource, SameModels
from mnemosyne.errors import BadConfiguration
from mnemosyne.setting_values import is_loopback
from mnemosyne.upstreams import list_takers

log = logging.getLogger(__name__)

CONNECT_SECONDS = 15.0

MODELS_HELD = 256
"""Number of clients' keys whose model is kept."""


@asynccontextmanager
async def open_helper(config: Config, environ: Mapping[str, str]) -> AsyncIterator[HelperSource | None]:
    """Open the helper model and its fallback; None for the extractive helper.

    Raises BadConfiguration if a key is not in the environment, or a price unknown.
    """
    if config.helper == "extractive":
        yield None
        return
    async with AsyncExitStack() as stack:
        fixed: list[HelperModel] = []
        for each in _list_fixed(config):
            url, key, model, price = _read_settings(each, environ)
            http = await stack.enter_async_context(_client(config, url))
            fixed.append(_helper(each.helper, http, url, key, model, price))
        if config.helper == "client":
            urls = dict.fromkeys((config.upstream, *(each.url for each in upstreams_of(config))))
            clients = {url: await stack.enter_async_context(_client(config, url)) for url in urls}
            yield ClientHelpers(config, clients, fixed)
        else:
            yield SameModels(tuple(fixed))


class ClientHelpers:
    """A small model of the provider of each client's key, and then the ``fallback`` (HelperSource). No such model for a
    session without a key, for an unknown model or price, and once the provider has refused the key.
    """

    def __init__(
        self, config: Config, http: Mapping[str, httpx2.AsyncClient], fallback: Sequence[HelperModel] = ()
    ) -> None:
        self._config = config
        self._http = http
        self._fallback = fallback
        self._models: Lru[tuple[str, str, str], EndpointHelper] = Lru(MODELS_HELD)

    def models_for(self, key: ClientKey | None) -> Sequence[HelperModel]:
        own = self._find_own(key)
        return self._fallback if own is None else (own, *self._fallback)

    def _find_own(self, key: ClientKey | None) -> HelperModel | None:
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
    """Check that the helper model and its fallback can be opened. Raises errors of ``open_helper``."""
    for each in _list_fixed(config):
        _read_settings(each, environ)


def _list_fixed(config: Config) -> list[Config]:
    """The settings of each model that is the same for all sessions, in the order in which they are asked."""
    first = [] if config.helper in ("extractive", "client") else [config]
    if config.helper_fallback is None:
        return first
    model, url = read_fallback(config.helper_fallback)
    second = attrs.evolve(
        config,
        helper="openai" if url else "anthropic",
        helper_model=model,
        helper_url=url or None,
        helper_key_variable=None,
        helper_price=None,
    )
    return [*first, second]


def _read_settings(config: Config, environ: Mapping[str, str]) -> tuple[str, str | None, str, Price]:
    """The address, key, name and price of a model that is the same for all sessions."""
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
