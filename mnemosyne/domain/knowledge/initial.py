"""Propose initial entries from a project's README and manifests, for a person to accept."""

import json
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import attrs

from mnemosyne.domain.knowledge.decide import EntryDraft
from mnemosyne.domain.knowledge.kinds import EntryKind, EntrySource

READMES = ("README.md", "README.rst", "README.txt", "README")
"""Files that describe a project; the first that exists is used."""

_LONGEST = 400
"""Characters of a proposed line."""

_FEWEST_WORDS = 6
"""A paragraph with fewer words is a title, a badge or a link."""

_MARKUP = re.compile(
    r"!\[[^\]\n]{0,300}\]\([^)\n]{0,500}\)|\[([^\]\n]{1,300})\]\([^)\n]{0,500}\)|<[^>\n]{1,300}>|[*_`#]++"
)
_TARGET = re.compile(r"^([a-z][\w-]{0,30}):(?![=:])", re.MULTILINE)

SHOWN_SCRIPTS = ("build", "dev", "start", "test", "lint", "format", "typecheck", "check", "serve", "install", "run")
"""Scripts and targets that are proposed; others are too many."""


def propose_entries(files: Mapping[str, str]) -> list[EntryDraft]:
    """Propose entries from the texts of a project's files, by name: its purpose, technology and scripts. The brief is
    the README's first paragraph in sentences, else the README's first line, else the first entry from a manifest.
    """
    readmes = [files[name] for name in READMES if name in files]
    brief = next((found for find in (_find_brief, _find_title) for each in readmes if (found := find(each))), None)
    drafts = [_draft(EntryKind.BRIEF, brief)] if brief else []
    for name, read in _MANIFESTS.items():
        if name in files:
            drafts += [_draft(kind, line) for kind, line in _read_safely(read, files[name])]
    return [attrs.evolve(each, kind=EntryKind.BRIEF) for each in drafts[:1]] + drafts[1:]


def _draft(kind: EntryKind, line: str) -> EntryDraft:
    shown = line if len(line) <= _LONGEST else line[:_LONGEST].rsplit(None, 1)[0] + " \N{HORIZONTAL ELLIPSIS}"
    return EntryDraft(kind=kind, content=shown, source=EntrySource.USER)


def _find_brief(readme: str) -> str | None:
    """The first paragraph in sentences."""
    for paragraph in _list_paragraphs(readme):
        plain = _render_plain(paragraph)
        if not paragraph.lstrip().startswith(("#", "|", "-", "=")) and len(plain.split()) >= _FEWEST_WORDS:
            return plain
    return None


def _find_title(readme: str) -> str | None:
    """The first line with a letter or a digit, without its markup."""
    return next((line for line in map(_render_plain, readme.splitlines()) if re.search(r"\w", line)), None)


def _render_plain(text: str) -> str:
    return " ".join(_MARKUP.sub(lambda found: found[1] or "", text).split())


def _list_paragraphs(readme: str) -> Iterator[str]:
    """The paragraphs of a text, without code."""
    lines: list[str] = []
    is_code = False
    for line in readme.splitlines():
        fenced = line.startswith(("```", "~~~"))
        is_code ^= fenced
        if line.strip() and not fenced and not is_code:
            lines.append(line)
        elif lines:
            yield "\n".join(lines)
            lines = []
    if lines:
        yield "\n".join(lines)


Line = tuple[EntryKind, str]


def _read_safely(read: Callable[[str], Iterator[Line]], text: str) -> list[Line]:
    """The lines of a manifest; none if it is invalid."""
    try:
        return list(read(text))
    except (ValueError, TypeError, AttributeError, RecursionError):
        return []


def _read_package(text: str) -> Iterator[Line]:
    package: dict[str, Any] = json.loads(text)
    name, described = package.get("name"), package.get("description")
    if name:
        about = f": {described}" if described else ""
        yield EntryKind.TECH_CONTEXT, f"package.json: the package {name}{about}"
    manager = package.get("packageManager")
    if manager:
        yield EntryKind.TECH_CONTEXT, f"Packages are managed with {str(manager).partition('@')[0]}"
    scripts = [each for each in SHOWN_SCRIPTS if each in (package.get("scripts") or {})]
    if scripts:
        yield EntryKind.TECH_CONTEXT, f"Scripts of package.json: {', '.join(scripts)}"


def _read_pyproject(text: str) -> Iterator[Line]:
    read = tomllib.loads(text)
    project = read.get("project") or (read.get("tool") or {}).get("poetry") or {}
    if project.get("name"):
        needs = project.get("requires-python")
        version = f", for Python {needs}" if needs else ""
        about = f": {project['description']}" if project.get("description") else ""
        yield EntryKind.TECH_CONTEXT, f"pyproject.toml: the package {project['name']}{version}{about}"
    tools = [each for each in _PYTHON_TOOLS if each in (read.get("tool") or {})]
    if tools:
        yield EntryKind.TECH_CONTEXT, f"Settings in pyproject.toml for {', '.join(tools)}"


_PYTHON_TOOLS = ("ruff", "mypy", "pytest", "black", "uv", "poetry", "hatch")


def _read_cargo(text: str) -> Iterator[Line]:
    package = tomllib.loads(text).get("package") or {}
    if package.get("name"):
        about = f": {package['description']}" if package.get("description") else ""
        yield (
            EntryKind.TECH_CONTEXT,
            f"Cargo.toml: the crate {package['name']}, edition {package.get('edition', '2015')}{about}",
        )


def _read_go(text: str) -> Iterator[Line]:
    module, version = re.search(r"^module\s+(\S+)", text, re.MULTILINE), re.search(r"^go\s+(\S+)", text, re.MULTILINE)
    if module:
        yield EntryKind.TECH_CONTEXT, f"go.mod: the module {module[1]}{f', for Go {version[1]}' if version else ''}"


def _read_makefile(text: str) -> Iterator[Line]:
    targets = [each for each in dict.fromkeys(_TARGET.findall(text)) if each in SHOWN_SCRIPTS]
    if targets:
        yield EntryKind.TECH_CONTEXT, f"Targets of the Makefile: {', '.join(f'make {each}' for each in targets)}"


_MANIFESTS: Mapping[str, Callable[[str], Iterator[Line]]] = {
    "package.json": _read_package,
    "pyproject.toml": _read_pyproject,
    "Cargo.toml": _read_cargo,
    "go.mod": _read_go,
    "Makefile": _read_makefile,
}

READ = (*READMES, *_MANIFESTS)
"""The files that are read, and no other."""
