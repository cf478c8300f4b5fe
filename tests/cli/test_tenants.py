"""No command shows or changes a session of another tenant."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import trio

from mnemosyne.app.storage import event_codec
from mnemosyne.cli import main
from mnemosyne.services.exporting import write_session
from tests.adapters.log_support import query
from tests.adapters.postgres.test_vacuum import files_with
from tests.cli.logs import GOLDEN, OBJECT, OBSERVED_LOG, put_golden
from tests.cli.running import run, run_json
from tests.fixtures import LentDatabases, UseLog
from tests.golden.sessions import appends, opened

SESSION = str(appends(OBSERVED_LOG)[0].stream)
"""The session of tenant ``t``; that of GOLDEN belongs to tenant ``local``."""

NAME = "s"

OF_SESSION = {
    "branches": ["SESSION"],
    "context": ["SESSION"],
    "checkpoint": ["SESSION", "a-name"],
    "diff": ["SESSION", "--turn", "1", "2"],
    "fork": ["SESSION"],
    "compare": ["SESSION", "SESSION"],
    "verify": ["SESSION"],
    "export": ["SESSION"],
    "trash": ["SESSION"],
    "rename": ["SESSION", "a name"],
    "undo": ["SESSION"],
    "close": ["SESSION"],
    "forget": ["SESSION", "--yes"],
    "timeline": ["SESSION"],
    "report": ["SESSION"],
    "objects": ["SESSION"],
    "explain": ["SESSION"],
    "ask": ["SESSION", "What does the parser do?"],
    "search": ["SESSION", "parser"],
    "replay": ["--from-log", "SESSION"],
    "off": ["SESSION"],
    "manage": ["SESSION"],
    "archive": ["SESSION", "--to", "a-folder"],
    "unarchive": ["SESSION"],
}
"""Commands about one session."""

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
    "search parser --json",
    'sql select*from"turns"',
    "retain --retain-days 1 --dry-run",
]
"""Commands about all sessions of a tenant."""

OF_NONE = {
    "serve", "run", "open", "statusline", "worker", "demo", "import", "projections", "rebuild", "evaluate", "what-if",
    "model", "index", "doctor", "config", "completion", "remember", "memory", "hook", "mcp", "backup", "restore",
    "sql-reader", "trial", "nodes",
}  # fmt: skip
"""Commands that show no session, or are about the whole database. `import` is tested below, saved facts in
``tests/services/test_knowledge.py``, the pages in ``tests/http/inspector``.
"""


@pytest.fixture(scope="module")
def shared(databases: LentDatabases) -> Iterator[str]:
    """A database with a session of each tenant, for tests that only read; its DSN."""
    with databases.lend() as dsn:
        put_golden(dsn, GOLDEN, OBSERVED_LOG)
        yield dsn


@pytest.fixture
def both(shared: str, use_log: UseLog) -> None:
    """An environment with that database, of the tenant ``local``."""
    use_log(shared)


@pytest.fixture
def own(dsn: str, use_log: UseLog) -> str:
    """The same with a database of the test's own; its DSN."""
    put_golden(dsn, GOLDEN, OBSERVED_LOG)
    use_log(dsn)
    return dsn


def test_every_command_is_in_one_list() -> None:
    known = {*OF_SESSION, *OF_OBJECT, *(command.split()[0] for command in OF_ALL)}
    assert known | OF_NONE == set(main.places())
    assert not known & OF_NONE


@pytest.mark.usefixtures("both")
def test_session_of_another_tenant_is_not_found_by_any_name() -> None:
    for command, arguments in OF_SESSION.items():
        for name in (SESSION, SESSION[:8], NAME) if command == "objects" else (SESSION,):
            done = run(command, *(name if word == "SESSION" else word for word in arguments), code=1)
            assert done.stdout == "", (command, name)
            assert f"There is no session '{name}'" in done.stderr, (command, name, done.stderr)
    for command, arguments in OF_OBJECT.items():
        done = run(command, *arguments, code=1)
        assert (done.stdout, SESSION[:8] in done.stderr) == ("", False), command


@pytest.mark.usefixtures("both")
def test_verify_reports_that_a_tenant_has_no_sessions() -> None:
    assert run("verify", "--tenant", "new").stderr.startswith("Nothing has been recorded in this database yet.")
    assert run_json("verify", "--tenant", "new") == []


