"""Questions about records that a tool answered in JSON: the value of a field of one of them."""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from benchmarks.judge.answers import Pair, exactly
from benchmarks.judge.sources import Source

_IDENTITY = re.compile(r"(?:_id|_number|^id|^name)$")
_MOST = 3


def pairs(source: Source) -> Iterator[Pair]:
    """What can be asked about each record that has a name of its own."""
    if source.speaker != "tool":
        return
    try:
        read = json.loads(source.text)
    except (ValueError, RecursionError):
        return
    for record in _records(read):
        yield from _fields(source, record)


def _records(value: Any) -> Iterator[Mapping[str, Any]]:
    if isinstance(value, dict):
        yield value
        for each in value.values():
            yield from _records(each)
    elif isinstance(value, list):
        for each in value:
            yield from _records(each)


def _fields(source: Source, record: Mapping[str, Any]) -> Iterator[Pair]:
    name = next((value for key, value in record.items() if _IDENTITY.search(key) and isinstance(value, str)), None)
    if name is None:
        return
    scalars = [(key, value) for key, value in record.items() if isinstance(value, str | int) and value != name]
    for key, value in scalars[:_MOST]:
        told = f"{name} {list(source.given.values())}"
        if len(str(value)) > 2 and str(value) not in told:
            asks = f"what is {key} of {name}?"
            yield Pair("field-of", source.name, asks, (exactly(name, key, str(value)),))
