"""Conversations and search queries as files of JSON Lines."""

import json
from collections.abc import Callable, Hashable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import attrs

from mnemosyne.errors import BadOption
from mnemosyne.regular_files import read_whole

LARGEST = 1 << 28
"""Maximum bytes of a file."""

Parsed = TypeVar("Parsed")


@attrs.frozen
class ConversationLine:
    """A message of a conversation. ``time`` is ISO 8601, or any text; "" where unknown."""

    id: Hashable
    role: str
    text: str
    time: str


@attrs.frozen
class SearchQuery:
    id: Hashable
    text: str


def read_lines(path: Path) -> Sequence[ConversationLine]:
    """A conversation's messages with unique ids. Raises BadOption for an invalid line."""
    return _read(path, _line, lambda line: line.id)


def read_queries(path: Path) -> Sequence[SearchQuery]:
    """Queries. Raises BadOption for an invalid line."""
    return _read(path, lambda value: SearchQuery(_id(value), _text(value, "text")), None)


def _read(
    path: Path, parse: Callable[[dict[str, Any]], Parsed], key: Callable[[Parsed], Hashable] | None
) -> list[Parsed]:
    """All parsed lines of a file; with a ``key``, which must be unique."""
    try:
        data = read_whole(path, LARGEST)
    except OSError as error:
        raise BadOption(f"{path} cannot be read: {error.strerror or error}.") from None
    found: list[Parsed] = []
    places: dict[Hashable, int] = {}
    # Only LF ends a line: JSON may hold U+2028, and CR between its members.
    for number, raw in enumerate(data.split(b"\n"), 1):
        if not raw.strip():
            continue
        try:
            found.append(parse(_object(raw)))
            if key is not None and (first := places.setdefault(key(found[-1]), number)) != number:
                raise ValueError(f"line {first} has the same id, {key(found[-1])!r}")
        except (ValueError, RecursionError) as error:
            raise BadOption(f"{path}, line {number}: {error}. Correct or remove the line.") from None
    return found


def _object(raw: bytes) -> dict[str, Any]:
    try:
        value = json.loads(raw)
    except ValueError:
        raise ValueError("it is not JSON") from None
    if not isinstance(value, dict):
        raise ValueError("it is not a JSON object")
    return value


def _line(value: dict[str, Any]) -> ConversationLine:
    return ConversationLine(_id(value), _text(value, "role", ""), _text(value, "text"), _text(value, "time", ""))


def _id(value: dict[str, Any]) -> Hashable:
    if not isinstance(key := value.get("id"), str | int):
        raise ValueError("its id must be a text or a number")
    return key


def _text(value: dict[str, Any], name: str, default: str | None = None) -> str:
    found = value.get(name, default)
    found = default if found is None else found
    if not isinstance(found, str):
        raise ValueError(f"its {name} is no text" if name in value else f"it has no {name}")
    return found
