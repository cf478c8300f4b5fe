r"""No text makes a pattern slow: each regular expression of the package takes steps in proportion to the text.

A pattern blocks the interpreter while it matches, and with it every session of the proxy. A pattern of n² steps
needs a second or more for 32 KB, which is everyday input; the slowest one here needs 50 ms, and most need one. The
bound between the two is one of processor time, which does not depend on other processes.
"""

import ast
import importlib
import itertools
import re
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attrs
import pytest

import mnemosyne

SIZE = 32_768
SECONDS = 0.3
PARTS = (16, 4, 2, 1)
"""How much shorter the texts are that each pattern reads, one after the other; the last is whole."""

Compiled = re.Pattern[str] | re.Pattern[bytes]

PERIODS = [
    *("a", "A", "0", " ", "\t", "\n", "\r\n", " \n", "\n ", "    a\n", "漢", "漢字。", "é", "e\u0301", "ก", "⋯"),
    *"./\\\"'`()[]{}<>-_=:;,*#@|!?$%&+~^",
    *("a.", "a/", "a-", "a:", "a ", "a,", "a_", "aA", "a1", "a=", "a@", "a(", "a->", "a::", "a b, ", "a a. ", "A B"),
    *("1.", "1-", "1:", "1,", "1 ", "/a", "-1", ":1", "./-1", "://", "://a:", "http://a", "//", "//@", "::", "->"),
    *("'a", '"a', '" ', 'a"', "()", "(a", "[a", "{a", "<a>", "</a>", "<a ", "[]", "**", "**a", "- ", "* ", "> ", "# "),
    *("- a\n", "1. ", "```", "```\n", "~~~", "a && ", "&& ", "|| ", "x=1 ", "-a ", "<<E", "> a ", "\x1b[", "\x1b[0"),
    *("deadbeef0123456789", "QUJDRGVmZ2hpSktMbW5vcA", "var a=1;function f(b){return b+1};", '{"a":1,"b":[2,3]},'),
]
"""What everyday long lines are made of, over and over."""


def bare(pattern: Compiled) -> str:
    source = pattern.pattern
    return source if isinstance(source, str) else source.decode("latin-1")


def reached(value: Any, depth: int = 4) -> Iterator[tuple[Compiled, bool]]:
    """The patterns in a value of a module, each with whether it is anchored at the start of a line (``Way``)."""
    if isinstance(value, re.Pattern):
        yield value, False
    elif depth and isinstance(value, tuple | list | set | frozenset):
        for each in value:
            yield from reached(each, depth - 1)
    elif depth and isinstance(value, dict):
        yield from reached([*value.values()], depth)
    elif depth and not isinstance(value, type) and attrs.has(type(value)):
        inner = [*attrs.asdict(value, recurse=False).values()]
        yield from ((pattern, True) for pattern, _ in reached(inner, depth))


def anchored_names(tree: ast.Module) -> set[str]:
    """The names of patterns, or of collections of patterns, that are used at one place of a text only, by ``match`` or
    ``fullmatch``.
    """
    used: dict[str, set[str]] = {}
    loops: list[tuple[set[str], set[str]]] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            used.setdefault(node.value.id, set()).add(node.attr)
        elif isinstance(node, ast.For | ast.comprehension):
            loops.append((_names_in(node.target), _names_in(node.iter)))
    for each, collections in loops:
        for name in collections:
            used.setdefault(name, set()).update(*(used.get(one, set()) for one in each))
    return {name for name, how in used.items() if how and how <= {"match", "fullmatch", "pattern"}}


def _names_in(node: ast.expr) -> set[str]:
    return {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}


def written(tree: ast.Module) -> Iterator[tuple[Compiled, bool]]:
    """The patterns that are literals in a call of ``re``, each with whether it is anchored."""
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Attribute(ast.Name("re"), how), args=[ast.Constant(str() | bytes() as source), *_]):
                if how in ("match", "fullmatch", "search", "sub", "subn", "split", "findall", "finditer"):
                    yield re.compile(source), how in ("match", "fullmatch")


