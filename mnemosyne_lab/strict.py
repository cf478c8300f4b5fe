"""Decoded JSON or TOML as values of attrs classes: nothing is converted in silence, and an error names its place."""

from collections.abc import Callable
from functools import partial
from operator import eq
from pathlib import Path
from typing import Any, TypeVar

import cattrs
from cattrs.errors import BaseValidationError
from cattrs.v import format_exception, transform_error

from mnemosyne.errors import BadConfiguration

T = TypeVar("T")

_converter = cattrs.Converter(forbid_extra_keys=True)


def structure(data: object, kind: type[T], place: str) -> T:
    """The value of this class. Raises BadConfiguration with each place, within the named one, that does not fit."""
    if not isinstance(data, dict):
        raise BadConfiguration(f"{place}: expected an object, found {type(data).__name__}")
    try:
        return _converter.structure(data, kind)
    except BaseValidationError as problem:
        told = transform_error(problem, path=place, format_exception=_say)
        raise BadConfiguration("; ".join(told)) from problem
    except (ValueError, TypeError) as problem:
        raise BadConfiguration(f"{place}: {problem}") from problem


def register_shape(shape: Any, read: Callable[[Any, Any], Any]) -> None:
    """Have ``read`` structure the members of this type."""
    _converter.register_structure_hook_func(partial(eq, shape), read)


def _say(problem: BaseException, expected: type | None) -> str:
    """Our own words where we have them; cattrs prefixes others with "unknown error"."""
    if type(problem) is ValueError:
        return str(problem)
    return format_exception(problem, expected).removeprefix("unknown error ").replace("typing.Literal", "")


def _exactly(kind: type, value: Any, _: Any = None) -> Any:
    """Refuse what cattrs would convert in silence, such as a number where a text is meant."""
    accepted: tuple[type, ...] = (int, float) if kind is float else (kind,)
    if not isinstance(value, accepted) or (isinstance(value, bool) and kind is not bool):
        raise ValueError(f"expected {kind.__name__}, found {type(value).__name__}")
    return value


for _kind in (str, int, float, bool):
    _converter.register_structure_hook(_kind, partial(_exactly, _kind))
register_shape(Path, lambda value, _: Path(_exactly(str, value)))
