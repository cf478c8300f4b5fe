"""A person has something remembered, looks at it, changes it, and takes it back."""

import json
import os
from pathlib import Path
from uuid import UUID

import pytest

from mnemosyne.cli.knowing import print_sources
from mnemosyne.domain.knowledge.events import Provenance
from mnemosyne.domain.knowledge.recalling import PlacedEntry
from mnemosyne.services.knowledge import describe
from tests.adapters.postgres.test_vacuum import files_with
from tests.cli.running import run
from tests.domain.knowledge.support import HERE, KnowledgePlace


@pytest.fixture(autouse=True)
def empty(dsn: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A database that nothing is in."""
    monkeypatch.setenv("MNEMOSYNE_DSN", dsn)
    monkeypatch.setenv("MNEMOSYNE_DATA_DIR", str(tmp_path / "data"))


def ids(*arguments: str) -> list[str]:
    return [each["id"] for each in json.loads(run("memory", "list", "--json", *arguments).stdout)]


def contents(*arguments: str) -> list[str]:
    return [each["content"] for each in json.loads(run("memory", "list", "--json", *arguments).stdout)]


def remember(text: str, *arguments: str) -> str:
    """Have it remembered; the write's id."""
    write: str = json.loads(run("remember", text, "--json", *arguments).stdout)["write"]
    return write


def test_what_is_remembered_is_listed_told_and_taken_back(tmp_path: Path) -> None:
    here = ("--project", str(tmp_path))
    said = run("remember", "We use pnpm, not npm", "--kind", "tooling", *here).stdout
    (id_,) = ids(*here)
    assert said.startswith(f"added {id_} (project, tooling): We use pnpm, not npm\n")
    assert "It applies to new sessions" in said
    assert "We use pnpm" in run("memory", "list", *here).stdout
    assert f"- [{id_}, " in run("memory", "block", *here).stdout
    assert "We use pnpm" in run("memory", "recall", "pnpm", *here).stdout
    assert "undone" in run("memory", "undo", *here).stdout
    assert ids(*here) == []
    assert "There are no entries here yet" in run("memory", "list", *here).stdout
    assert "Nothing:" in run("memory", "block", *here).stdout


def test_a_change_keeps_what_was_said_before(tmp_path: Path) -> None:
    here = ("--project", str(tmp_path))
    remember("tabs of 2", "--since", "2024-01-01", *here)
    run("memory", "update", "tabs", "tabs of 4", "--since", "2025-01-01", *here)
    assert contents(*here) == ["tabs of 4"]
    assert contents("--true-at", "2024-06-01", *here) == ["tabs of 2"]
    assert contents("--as-of", "2024-06-01", *here) == []  # nobody had said so by then
    told = run("memory", "history", *here).stdout
    assert told.index("tabs of 2") < told.index("tabs of 4")
    (entry,) = ids(*here)
    assert [each["content"] for each in json.loads(run("memory", "history", entry, "--json", *here).stdout)] == [
        "tabs of 2",
        "tabs of 4",
    ]


def test_the_source_of_an_entry_is_shown_with_the_bytes_that_hold_its_words(
    capsys: pytest.CaptureFixture[str],
) -> None:
    place, source = KnowledgePlace(), Provenance(session=UUID(int=7), branch="main", turn=12)
    place.remember("we use pnpm", provenance=source)
    place.remember("we use trio", provenance=source)
    place.remember("we use make")
    first, second, third = [describe(PlacedEntry(HERE, each)) for each in place.known.entries.values()]
    print_sources([first | {"words": {"start": 30, "end": 41}}, second, third])
    assert capsys.readouterr().out == (
        f"{first['id']}: turn 12 of 00000000, branch main, bytes 30-41 of its request\n"
        f"{second['id']}: turn 12 of 00000000, branch main\n"
    )


def test_an_entry_ends_is_confirmed_linked_and_erased(tmp_path: Path) -> None:
    here = ("--project", str(tmp_path))
    remember("Ada owns billing", *here)
    remember("ask before a deploy", *here)
    assert "confirmed" in run("memory", "confirm", "Ada", *here).stdout
    assert "linked" in run("memory", "link", "Ada", "deploy", "--relation", "because of", *here).stdout
    assert "forgotten" in run("memory", "forget", "deploy", *here).stdout
    dsn = os.environ["MNEMOSYNE_DSN"]
    assert files_with(dsn, [b"Ada owns billing"])
    assert run("memory", "forget", "Ada", "--erase", *here).stdout == "The text of 1 entry was erased.\n"
    assert files_with(dsn, [b"Ada owns billing"]) == set()
    assert ids(*here) == []
    assert "Ada" not in run("memory", "history", *here).stdout


def test_another_project_knows_nothing_of_it_and_preferences_hold_in_both(tmp_path: Path) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    remember("We use pnpm", "--project", str(here))
    remember("Answer briefly", "--scope", "user", "--kind", "response-style", "--project", str(here))
    assert contents("--project", str(there)) == ["Answer briefly"]


def test_what_is_exported_is_taken_in_elsewhere(tmp_path: Path) -> None:
    here, there, file = tmp_path / "here", tmp_path / "there", tmp_path / "known.jsonl"
    remember("We use pnpm", "--project", str(here))
    assert run("memory", "export", str(file), "--project", str(here)).stdout == f"1 entry written to {file}.\n"
    assert file.stat().st_mode & 0o077 == 0
    assert run("memory", "import", str(file), "--project", str(there)).stdout == "1 added\n"
    assert run("memory", "import", str(file), "--project", str(there)).stdout == "1 skipped\n"
    file.write_text('{"content": "fine"}\nnonsense\n')
    refused = run("memory", "import", str(file), "--project", str(there), code=1).stderr
    assert "Line 2 of" in refused
    assert "Nothing was imported" in refused
    assert contents("--project", str(there)) == ["We use pnpm"]


def test_entries_are_read_from_standard_input_and_from_regular_files_alone(tmp_path: Path) -> None:
    project = ("--project", str(tmp_path))
    assert run("memory", "import", "-", *project, stdin=b'{"content": "We use pnpm"}\n').stdout == "1 added\n"
    os.mkfifo(tmp_path / "pipe")
    assert "it is not a regular file" in run("memory", "import", str(tmp_path / "pipe"), *project, code=2).stderr
    (tmp_path / "long").write_bytes(b'{"content": "%s"}' % (b"x" * 1024 * 1024))
    assert "line 1 has more than" in run("memory", "import", str(tmp_path / "long"), *project, code=1).stderr
    assert contents(*project) == ["We use pnpm"]


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["remember", "<private>x</private>"], "Nothing is left to be remembered"),
        (["remember", "x", "--kind", "nonsense"], "'nonsense' is no kind; there are project-brief"),
        (["remember", "x" * 2001], "at most 2,000 characters"),
        (["memory", "forget", "nothing"], "No entry has the id 'nothing', or these words."),
        (["memory", "undo"], "There is no write to be taken back."),
        (["memory", "recall", " "], "Say what you look for."),
    ],
)
def test_an_invalid_request_is_refused_with_one_sentence(tmp_path: Path, arguments: list[str], why: str) -> None:
    assert why in run(*arguments, "--project", str(tmp_path), code=1).stderr