@pytest.mark.usefixtures("both")
@pytest.mark.parametrize("command", OF_ALL)
def test_list_has_the_sessions_of_one_tenant(command: str) -> None:
    assert SESSION[:8] not in run(*command.split()).output
    own, none = (run(*command.split(), "--tenant", tenant).output for tenant in ("t", "nobody"))
    assert own != none


@pytest.mark.usefixtures("both")
def test_tenant_finds_its_own_session() -> None:
    for command in (f"branches {NAME}", f"objects {SESSION[:8]}", f"object {OBJECT}"):
        run(*command.split(), "--tenant", "t")
    assert SESSION[:8] in run("sessions", "--tenant", "t").stdout
    assert SESSION in run("search", "parser", "--json", "--tenant", "t").stdout
    assert run("sessions", "--json", "--tenant", "nobody").stdout.strip() == "[]"


@pytest.mark.usefixtures("both")
def test_session_is_imported_only_by_its_tenant_also_from_standard_input(tmp_path: Path) -> None:
    file = tmp_path / "session.jsonl"
    run("export", SESSION, "--output", str(file), "--tenant", "t")
    assert "The session belongs to tenant t" in run("import", str(file), code=1).stderr
    assert "nothing was added" in run("import", str(file), "--tenant", "t").stdout
    assert "nothing was added" in run("import", "-", "--tenant", "t", stdin=file.read_bytes()).stdout


def test_quota_of_a_tenant_forgets_only_its_sessions(own: str) -> None:
    over = ("retain", "--tenant-quotas", "t=1")
    others = run("verify").stdout
    (row,) = run_json(*over, "--dry-run")["sessions"]
    assert (row["tenant"], row["id"]) == ("t", SESSION)
    assert run_json("retain", "--tenant-quotas", "t=1000000000")["sessions"] == []
    assert f"session {SESSION} of tenant t, last active" in run(*over).stdout
    assert run_json(*over)["sessions"] == []
    assert "forgotten" in run("verify", "--tenant", "t").stdout
    assert run("verify").stdout == others


def test_imported_session_is_marked_wherever_it_is_shown(dsn: str, use_log: UseLog, tmp_path: Path) -> None:
    async def write() -> None:
        with (tmp_path / "session.jsonl").open("wb") as file:
            await write_session(opened(OBSERVED_LOG), SESSION, file, event_codec())

    trio.run(write)
    use_log(dsn, "t")
    run("import", str(tmp_path / "session.jsonl"))
    assert "(imported)" in run("sessions").stdout
    assert run_json("sessions")[0]["imported_at"] is not None
    assert "This session was imported on" in run("explain", SESSION).stdout
    assert json.loads(run("export", SESSION).stdout.splitlines()[0])["imported_at"] > 0


def test_forgetting_a_tenant_erases_everything_of_it_and_nothing_of_others(own: str) -> None:
    theirs, others = "Ada deploys on Mondays.", "Grace deploys on Fridays."
    run("remember", theirs, "--tenant", "t")
    run("remember", others)
    before = run("verify").stdout
    kept = query(own, "select data from mnemosyne.content where stream = %s and octet_length(data) >= 40", SESSION)
    frames = [data for (data,) in kept]
    assert len(frames) > 5
    assert all(files_with(own, [part]) for part in (frames[0], frames[-1], theirs.encode(), others.encode()))
    forget = ("forget", "--all", "--tenant", "t")
    assert "Erase 1 session and all saved facts of tenant t?" in run(*forget, code=1).stderr
    done = run_json(*forget, "--yes")
    assert (done["tenant"], done["sessions"], done["entries"], done["files"]) == ("t", 1, 1, "rewritten")
    assert done["erased"] > 0
    assert run("verify", "--tenant", "t").stdout.split() == [SESSION, "forgotten"]
    assert files_with(own, [*frames, theirs.encode()]) == set()
    assert files_with(own, [others.encode()])
    assert "Ada" not in run("memory", "history", "--tenant", "t").stdout
    assert run("verify").stdout == before
    assert others in run("memory", "list").stdout
    again = run(*forget, "--yes", "--quick").stdout
    assert "0 pieces of content of 1 session erased, and the text of 0 facts" in again
    for arguments in ([], [NAME, "--all"]):
        assert "either a SESSION or --all" in run("forget", *arguments, "--yes", code=2).stderr
