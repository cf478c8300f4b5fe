"""The laws of the house that neither types nor import contracts hold, each checked over the whole source."""

import ast
from collections.abc import Iterator
from pathlib import Path

from mnemosyne.domain.objects.kinds import Kind

ROOT = Path(__file__).parents[1]
SOURCES = {path.relative_to(ROOT).as_posix(): path for path in sorted((ROOT / "mnemosyne").rglob("*.py"))}


def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


# An object's kind is one row of traits

MAKES_KINDS = "mnemosyne/domain/segmentation/"
TABLE_OF_KINDS = "mnemosyne/domain/objects/kinds.py"


def test_only_segmentation_names_a_kind() -> None:
    """Everybody else asks for a trait (``KINDS``), so that a new kind is one row and the rule that makes it."""
    found = [
        f"{name}:{node.lineno} Kind.{node.attr}"
        for name, path in SOURCES.items()
        if not name.startswith(MAKES_KINDS) and name != TABLE_OF_KINDS
        for node in _kinds_named(parsed(path))
    ]
    assert not found


def test_segmentation_makes_kinds_and_asks_for_none() -> None:
    found = [
        f"{name}:{node.lineno} Kind.{kind.attr}"
        for name, path in SOURCES.items()
        if name.startswith(MAKES_KINDS)
        for node in ast.walk(parsed(path))
        if isinstance(node, ast.Compare)
        for kind in _kinds_named(node)
    ]
    assert not found


def _kinds_named(tree: ast.AST) -> Iterator[ast.Attribute]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and node.attr in Kind.__members__ and ast.unparse(node.value) == "Kind":
            yield node


# What a block is, is asked in one place

ASKS_FOR_TYPES = "mnemosyne/domain/wire/blocks.py"
OWN_EYES = "mnemosyne/lab/provider/"
"""The strict provider reads requests by rules of its own, or it would share our errors."""


def test_only_one_module_knows_calls_and_results_by_their_types() -> None:
    found = [
        f"{name}:{node.lineno} {ast.unparse(node)}"
        for name, path in SOURCES.items()
        if name != ASKS_FOR_TYPES and not name.startswith(OWN_EYES)
        for node in ast.walk(parsed(path))
        if isinstance(node, ast.Compare)
        and ast.unparse(node.left).endswith((".get('type')", "['type']"))
        and {"tool_use", "tool_result"} & {getattr(each, "value", None) for each in node.comparators}
    ]
    assert not found
