"""Parse JSON from outside into Python values that can be written as JSON again.

RFC 8259 allows what no value here can hold: half a surrogate pair, a number beyond a double, an integer of thousands of
digits. Clients also send what it forbids: NaN, and bytes that are not UTF-8. All of that is accepted, because one odd
character must not cost the whole message.
"""

import json
from collections.abc import Callable
from typing import Any, NoReturn

import orjson


def read(raw: bytes | str) -> Any:
    """Parse JSON, also in UTF-16 or UTF-32, keeping half surrogate pairs.

    Invalid UTF-8 becomes U+FFFD. A number that is not finite, or has more digits than Python reads, becomes a text.
    Raises ValueError, or RecursionError if values are nested too deep.
    """
    try:
        text = raw.decode() if isinstance(raw, bytes) else raw
        if text[:1] == "{":  # the usual value, without a search for white space in front of it
            value, end = _FAST.raw_decode(text)
            if not text[end:].strip(" \t\n\r"):
                return value
        return _FAST.decode(text)
    except ValueError:
        # JSON in UTF-16 or UTF-32 contains NULs or is not UTF-8, so it always ends here.
        return _LENIENT.decode(raw.decode(json.detect_encoding(raw), "replace") if isinstance(raw, bytes) else raw)


def read_first(text: str, at: int) -> tuple[Any, int]:
    """Return the value that begins at ``at``, and where it ends. Raises like ``read``."""
    try:
        return _FAST.raw_decode(text, at)
    except ValueError:
        return _LENIENT.raw_decode(text, at)


def read_storable(raw: bytes, shape: Callable[[Any], Any] = lambda value: value) -> Any:
    """Parse JSON and convert it by ``shape``, with ``?`` for each half surrogate pair, also in keys: databases reject
    text that has no UTF-8 form.
    """
    value = shape(read(raw))
    return storable(value) if b"\\ud" in raw or b"\\uD" in raw else value


def try_read(raw: bytes, shape: Callable[[Any], Any] = lambda value: value) -> Any:
    """Parse JSON like ``read_storable``; None if that fails."""
    try:
        return read_storable(raw, shape)
    except (ValueError, RecursionError):
        return None


def storable(value: Any) -> Any:
    """Return the value with ``?`` for each half of a surrogate pair, also in keys."""
    match value:
        case str():
            return value if value.isascii() else value.encode("utf-8", "replace").decode()
        case dict():
            return {storable(key): storable(inner) for key, inner in value.items()}
        case list():
            return [storable(inner) for inner in value]
        case _:
            return value


def read_strict(raw: bytes | str) -> Any:
    """Parse JSON that all parsers read alike: UTF-8, with numbers that a value can hold. Raises like ``read``."""
    return _STRICT.decode(raw.decode() if isinstance(raw, bytes) else raw)


def is_valid(raw: bytes) -> bool:
    """Return whether bytes that ``read`` accepts are JSON by RFC 8259, in UTF-8."""
    try:
        text = raw.decode()
        if "NaN" in text or "Infinity" in text:
            _SYNTAX.decode(text)
    except ValueError:
        return False
    return True


def _read_float(literal: str) -> float | str:
    try:
        return _finite(literal)
    except ValueError:
        return literal


def _read_int(literal: str) -> int | str:
    try:
        return int(literal)
    except ValueError:
        return literal


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not JSON")


_finite: Callable[[str], float] = orjson.loads
"""Parse a number. Raises ValueError if it is not finite, which ``float`` does not; a function in Python would take a
fifth of the time of a body full of numbers.
"""

_FAST = json.JSONDecoder(parse_float=_finite, parse_constant=str)
_LENIENT = json.JSONDecoder(parse_float=_read_float, parse_int=_read_int, parse_constant=str)
_STRICT = json.JSONDecoder(parse_float=_finite, parse_constant=_refuse)
_SYNTAX = json.JSONDecoder(parse_float=str, parse_int=str, parse_constant=_refuse)
