"""The catalogue of models: their prices, their tariffs, and how their tokens are counted. One table of data.

It is shipped as ``models.toml``; a file of the same form may override single values. A process uses one table for all
decisions and reads it at the first use.
"""

import re
import tomllib
from collections.abc import Callable, Mapping
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from hashlib import sha256
from typing import Any, TypeVar

import attrs

from mnemosyne import shipped
from mnemosyne.domain.cost.prices import LONG_PROMPTS, Price, Terms, Tokens
from mnemosyne.domain.cost.tariffs import API, Caching, PaidIn, Tariff, tariff_name
from mnemosyne.domain.wire.identity import Credential
from mnemosyne.domain.wire.model_names import bare_name
from mnemosyne.errors import BadConfiguration

DIGEST_BYTES = 8
"""Length of a table's truncated hash: enough to tell tables apart."""

Tables = Mapping[str, Mapping[str, Mapping[str, Any]]]
"""Table name → row name → values."""

Value = TypeVar("Value")


@attrs.frozen
class Model:
    """Limits and sizes of a model, in tokens."""

    cache_minimum: int
    """The provider silently does not cache shorter prompts."""
    window: int = 1_000_000
    """The maximum size of the input."""
    keeps_thinking: bool = True
    """Whether the thinking of earlier exchanges stays in the prompt; otherwise the next user message drops it."""
    tool_prompt: int | None = None
    """The system prompt that the provider adds to requests with tools; None if its size is not published."""
    client_window: int = 200_000
    """The client's assumption about the window: it compacts shortly before this size."""


CURRENT = Model(512)
"""The assumption for an unknown model: a client that names a new model expects the newest behavior."""


@attrs.frozen
class Family:
    """Models that share a tokenizer.

    ``scale`` is the number of its tokens for each token of the older tokenizer; ``doubt`` is the expected deviation of
    a session's own scale from it, as a share.
    """

    name: str
    scale: float
    doubt: float


NEWEST = "new"
"""The tokenizer of unknown models."""


@attrs.frozen(kw_only=True, eq=False)
class Catalogue:
    """The table. ``tokenizers`` are keyed by the prefix of their models' names; ``digest`` identifies the table."""

    prices: Mapping[str, Price]
    models: Mapping[str, Model]
    tokenizers: Mapping[str, Family]
    tariffs: Mapping[str, Tariff]
    digest: bytes


# Reading the table


def read_tables(text: str, source: str) -> Tables:
    """Parse the rows of a file. Raises BadConfiguration, naming the ``source``, for anything but TOML of this form."""
    try:
        tables = tomllib.loads(text, parse_float=Decimal)
    except (ValueError, RecursionError) as error:
        raise BadConfiguration(f"The models file {source} is not TOML: {error}.") from None
    for name, rows in tables.items():
        if name not in _COLUMNS:
            raise BadConfiguration(
                f"The models file {source} has an unknown table [{name}]; {_render_known(_COLUMNS)}."
            )
        for row, values in _entries(rows, f"The models file {source}, [{name}]"):
            where = f"The models file {source}, [{name}] {row}"
            unknown = [key for key, _ in _entries(values, where) if key not in _COLUMNS[name]]
            if unknown:
                raise BadConfiguration(f"{where} has an unknown key {unknown[0]}; {_render_known(_COLUMNS[name])}.")
    return tables


def _entries(rows: object, where: str) -> list[tuple[str, Any]]:
    if not isinstance(rows, dict):
        raise BadConfiguration(f"{where} is not a table of keys and values.")
    return list(rows.items())


def _render_known(names: Mapping[str, object]) -> str:
    return f"known names are {', '.join(names)}"


def overlay(base: Tables, over: Tables) -> Tables:
    """Merge two tables. Values of ``over`` replace those of ``base``, except that ``names`` are concatenated."""
    merged = {name: {row: dict(values) for row, values in base.get(name, {}).items()} for name in _COLUMNS}
    for name, rows in over.items():
        for row, values in rows.items():
            known = merged[name].setdefault(row, {})
            both = (
                {"names": [*known.get("names", ()), *values["names"]]} if isinstance(values.get("names"), list) else {}
            )
            known.update({**values, **both})
    return merged


def catalogue_of(tables: Tables, source: str) -> Catalogue:
    """Build the catalogue from these rows. Raises BadConfiguration naming ``source``, table, row and key."""

    def rows(name: str) -> dict[str, dict[str, Any]]:
        return {row: _parse(name, row, values, source) for row, values in tables.get(name, {}).items()}

    tokenizers = {
        begin: Family(name, values["scale"], values["doubt"])
        for name, values in rows("tokenizers").items()
        for begin in (*values["names"], *([""] if name == NEWEST else []))
    }
    if "" not in tokenizers:
        raise BadConfiguration(f"The models file {source} has no tokenizer {NEWEST!r}.")
    return Catalogue(
        prices={name: Price(**values) for name, values in rows("prices").items()},
        models={name: Model(**values) for name, values in rows("models").items()},
        tokenizers=tokenizers,
        tariffs={name: _tariff(name, values, source) for name, values in rows("tariffs").items()},
        digest=sha256(repr(_sort(tables)).encode()).digest()[:DIGEST_BYTES],
    )


