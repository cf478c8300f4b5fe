"""Events are made where they are decided: one module alone calls the constructor of each.

To read a stored event (the codec) and to change a copy of one (``attrs.evolve``) call no constructor by name.
"""

import ast
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from mnemosyne.domain.knowledge.events import KNOWLEDGE_EVENT_NAMES
from mnemosyne.domain.objects.events import OBJECT_EVENT_NAMES, TurnAssessed
from mnemosyne.domain.session.events import EVENT_NAMES, EventLost
from mnemosyne.domain.session.input_events import GROUND_EVENT_NAMES
from mnemosyne.domain.session.ledger_events import TurnAccounted
from mnemosyne.domain.session.retired import RETIRED_EVENT_NAMES

ROOT = Path(__file__).parents[2]

NOWHERE = "nowhere: the feature is removed"

MAKERS: Mapping[type, str] = {
    **dict.fromkeys(EVENT_NAMES.values(), "mnemosyne/domain/session/decide.py"),
    **dict.fromkeys(OBJECT_EVENT_NAMES.values(), "mnemosyne/domain/objects/decide.py"),
    **dict.fromkeys(RETIRED_EVENT_NAMES.values(), NOWHERE),
    **dict.fromkeys(GROUND_EVENT_NAMES.values(), "mnemosyne/domain/session/decision_inputs.py"),
    **dict.fromkeys(KNOWLEDGE_EVENT_NAMES.values(), "mnemosyne/domain/knowledge/decide.py"),
    EventLost: "mnemosyne/domain/session/redaction.py",
    TurnAssessed: "mnemosyne/domain/segmentation/ingest.py",
    TurnAccounted: "mnemosyne/domain/session/ledger.py",
}
"""The module that alone may make each event."""

_BY_NAME = {kind.__name__: module for kind, module in MAKERS.items()}
_MENTION = re.compile(rf"\b({'|'.join(_BY_NAME)})(\(| as )")
"""A call or another name: a source without either is not parsed."""


def made_in(source: str) -> Iterator[tuple[str, int]]:
    """The name of each event whose constructor a module calls, and the line."""
    if not _MENTION.search(source):
        return
    tree = ast.parse(source)
    imports = [each for each in ast.walk(tree) if isinstance(each, ast.ImportFrom)]
    named = {name.asname or name.name: name.name for each in imports for name in each.names}
    for call in (each for each in ast.walk(tree) if isinstance(each, ast.Call)):
        match call.func:
            case ast.Name(id=name) if named.get(name, name) in _BY_NAME:
                yield named.get(name, name), call.lineno
            case ast.Attribute(attr=name) if name in _BY_NAME:
                yield name, call.lineno


def test_no_event_is_made_but_where_it_is_decided() -> None:
    elsewhere = [
        f"{module}:{line} makes {name}, which is {_BY_NAME[name]}'s to make"
        for path in sorted((ROOT / "mnemosyne").rglob("*.py"))
        for module in [path.relative_to(ROOT).as_posix()]
        for name, line in made_in(path.read_text(encoding="utf-8"))
        if module != _BY_NAME[name]
    ]
    assert elsewhere == []


@pytest.mark.parametrize("module", sorted({*MAKERS.values()} - {NOWHERE}))
def test_the_modules_that_make_events_are_there(module: str) -> None:
    assert [*made_in((ROOT / module).read_text(encoding="utf-8"))]


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("from m import ObjectPinned\nObjectPinned(at=1)", [("ObjectPinned", 2)]),
        ("from m import ObjectPinned as P\ndef f(): return [P(at=1)]", [("ObjectPinned", 2)]),
        ("from m import events\nevents.ObjectPinned(at=1)", [("ObjectPinned", 2)]),
        ("from m import ObjectPinned\nmatch e:\n    case ObjectPinned(): pass", []),
        ("from m import ObjectPinned\nisinstance(e, ObjectPinned)", []),
    ],
)
def test_a_call_is_seen_by_whatever_name_and_a_pattern_is_none(source: str, found: list[tuple[str, int]]) -> None:
    assert [*made_in(source)] == found
