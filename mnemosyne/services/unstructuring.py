"""Values as JSON: the common serialization of services' results for pages, commands and tools."""

from collections.abc import Mapping, Sequence
from enum import Enum
from fractions import Fraction
from typing import Any
from uuid import UUID

import attrs

from mnemosyne.domain.objects.aggregate import MemoryObject
from mnemosyne.domain.objects.fidelity import Fidelity


def as_json(value: Any) -> Any:
    """A value for JSON: ids and names as text, hashes in hexadecimal, amounts as numbers."""
    if attrs.has(type(value)):
        made = {field.name: as_json(getattr(value, field.name)) for field in attrs.fields(type(value))}
        # The public name of an object's id; its events name it ``object``.
        return {"id": made.pop("object"), **made} if isinstance(value, MemoryObject) else made
    match value:
        case Fidelity():
            return value.label
        case Enum():
            return value.value
        case UUID():
            return str(value)
        case bytes():
            return value.hex()
        case Fraction():
            return float(value)
        case Mapping():
            return {str(as_json(key)): as_json(item) for key, item in value.items()}
        case str():
            return value
        case Sequence() | frozenset():
            return [as_json(item) for item in value]
        case _:
            return value


def members(value: object, names: str = "", **renamed: str) -> dict[str, Any]:
    """Attributes of a value as a JSON object. ``names`` is separated by blanks; ``renamed`` maps a key to the
    attribute, with dots for nested attributes; the result is None if an outer one is None.
    """
    attributes = dict.fromkeys(names.split()) | renamed
    return {key: as_json(_get(value, attribute or key)) for key, attribute in attributes.items()}


def _get(value: Any, path: str) -> Any:
    for name in path.split("."):
        value = None if value is None else getattr(value, name)
    return value
