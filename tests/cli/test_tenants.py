"""No command shows, changes or hands out what is another tenant's, whatever it is asked and by which name."""

import json
import os
from pathlib import Path

import pytest
import trio
from click.testing import CliRunner

from mnemosyne.app.storage import event_codec
from mnemosyne.cli import main
from mnemosyne.domain.objects.events import ObjectCreated
from mnemosyne.services.exporting import write_session
from tests.adapters.log_support import query
from tests.adapters.postgres.test_vacuum import files_with
from tests.cli.running import run
from tests.golden.sessions import LOGS, append_all, appends, opened
from tests.projections.support import POSTGRES, open_world

OWN, THEIRS = LOGS / "one-of-everything", LOGS / "observed"
"""Sessions of the tenants ``local`` and ``t``."""

SESSION = str(appends(THEIRS)[0].stream)
NAME = "s"
OBJECT = next(
    each.envelopes[0].event.object for each in appends(THEIRS) if isinstance(each.envelopes[0].event, ObjectCreated)
)

OF_SESSION = {
    "branches": ["SESSION"],
    "context": ["SESSION"],
    "checkpoint": ["SESSION", "a-name"],
    "diff": ["SESSION", "--turn", "1", "2"],
    "fork": ["SESSION"],
    "verify": ["SESSION"],
    "export": ["SESSION"],
    "forget": ["SESSION", "--yes"],
    "timeline": ["SESSION"],
    "report": ["SESSION"],
    "objects": ["SESSION"],
    "explain": ["SESSION"],
    "ask": ["SESSION", "What does the parser do?"],
    "search": ["SESSION", "parser"],
    "replay": ["--from-log", "SESSION"],
    "off": ["SESSION"],
    "archive": ["SESSION", "--to", "a-folder"],
    "unarchive": ["SESSION"],
}
"""Commands about one session, which its tenant alone finds."""

OF_OBJECT = {"object": [OBJECT], "pin": [OBJECT], "unpin": [OBJECT]}

OF_ALL = [
    "sessions",
    "sessions --json",
    "verify",
    "verify --json",
    "du",
    "du --json",
    "usage --by session",
    "usage --by session --json",
    "savings",
    "savings --json",
    "search --all-sessions parser --json",
    'sql select*from"turns"',
    "retain --retain-days 1 --dry-run",
]
"""Commands about all sessions, which are those of one tenant."""

OF_NONE = {
    "serve", "run", "open", "statusline", "worker", "demo", "import", "projections", "rebuild", "evaluate", "what-if",
    "model", "index", "doctor", "config", "completion", "remember", "memory", "hook", "mcp", "backup", "restore",
    "sql-reader", "trial", "nodes", "upgrade-database",
}  # fmt: skip
"""Commands that show no session; a backup is whole, as an upgrade is, and for who may open the database.

That each tenant knows its own alone, ``tests/services/test_knowledge.py`` says. What
``import`` brings is asked for its tenant below, and the pages that ``open`` opens in ``tests/http/inspector``.
"""


