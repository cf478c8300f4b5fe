"""Rules of the house that types and import contracts cannot express, each checked over the whole source."""

import ast
import re
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

import pytest

from mnemosyne.domain.objects.kinds import ObjectKind
from tests.tested_elsewhere import ELSEWHERE

ROOT = Path(__file__).parents[1]
PACKAGES = ("mnemosyne", "mnemosyne_lab")
SOURCES = {
    path.relative_to(ROOT).as_posix(): path for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py"))
}


@cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


@cache
def nodes(path: Path) -> list[ast.AST]:
    """All nodes of a module, cached because walking a tree takes as long as parsing it."""
    return [*ast.walk(parsed(path))]


# An object's kind is one row of traits

MAKES_KINDS = "mnemosyne/domain/segmentation/"
TABLE_OF_KINDS = "mnemosyne/domain/objects/kinds.py"


def test_only_segmentation_names_a_kind() -> None:
    """All other modules ask for a trait (``KINDS``), so that a new kind is one row and the rule that makes it."""
    found = [
        f"{name}:{node.lineno} ObjectKind.{node.attr}"
        for name, path in SOURCES.items()
        if not name.startswith(MAKES_KINDS) and name != TABLE_OF_KINDS
        for node in _kinds_named(nodes(path))
    ]
    assert not found


def test_segmentation_makes_kinds_and_asks_for_none() -> None:
    found = [
        f"{name}:{node.lineno} ObjectKind.{kind.attr}"
        for name, path in SOURCES.items()
        if name.startswith(MAKES_KINDS)
        for node in nodes(path)
        if isinstance(node, ast.Compare)
        for kind in _kinds_named(ast.walk(node))
    ]
    assert not found


def _kinds_named(among: Iterable[ast.AST]) -> Iterator[ast.Attribute]:
    for node in among:
        if (
            isinstance(node, ast.Attribute)
            and node.attr in ObjectKind.__members__
            and ast.unparse(node.value) == "ObjectKind"
        ):
            yield node


# Block types are known in one place

ASKS_FOR_TYPES = "mnemosyne/domain/wire/blocks.py"
OWN_EYES = "mnemosyne_lab/provider/"
"""The strict provider reads requests by rules of its own, or it would share our errors."""


def test_only_one_module_knows_calls_and_results_by_their_types() -> None:
    found = [
        f"{name}:{node.lineno} {ast.unparse(node)}"
        for name, path in SOURCES.items()
        if name != ASKS_FOR_TYPES and not name.startswith(OWN_EYES)
        for node in nodes(path)
        if isinstance(node, ast.Compare)
        and ast.unparse(node.left).endswith((".get('type')", "['type']"))
        and {"tool_use", "tool_result"} & {getattr(each, "value", None) for each in node.comparators}
    ]
    assert not found


# A provider's own words stay behind its dialect

WIRE = "mnemosyne/domain/wire/"
ABOVE_WIRE = ("mnemosyne/domain/", "mnemosyne/actors/", "mnemosyne/services/", "mnemosyne/projections/")
MORE_WORDS = frozenset({"ephemeral", "refusal"})
"""Words of one piece that are a vendor's, too."""
VENDORS_WORDS = {
    "mnemosyne/domain/cost/prices.py": (
        "an account is kept in the form of one provider, into which the readers of the others turn theirs",
        "cache_creation_input_tokens cache_read_input_tokens input_tokens output_tokens server_tool_use service_tier",
    ),
    "mnemosyne/domain/cost/prompt_layout.py": (
        "the rules by which one provider's cache tells requests apart, asked only of dialects that mark",
        "output_config",
    ),
    "mnemosyne/domain/cost/tokens.py": (
        "what a block costs goes by its form, and all have the same",
        "redacted_thinking tool_use_id",
    ),
    "mnemosyne/domain/objects/kinds.py": ("the stored name of a kind of objects, which never changes", "tool_result"),
    "mnemosyne/domain/text/stubs.py": ("images in the form that all dialects have; below wire", "media_type"),
    "mnemosyne/domain/tools/memory_tools.py": (
        "our tools as ``Dialect.write_tool`` takes them, and an argument of ours",
        "input_schema max_tokens",
    ),
    "mnemosyne/domain/tools/tool_paging.py": (
        "definitions in this form alone are paged; others go in full",
        "input_schema",
    ),
    "mnemosyne/projections/projection.py": ("columns of ours", "input_tokens output_tokens"),
    "mnemosyne/projections/timeline.py": ("columns of ours", "stop_reason"),
    "mnemosyne/projections/usage.py": ("columns of ours", "service_tier"),
    "mnemosyne/services/usage.py": ("what is asked of a read model has its columns", "service_tier"),
    "mnemosyne/services/session_view.py": ("columns of ours", "output_tokens stop_reason"),
    "mnemosyne/services/timeline.py": ("columns of ours", "input_tokens output_tokens"),
}
"""Where such a word may stand above ``wire`` all the same, and why: take away rather than add."""

