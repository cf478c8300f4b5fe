"""The commands that read the log, against a real server, its database and a scripted provider."""

import base64
import hashlib
import http.client
import json
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import attrs
import pytest
import trio
from click.testing import Result

from mnemosyne import config
from mnemosyne.app.storage import open_storage
from mnemosyne.services import sessions
from tests.cli.support import ended, environ_for, invoked, line, started
from tests.services.talking import assistant, body, user
from tests.waiting import DEADLINE, LOOKS

ONE = [user("Where is the parser? " * 30)]
TWO = [*ONE, assistant("In parser.py."), user("And its tests?")]
OTHER = [*ONE, assistant("In parser.py."), user("Never mind. Who wrote it?")]

SLOW = """
[[rules]]
when = { prompt = "slowly" }
reply = { text = "one two three four five six", pace = { characters = 4, between = 60 } }
[[rules]]
reply = { text = "In parser.py." }
"""


@attrs.define
class World:
    """A data directory with its server, and access to both."""

    environ: dict[str, str]
    url: str
    process: "subprocess.Popen[str]"
    answered: Counter[str] = attrs.field(factory=Counter)
    """How many replies of each session were read."""

    def run(self, *arguments: str, code: int = 0) -> Result:
        """Run a command, which must end with this exit code."""
        done = invoked(*arguments, environ=self.environ)
        assert done.exit_code == code, done.stderr
        return done

    def json(self, *arguments: str, code: int = 0) -> Any:
        """A command's output with --json."""
        return json.loads(self.run(*arguments, "--json", code=code).stdout)

    def raw(self, *arguments: str) -> bytes:
        """The exact bytes of a command's output."""
        return self.run(*arguments).stdout_bytes

    def post(self, raw: bytes, session: str) -> bytes:
        """Send a request as Claude Code does, and read the reply. Waits until the turn is recorded, because with a
        slow database a client gets its reply earlier.
        """
        with _asked(self.url, raw, session) as response:
            reply = response.read()
        self.answered[session] += 1
        self.wait_for(session, lambda turns: sum(status != "open" for status in turns) >= self.answered[session])
        return reply

    def wait_for(self, session: str, is_there: Callable[[list[str]], bool]) -> None:
        """Wait until the log holds such turns of a session; checks how each of them ended."""
        for _ in range(LOOKS):
            done = invoked("timeline", session, "--json", environ=self.environ)
            turns = json.loads(done.stdout)["turns"] if done.exit_code == 0 else []
            if is_there([turn["state"] for turn in turns]):
                return


@contextmanager
def _asked(url: str, raw: bytes, session: str) -> Iterator[http.client.HTTPResponse]:
    address = urlsplit(url)
    connection = http.client.HTTPConnection(address.hostname or "", address.port, timeout=DEADLINE)
    headers = {
        "anthropic-version": "2023-06-01",
        "content-type": "application/json",
        "user-agent": "claude-cli/2.1.329 (external, sdk-cli)",
        "x-api-key": "sk-ant-key-of-a-person",
        "x-claude-code-session-id": session,
    }
    try:
        connection.request("POST", "/v1/messages", raw, headers)
        yield connection.getresponse()
    finally:
        connection.close()


