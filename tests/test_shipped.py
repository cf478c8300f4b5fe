"""The data that is shipped with the package, and its installed dependencies."""

import ast
import re
import tomllib
from importlib import metadata

from mnemosyne import shipped
from mnemosyne.domain.cost.catalogue import catalogue_of, read_tables
from tests.links import ROOT
from tests.test_house import SOURCES, nodes


def normalized(name: str) -> str:
    """The name of a distribution as the package index compares it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def base_distributions() -> set[str]:
    """The distributions of a plain install."""
    todo = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    installed: set[str] = set()
    while todo:
        requirement = todo.pop()
        name = normalized(re.split(r"[^\w.-]", requirement, maxsplit=1)[0])
        if "extra ==" in requirement or name in installed:
            continue
        try:
            todo += metadata.requires(name) or []
        except metadata.PackageNotFoundError:
            continue  # for another system or another Python
        installed.add(name)
    return installed


def test_plain_install_has_every_imported_library_except_those_of_the_extras() -> None:
    owners = metadata.packages_distributions()
    imported = {
        module.partition(".")[0]
        for path in SOURCES.values()
        for node in nodes(path)
        for module in (
            [alias.name for alias in node.names]
            if isinstance(node, ast.Import)
            else [node.module or ""]
            if isinstance(node, ast.ImportFrom)
            else []
        )
    }
    named = {normalized(name) for module in imported for name in owners.get(module, ())}
    assert named - base_distributions() - {"mnemosyne-proxy"} == {"cryptography", "onnx", "onnxruntime", "tokenizers"}


def test_shipped_table_of_models_is_valid() -> None:
    found = catalogue_of(read_tables(shipped.models(), "that is shipped"), "that is shipped")
    assert "claude-opus-5-5" in found.prices
    assert "claude-opus-5-5" in found.models