def test_what_a_project_says_of_itself_is_shown_first_and_remembered_on_request(tmp_path: Path) -> None:
    here = ("--project", str(tmp_path))
    assert "No entries can be proposed" in run("memory", "init", *here, code=1).stderr
    (tmp_path / "README.md").write_text("# App\n\nApp is a proxy that manages memory.\n")
    (tmp_path / "go.mod").write_text("module example.org/app\n")
    shown = run("memory", "init", *here).stdout
    assert shown.startswith("project-brief: App is a proxy that manages memory.\ntech-context: go.mod: the module")
    assert contents(*here) == []
    run("memory", "init", "--yes", *here)
    assert contents(*here) == ["App is a proxy that manages memory.", "go.mod: the module example.org/app"]
    assert "skipped" in run("memory", "init", "--yes", *here).stdout


def test_a_credential_is_admitted_listed_and_removed_and_is_shown_nowhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NEW_KEY", "sk-ant-api03-new")
    first = run("memory", "admit", "--variable", "NEW_KEY").output
    assert "admitted" in first
    assert "it is admitted already" in run("memory", "admit", stdin=b"sk-ant-api03-new\n").output
    (listed,) = json.loads(run("memory", "admit", "--list", "--json").stdout)
    assert listed["fingerprint"] in first
    assert listed["how"] == "command"
    assert listed["fingerprint"] in run("memory", "admit", "--list").stdout
    assert "dismissed" in run("memory", "admit", "--remove", listed["fingerprint"][:8]).stdout
    assert "begins with" in run("memory", "admit", "--remove", listed["fingerprint"][:8], code=1).stderr
    assert run("memory", "admit", "--list").stdout == "No credential is admitted.\n"
    assert "api03-new" not in first


def test_what_is_no_credential_is_not_admitted() -> None:
    for shown in (b"", b"two words", b"two\nlines"):
        assert "Standard input has no credential" in run("memory", "admit", code=2, stdin=shown).stderr
    assert "mutually exclusive" in run("memory", "admit", "--list", "--remove", "a", code=2).stderr
