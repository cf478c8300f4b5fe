"""The documentation agrees with the program."""

import re
import shlex
from collections.abc import Mapping
from pathlib import Path

import click
import pytest
from cogapp import Cog

from mnemosyne.cli import main
from mnemosyne.config import FILE_NAME, SETTINGS
from mnemosyne.data_dir import LOG_FILE, TOKEN_FILE
from mnemosyne.domain.helper.answer import ANSWER
from mnemosyne.domain.helper.tasks import BACKGROUND_TASKS
from tests.site import foreign_files, page_of

ROOT = Path(__file__).parents[1]
PAGES = sorted(path for folder in ("docs", "docs/internals", "docs/research") for path in (ROOT / folder).glob("*.md"))
FIRST = [ROOT / "README.md", ROOT / "SECURITY.md"]
WITH_EXAMPLES = [*FIRST, *PAGES]


def test_printed_pages_are_up_to_date(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """If this fails: .venv/bin/cog -r docs/*.md"""
    monkeypatch.chdir(ROOT)
    assert Cog().main(["cog", "--check", "--diff", *map(str, PAGES)]) == 0, capsys.readouterr().out


def test_every_setting_is_documented() -> None:
    page = (ROOT / "docs/configuration.md").read_text(encoding="utf-8")
    names = (name for setting in SETTINGS for name in (setting.name, setting.option, setting.variable))
    assert [name for name in names if f"`{name}`" not in page] == []


def test_every_task_of_a_helper_is_documented() -> None:
    page = (ROOT / "docs/helper.md").read_text(encoding="utf-8")
    assert [name for name in (*BACKGROUND_TASKS, ANSWER.name) if f"\n| `{name}` |" not in page] == []


def test_every_command_is_documented() -> None:
    page = (ROOT / "docs/commands.md").read_text(encoding="utf-8")
    for name in main.places():
        assert f"\n## mnemosyne {name}\n" in page


def test_commands_in_examples_are_valid() -> None:
    for page in WITH_EXAMPLES:
        for command in _commands(page.read_text(encoding="utf-8")):
            try:
                parse_command(shlex.split(command, comments=True))
            except click.ClickException as error:
                pytest.fail(f"{page.name}: {command}: {error.format_message()}")


def _commands(text: str) -> list[str]:
    """The text after the prompt in console blocks, and every line of shell blocks."""
    lines = []
    for language, block in re.findall(r"^```(\w+)\n(.*?)^```", text, re.MULTILINE | re.DOTALL):
        if language == "console":
            lines += [line.removeprefix("$ ") for line in block.splitlines() if line.startswith("$ ")]
        elif language in ("sh", "bash"):
            lines += block.splitlines()
    return lines


def parse_command(words: list[str]) -> None:
    """Let click parse a line that calls mnemosyne; other lines are not checked."""
    programs = [position for position, word in enumerate(words) if word.rpartition("/")[2] == "mnemosyne"]
    if not programs or words[0] == "export":
        return
    arguments = words[programs[0] + 1 :]
    for end in ("|", ">", "&&", ";", "&", "2>"):
        if end in arguments and "--" not in arguments:
            arguments = arguments[: arguments.index(end)]
    _parse_group(main, arguments, None)


def _parse_group(group: click.Group, arguments: list[str], parent: click.Context | None) -> None:
    if not arguments or arguments[0] in ("-h", "--help", "--version"):
        return
    context = parent or click.Context(group, info_name="mnemosyne", **group.context_settings)
    name, command, rest = group.resolve_command(context, list(arguments))
    assert command is not None
    if isinstance(command, click.Group):
        _parse_group(command, rest, click.Context(command, context, name))
    elif not {"-h", "--help"} & set(rest):
        command.make_context(name, rest, parent=context)


# Names in pages and docstrings

SOURCES = sorted(path for name in ("mnemosyne", "mnemosyne_lab") for path in (ROOT / name).rglob("*.py"))
NAMING = [*FIRST, *sorted((ROOT / "docs").rglob("*.md")), *SOURCES]
FOLDERS = (ROOT, ROOT / "mnemosyne", ROOT / "mnemosyne/domain")
"""A path is named from one of these, or from the folder of the file that names it."""

_NAMED_FILE = re.compile(r"(?<!`)(`{1,2})((?:[\w.-]+/)*[a-z_]\w*\.py)\1(?!`)")
_NAMED_SYMBOL = re.compile(r"``([a-z_]+)\.([A-Za-z_]\w*)``")
_DEFINED = re.compile(r"^(?:(?:async )?def |class )?([A-Za-z_]\w*)(?=[:(\[]| = )", re.MULTILINE)
_OURS = {path.name for folder in FOLDERS for path in folder.iterdir() if path.is_dir()}


def test_files_that_are_named_exist() -> None:
    """Paths of the repository, by their first folder; in a module also those without a folder, which are next to it."""
    missing = []
    for file in NAMING:
        for _, name in _NAMED_FILE.findall(file.read_text(encoding="utf-8")):
            first, slash, _ = name.partition("/")
            is_meant = first in _OURS if slash else file.suffix == ".py"
            if is_meant and not any((folder / name).exists() for folder in (*FOLDERS, file.parent)):
                missing.append((str(file.relative_to(ROOT)), name))
    assert missing == []


def test_pages_that_the_program_names_exist() -> None:
    naming = [*SOURCES, ROOT / "mnemosyne/models.toml", *filter(Path.is_file, (ROOT / "deploy").iterdir())]
    named = {
        (file.name, page)
        for file in naming
        for page in re.findall(r"docs/[\w/-]+\.md", file.read_text(encoding="utf-8"))
    }
    assert [(file, page) for file, page in sorted(named) if not (ROOT / page).exists()] == []


def test_names_in_other_modules_exist() -> None:
    """``planning.WINDOW``: if the first name is that of a module, the second is defined in it."""
    defined = _read_definitions()
    assert [
        (str(file.relative_to(ROOT)), f"{module}.{name}")
        for file in SOURCES
        for module, name in _NAMED_SYMBOL.findall(file.read_text(encoding="utf-8"))
        if module in defined and name not in defined[module]
    ] == []


def _read_definitions() -> Mapping[str, set[str]]:
    """The top-level definitions of modules, by the module's name; modules of one name are merged."""
    found: dict[str, set[str]] = {}
    for path in SOURCES:
        if path.stem != "__init__":
            found.setdefault(path.stem, {"py", "toml"}).update(_DEFINED.findall(path.read_text(encoding="utf-8")))
    return found


# Sizes of pages

INTERNALS = ("architecture.md", "events.md", "projections.md")
CLIENTS = (ROOT / "docs/clients.md").read_text(encoding="utf-8")
_PRINTED = re.compile(r"<!-- ?\[\[\[cog.*?\[\[\[end\]\]\] ?-->", re.DOTALL)


def test_each_decision_has_a_number_of_its_own_which_begins_its_title() -> None:
    pages = sorted((ROOT / "docs/adr").glob("*.md"))
    titles = [page.read_text(encoding="utf-8").split(". ", 1)[0] for page in pages]
    assert titles == [f"# {int(page.name[:4])}" for page in pages]
    assert len({page.name[:4] for page in pages}) == len(pages)


def test_decisions_have_at_most_150_words() -> None:
    words = {page.name: len(page.read_text(encoding="utf-8").split()) for page in (ROOT / "docs/adr").glob("*.md")}
    assert {name: count for name, count in words.items() if count > 150} == {}


def test_first_page_has_at_most_700_words_and_15_links() -> None:
    page = (ROOT / "README.md").read_text(encoding="utf-8")
    assert len(page.split()) <= 700
    assert len(re.findall(r"\]\(", page)) <= 15


def test_pages_for_users_have_at_most_20_000_words() -> None:
    """The pages in `docs` and the README, without what is printed by the program and without internals."""
    pages = [page for page in (ROOT / "docs").glob("*.md") if page.name not in INTERNALS]
    texts = [page.read_text(encoding="utf-8") for page in [*pages, ROOT / "README.md"]]
    assert sum(len(_PRINTED.sub("", text).split()) for text in texts) <= 20_000


def test_each_client_is_explained_in_at_most_200_words() -> None:
    sections = re.split(r"^## ", CLIENTS, flags=re.MULTILINE)[1:7]
    assert [section.split("\n")[0] for section in sections if len(section.split()) > 200] == []


# Links between pages

_LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)]*)?\)")