def _tariff(name: str, values: Mapping[str, Any], source: str) -> Tariff:
    tariff = Tariff(name=name, **values)
    missing = [key for key in ("read", "write_5m", "write_1h", "output") if key not in values]
    if missing and not tariff.is_in_dollars:
        raise BadConfiguration(f"The models file {source}, [tariffs] {name}: {missing[0]} is missing.")
    return tariff


def _sort(tables: Any) -> Any:
    """Convert the tables to a form that does not depend on the order of rows."""
    if isinstance(tables, Mapping):
        return sorted((key, _sort(value)) for key, value in tables.items())
    return str(tables)


def _parse(table: str, row: str, values: Mapping[str, Any], source: str) -> dict[str, Any]:
    where = f"The models file {source}, [{table}] {row}"
    parsed = {}
    for key, (parse, needed) in _COLUMNS[table].items():
        if key not in values:
            if needed:
                raise BadConfiguration(f"{where}: {key} is missing.")
            continue
        try:
            parsed[key] = parse(values[key])
        except ValueError as reason:
            raise BadConfiguration(f"{where}: {key} = {_render(values[key])}: {reason}.") from None
    return parsed


def _render(value: object) -> str:
    return str(value) if isinstance(value, Decimal) else repr(value)


def _parser(
    accepts: Callable[[Any], bool], must: str, convert: Callable[[Any], Any] = lambda value: value
) -> Callable[[object], Any]:
    """Return a function that converts a value, or raises ValueError with what it ``must`` be."""

    def parse(value: object) -> Any:
        if not accepts(value):
            raise ValueError(f"it must be {must}")
        return convert(value)

    return parse


def _is_within(value: object, end: int) -> bool:
    """Return whether the value is a number from 0 to below ``end``."""
    return type(value) in (int, Decimal) and Decimal(str(value)).is_finite() and 0 <= Decimal(str(value)) < end


def _dollars(value: object) -> int:
    """Convert dollars per million tokens to nanodollars per token."""
    if not _is_within(value, 1_000_000):
        raise ValueError("it must be in dollars per million tokens, such as 2.5")
    amount = Decimal(str(value)) * 1000
    if amount != int(amount):
        raise ValueError("at most three decimal places are allowed")
    return int(amount)


def _plain_dollars(value: object) -> int:
    amount = _dollars(value)
    if not amount:
        raise ValueError("a price must be above 0: omit the row of a free model")
    return amount


def _are_texts(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(name, str) and name for name in value)


_UNITS, _CACHING = {unit.value: unit for unit in PaidIn}, {kind.value: kind for kind in Caching}

_count = _parser(lambda value: type(value) is int and value > 0, "an integer above 0")
_long_prompt = _parser(
    lambda value: type(value) is int and value in LONG_PROMPTS, f"one of {', '.join(map(str, LONG_PROMPTS))}"
)
_boolean = _parser(lambda value: type(value) is bool, "true or false")
_ratio = _parser(lambda value: _is_within(value, 100) and value > 0, "a number above 0", float)
_weight = _parser(lambda value: _is_within(value, 1_000), "a number of at least 0, such as 1.25", Fraction)
_seconds = _parser(
    lambda value: value == Decimal("inf") or (_is_within(value, 10**9) and value > 0), "in seconds, or inf", float
)
_names = _parser(_are_texts, "a list of names", tuple)
_units = _parser(
    lambda value: _are_texts(value) and bool(value) and _UNITS.keys() >= {*value},
    f"a list with any of {', '.join(_UNITS)}",
    lambda value: tuple(_UNITS[name] for name in value),
)
_caching = _parser(
    lambda value: isinstance(value, str) and value in _CACHING, f"one of {', '.join(_CACHING)}", _CACHING.__getitem__
)

_Column = tuple[Callable[[object], Any], bool]
"""The function that parses a column's value (raising ValueError with the reason), and whether the column is
required.
"""

_COLUMNS: Mapping[str, Mapping[str, _Column]] = {
    "prices": {
        "input": (_plain_dollars, True),
        "output": (_dollars, True),
        "read": (_dollars, True),
        "long_factor": (_count, False),
        "long_output": (_dollars, False),
        "long_from": (_long_prompt, False),
        "fast": (_count, False),
    },
    "models": {
        "cache_minimum": (_count, True),
        "window": (_count, False),
        "keeps_thinking": (_boolean, False),
        "tool_prompt": (_count, False),
        "client_window": (_count, False),
    },
    "tariffs": {
        "units": (_units, True),
        "caching": (_caching, True),
        "slots": (_count, True),
        "seconds": (_seconds, False),
        **dict.fromkeys(("read", "write_5m", "write_1h", "output"), (_weight, False)),
    },
    "tokenizers": {"scale": (_ratio, True), "doubt": (_ratio, True), "names": (_names, True)},
}


