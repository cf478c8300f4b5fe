"""Convert external values to values that the log can store, and mask credentials in them.

JSON allows values that no event can store: a lone surrogate, an infinite number, an object nested a thousand levels
deep. Bodies and replies are stored as bytes, unchanged; only facts recorded in addition to them are cut to fit.
"""

import math
import re
from collections.abc import Mapping
from typing import Any

from mnemosyne import credentials

DEEPEST = 8
"""Levels of an object that are kept."""

_LARGEST = 2**63

_PRIVATE = re.compile(r"<private>.*?(?:</private>|\Z)", re.DOTALL | re.IGNORECASE)


def text(value: str) -> str:
    """The text with lone surrogates replaced and credentials masked."""
    return credentials.mask(value.encode("utf-8", "replace").decode())


def blank_private(text: str) -> str:
    """The text with spaces for each character of its private parts."""
    return _PRIVATE.sub(lambda found: " " * len(found[0]), text)


def optional_text(value: str | None) -> str | None:
    return None if value is None else text(value)


def facts(value: Mapping[str, Any]) -> dict[str, Any]:
    """The members that can be stored. Others are dropped; in a list, they become None."""
    kept: dict[str, Any] = _plain(value, DEEPEST)
    return kept


def _plain(value: Any, levels: int) -> Any:
    match value:
        case str():
            return text(value)
        case Mapping() if levels:
            plain = {text(key): _plain(inner, levels - 1) for key, inner in value.items()}
            return {key: inner for key, inner in plain.items() if inner is not None or value.get(key, 0) is None}
        case list() if levels:
            return [_plain(inner, levels - 1) for inner in value]
        case float() if math.isfinite(value):
            return value
        case int() if -_LARGEST <= value < _LARGEST:  # True and False too
            return value
        case _:
            return None