@contextmanager
def _standin(folder: Path) -> Iterator[str]:
    script = folder / "script.toml"
    script.write_text(SLOW, encoding="utf-8")
    command = [sys.executable, "-m", "mnemosyne_lab.provider", "--lenient", "--script", str(script)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield line(process.stdout).split()[-1]
        finally:
            process.kill()


@contextmanager
def _world(folder: Path) -> Iterator[World]:
    environ = environ_for(folder)
    with _standin(folder) as upstream, started("serve", "--upstream", upstream, environ=environ) as process:
        yield World(environ, line(process.stdout).split()[-1], process)
        process.terminate()
        process.communicate(timeout=DEADLINE)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """A server that has recorded a session with a rewind; tests add sessions of their own."""
    with _world(tmp_path_factory.mktemp("world")) as world:
        for messages in (ONE, TWO, TWO, OTHER):
            world.post(body(messages), "parser-talk")
        yield world


def test_sessions_are_listed_for_programs_and_for_people(world: World) -> None:
    (session,) = (each for each in world.json("sessions") if each["external_id"] == "parser-talk")
    assert set(session) == {
        "id", "external_id", "title", "project", "client", "model", "mode", "priced", "branches", "turns",
        "context_tokens", "dollars", "dollars_saved", "started_at", "last_active_at", "status", "imported_at",
        "damage", "settings", "unpriced_models",
    }  # fmt: skip
    assert (session["client"], session["model"], session["turns"]) == ("claude-code", "claude-opus-5-5", 3)
    assert session["branches"] == [
        {"id": "main", "parent": None, "forked_at": None, "turns": 2, "mode": "observe", "mode_why": None},
        {"id": "fork-1", "parent": "main", "forked_at": 1, "turns": 2, "mode": "observe", "mode_why": None},
    ]
    assert session["started_at"].endswith("Z")
    assert session["started_at"] <= session["last_active_at"]
    text = world.run("sessions").stdout
    assert session["id"][:8] in text
    assert session["title"][:20] in text


def test_branches_are_listed_with_their_origin_and_each_attempt_is_in_the_timeline(world: World) -> None:
    main, fork = world.json("branches", "parser")
    assert (main["turns"], fork["kind"], fork["inherits"], fork["forked_at"]) == (2, "fork", True, 1)
    taken = [turn for turn in world.json("timeline", "parser")["turns"] if turn["branch"] == "main"]
    assert [(turn["turn"], turn["attempt"], turn["state"]) for turn in taken] == [
        (1, 1, "finished"),
        (2, 1, "finished"),
        (2, 2, "finished"),
    ]
    assert "2.2" in world.run("timeline", "parser").stdout


@pytest.mark.parametrize(
    ("options", "messages"),
    [((), TWO), (("--turn", "1"), ONE), (("--turn", "2.1/1"), TWO), (("--branch", "fork-1"), OTHER),
     (("--branch", "fork-1", "--turn", "1"), ONE)],
)  # fmt: skip
def test_raw_context_is_exactly_the_upstream_request(
    options: tuple[str, ...], messages: list[dict[str, Any]], world: World
) -> None:
    assert world.raw("context", "parser-talk", *options, "--raw") == body(messages)
    shown = world.json("context", "parser-talk", *options)
    assert (shown["ok"], shown["sha256"]) == (True, hashlib.sha256(body(messages)).hexdigest())


def test_manifest_of_a_turn_is_json_with_the_request_hash(world: World) -> None:
    manifest = json.loads(world.run("context", "parser-talk", "--manifest").stdout)
    assert manifest["request"]["sha256"] == world.json("context", "parser-talk")["sha256"]
    refused = world.run("context", "parser-talk", "--manifest", "--raw", code=2)
    assert "cannot be combined with" in refused.stderr


def test_context_is_shown_block_by_block(world: World) -> None:
    found = world.json("context", "parser-talk")
    assert [(block["section"], block["role"], block["kind"], block["origin"]) for block in found["blocks"]] == [
        ("tools", None, "tool", 1),
        ("system", None, "text", 1),
        ("messages", "user", "text", 1),
        ("messages", "assistant", "text", 2),
        ("messages", "user", "text", 2),
    ]
    assert (found["turn"], found["attempt"], found["branch"], found["ok"]) == (2, 2, "main", True)
    assert found["bytes"] == len(body(TWO))
    assert found["blocks"][1]["marker"] == "5m"
    assert found["reply"]["stop_reason"] == "end_turn"
    assert [block["kind"] for block in found["reply"]["blocks"]] == ["text"]
    text = world.run("context", "parser-talk", "--turn", "1").stdout
    assert "Where is the parser?" in text
    assert "proven" in text


def test_credential_is_withheld_and_the_proof_says_so(world: World) -> None:
    raw = body([user("With a server.")], mcp_servers=[{"authorization_token": "hunter2-hunter2"}])
    world.post(raw, "secret-talk")
    shown = world.raw("context", "secret-talk", "--raw")
    assert shown == raw.replace(b"hunter2-hunter2", b"*" * 15)
    proof = world.json("context", "secret-talk")
    hashes = [hashlib.sha256(sent).hexdigest() for sent in (raw, shown)]
    assert (proof["ok"], proof["sha256"], proof["stored_sha256"]) == (True, *hashes)


def test_difference_between_two_turns_is_shown(world: World) -> None:
    difference = world.json("diff", "parser-talk", "--turn", "1", "2")
    assert [(change["what"], change["after"]["role"]) for change in difference["changes"]] == [
        ("added", "assistant"),
        ("added", "user"),
    ]
    assert (difference["same"], difference["settings"]) == (3, {})
    assert "+ message 2 user text" in world.run("diff", "parser-talk", "--turn", "1", "2").stdout


@pytest.mark.parametrize(
    ("arguments", "code", "sentence"),
    [
        (("context", "nobody"), 1, "There is no session 'nobody'"),
        (("context", ""), 1, "There is no session ''"),
        (("context", "parser-talk", "--branch", "side-9"), 1, "has no branch 'side-9'"),
        (("context", "parser-talk", "--turn", "99"), 1, "has turns 1 to 2, and not 99"),
        (("context", "parser-talk", "--turn", "2.3"), 1, "has 2 attempts, and not 3"),
        (("context", "parser-talk", "--turn", "1/2"), 1, "has 1 round, and not 2"),
        (("context", "parser-talk", "--turn", "1:2"), 2, "'1:2' is not a turn"),
        (("import", "no-such-file"), 1, "cannot be read"),
        (("retain", "--retain-days", "-1"), 2, "retain_days = '-1' (option --retain-days)"),
    ],
)
def test_missing_item_or_invalid_value_is_reported_in_a_sentence(
    arguments: tuple[str, ...], code: int, sentence: str, world: World
) -> None:
    done = world.run(*arguments, code=code)
    assert sentence in done.stderr
    assert done.stdout == ""


def test_turn_is_named_and_found_by_its_name(world: World) -> None:
    named = ("parser-talk", "start")
    assert world.run("checkpoint", *named, "--turn", "1").stdout == "start is turn 1 of main.\n"
    assert world.run("checkpoint", *named, "--turn", "1").stdout == "start is turn 1 of main already.\n"
    assert "Choose another name" in world.run("checkpoint", *named, "--turn", "2", code=1).stderr
    (held,) = world.json("checkpoint", "parser-talk")
    assert (held["name"], held["branch"], held["turn"]) == ("start", "main", 1)
    assert "start  turn 1 of main" in world.run("checkpoint", "parser-talk").stdout
    by_name, by_number = (world.run("context", "parser-talk", "--turn", each, "--raw") for each in ("start", "1"))
    assert by_name.stdout == by_number.stdout != ""
    assert world.json("diff", "parser-talk", "--turn", "start", "2")["changes"]
    for command in ("explain", "objects"):
        by_name, by_number = (world.json(command, "parser-talk", "--turn", each) for each in ("start", "1"))
        assert by_name == by_number != world.json(command, "parser-talk")
    assert "no checkpoint 'end'" in world.run("diff", "parser-talk", "--turn", "start", "end", code=1).stderr
    assert "neither a turn number" in world.run("run", "--fork", "parser-talk@a b", "--", "true", code=2).stderr
    assert world.run("verify", "parser-talk").stdout.startswith("ok")


def test_stored_data_is_reported(world: World) -> None:
    found = world.json("du")
    total = found["total"]
    assert total["sent_bytes"] == sum(session["sent_bytes"] for session in found["sessions"])
    assert total["events"] == sum(session["events"] for session in found["sessions"])
    assert 0 < total["stored_bytes"] <= total["raw_bytes"] < total["sent_bytes"]
    assert found["database_bytes"] > 1_000_000
    assert "total" in world.run("du").stdout


@pytest.mark.release
def test_session_moves_to_another_database(world: World, tmp_path: Path) -> None:
    file = tmp_path / "talk.jsonl"
    for _ in range(LOOKS):
        whole = world.raw("export", "parser-talk")
        if whole.endswith(b'"causation":"AccountTurn"}}\n'):  # the account of the last turn follows its record
            break
    summary = world.json("export", "parser-talk", "--output", str(file))
    assert file.read_bytes() == whole
    assert file.stat().st_mode & 0o077 == 0
    other = attrs.evolve(world, environ=environ_for(tmp_path))
    assert other.json("import", str(file)) == {
        "id": summary["id"],
        "events": summary["events"],
        "added": summary["events"],
    }
    assert other.run("verify").stdout == f"{summary['id']}  ok 3 turns (and 1 repeated request)\n"
    assert other.raw("context", "parser-talk", "--raw") == body(TWO)
    assert "nothing was added" in other.run("import", str(file)).stdout
    lines = file.read_bytes().splitlines(keepends=True)
    file.write_bytes(b"".join([*lines[:3], lines[3][:20], b"\n", *lines[4:]]))
    assert f"{file}, line 4: it is not a JSON object" in other.run("import", str(file), code=1).stderr


def test_shared_export_has_no_key_from_the_messages(world: World, tmp_path: Path) -> None:
    key, file = "ghp_abcdefghijklmnopqrstuvwxyz0123456789", tmp_path / "shared.jsonl"
    world.post(body([user(f"Use {key}.")]), "with-a-key")
    told = world.json("export", "with-a-key", "--redact", "--output", str(file))
    assert told["masked"] >= 1
    held = b"".join(base64.b64decode(json.loads(line).get("data", "")) for line in file.read_bytes().splitlines())
    assert key.encode() not in held + file.read_bytes()
    assert b"Use ****" in held
    assert "Credentials were masked in" in world.run("export", "with-a-key", "--redact", "-o", str(file)).stdout
    assert key.encode() in world.raw("context", "with-a-key", "--raw")


def test_forgotten_session_is_also_gone_from_the_database_files(world: World) -> None:
    canary = "".join(hashlib.sha256(b"%d" % number).hexdigest() for number in range(40))
    world.post(body([user(canary)]), "forget-me")
    world.post(body([user(canary), assistant("In parser.py."), user("Why?")]), "forget-me")
    kept = trio.run(_stored_bytes, world.environ, "forget-me")
    data_dir = Path(world.environ["MNEMOSYNE_DATA_DIR"])
    assert len(kept) > 500
    in_contents, in_events = kept[100:160], canary[:40].encode()
    assert _files_with(data_dir, in_contents)
    assert _files_with(data_dir, in_events)
    done = world.json("forget", "forget-me", "--yes")
    assert done["erased"] > 0
    assert done["files"] == "rewritten"
    assert _files_with(data_dir, in_contents) == []
    assert _files_with(data_dir, in_events) == []
    assert world.run("verify", "forget-me").stdout == "forgotten\n"
    assert "was forgotten" in world.run("context", "forget-me", "--raw", code=1).stderr
    assert "was forgotten" in world.run("objects", "forget-me", code=1).stderr
    assert "was forgotten" in world.run("search", "forget-me", "parser", code=1).stderr
    assert "(forgotten)" in world.run("sessions").stdout
    assert world.json("forget", "forget-me", "--yes")["erased"] == 0
    # The server held the session; both it and the log continue.
    said = [user(canary), assistant("In parser.py."), user("Why?"), assistant("In parser.py."), user("Go on.")]
    world.post(body(said), "forget-me")
    assert world.json("branches", "forget-me")[0]["turns"] == 3
    assert world.run("verify").stdout.count("forgotten") == 1


async def _stored_bytes(environ: dict[str, str], name: str) -> bytes:
    """The largest piece of a session's content as stored in the table."""
    async with open_storage(config.load({}, environ)) as storage:
        stream = await sessions.find(storage, name)
        return await storage.contents._database.run(
            lambda connection: bytes(
                connection.execute(
                    "select data from mnemosyne.content where stream = %s order by octet_length(data) desc", (stream,)
                ).fetchone()[0]  # type: ignore[index]
            )
        )


def _files_with(folder: Path, stretch: bytes) -> list[Path]:
    """The files that contain these bytes; few, because pages cut long values."""
    return [path for path in folder.rglob("*") if path.is_file() and stretch in path.read_bytes()]


def test_nothing_is_forgotten_without_confirmation_or_while_in_use(world: World) -> None:
    world.post(body(ONE), "ask-first")
    assert "Erase the content of session" in world.run("forget", "ask-first", code=1).stderr
    assert world.run("verify", "ask-first").stdout == "ok 1 turn\n"
    nothing = "Nothing to forget: no session inactive for two hours exceeds a limit, and no entry was"
    for limit in ((), ("--retain-bytes", "1", "--dry-run"), ("--retain-days", "3", "--dry-run")):
        assert nothing in world.run("retain", *limit).stderr
    assert world.json("retain", "--retain-bytes", "1", "--dry-run")["sessions"] == []


@pytest.mark.release
def test_commands_work_after_the_server_was_killed_in_mid_reply(tmp_path: Path) -> None:
    with _world(tmp_path) as world:
        world.post(body(ONE), "cut-short")
        with _asked(world.url, body([*ONE, assistant("x"), user("slowly")], stream=True), "cut-short") as response:
            assert response.readline().startswith(b"event:")
            world.wait_for("cut-short", lambda turns: len(turns) == 2)
            world.process.send_signal(signal.SIGKILL)
            assert ended(world.process.pid)
        assert world.json("timeline", "cut-short")["turns"][1]["state"] == "open"
        assert world.run("verify").stdout.endswith("ok 2 turns\n")
        found = world.json("context", "cut-short")
        assert (found["status"], found["reply"], found["ok"]) == ("open", None, True)


@pytest.mark.parametrize("command", ["sessions", "usage", "savings", "du", "verify", "retain --retain-days 3"])
def test_absent_log_is_reported_with_its_place_and_not_created(command: str, tmp_path: Path) -> None:
    environ = environ_for(tmp_path)
    place = "Use --data-dir for another place, --tenant for another tenant"
    message = f"Nothing has been recorded in {tmp_path}/data yet. {place}.\n"
    done = invoked(*command.split(), environ=environ)
    assert (done.exit_code, done.stdout, done.stderr) == (0, "", message)
    assert json.loads(invoked(*command.split(), "--json", environ=environ).stdout) is not None
    assert not (tmp_path / "data").exists()
    (tmp_path / "data").touch()
    done = invoked(*command.split(), environ=environ)
    assert (done.exit_code, done.stdout) == (1, "")
    assert f"The data directory {tmp_path}/data is a file." in done.stderr
