"""Which models there are, what they cost whom, and how their tokens are counted: one table, which is data.

It is shipped (``models.toml``), and a file of the same shape may change single values of it. A process decides with one
table, read when it is first asked for.
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
"""How much is kept of the hash of a table: enough to tell tables apart."""

Tables = Mapping[str, Mapping[str, Mapping[str, Any]]]
"""Rows by their name, by the table that they stand in."""

Value = TypeVar("Value")


@attrs.frozen
class Model:
    """What else a driver of the model must know, in tokens."""

    cache_minimum: int
    """A shorter prompt is never cached, silently."""
    window: int = 1_000_000
    """What it takes as input."""
    keeps_thinking: bool = True
    """Whether the thinking of earlier exchanges stays in the prompt; else it is dropped when the user speaks."""
    tool_prompt: int | None = None
    """The system prompt that the provider adds when a request has tools; None where it is not published."""
    client_window: int = 200_000
    """What the client takes its window for: shortly before, it compacts."""


CURRENT = Model(512)
"""What an unknown model is taken for: a client that names a new one expects the newest behaviour."""


@attrs.frozen
class Family:
    """Models that share a tokenizer. ``scale`` is how many tokens it makes of a text for each token of the older one;
    ``doubt``, how far a session's own scale is expected from it, as a share.
    """

    name: str
    scale: float
    doubt: float


NEWEST = "new"
"""The tokenizer of a model of which none is known."""


@attrs.frozen(kw_only=True, eq=False)
class Catalogue:
    """A table. ``tokenizers`` are by how the names of their models begin. ``digest`` tells it from another one."""

    prices: Mapping[str, Price]
    models: Mapping[str, Model]
    tokenizers: Mapping[str, Family]
    tariffs: Mapping[str, Tariff]
    digest: bytes


# From text


def read_tables(text: str, source: str) -> Tables:
    """The rows of a file. Raises BadConfiguration, which names the ``source``, for what is no TOML of this shape."""
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
        raise BadConfiguration(f"{where} is no table of keys and values.")
    return list(rows.items())


def _render_known(names: Mapping[str, object]) -> str:
    return f"there are {', '.join(names)}"


def overlay(base: Tables, over: Tables) -> Tables:
    """The rows of both; where both have a value, the second one's; of ``names``, those of both."""
    found = {name: {row: dict(values) for row, values in base.get(name, {}).items()} for name in _COLUMNS}
    for name, rows in over.items():
        for row, values in rows.items():
            known = found[name].setdefault(row, {})
            both = (
                {"names": [*known.get("names", ()), *values["names"]]} if isinstance(values.get("names"), list) else {}
            )
            known.update({**values, **both})
    return found


def catalogue_of(tables: Tables, source: str) -> Catalogue:
    """The table that these rows make. Raises BadConfiguration naming ``source``, table, row and key."""

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
    """The same whatever order the rows stand in."""
    if isinstance(tables, Mapping):
        return sorted((key, _sort(value)) for key, value in tables.items())
    return str(tables)


def _parse(table: str, row: str, values: Mapping[str, Any], source: str) -> dict[str, Any]:
    where = f"The models file {source}, [{table}] {row}"
    found = {}
    for key, (parse, needed) in _COLUMNS[table].items():
        if key not in values:
            if needed:
                raise BadConfiguration(f"{where}: {key} is missing.")
            continue
        try:
            found[key] = parse(values[key])
        except ValueError as reason:
            raise BadConfiguration(f"{where}: {key} = {_render(values[key])}: {reason}.") from None
    return found


def _render(value: object) -> str:
    return str(value) if isinstance(value, Decimal) else repr(value)


def _dollars(value: object) -> int:
    """Nanodollars for a token, of dollars for a million."""
    if not _is_within(value, 1_000_000):
        raise ValueError("dollars for a million tokens are needed, as in 2.5")
    amount = Decimal(str(value)) * 1000
    if amount != int(amount):
        raise ValueError("no more than three digits may stand behind the point")
    return int(amount)


def _plain_dollars(value: object) -> int:
    amount = _dollars(value)
    if not amount:
        raise ValueError("what costs nothing has no price: leave its row out")
    return amount


def _count(value: object) -> int:
    if type(value) is not int or value <= 0:
        raise ValueError("a whole number above 0 is needed")
    return value


def _long_prompt(value: object) -> int:
    if value not in LONG_PROMPTS or isinstance(value, bool):
        raise ValueError(f"one of {', '.join(map(str, LONG_PROMPTS))} is needed")
    return int(str(value))


def _boolean(value: object) -> bool:
    if type(value) is not bool:
        raise ValueError("true or false is needed")
    return value


def _ratio(value: object) -> float:
    if not _is_within(value, 100) or not value:
        raise ValueError("a number above 0 is needed")
    return float(str(value))


def _is_within(value: object, end: int) -> bool:
    """Whether it is a number from 0 up to ``end``."""
    return type(value) in (int, Decimal) and Decimal(str(value)).is_finite() and 0 <= Decimal(str(value)) < end


def _weight(value: object) -> Fraction:
    if not _is_within(value, 1_000):
        raise ValueError("a number from 0 is needed, as in 1.25")
    return Fraction(str(value))


