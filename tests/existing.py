"""A value that a test goes on with."""

from typing import TypeVar

Value = TypeVar("Value")


def existing(value: Value | None) -> Value:
    """The value. Fails if there is none."""
    assert value is not None, "there is no value"
    return value
