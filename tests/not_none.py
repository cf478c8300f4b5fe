"""An optional value that a test needs."""

from typing import TypeVar

Value = TypeVar("Value")


def not_none(value: Value | None) -> Value:
    """The value. Fails if it is None."""
    assert value is not None, "the value is None"
    return value
