"""A replayed session answers what its client sent from the record, and nothing else."""

import json
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import httpx2
import pytest
import trio

from mnemosyne.adapters.git_worktree import GitWorktree
from mnemosyne.app.kept_files import keep_files
from mnemosyne.app.replaying import ReplayOptions, RunningReplay, copy_folder, serve_replay
from mnemosyne.app.storage import open_storage
from mnemosyne.config import Config, load
from mnemosyne.domain.history.time_travel import Attempt, Status
from mnemosyne.domain.session.events import SessionStarted
from mnemosyne.domain.wire.dialect import Dialect
from mnemosyne.domain.wire.reply import json_object
from mnemosyne.errors import NotFound, WorktreeFailed
from mnemosyne.http.recorded import FolderCopy
from mnemosyne.http.sse import FrameReader
from mnemosyne.services.contexts import read_reply, rebuild
from mnemosyne.services.sessions import read_history
from tests.cli.logs import OBSERVED_LOG, put_golden
from tests.fixtures import LentDatabases
from tests.golden.sessions import LOGS, appends

PATHS = {"messages": "/v1/messages", "responses": "/v1/responses", "chat": "/v1/chat/completions"}
Exchange = tuple[Attempt, Dialect, bytes, bytes | None]


def read_log(config: Config) -> list[tuple[str, list[Exchange]]]:
    """The sessions of a log, each with its requests and replies."""

    async def read() -> list[tuple[str, list[Exchange]]]:
        found = []
        async with open_storage(config) as storage:
            for stream in await storage.events.streams():
                _, history = await read_history(storage, str(stream))
                exchanges = []
                for attempt in history.attempts:
                    body = (await rebuild(storage, stream, history, attempt)).body
                    reply = await read_reply(storage, stream, attempt)
                    exchanges.append((attempt, history.dialect_of(attempt.began.branch), body, reply))
                found.append((str(stream), exchanges))
        return found

    return trio.run(read)


def filled(dsn: str, log: Path) -> Config:
    """Put a golden log into a database; return the settings that read it."""
    put_golden(dsn, log)
    events = [each.event for append in appends(log) for each in append.envelopes]
    return load({"dsn": dsn, "tenant": next(each.tenant for each in events if isinstance(each, SessionStarted))}, {})


@contextmanager
def replaying(config: Config, session: str, **options: Any) -> Iterator[RunningReplay]:
    with serve_replay(config, ReplayOptions(session=session, **options), lambda done, total: None) as running:
        yield running


def send(running: RunningReplay, dialect: Dialect, body: bytes) -> httpx2.Response:
    return httpx2.post(running.url + PATHS[dialect.name], content=body, headers={"content-type": "application/json"})


def read_message(response: httpx2.Response, dialect: Dialect) -> dict[str, Any]:
    """The part of a reply that a client reads, streamed or not."""
    reader = dialect.reader()
    if "event-stream" not in response.headers["content-type"]:
        return json_object(response.content)
    for frame in FrameReader().feed(response.content):
        if frame.data is not None and frame.data.strip() != b"[DONE]":
            reader.take(json.loads(frame.data))
    return reader.message()


def outcome(running: RunningReplay, dialect: Dialect, body: bytes) -> dict[str, Any] | None:
    """The reply as a client reads it; None if the reply broke off or was an error of a gateway."""
    try:
        response = send(running, dialect, body)
    except httpx2.HTTPError:
        return None
    return None if response.status_code == 502 else read_message(response, dialect)


OFTEN = ("hidden-rounds", "joined", "repeated")
RARELY = (
    "bypassed",
    "counted",
    "first-byte",
    "helped",
    "managed",
    "measured",
    "observed",
    "requested",
    "told",
    "waited",
)


@pytest.mark.parametrize("log", [*OFTEN, *(pytest.param(name, marks=pytest.mark.release) for name in RARELY)])
def test_each_recorded_request_of_any_log_gets_its_reply(databases: LentDatabases, log: str) -> None:
    with databases.lend() as dsn:
        config = filled(dsn, LOGS / log)
        recorded = [(session, exchanges) for session, exchanges in read_log(config) if exchanges]
        assert recorded
        for session, exchanges in recorded:
            with replaying(config, session) as running:
                for attempt, dialect, body, reply in exchanges:
                    if attempt.status is not Status.FINISHED:
                        with pytest.raises(httpx2.HTTPError):
                            send(running, dialect, body).raise_for_status()
                        continue
                    response = send(running, dialect, body)
                    assert read_message(response, dialect) == json_object(reply or b"")
                assert [match.comparison.differences for match in running.replay.matches] == [()] * len(exchanges)
                assert (running.replay.unknown, running.replay.unsent) == (0, [])


@pytest.fixture
def observed(databases: LentDatabases) -> Iterator[Config]:
    with databases.lend() as dsn:
        yield filled(dsn, OBSERVED_LOG)


def test_changed_request_gets_the_reply_of_its_place_and_the_first_difference_is_kept(observed: Config) -> None:
    session, exchanges = read_log(observed)[0]
    attempt, dialect, body, reply = exchanges[-1]
    changed = json.loads(body)
    changed["model"] = "another"
    with replaying(observed, session) as running:
        response = send(running, dialect, json.dumps(changed).encode())
        assert read_message(response, dialect) == json_object(reply or b"")
        (match,) = running.replay.matches
        assert (match.attempt.address, match.exact) == (attempt.address, False)
        assert [each.path for each in match.comparison.differences] == ["model"]