def _seconds(value: object) -> float:
    if value == Decimal("inf"):
        return float("inf")
    if not _is_within(value, 10**9) or not value:
        raise ValueError("seconds are needed, or inf")
    return float(str(value))


def _units(value: object) -> tuple[PaidIn, ...]:
    units = {each.value: each for each in PaidIn}
    if not isinstance(value, list) or not value or not all(isinstance(each, str) and each in units for each in value):
        raise ValueError(f"a list of some of {', '.join(units)} is needed")
    return tuple(units[each] for each in value)


def _caching(value: object) -> Caching:
    kinds = {each.value: each for each in Caching}
    if not isinstance(value, str) or value not in kinds:
        raise ValueError(f"one of {', '.join(kinds)} is needed")
    return kinds[value]


def _names(value: object) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(each, str) and each for each in value):
        raise ValueError("a list of names is needed")
    return tuple(value)


_Column = tuple[Callable[[object], Any], bool]
"""What makes a value of what stands there, raising ValueError with the reason; and whether something must."""

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


# The one in force

_in_force: list[Catalogue] = []


def load_shipped() -> Tables:
    """The rows that are shipped."""
    return read_tables(shipped.models(), "that is shipped")


def in_force() -> Catalogue:
    """The table that this process decides with."""
    if not _in_force:
        use(catalogue_of(load_shipped(), "that is shipped"))
    return _in_force[0]


def use(catalogue: Catalogue) -> None:
    """Decide with this table from now on."""
    _in_force[:] = [catalogue]
    for known in (family_of, tokenizer_of, price_of):
        known.cache_clear()


# What it says

# The same model under a date or as an alias; `claude-opus-5-9` is not `claude-opus-5`.
_SUFFIX = re.compile(r"(?:[-@]\d{8}|-\d{4}-\d\d-\d\d|[-@]latest|@default|-v\d+(?::\d+)?(?::\w+)?|\[1m\])+")


@lru_cache(maxsize=256)
def price_of(model: str | None) -> Price | None:
    """The price of a model under any of its names; None if it is not known."""
    prices, best, model = in_force().prices, "", bare_name(model or "")
    for name in prices:
        if model.startswith(name) and len(name) > len(best):
            rest = model[len(name) :]
            if not rest or _SUFFIX.fullmatch(rest):
                best = name
    return prices[best] if best else None


@lru_cache(maxsize=256)
def family_of(model: str) -> str:
    """The longest name of a model in the table that the model's own begins with, as a word; "" if there is none."""
    model = bare_name(model)
    fitting = [name for name in in_force().models if re.match(re.escape(name) + r"(?![\w.])", model)]
    return max(fitting, key=len, default="")


def model_of(model: str | None) -> Model:
    """The model under any of its names. An unknown one is taken for a current one."""
    return in_force().models.get(family_of(model or ""), CURRENT)


def tariff_of(name: str) -> Tariff:
    """The tariff of this name; of one that the table does not hold any more, that of an API key."""
    tariffs = in_force().tariffs
    return tariffs.get(name) or tariffs[API]


def find_tariff_name(credential: Credential | None, *, hour: bool, host: str, model: str | None) -> str:
    """The name of the tariff by what is seen of a request, as for ``tariff_name``."""
    is_known = bool(family_of(model or "")) or price_of(model) is not None
    return tariff_name(credential=credential, hour=hour, host=host, model=model, is_known_model=is_known)


@lru_cache(maxsize=256)
def tokenizer_of(model: str | None) -> Family:
    """What counts the tokens of a model; of one that is not known, the newer one of Claude."""
    tokenizers, name = in_force().tokenizers, bare_name(model or "")
    return tokenizers[max((each for each in tokenizers if name.startswith(each)), key=len)]


_GEO = {"us": Fraction(11, 10), "global": Fraction(1), "not_available": Fraction(1)}
_TIER = {**dict.fromkeys(("standard", "default", "auto"), Fraction(1)), "batch": Fraction(1, 2), "flex": Fraction(1, 2)}
"""What tokens cost of the list price by where and in which tier a reply was made; of others the price is not known."""

WEB_SEARCH = 10_000_000
"""Nanodollars for a search of the web by the provider: $10 for a thousand (Claude docs, pricing, November 2026)."""


def cost(
    tokens: Tokens,
    model: str | None,
    *,
    prompt: int | None = None,
    terms: Terms = Terms(),  # noqa: B008  # frozen
) -> int | None:
    """Nanodollars; None for a model, or for terms, without a known price. For ``prompt`` see ``Price.nanodollars``."""
    price = price_of(model)
    if price is None:
        return None
    speeds = {"standard": 1, "fast": price.fast}
    speed = speeds.get("fast" if terms.tier == "fast" else terms.speed or "standard")
    tier = _TIER.get("standard" if terms.tier in (None, "fast") else str(terms.tier))
    geo = _GEO.get(terms.geo or "global")
    if speed is None or tier is None or geo is None:
        return None
    return int(price.nanodollars(tokens, prompt=prompt) * speed * tier * geo) + terms.searches * WEB_SEARCH