def patterns_of(name: str) -> dict[str, tuple[Compiled, bool]]:
    """Every pattern of a module by its place, and whether it is anchored."""
    module: Any = importlib.import_module(name)
    source = Path(module.__file__).read_text()
    tree = ast.parse(source)
    own = {target.id for node in tree.body for target in _targets(node) if isinstance(target, ast.Name)}
    found = [(name, *each) for name in own for each in reached(vars(module).get(name))]
    anchored = anchored_names(tree) if found else set()
    here = [(name, pattern, of_way or name in anchored) for name, pattern, of_way in found]
    here += [("re", *each) for each in (written(tree) if "re." in source else ())]
    return {f"{name} {bare(pattern)[:40]}": (pattern, is_anchored) for name, pattern, is_anchored in here}


def _targets(node: ast.stmt) -> list[ast.expr]:
    match node:
        case ast.Assign(targets=targets):
            return targets
        case ast.AnnAssign(target=target):
            return [target]
        case _:
            return []


def modules() -> dict[str, list[str]]:
    """All modules of the package, by folder and name. None is imported yet: that would dominate the collection time."""
    root = Path(mnemosyne.__file__).parent
    found: dict[str, list[str]] = {}
    for path in sorted(root.rglob("*.py")):
        if path.stem != "__main__":
            folder, name = path.relative_to(root.parent).parent, path.stem
            parts = folder.parts if name == "__init__" else (*folder.parts, name)
            found.setdefault(".".join(folder.parts), []).append(".".join(parts))
    return found


def near_misses(pattern: Compiled) -> list[str]:
    """The words of a pattern itself, which it matches as far as possible before it fails."""
    words = re.findall(r"[A-Za-z][A-Za-z _-]{1,30}", re.sub(r"\\[A-Za-z]", " ", bare(pattern)))
    return list(dict.fromkeys(words))[:30]


def hostile(pattern: Compiled) -> Iterator[tuple[str, str]]:
    """Parts to repeat, each after nothing or after a beginning that the pattern needs."""
    misses = near_misses(pattern)
    yield from (("", period) for period in (*PERIODS, *misses))
    yield from itertools.product(("\n", *misses[:3]), PERIODS[:8])


class TooSlow(Exception):
    """The processor time is used up."""


def _stop(*_: object) -> None:
    raise TooSlow


def read(pattern: Any, text: str, *, anchored: bool) -> None:
    """Let a pattern read a text as the package does. Raises TooSlow."""
    given = text.encode() if isinstance(pattern.pattern, bytes) else text
    before = signal.signal(signal.SIGVTALRM, _stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, SECONDS)
    try:
        if anchored:
            pattern.match(given)
        else:
            for _ in pattern.finditer(given):
                pass
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


def slow_for(pattern: Compiled, *, anchored: bool, size: int = SIZE) -> str | None:
    r"""The beginning of the first text for which a pattern is slow.

    It reads short texts first. Nothing longer is read if even n² steps would stay far from slow for the whole text,
    or if the steps grow with the text and would stay below the bound.
    """
    for opening, period in hostile(pattern):
        try:
            linear = 0.0
            for part in PARTS:
                text = opening + period * (size // part // len(period)) + "\x00"
                began = time.thread_time()
                read(pattern, text, anchored=anchored)
                spent = time.thread_time() - began
                if spent * part**2 <= SECONDS / 2 or spent * part <= min(2 * linear, SECONDS):
                    break
                linear = spent * part
        except TooSlow:
            return (opening + period * 60)[:60]
    return None


@pytest.mark.parametrize("names", modules().values(), ids=modules())
def test_no_text_makes_a_pattern_of_a_module_slow(names: list[str]) -> None:
    for name in names:
        for where, (pattern, anchored) in sorted(patterns_of(name).items()):
            assert slow_for(pattern, anchored=anchored) is None, f"{name}: {where}"


@pytest.mark.parametrize(
    ("source", "anchored"),
    [(r"\s*(?:&&|;)\s*", False), (r"\w*(?:[a-z]Error|Exception)\b", False), (r".*?(?:\w*Exception\b)", True)],
)
def test_pattern_of_quadratic_steps_is_found(source: str, *, anchored: bool) -> None:
    assert slow_for(re.compile(source), anchored=anchored) is not None


def test_patterns_for_tool_results_are_checked() -> None:
    assert len(patterns_of("mnemosyne.domain.summaries.extractive.units")) >= 10