@pytest.fixture
def both(dsn: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A database with a session of each tenant, where commands find it; a directory for files."""

    async def fill() -> None:
        async with open_world(POSTGRES, dsn, event_codec()) as world:
            for folder in (OWN, THEIRS):
                await append_all(world.journal, appends(folder))

    trio.run(fill)
    for name, value in {"MNEMOSYNE_DSN": dsn, "MNEMOSYNE_DATA_DIR": str(tmp_path), "TZ": "UTC"}.items():
        monkeypatch.setenv(name, value)
    return tmp_path


def test_every_command_that_reads_a_log_is_asked_here() -> None:
    asked = {*OF_SESSION, *OF_OBJECT, *(each.split()[0] for each in OF_ALL)}
    assert asked | OF_NONE == set(main.commands)
    assert not asked & OF_NONE


def test_another_tenant_s_session_is_not_found_by_any_of_its_names(both: Path) -> None:
    for command, arguments in OF_SESSION.items():
        for name in (SESSION, SESSION[:8], NAME):
            given = [name if each == "SESSION" else each for each in arguments]
            done = CliRunner().invoke(main, [command, *given])
            assert (done.exit_code, done.stdout) == (1, ""), (command, name, done.output)
            assert f"There is no session '{name}'" in done.stderr, (command, name, done.stderr)
    for command, arguments in OF_OBJECT.items():
        done = CliRunner().invoke(main, [command, *arguments])
        assert (done.exit_code, done.stdout) == (1, ""), (command, done.output)
        assert SESSION[:8] not in done.stderr


def test_what_lists_all_sessions_lists_those_of_one_tenant(both: Path) -> None:
    for command in OF_ALL:
        done = CliRunner().invoke(main, command.split())
        assert done.exit_code == 0, (command, done.output)
        assert SESSION[:8] not in done.output, command


def test_each_of_these_tells_a_tenant_of_its_own_session(both: Path) -> None:
    for command in OF_ALL:
        own, none = (CliRunner().invoke(main, [*command.split(), "--tenant", name]) for name in ("t", "nobody"))
        assert (own.exit_code, none.exit_code) == (0, 0), (command, own.output, none.output)
        assert own.output != none.output, command


def test_what_is_beyond_a_tenant_s_quota_is_forgotten_by_hand_too_and_nothing_of_others(both: Path) -> None:
    over = ("retain", "--tenant-quotas", "t=1", "--json")
    others = run("verify").stdout
    (told,) = json.loads(run(*over, "--dry-run").stdout)["sessions"]
    assert (told["tenant"], told["id"]) == ("t", SESSION)
    assert json.loads(run("retain", "--tenant-quotas", "t=1000000000", "--json").stdout)["sessions"] == []
    assert f"session {SESSION} of tenant t, last active" in run(*over[:-1]).stdout
    assert json.loads(run(*over).stdout)["sessions"] == []
    assert "forgotten" in run("verify", "--tenant", "t").stdout
    assert run("verify").stdout == others


def test_a_tenant_finds_its_own_by_the_same_commands(both: Path) -> None:
    for command in ("sessions", f"branches {NAME}", f"objects {SESSION[:8]}", f"object {OBJECT}", "du --json"):
        assert run(*command.split(), "--tenant", "t").exit_code == 0
    assert SESSION[:8] in run("sessions", "--tenant", "t").stdout
    assert SESSION in run("search", "--all-sessions", "parser", "--json", "--tenant", "t").stdout
    assert run("sessions", "--json", "--tenant", "nobody").stdout.strip() == "[]"


def test_another_tenant_s_session_is_not_imported(both: Path) -> None:
    file = both / "session.jsonl"
    run("export", SESSION, "--output", str(file), "--tenant", "t")
    assert "The session is tenant t's" in run("import", str(file), code=1).stderr
    assert "nothing was added" in run("import", str(file), "--tenant", "t").stdout


def test_a_session_is_imported_from_standard_input(both: Path) -> None:
    file = both / "session.jsonl"
    run("export", SESSION, "--output", str(file), "--tenant", "t")
    assert "nothing was added" in run("import", "-", "--tenant", "t", stdin=file.read_bytes()).stdout


@pytest.fixture
def empty(dsn: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("MNEMOSYNE_DSN", dsn)
    monkeypatch.setenv("MNEMOSYNE_DATA_DIR", str(tmp_path))
    return tmp_path


def test_an_imported_session_is_marked_wherever_it_is_shown(empty: Path) -> None:
    async def write() -> None:
        archive = opened(THEIRS)
        with (empty / "session.jsonl").open("wb") as file:
            await write_session(archive, SESSION, file, event_codec())

    trio.run(write)
    tenant = ("--tenant", "t")
    run("import", str(empty / "session.jsonl"), *tenant)
    assert "(imported)" in run("sessions", *tenant).stdout
    assert json.loads(run("sessions", "--json", *tenant).stdout)[0]["imported_at"] is not None
    assert "This session was imported on" in run("explain", SESSION, *tenant).stdout
    assert json.loads(run("export", SESSION, *tenant).stdout.splitlines()[0])["imported_at"] > 0


def test_all_of_a_tenant_is_forgotten_and_nothing_of_another(both: Path) -> None:
    for tenant, entry in (("t", "Ada deploys on Mondays."), ("local", "Grace deploys on Fridays.")):
        run("remember", entry, "--tenant", tenant)
    before = run("verify").stdout
    dsn = os.environ["MNEMOSYNE_DSN"]
    kept = query(dsn, "select data from mnemosyne.content where stream = %s and octet_length(data) >= 40", SESSION)
    frames = [data for (data,) in kept]
    assert len(frames) > 5
    theirs, others = b"Ada deploys on Mondays.", b"Grace deploys on Fridays."
    assert all(files_with(dsn, [each]) for each in (*frames, theirs, others))
    assert "Erase 1 session and all saved facts of tenant t?" in run("forget", "--all", "--tenant", "t", code=1).stderr
    told = json.loads(run("forget", "--all", "--tenant", "t", "--yes", "--json").stdout)
    assert (told["tenant"], told["sessions"], told["entries"], told["files"]) == ("t", 1, 1, "rewritten")
    assert told["erased"] > 0
    assert run("verify", "--tenant", "t").stdout.split() == [SESSION, "forgotten"]
    assert files_with(dsn, [*frames, theirs]) == set()
    assert files_with(dsn, [others])
    assert "Ada" not in run("memory", "history", "--tenant", "t").stdout
    assert run("verify").stdout == before
    assert "Grace deploys on Fridays." in run("memory", "list", "--tenant", "local").stdout
    again = run("forget", "--all", "--tenant", "t", "--yes").stdout
    assert "0 pieces of content of 1 session erased, and the text of 0 facts" in again


@pytest.mark.parametrize("given", [[], [NAME, "--all"]])
def test_either_a_session_is_forgotten_or_all(both: Path, given: list[str]) -> None:
    assert "either a SESSION or --all" in run("forget", *given, "--yes", code=2).stderr
