"""``mnemosyne remember`` and ``memory`` save, list, change and erase facts."""

import os
from pathlib import Path
from uuid import UUID

import pytest

from mnemosyne.cli.memory import print_sources
from mnemosyne.domain.knowledge.events import Provenance
from mnemosyne.domain.knowledge.recalling import PlacedEntry
from mnemosyne.services.knowledge import describe
from tests.adapters.postgres.test_vacuum import files_with
from tests.cli.running import run, run_json
from tests.domain.knowledge.support import FIRST, HERE, KnowledgePlace
from tests.fixtures import UseLog


@pytest.fixture(autouse=True)
def empty(dsn: str, use_log: UseLog) -> None:
    """A database without entries."""
    use_log(dsn)


def ids(*arguments: str) -> list[str]:
    return [entry["id"] for entry in run_json("memory", "list", *arguments)]


def contents(*arguments: str) -> list[str]:
    return [entry["content"] for entry in run_json("memory", "list", *arguments)]


def test_saved_fact_is_listed_and_can_be_undone(tmp_path: Path) -> None:
    here = ("--project", str(tmp_path))
    output = run("remember", "We use pnpm, not npm", "--kind", "tooling", *here).stdout
    (id_,) = ids(*here)
    assert output.startswith(f"added {id_} (project, tooling): We use pnpm, not npm\n")
    assert "It applies to new sessions" in output
    assert "We use pnpm" in run("memory", "list", *here).stdout
    assert f"- [{id_}, " in run("memory", "preview", *here).stdout
    assert "We use pnpm" in run("memory", "recall", "pnpm", *here).stdout
    assert run("memory", "undo", *here).stdout.startswith("undone — removed: We use pnpm, not npm\n")
    assert ids(*here) == []
    assert "There are no entries here yet" in run("memory", "list", *here).stdout
    assert "No entry here matches the options." in run("memory", "list", "--kind", "tooling", *here).stdout
    assert "it may be undone already, or the id of an entry." in run("memory", "undo", id_, *here, code=1).stderr
    assert "Nothing:" in run("memory", "preview", *here).stdout


def test_refused_time_names_its_option(tmp_path: Path) -> None:
    refused = run("memory", "list", "--as-of", "soon", "--project", str(tmp_path), code=2).stderr
    assert "Invalid value for --as-of: 'soon' is not a time" in refused


def test_changed_fact_keeps_its_earlier_version(tmp_path: Path) -> None:
    here = ("--project", str(tmp_path))
    run("remember", "tabs of 2", "--since", "2024-01-01", *here)
    run("memory", "update", "tabs", "tabs of 4", "--since", "2025-01-01", *here)
    assert contents(*here) == ["tabs of 4"]
    assert contents("--true-at", "2024-06-01", *here) == ["tabs of 2"]
    assert contents("--true-at", "2024-01-01", *here) == ["tabs of 2"]  # a day is its end
    (earlier,) = run_json("memory", "list", "--true-at", "2024-06-01", *here)
    assert earlier["used"] == "in new sessions whose first prompt is about it"  # at that time
    assert contents("--as-of", "2024-06-01", *here) == []  # not recorded by then
    undone = run("memory", "undo", *here).stdout
    assert undone.startswith("undone ")
    assert "tabs of 2 — it is active again\n" in undone
    redo = undone.split()[-3].removesuffix("`")
    assert "tabs of 4" in run("memory", "undo", redo, *here).stdout
    history = run("memory", "history", *here).stdout
    assert history.index("tabs of 2") < history.index("tabs of 4")
    (entry,) = ids(*here)
    versions = run_json("memory", "history", entry, *here)
    assert [version["content"] for version in versions] == ["tabs of 2", "tabs of 4"]


def test_source_of_an_entry_is_shown_with_the_bytes_of_its_words(capsys: pytest.CaptureFixture[str]) -> None:
    place, source = KnowledgePlace(), Provenance(session=UUID(int=7), branch="main", turn=12)
    place.remember("we use pnpm", provenance=source)
    place.remember("we use trio", provenance=source)
    place.remember("we use make")
    first, second, third = [describe(PlacedEntry(HERE, entry), FIRST) for entry in place.known.entries.values()]
    print_sources([first | {"words": {"start": 30, "end": 41}}, second, third])
    assert capsys.readouterr().out == (
        f"{first['id']}: turn 12 of 00000000, branch main, bytes 30-41 of its request\n"
        f"{second['id']}: turn 12 of 00000000, branch main\n"
    )


