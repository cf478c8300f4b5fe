"""``mnemosyne hook`` prints text for the model's context, and never blocks the client."""

import json
import time
from contextlib import suppress
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest

from mnemosyne.adapters.embedded.cluster import Cluster
from tests.cli.logs import OBSERVED_LOG, put_golden
from tests.cli.running import run, run_json
from tests.cli.support import environ_for, invoked, serving
from tests.fixtures import LentDatabases
from tests.waiting import DEADLINE


def ask(environ: dict[str, str], event: object) -> tuple[str, str]:
    """The output of the hook, and its errors."""
    done = invoked("hook", environ=environ, given=event if isinstance(event, str) else json.dumps(event))
    assert done.exit_code == 0
    return done.stdout.rstrip("\n"), done.stderr


@pytest.fixture
def environ(dsn: str, tmp_path: Path) -> dict[str, str]:
    """An environment with two saved facts about the project."""
    environ = environ_for(tmp_path, MNEMOSYNE_DSN=dsn, MNEMOSYNE_UPSTREAM="http://127.0.0.1:9")
    for fact, kind in (("A shop for bicycles", "project-brief"), ("The parser of dates is slow", "fact")):
        command = ("remember", fact, "--kind", kind, "--project", str(tmp_path))
        assert invoked(*command, environ=environ).exit_code == 0
    return environ


def begins(folder: Path, **more: str) -> dict[str, str]:
    return {"hook_event_name": "SessionStart", "cwd": str(folder), "source": "startup", **more}


def test_new_session_gets_the_facts_of_its_folder(environ: dict[str, str], tmp_path: Path) -> None:
    text, errors = ask(environ, begins(tmp_path))
    assert (text.startswith("[MEMORY]"), "A shop for bicycles" in text, errors) == (True, True, "")
    assert "parser" not in text
    assert "parser of dates" in ask(environ, begins(tmp_path, prompt="Make the parser of dates fast"))[0]
    assert "bicycles" in ask(environ, begins(tmp_path, source="compact"))[0]
    assert ask(environ, begins(tmp_path, source="resume")) == ("", "")
    assert ask(environ, begins(tmp_path / "elsewhere")) == ("", "")


@pytest.mark.release
def test_session_of_a_managing_server_gets_nothing_from_the_hook(environ: dict[str, str], tmp_path: Path) -> None:
    with serving(environ={**environ, "MNEMOSYNE_MODE": "manage"}) as url:
        assert ask({**environ, "ANTHROPIC_BASE_URL": url}, begins(tmp_path))[0] == ""
        named = {**environ, "ANTHROPIC_BASE_URL": "https://api.anthropic.com", "MNEMOSYNE_PORT": url.rpartition(":")[2]}
        assert "bicycles" in ask(named, begins(tmp_path))[0], "a client beside the server"
        behind_a_door = {"NODE_EXTRA_CA_CERTS": "/tmp/mnemosyne-door-x/authorities.pem"}
        assert ask({**named, **behind_a_door}, begins(tmp_path))[0] == ""


def test_hook_without_a_log_prints_and_creates_nothing(tmp_path: Path) -> None:
    prompt = {"hook_event_name": "UserPromptSubmit", "prompt": "Remember the port", "cwd": str(tmp_path)}
    for event in (begins(tmp_path), {"hook_event_name": "Stop"}, prompt):
        assert ask(environ_for(tmp_path), event) == ("", "")
    assert not (tmp_path / "data").exists()


def test_the_end_of_a_session_starts_no_database(tmp_path: Path) -> None:
    made = Cluster.at(tmp_path / "data").folder
    made.mkdir(parents=True)
    event = {"hook_event_name": "SessionEnd", "cwd": str(tmp_path), "session_id": "s"}
    assert ask(environ_for(tmp_path), event) == ("", "")
    assert [*made.iterdir()] == []


def test_errors_go_to_stderr(tmp_path: Path) -> None:
    text, errors = ask(environ_for(tmp_path), "no event")
    assert (text, "reads an event as JSON" in errors) == ("", True)
    unreachable = environ_for(tmp_path, MNEMOSYNE_DSN="postgresql://127.0.0.1:9/nothing")
    text, errors = ask(unreachable, begins(tmp_path))
    assert (text, len(errors.splitlines())) == ("", 1)