# The current catalogue

_in_force: list[Catalogue] = []


def load_shipped() -> Tables:
    return read_tables(shipped.models(), "that is shipped")


def in_force() -> Catalogue:
    """Return the catalogue that this process uses."""
    if not _in_force:
        use(catalogue_of(load_shipped(), "that is shipped"))
    return _in_force[0]


def use(catalogue: Catalogue) -> None:
    _in_force[:] = [catalogue]
    for known in (family_of, tokenizer_of, price_of):
        known.cache_clear()


# Queries

# The same model with a date or as an alias; `claude-opus-5-9` is not `claude-opus-5`.
_SUFFIX = re.compile(r"(?:[-@]\d{8}|-\d{4}-\d\d-\d\d|[-@]latest|@default|-v\d+(?::\d+)?(?::\w+)?|\[1m\])+")


@lru_cache(maxsize=256)
def price_of(model: str | None) -> Price | None:
    """Return the price of a model under any of its names; None if it is unknown."""
    prices, best, model = in_force().prices, "", bare_name(model or "")
    for name in prices:
        if model.startswith(name) and len(name) > len(best):
            rest = model[len(name) :]
            if not rest or _SUFFIX.fullmatch(rest):
                best = name
    return prices[best] if best else None


def small_model_of(model: str | None) -> str | None:
    """Return the cheapest model of a model's provider; None for an unknown one, or a gateway with other names."""
    if model is None or model != bare_name(model) or price_of(model) is None:
        return None
    vendor = model.partition("-")[0]
    own = {name: price for name, price in in_force().prices.items() if name.partition("-")[0] == vendor}
    return min(own, key=lambda name: (own[name].input, own[name].output, name))


@lru_cache(maxsize=256)
def family_of(model: str) -> str:
    """Return the longest model name in the table that begins the model's own name and ends at a word; "" if there is
    none.
    """
    model = bare_name(model)
    fitting = [name for name in in_force().models if re.match(re.escape(name) + r"(?![\w.])", model)]
    return max(fitting, key=len, default="")


def model_of(model: str | None) -> Model:
    """Return the model under any of its names. An unknown model counts as a current one."""
    return in_force().models.get(family_of(model or ""), CURRENT)


def tariff_of(name: str) -> Tariff:
    """Return the tariff of this name; if the table no longer has it, the tariff of an API key."""
    tariffs = in_force().tariffs
    return tariffs.get(name) or tariffs[API]


def find_tariff_name(credential: Credential | None, *, hour: bool, host: str, model: str | None) -> str:
    """Return the name of the tariff for a request, as ``tariff_name`` does."""
    is_known = bool(family_of(model or "")) or price_of(model) is not None
    return tariff_name(credential=credential, hour=hour, host=host, model=model, is_known_model=is_known)


@lru_cache(maxsize=256)
def tokenizer_of(model: str | None) -> Family:
    """Return the tokenizer family of a model; for an unknown model, Claude's newer tokenizer."""
    tokenizers, name = in_force().tokenizers, bare_name(model or "")
    return tokenizers[max((prefix for prefix in tokenizers if name.startswith(prefix)), key=len)]


_GEO = {"us": Fraction(11, 10), "global": Fraction(1), "not_available": Fraction(1)}
_TIER = dict.fromkeys(("standard", "default", "auto", "fast"), Fraction(1))
_TIER |= dict.fromkeys(("batch", "flex"), Fraction(1, 2))
"""Factors on the list price by region and service tier of a reply. Other regions and tiers have no known price."""

WEB_SEARCH = 10_000_000
"""Nanodollars per web search by the provider: $10 per thousand (Claude docs, pricing, November 2026)."""


def find_billed(model: str | None, terms: Terms) -> str | None:
    """Return the model that is billed: the one that replied or, if that has no known price, the requested ``model``."""
    return terms.model if price_of(terms.model) is not None else model or terms.model


def factor_of(terms: Terms) -> Fraction | None:
    """Return the factor on the list price by tier and region, in whole thousandths; None if the terms have no price."""
    tier, geo = _TIER.get(terms.tier or "standard"), _GEO.get(terms.geo or "global")
    is_known = terms.is_fast or terms.speed in (None, "", "standard")
    return tier * geo if is_known and tier is not None and geo is not None else None


def cost(
    tokens: Tokens,
    model: str | None,
    *,
    prompt: int | None = None,
    terms: Terms = Terms(),  # noqa: B008  # frozen
) -> int | None:
    """Return the cost in nanodollars; None if the model (``find_billed``) or the terms have no known price.

    For ``prompt`` see ``Price.nanodollars``.
    """
    price = price_of(find_billed(model, terms))
    if price is None:
        return None
    factor, speed = factor_of(terms), price.fast if terms.is_fast else 1
    if factor is None or speed is None:
        return None
    return int(price.nanodollars(tokens, prompt=prompt) * speed * factor) + terms.searches * WEB_SEARCH
