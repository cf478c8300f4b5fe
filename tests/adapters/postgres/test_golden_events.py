"""Every event that was stored once stays readable and documented."""

import re
from collections.abc import Iterator
from enum import Enum
from pathlib import Path
from typing import Any, get_args

import attrs
import orjson

from mnemosyne.app.storage import ALL_NAMES, ALL_UPCASTS, event_codec
from mnemosyne.domain.ports import Envelope
from mnemosyne.domain.session.round_events import BranchModeSet, Mode
from tests.golden.sessions import GOLDEN, golden_event

ROOT = Path(__file__).parents[3]


def test_each_stored_name_has_a_golden_file_and_no_name_is_dropped() -> None:
    files = {path.name.removesuffix(".json") for path in GOLDEN.glob("*.v*.json")}
    assert files == ALL_NAMES.keys() | ALL_UPCASTS.keys()


def test_a_golden_event_is_read_and_written_unchanged() -> None:
    """A difference means a new version of the name, with an upcast."""
    for name in ALL_NAMES:
        stored = orjson.loads((GOLDEN / f"{name}.json").read_bytes())
        written, state = event_codec().encode(golden_event(name))
        assert (written, orjson.loads(state)) == (name, stored)


def test_an_event_of_an_old_name_is_read_as_its_successor() -> None:
    for old, (name, _) in ALL_UPCASTS.items():
        assert golden_event(old) == golden_event(name), old


def test_the_members_of_stored_enums_keep_their_values() -> None:
    """A member may be renamed here with its class; a stored value stays forever."""
    golden = orjson.loads((GOLDEN / "enums.json").read_bytes())
    members = {f"{enum.__name__}.{member.name}": member.value for enum in _find_enums() for member in enum}
    assert {name: members.get(name) for name in golden} == golden
    assert members == golden, "add the new members"


def _find_enums() -> set[type[Enum]]:
    waiting: list[Any] = [*ALL_NAMES.values()]
    seen: set[Any] = set()
    while waiting:
        kind = waiting.pop()
        if kind not in seen:
            seen.add(kind)
            waiting += _parts_of(kind)
    return {kind for kind in seen if isinstance(kind, type) and issubclass(kind, Enum)}


def _parts_of(kind: Any) -> Iterator[Any]:
    yield from (part for part in get_args(kind) if part is not ...)
    if attrs.has(kind):
        yield from (field.type for field in attrs.fields(kind))


def test_a_mode_that_was_stored_before_tool_paging_pages_no_tools() -> None:
    stored = b'{"data":{"at":1,"branch":"main","mode":"manage","why":"w"},"correlation":"c","causation":"BeginTurn"}'
    envelope = event_codec().decode("session.branch_mode_set.v1", stored)
    event = BranchModeSet(at=1, branch="main", mode=Mode.MANAGE, why="w", tool_budget=None)
    assert envelope == Envelope(event, "c", "BeginTurn")


def test_every_stored_event_and_each_of_its_fields_is_documented() -> None:
    sections = re.split(r"^## `(.+)`$", (ROOT / "docs/events.md").read_text(encoding="utf-8"), flags=re.MULTILINE)
    documented = dict(zip(sections[1::2], sections[2::2], strict=True))
    assert documented.keys() == ALL_NAMES.keys()
    for name, kind in ALL_NAMES.items():
        rows = re.findall(r"^\| `(\w+)` \| (.+) \|$", documented[name], re.MULTILINE)
        assert sorted(field for field, _ in rows) == sorted(attrs.fields_dict(kind)), name