@pytest.mark.release
def test_hook_of_an_observed_session_prints_facts_and_presents_its_owner_and_its_prompt(
    environ: dict[str, str], tmp_path: Path
) -> None:
    """The session's next credential is the owner's, and the log says that the user submitted the prompt."""
    event = {"hook_event_name": "UserPromptSubmit", "prompt": "mine", "cwd": str(tmp_path), "session_id": "mine"}
    environ["CLAUDE_CODE_SESSION_ATTENDED"] = "1"
    with serving(environ=environ) as url:
        assert "bicycles" in ask({**environ, "ANTHROPIC_BASE_URL": url}, begins(tmp_path))[0]

        def send(session: str, key: str) -> None:
            body = json.dumps({"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": session}]})
            headers = {"x-api-key": key, "x-claude-code-session-id": session, "content-type": "application/json"}
            with suppress(HTTPError):  # there is no provider
                urlopen(Request(f"{url}/v1/messages", body.encode(), headers), timeout=DEADLINE)

        send("theirs", "their-key")
        deadline = time.monotonic() + DEADLINE
        admitted: list[dict[str, str]] = []
        while not admitted and time.monotonic() < deadline:  # a hook does not wait for a busy server
            assert ask({**environ, "ANTHROPIC_BASE_URL": url}, event) == ("", "")
            send("mine", "my-key")
            admitted = json.loads(invoked("memory", "admit", "--list", "--json", environ=environ).stdout)
    assert [entry["how"] for entry in admitted] == ["presented"]
    exported = ""
    for each in json.loads(invoked("sessions", "--json", environ=environ).stdout):
        assert invoked("export", each["id"], "--output", str(tmp_path / "x"), environ=environ).exit_code == 0
        exported += (tmp_path / "x").read_text()
        (tmp_path / "x").unlink()
    assert '"submitted":{"message":0,"block":0,"interactive":true}' in exported
    assert '"submitted":null' in exported


@pytest.mark.parametrize("folder", ["/t\ud83d", "\ude00", "/t\0", "/" + "a" * 5000])
def test_odd_folder_does_not_block_the_client(folder: str, tmp_path: Path) -> None:
    for name in ("SessionStart", "UserPromptSubmit"):
        event = {"hook_event_name": name, "cwd": folder, "session_id": "s\ud83d", "prompt": "Go \ud83d on"}
        text, errors = ask(environ_for(tmp_path), event)
        assert text == ""
        assert "Traceback" not in errors


ENDED = {"hook_event_name": "SessionEnd", "reason": "clear"}


def test_session_end_closes_the_session_once_and_ignores_unknown_ones(
    own_conversation: str, dsn: str, tmp_path: Path
) -> None:
    """The end is recorded as the client's, so that undo reverts the last change of the person."""
    run("rename", own_conversation, "The login")
    external_id = run_json("sessions")[0]["external_id"]
    environ = environ_for(tmp_path, MNEMOSYNE_DSN=dsn, MNEMOSYNE_TENANT="t", MNEMOSYNE_UPSTREAM="http://127.0.0.1:9")
    for sessions, count in ((("unknown", "", external_id[:-1]), 0), ((external_id, external_id), 1)):
        with serving(environ=environ) as url:
            for session in sessions:
                assert ask({**environ, "ANTHROPIC_BASE_URL": url}, {**ENDED, "session_id": session}) == ("", "")
        assert ask(environ, {**ENDED, "session_id": external_id}) == ("", ""), "there is no server"
        changes = [each["what"] for each in run_json("timeline", own_conversation, "--by", "client")]
        assert changes.count("closed") == count, changes
    assert "renamed" in run("undo", own_conversation).output


def test_the_end_of_a_session_behind_a_door_reaches_the_server_though_the_base_url_names_the_provider(
    own_conversation: str, dsn: str, tmp_path: Path
) -> None:
    external_id = run_json("sessions")[0]["external_id"]
    environ = environ_for(tmp_path, MNEMOSYNE_DSN=dsn, MNEMOSYNE_TENANT="t", MNEMOSYNE_UPSTREAM="http://127.0.0.1:9")
    with serving(environ=environ) as url:
        behind = {"ANTHROPIC_BASE_URL": "https://api.anthropic.com", "MNEMOSYNE_PORT": url.rpartition(":")[2]}
        assert ask({**environ, **behind}, {**ENDED, "session_id": external_id}) == ("", "")
    changes = [each["what"] for each in run_json("timeline", own_conversation, "--by", "client")]
    assert "closed" in changes, changes


@pytest.mark.release
def test_a_session_in_the_second_of_two_databases_is_closed(databases: LentDatabases, tmp_path: Path) -> None:
    with databases.lend() as one, databases.lend() as two:
        put_golden(two, OBSERVED_LOG)
        environ = environ_for(
            tmp_path, MNEMOSYNE_DSN=one, MNEMOSYNE_TENANT="t", MNEMOSYNE_UPSTREAM="http://127.0.0.1:9"
        )
        ((session, *_),) = [json.loads(invoked("sessions", "--json", environ={**environ, "MNEMOSYNE_DSN": two}).stdout)]
        with serving("--processes", "2", environ={**environ, "MNEMOSYNE_SHARDS": two}) as url:
            ask({**environ, "ANTHROPIC_BASE_URL": url}, {**ENDED, "session_id": session["external_id"]})
        timeline = ("timeline", session["id"], "--json", "--by", "client")
        assert '"closed"' in invoked(*timeline, environ={**environ, "MNEMOSYNE_DSN": two}).stdout