def test_linked_pages_exist() -> None:
    linked = [(page, name) for page in WITH_EXAMPLES for name in _LINK.findall(page.read_text(encoding="utf-8"))]
    assert [link for link in linked if "://" not in link[1] and not (link[0].parent / link[1]).exists()] == []


def test_links_of_the_site_lead_to_its_pages_and_to_lines_of_source_files() -> None:
    linked: set[str] = set()
    text = "[a](../SECURITY.md#x) [b](pages.md) [c](adr/) [d](https://e.org)\n\n[e.py:F]: ../mnemosyne/e.py#L7"
    assert page_of("docs/operations.md", text, linked) == (
        "[a](threat-model.md#x) [b](pages.md) [c](adr/index.md) [d](https://e.org)\n\n"
        "[e.py:F]: source/mnemosyne/e.py.md#__codelineno-0-7"
    )
    assert page_of("README.md", "![map](docs/pictures/session.png)", linked) == "![map](pictures/session.png)"
    assert linked == {"mnemosyne/e.py"}


def test_files_from_other_hosts_are_found_in_a_built_site(tmp_path: Path) -> None:
    (tmp_path / "a.html").write_text('<a href="https://a.org">a</a><script src="x.js"></script>', encoding="utf-8")
    assert foreign_files(tmp_path) == []
    (tmp_path / "b.html").write_text('<script src="//cdn.org/x.js"></script>', encoding="utf-8")
    assert len(foreign_files(tmp_path)) == 1


def test_first_page_links_to_the_security_pages_and_these_to_each_other() -> None:
    leads = {page.name: _LINK.findall(page.read_text(encoding="utf-8")) for page in (*FIRST, ROOT / "docs/security.md")}
    assert {"SECURITY.md", "docs/security.md"} <= {*leads["README.md"]}
    assert "docs/security.md" in leads["SECURITY.md"]
    assert "../SECURITY.md" in leads["security.md"]


def test_every_file_of_the_data_directory_is_documented_with_its_readers() -> None:
    page = (ROOT / "SECURITY.md").read_text(encoding="utf-8")
    for name in (TOKEN_FILE, LOG_FILE, FILE_NAME, "postgres/", "postgres.log", "models/"):
        assert f"| `{name}` |" in page


def test_every_test_that_backs_a_promise_exists() -> None:
    named = re.findall(r"`(tests/[\w/]+\.py)`", (ROOT / "SECURITY.md").read_text(encoding="utf-8"))
    assert len(named) > 5
    assert [name for name in named if not (ROOT / name).exists()] == []
