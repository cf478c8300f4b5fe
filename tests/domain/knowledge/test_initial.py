"""A project's README and manifests are proposed as a few entries; damaged files propose nothing."""

import pytest

from mnemosyne.domain.knowledge.initial import propose_entries
from mnemosyne.domain.knowledge.kinds import EntryKind

README = """# App

[![build](https://x/y.svg)](https://x)

```sh
npm install this and that and something else
```

- a list of things that is no sentence at all

App is a **proxy** that [manages](https://x) the memory of coding agents.
It has two lines.

More.
"""


def test_the_brief_is_the_first_paragraph_in_sentences_without_its_markup() -> None:
    (brief,) = propose_entries({"README.md": README})
    assert brief.kind is EntryKind.BRIEF
    assert brief.content == "App is a proxy that manages the memory of coding agents. It has two lines."


@pytest.mark.parametrize(
    ("name", "text", "told"),
    [
        (
            "package.json",
            '{"name": "app", "description": "A proxy", "packageManager": "pnpm@9.1", "scripts": {"test":"","odd":""}}',
            [
                "package.json: the package app: A proxy",
                "Packages are managed with pnpm",
                "Scripts of package.json: test",
            ],
        ),
        (
            "pyproject.toml",
            '[project]\nname = "app"\nrequires-python = ">=3.11"\n[tool.ruff]\n[tool.mypy]\n',
            ["pyproject.toml: the package app, for Python >=3.11", "Settings in pyproject.toml for ruff, mypy"],
        ),
        ("Cargo.toml", '[package]\nname = "app"\nedition = "2024"\n', ["Cargo.toml: the crate app, edition 2024"]),
        ("go.mod", "module example.org/app\n\ngo 1.25\n", ["go.mod: the module example.org/app, for Go 1.25"]),
        ("Makefile", "X := 1\ntest: a\n\tx\nlint:\nobscure:\n", ["Targets of the Makefile: make test, make lint"]),
    ],
)
def test_a_manifest_yields_the_projects_technology(name: str, text: str, told: list[str]) -> None:
    assert [each.content for each in propose_entries({name: text})] == told


@pytest.mark.parametrize(
    ("files", "brief", "others"),
    [
        ({"README.md": README, "Makefile": "test:\n"}, "App is a proxy", ["Targets of the Makefile: make test"]),
        ({"README": "", "README.md": "![logo](x)\n# *App*\n## Use\n", "Makefile": "other:\n"}, "App", []),
        ({"README.md": "# App\n", "README": README}, "App is a proxy", []),
        ({"README.md": "# App\n", "Makefile": "test:\n"}, "App", ["Targets of the Makefile: make test"]),
        ({"package.json": '{"name": "app"}'}, "package.json: the package app", []),
    ],
)
def test_a_project_with_any_entry_has_exactly_one_brief(files: dict[str, str], brief: str, others: list[str]) -> None:
    first, *more = propose_entries(files)
    assert first.kind is EntryKind.BRIEF
    assert first.content.startswith(brief)
    assert [each.content for each in more] == others
    assert EntryKind.BRIEF not in {each.kind for each in more}


@pytest.mark.parametrize(
    "text", ["", "{", "[", "null", '"x"', '{"scripts": 5}', "[project\n", "\x00" * 50, "[" * 5_000]
)
def test_an_invalid_manifest_proposes_nothing(text: str) -> None:
    names = ("package.json", "pyproject.toml", "Cargo.toml", "go.mod", "Makefile")
    assert propose_entries(dict.fromkeys(names, text)) == []


def test_a_long_paragraph_is_cut_after_a_word() -> None:
    (brief,) = propose_entries({"README": "word " * 500})
    assert len(brief.content) <= 402
    assert brief.content.endswith("word \N{HORIZONTAL ELLIPSIS}")