def test_entry_can_be_confirmed_linked_ended_and_erased(tmp_path: Path) -> None:
    here = ("--project", str(tmp_path))
    run("remember", "Ada owns billing", *here)
    run("remember", "ask before a deploy", *here)
    assert "confirmed" in run("memory", "confirm", "Ada", *here).stdout
    assert "linked" in run("memory", "link", "Ada", "deploy", "--relation", "because of", *here).stdout
    assert "forgotten" in run("memory", "forget", "deploy", *here).stdout
    dsn = os.environ["MNEMOSYNE_DSN"]
    assert files_with(dsn, [b"Ada owns billing"])
    assert run("memory", "forget", "Ada", "--erase", *here).stdout == "The text of 1 entry was erased.\n"
    assert files_with(dsn, [b"Ada owns billing"]) == set()
    assert ids(*here) == []
    assert "Ada" not in run("memory", "history", *here).stdout


def test_facts_belong_to_their_project_and_preferences_to_all(tmp_path: Path) -> None:
    here, there = (("--project", str(tmp_path / name)) for name in ("here", "there"))
    run("remember", "We use pnpm", *here)
    run("remember", "Answer briefly", "--scope", "user", "--kind", "response-style", *here)
    assert contents(*there) == ["Answer briefly"]


def test_exported_entries_can_be_imported_from_a_file_or_standard_input(tmp_path: Path) -> None:
    here, there = (("--project", str(tmp_path / name)) for name in ("here", "there"))
    file = tmp_path / "known.jsonl"
    run("remember", "We use pnpm", *here)
    assert run("memory", "export", str(file), *here).stdout == f"1 entry written to {file}.\n"
    assert file.stat().st_mode & 0o077 == 0
    away = str(tmp_path / "no/x")
    assert run("memory", "export", away, *here, code=1).stderr.startswith(f"Error: {away} cannot be written: ")
    assert run("memory", "import", str(file), *there).stdout == "1 added\n"
    assert run("memory", "import", "-", *there, stdin=file.read_bytes()).stdout == "1 skipped\n"
    assert contents(*there) == ["We use pnpm"]


def test_invalid_file_of_entries_is_refused_whole(tmp_path: Path) -> None:
    here = ("--project", str(tmp_path))
    (tmp_path / "bad").write_text('{"content": "fine"}\nnonsense\n')
    (tmp_path / "long").write_bytes(b'{"content": "%s"}' % (b"x" * 1024 * 1024))
    os.mkfifo(tmp_path / "pipe")
    for name, code, problem in (
        ("bad", 1, "is not a JSON object. Nothing was imported"),
        ("long", 1, "line 1 has more than"),
        ("pipe", 2, "it is not a regular file"),
    ):
        assert problem in run("memory", "import", str(tmp_path / name), *here, code=code).stderr
    assert contents(*here) == []


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["remember", "<private>x</private>"], "Nothing is left to be remembered"),
        (["remember", "x", "--kind", "nonsense"], "'nonsense' is not a kind; valid are project-brief"),
        (["remember", "x" * 2001], "at most 2,000 characters"),
        (["memory", "forget", "nothing"], "No entry has the id 'nothing' or contains these words."),
        (["memory", "undo"], "There is no write to undo."),
        (["memory", "recall", " "], "The question is empty."),
    ],
)
def test_an_invalid_request_is_refused_with_one_sentence(tmp_path: Path, arguments: list[str], why: str) -> None:
    assert why in run(*arguments, "--project", str(tmp_path), code=1).stderr


def test_entries_proposed_from_a_project_s_files_are_saved_only_with_yes(tmp_path: Path) -> None:
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


def test_credential_is_admitted_listed_and_removed_and_never_shown() -> None:
    first = run("memory", "admit", "--variable", "NEW_KEY", NEW_KEY="sk-ant-api03-new").output
    assert "admitted" in first
    assert "it is admitted already" in run("memory", "admit", stdin=b"sk-ant-api03-new\n").output
    (listed,) = run_json("memory", "admit", "--list")
    assert listed["fingerprint"] in first
    assert listed["how"] == "command"
    assert listed["fingerprint"] in run("memory", "admit", "--list").stdout
    remove = ("memory", "admit", "--remove", listed["fingerprint"][:8])
    assert "dismissed" in run(*remove).stdout
    assert "begins with" in run(*remove, code=1).stderr
    assert run("memory", "admit", "--list").stdout == "No credential is admitted.\n"
    assert "api03-new" not in first
    for text in (b"", b"two words", b"two\nlines"):
        assert "Standard input has no credential" in run("memory", "admit", code=2, stdin=text).stderr
    assert "mutually exclusive" in run("memory", "admit", "--list", "--remove", "a", code=2).stderr