_JOINED = "[a-z0-9]+(?:_[a-z0-9]+)+"


def test_no_vendor_term_is_used_above_wire() -> None:
    """A ``Dialect`` knows the names of members and types. A term is a vendor's if ``wire`` contains it and it has an
    underscore, which separates it from plain English; so a new dialect's terms are found without a list.
    """
    words = {word for name, path in SOURCES.items() if name.startswith(WIRE) for word in _words_of(path)}
    assert {"cache_control", "tool_call_id", "encrypted_content"} < words, "all three dialects have words in it"
    words |= MORE_WORDS
    found = {
        name: here
        for name, path in SOURCES.items()
        if name.startswith(ABOVE_WIRE) and not name.startswith(WIRE)
        if (here := words & _words_of(path))
    }
    assert found == {name: set(listed.split()) for name, (_, listed) in VENDORS_WORDS.items()}


def _words_of(path: Path) -> set[str]:
    """The words that could be a member or a type: whole literals, and quoted words within one."""
    docstrings = {id(node.value) for node in nodes(path) if isinstance(node, ast.Expr)}
    found: set[str] = set()
    for node in nodes(path):
        if isinstance(node, ast.Constant) and isinstance(node.value, str | bytes) and id(node) not in docstrings:
            said = node.value if isinstance(node.value, str) else node.value.decode("latin-1")
            whole = [said] if said in MORE_WORDS or re.fullmatch(_JOINED, said) else []
            found.update(whole, re.findall(f'"({_JOINED}|{"|".join(sorted(MORE_WORDS))})"', said))
    return found


# Each module has its test

MODULES = {
    name.removeprefix("mnemosyne/").replace("mnemosyne_lab/", "lab/").removesuffix(".py")
    for name in SOURCES
    if not name.endswith(("/__init__.py", "/__main__.py"))
}
TESTED_ELSEWHERE = {module: test for test, (_, modules) in ELSEWHERE.items() for module in modules.split()}


def test_commands_print_through_one_module_that_escapes_terminal_controls() -> None:
    commands = [path for name, path in SOURCES.items() if name.startswith(("mnemosyne/cli/", "mnemosyne_lab/cli/"))]
    printing = [path.name for path in commands if "click.echo" in path.read_text("utf-8")]
    styled = [path.name for path in commands if "secho" in path.read_text("utf-8")]
    assert (printing, styled) == (["printing.py"], [])


def test_each_module_has_its_test() -> None:
    """``mnemosyne/a/b.py`` is tested by ``tests/a/test_b.py``, ``mnemosyne_lab/a/b.py`` by
    ``tests/lab/a/test_b.py``; otherwise ``tests/tested_elsewhere.py`` names the place and the reason.
    """
    without = [module for module in sorted(MODULES - TESTED_ELSEWHERE.keys()) if not _own_test(module).exists()]
    assert not without


def test_modules_tested_elsewhere_exist_and_have_no_test_of_their_own() -> None:
    assert sum(len(modules.split()) for _, modules in ELSEWHERE.values()) == len(TESTED_ELSEWHERE), "one place for each"
    assert [module for module in TESTED_ELSEWHERE if module not in MODULES or _own_test(module).exists()] == []


def test_tests_import_the_modules_that_they_are_listed_for() -> None:
    for test, (why, modules) in ELSEWHERE.items():
        assert why, test
        assert modules, test
        reached = _reached(f"tests.{test.removesuffix('.py').replace('/', '.')}")
        assert (test, [module for module in modules.split() if _dotted(module) not in reached]) == (test, [])


def _dotted(module: str) -> str:
    in_lab = module.startswith("lab/")
    return ("mnemosyne_lab." + module.removeprefix("lab/") if in_lab else "mnemosyne." + module).replace("/", ".")


