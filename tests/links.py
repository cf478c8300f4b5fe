"""Links from pages to the lines where names are defined, for pages that print them (cog)."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]

_USED = re.compile(r"\[`[^`]+`\]\[([\w./]+:[\w.]+)\]")


def names_in(page: str) -> list[str]:
    """The names that a page links to, each once: ``[`Turn.prepare`][actors/turn.py:Turn.prepare]``."""
    return sorted(set(_USED.findall(page)))


def link_of(name: str) -> str:
    """The definition of a link in Markdown. Raises LookupError if nothing has that name."""
    path, _, dotted = name.partition(":")
    file = ROOT / "mnemosyne" / path
    if not file.exists():
        raise LookupError(f"{name}: there is no mnemosyne/{path}")
    return f"[{name}]: ../mnemosyne/{path}#L{line_of(ast.parse(file.read_text(encoding='utf-8')), dotted)}"


def line_of(tree: ast.AST, dotted: str) -> int:
    """The line on which a class, a function or a constant is defined. Raises LookupError."""
    first, _, rest = dotted.partition(".")
    for node in ast.iter_child_nodes(tree):
        if first in _defined(node):
            return line_of(node, rest) if rest else int(getattr(node, "lineno", 1))
    raise LookupError(f"nothing is named {first} there")


def _defined(node: ast.AST) -> Iterator[str]:
    match node:
        case ast.ClassDef(name=name) | ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
            yield name
        case ast.Assign(targets=targets):
            yield from (target.id for target in targets if isinstance(target, ast.Name))
        case ast.AnnAssign(target=ast.Name(id=name)):
            yield name
