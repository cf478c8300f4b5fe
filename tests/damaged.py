"""JSON with a few values lost, moved, doubled or replaced: the damage that a reader must tolerate."""

import copy
import json
from collections.abc import Iterator
from random import Random
from typing import Any

from hypothesis import settings

STRANGE: tuple[Any, ...] = (
    *(None, True, 0, -1, 10**30, 1.5, float("nan"), float("inf"), "", "x", "\ud800", "\x00", "a" * 5_000),
    *("9999-12-31T23:59:59-14:00", "0001-01-01T00:00:00+14:00", "<system-reminder>", "</system-reminder>"),
    *([], {}, [[]], [None], {"type": None}, {"type": "text"}, {"type": "text", "text": None}),
    *({"type": "tool_use"}, {"type": "tool_use", "id": 1, "name": 2, "input": 3}, {"type": "thinking"}),
    *({"type": "tool_result", "tool_use_id": [], "content": [{"type": "text", "text": 5}]}, {"type": "image"}),
    *({"type": "function_call", "call_id": {}, "arguments": 7}, {"role": "tool", "tool_call_id": [], "content": {}}),
)
NAMES = ("type", "id", "role", "content", "text", "name", "input", "tool_use_id", "unheard_of")


def chances(percent: int) -> Iterator[Random]:
    """This many random sources where a property has a hundred examples; the same ones each time."""
    return map(Random, range(max(1, percent * settings().max_examples // 100)))


def damage(value: Any, chance: Random) -> Any:
    """A copy with one to six damages; the value itself is a list or an object and stays one."""
    value = copy.deepcopy(value)
    for _ in range(chance.choice((1, 1, 1, 2, 3, 6))):
        if places := list(_places(value)):
            holder, key = chance.choice(places)
            _hurt(holder, key, places, chance)
    return value


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Each value within it: its container, and its name or index."""
    for key, held in list(value.items() if isinstance(value, dict) else enumerate(value)):
        yield value, key
        if isinstance(held, dict | list):
            yield from _places(held)


def _hurt(holder: Any, key: Any, places: list[tuple[Any, Any]], chance: Random) -> None:
    match chance.randrange(8):
        case 0:
            del holder[key]
        case 1 if isinstance(holder, list):
            holder.insert(key, copy.deepcopy(chance.choice(holder)))
        case 1:
            holder[chance.choice(NAMES)] = holder.pop(key)
        case 2 | 3:
            other, where = chance.choice(places)
            holder[key] = copy.deepcopy(other[where])
        case _:
            holder[key] = copy.deepcopy(chance.choice(STRANGE))


def damage_bytes(raw: bytes, chance: Random) -> bytes:
    """The same with a few bytes changed, and possibly its end lost."""
    found = bytearray(raw)
    for _ in range(chance.randrange(4)):
        found[chance.randrange(len(found))] = chance.randrange(256)
    return bytes(found[: chance.choice((len(found), len(found), chance.randrange(len(found))))])


def damage_lines(lines: list[bytes], chance: Random) -> bytes:
    """A file of JSON lines, with one line damaged as JSON or all of it as bytes."""
    if chance.random() < 0.3:
        return damage_bytes(b"".join(lines), chance)
    number = chance.randrange(len(lines))
    hurt = json.dumps(damage(json.loads(lines[number]), chance)).encode() + b"\n"
    return b"".join([*lines[:number], hurt, *lines[number + 1 :]])