def test_request_that_is_not_recorded_gets_an_error_that_no_client_repeats(observed: Config) -> None:
    session, exchanges = read_log(observed)[0]
    _, dialect, body, _ = exchanges[-1]
    changed = json.loads(body)
    call = {"type": "tool_use", "id": "toolu_elsewhere", "name": "n", "input": {}}
    changed["messages"] = [*changed["messages"], {"role": "assistant", "content": [call]}]
    with replaying(observed, session) as running:
        response = send(running, dialect, json.dumps(changed).encode())
        assert response.status_code == dialect.over_budget[0]
        assert "no such request" in response.text
        assert running.replay.unknown == 1


def test_connections_to_other_hosts_are_refused_and_counted(observed: Config) -> None:
    session, _ = read_log(observed)[0]
    with replaying(observed, session) as running, httpx2.Client(proxy=running.url) as client:
        with pytest.raises(httpx2.ProxyError):
            client.get("https://elsewhere.example/")
        assert client.get("http://plain.example/x").status_code == 400
        assert running.server.refused == {"elsewhere.example:443": 1, "plain.example": 1}


@pytest.mark.release
def test_replay_until_a_turn_leaves_the_rest_to_the_live_server(observed: Config) -> None:
    session, exchanges = read_log(observed)[0]
    with replaying(observed, session) as whole:
        answers = [outcome(whole, dialect, body) for _, dialect, body, _ in exchanges]
    with (
        replaying(observed, session) as live,
        replaying(observed, session, until=1, live_url=live.url) as running,
    ):
        again = [outcome(running, dialect, body) for _, dialect, body, _ in exchanges]
        assert again == answers
        assert 0 < len(running.replay.matches) < len(exchanges)
        assert len(live.replay.matches) == running.replay.unknown == len(exchanges) - len(running.replay.matches)


def test_two_replays_at_once_do_not_disturb_each_other(observed: Config) -> None:
    session, exchanges = read_log(observed)[0]
    with replaying(observed, session) as first, replaying(observed, session) as second:
        for _, dialect, body, _ in exchanges:
            assert outcome(first, dialect, body) == outcome(second, dialect, body)
        for each in (first, second):
            assert (each.replay.unknown, each.replay.unsent) == (0, [])


def test_copy_of_a_folder_has_the_files_at_the_first_request_and_its_own_paths(
    observed: Config, tmp_path: Path
) -> None:
    project = tmp_path / "project"
    project.mkdir()
    subprocess.run(["git", "init", "--quiet", project], check=True)
    (project / "notes.txt").write_text("before")
    with replaying(observed, read_log(observed)[0][0]) as running:
        replay = running.replay
        replay.folder = str(project)
        with pytest.raises(NotFound, match="--record-worktree"):
            copy_folder(replay)
        for attempt in replay.history.attempts[:2]:
            keep = partial(keep_files, GitWorktree.around(project), trio.CapacityLimiter(1))
            trio.run(keep, replay.session, attempt.began.at, trio.Event())
            (project / "notes.txt").write_text("later")
        (project / "notes.txt").write_text("today")
        (project / "new.txt").write_text("today")
        copy = copy_folder(replay)
        (tmp_path / "link").symlink_to(project)
        replay.folder = str(tmp_path / "link")
        with pytest.raises(WorktreeFailed, match="is a link to"):
            copy_folder(replay)
    there = Path(copy.here)
    assert ((there / "notes.txt").read_text(), (there / "new.txt").exists()) == ("before", False)
    assert (project / "notes.txt").read_text() == "today"
    slug, spoken = str(project).replace("/", "-").replace("_", "-"), f"{project}/notes.txt {project}2"
    slug = f"projects/{slug}"
    here = copy.rename_for_client(f"{spoken} {slug}/memory".encode())
    assert here.decode().startswith(f"{there}/notes.txt {project}2 projects/-")
    assert copy.rename_for_record(here) == f"{spoken} {slug}/memory".encode()
    shutil.rmtree(there.parent)


def test_only_the_recorded_folder_itself_is_renamed() -> None:
    copy = FolderCopy("/app", "/tmp/x/app")
    others = rb"src/app my-app /opt/app ../app ~/app http://app /app2 /app.old -app"
    assert copy.rename_for_client(others) == others
    recorded = rb'"/app \n/app/y make -C/app --to=/app file:///app/z \'/app\' ~/.claude/projects/-app/memory"'
    here = copy.rename_for_client(recorded)
    assert (here.count(b"/tmp/x/app"), here.count(b"projects/-tmp-x-app/")) == (6, 1)
    assert copy.rename_for_record(here) == recorded


def test_recorded_folder_is_renamed_however_a_command_names_it() -> None:
    home = "/home/ünsal"
    copy = FolderCopy(f"{home}/my app", "/tmp/x/my app", home)
    quoted, bare = '"/tmp/x/my app/n"', r"/tmp/x/my\ app/n"
    for command, here in (
        ("cat '/home/ünsal/my app/n'", "cat '/tmp/x/my app/n'"),
        (r"cat /home/ünsal/my\ app/n", f"cat {bare}"),
        (r"cat ~/my\ app/n", f"cat {bare}"),
        ('cat "$HOME/my app/n"', f"cat {quoted}"),
        (r'cat "${HOME}"/my\ app/n', f"cat {bare}"),
        (r"cat ~/my\ apple ~/other $HOMES/my\ app", r"cat ~/my\ apple ~/other $HOMES/my\ app"),
    ):
        for only_ascii in (True, False):
            recorded = json.dumps([command], ensure_ascii=only_ascii).encode()
            there = copy.rename_for_client(recorded)
            assert json.loads(there) == [here]
            assert json.loads(copy.rename_for_record(there)) == json.loads(copy.rename_for_record(recorded))


def test_session_that_does_not_exist_is_reported_to_the_caller(observed: Config) -> None:
    with pytest.raises(NotFound), replaying(observed, "f" * 36):
        pass