def _own_test(module: str) -> Path:
    folder, _, name = module.rpartition("/")
    return ROOT / "tests" / folder / f"test_{name}.py"


def _reached(start: str) -> set[str]:
    """The modules that a module imports anywhere, directly or indirectly."""
    found, waiting = set(), [start]
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting += _imported(name)
    return found


COMMAND_TABLES = ("mnemosyne.cli", "mnemosyne_lab.cli")
_PLACE = re.compile(r"(\.?[a-z_.]+):[a-z_]+")


@cache
def _imported(name: str) -> tuple[str, ...]:
    path = ROOT / Path(*name.split("."))
    path = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    if not path.exists():
        return ()
    found = [name.rpartition(".")[0]]
    for node in nodes(path):
        if isinstance(node, ast.ImportFrom):
            found += [f"{node.module}", *(f"{node.module}.{each.name}" for each in node.names)]
        elif isinstance(node, ast.Import):
            found += [each.name for each in node.names]
        elif isinstance(node, ast.Constant) and node.value in ("-m", "mnemosyne"):
            found += COMMAND_TABLES  # as a process of its own
        elif isinstance(node, ast.Constant) and name in COMMAND_TABLES and (place := _PLACE.fullmatch(str(node.value))):
            found.append(f"mnemosyne.cli{place[1]}" if place[1].startswith(".") else place[1])  # when it is asked for
    return tuple(each for each in found if each.startswith(("mnemosyne.", "mnemosyne_lab.", "tests.")))


# Words


def test_a_public_class_name_has_one_owner() -> None:
    owners: dict[str, list[str]] = {}
    for name, path in SOURCES.items():
        for each in parsed(path).body:
            if isinstance(each, ast.ClassDef) and not each.name.startswith("_"):
                owners.setdefault(each.name, []).append(name)
    assert {name: found for name, found in owners.items() if len(found) > 1} == {}


PARTICIPLES = (
    "began begun born bought broke broken brought built came chosen dealt done drawn drew driven fed fled forgiven "
    "forgot forgotten fought found frozen gave given gone grew grown had heard held hidden hung kept knew known "
    "laid led left lent lost made meant met paid ran rewritten risen said sat saw seen sent shaken shown slept sold "
    "sought spent spoken spun stolen stood struck stuck sworn swept taken taught thought thrown told took torn "
    "undone understood undergone unheard untold went withheld woken won worn woven written wrote"
)
"""Those that are not also an imperative, as ``read``, ``put`` and ``set`` are."""
IMPERATIVES = "embed exceed feed heed need proceed seed speed succeed"
PREDICATES = "are does had has is may was"
ACTS = (
    "add append assume begin check count degrade describe do find form go hold judge keep leave link list load "
    "look make measure merge note open prepare read record refuse render replace say stop sum upcast use wait "
    "weigh"
)
"""What such a verb is done to may end a name: ``hold_stored``, ``refuse_forgotten``."""
STILL_PARTICIPLES: frozenset[str] = frozenset()
"""Those that have still to be renamed: take away, never add."""


def test_no_function_is_named_by_a_participle() -> None:
    """A property or an attribute is a value and may be a participle; a function does something."""
    found = {
        f"{name}:{function.name}"
        for name, path in SOURCES.items()
        for function in _functions(path)
        if not _is_verb(function.name)
    }
    assert found == STILL_PARTICIPLES


@pytest.mark.parametrize(
    ("name", "is_verb"),
    [
        ("searched", False),
        ("_told_before", False),
        ("as_counted", False),
        ("cache_began", False),
        ("search", True),
        ("_embed", True),
        ("read_stored", True),
        ("was_refused", True),
        ("hold_stored", True),
    ],
)
def test_participle_is_distinguished_from_a_verb(name: str, *, is_verb: bool) -> None:
    assert _is_verb(name) is is_verb


def _functions(path: Path) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in nodes(path):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and not any(
            "property" in ast.unparse(each) or ast.unparse(each).endswith(".setter") for each in node.decorator_list
        ):
            yield node


def _is_verb(name: str) -> bool:
    words = name.strip("_").split("_")
    first, last = words[0], words[-1]
    if first in PREDICATES.split():
        return True
    return not _is_participle(first) and (first in ACTS.split() or not _is_participle(last))


def _is_participle(word: str) -> bool:
    return word in PARTICIPLES.split() or (word.endswith("ed") and word not in IMPERATIVES.split())
