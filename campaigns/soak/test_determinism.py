"""A replay depends on the recordings alone: not on the hash seed, the time zone, the processors or the network."""

import json
import os
import subprocess
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio

from mnemosyne.app.storage import event_codec
from mnemosyne.domain.session.round_events import EpochBegan, Mode
from mnemosyne.domain.wire import identity
from mnemosyne.http.headers import HOP_BY_HOP
from mnemosyne.replay.deciding import review
from mnemosyne.replay.formats import read_tapes
from mnemosyne.replay.running import MemoryArchive
from mnemosyne.replay.tapes import Arrives, Tape, TapedReply
from tests.cli.support import MNEMOSYNE, environ_for, serving
from tests.domain.recorded import folder
from tests.http.playback import open_playback
from tests.http.raw_client import exchange
from tests.replay.recordings import played, session, write_lines
from tests.waiting import DEADLINE


def recordings(tmp_path: Path) -> list[Path]:
    """Recordings of our own."""
    summary = "This session is being continued from a previous conversation that ran out of context. We listed files."
    reset = {"before_msg": 5, "kind": "compact", "summary": summary}
    return [write_lines(tmp_path / "sessions.jsonl", session("one"), session("two", turns=5, resets=[reset]))]


def logged(
    files: Sequence[Path], out: Path, *options: str, seed: str, zone: str, processors: set[int]
) -> tuple[int, bytes, str]:
    """A run in a process of its own: exit code, log and table."""
    environ = environ_for(out.parent, PYTHONHASHSEED=seed, TZ=zone)
    command = [*MNEMOSYNE, "replay", *map(str, files), "--log", str(out), *options]
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, processors)  # inherited by the process
    try:
        process = subprocess.Popen(command, env=environ, stdout=subprocess.PIPE, text=True)
    finally:
        os.sched_setaffinity(0, before)
    table, _ = process.communicate(timeout=5 * DEADLINE)
    return process.returncode, out.read_bytes(), table


def check_two_runs(files: Sequence[Path], tmp_path: Path, *options: str) -> bytes:
    """Two runs give the same log: that one."""
    processors = os.sched_getaffinity(0)
    one = logged(files, tmp_path / "1.jsonl", *options, seed="1", zone="Asia/Kolkata", processors={min(processors)})
    two = logged(files, tmp_path / "2.jsonl", *options, seed="4242", zone="America/St_Johns", processors=processors)
    assert one == two
    assert one[0] == 0
    assert one[1]
    return one[1]


def long_tape(tmp_path: Path) -> Path:
    """A recording that fills a window, so that an epoch begins."""
    return write_lines(tmp_path / "long.jsonl", session("long", turns=45, size=10))


def test_two_managed_runs_give_the_same_log_byte_for_byte(tmp_path: Path) -> None:
    log = check_two_runs([*recordings(tmp_path), long_tape(tmp_path)], tmp_path, "--manage")
    for name in ("settings_taken", "round_began", "epoch_began"):
        assert f'"name":"session.{name}.'.encode() in log


def test_replay_of_a_managed_tape_gives_the_same_decisions(tmp_path: Path) -> None:
    (tape,) = (each for each in read_tapes([long_tape(tmp_path)], event_codec()) if isinstance(each, Tape))
    log, _ = played(tape, mode=Mode.MANAGE)

    async def check() -> None:
        (stream,) = await log.streams()
        found = await review(MemoryArchive(log), str(stream))
        assert (found.differences, found.skipped) == ([], [])
        assert any(isinstance(each.envelope.event, EpochBegan) for each in await log.read(stream))

    trio.run(check)


@pytest.mark.soak
def test_two_runs_over_all_real_sessions_give_the_same_log(tmp_path: Path) -> None:
    check_two_runs([folder("sessions"), folder("captures")], tmp_path)


# Over loopback


@pytest.mark.soak
async def test_the_command_replays_a_managed_session_of_a_real_server(tmp_path: Path) -> None:
    """With its database, index, worker and clock; in a smaller window the changed turns are named."""
    (tape,) = (each for each in read_tapes([long_tape(tmp_path)], event_codec()) if isinstance(each, Tape))
    steps = [*tape.steps()]
    home = tmp_path / "home"
    home.mkdir()
    replies = [(_type(step), step.payload) for step in steps if isinstance(step, TapedReply)]
    async with open_playback(replies) as provider, open_server(home, provider.url, MNEMOSYNE_MODE="manage") as url:
        for step in steps:
            if isinstance(step, Arrives):
                got = await exchange(url, "/v1/messages", step.body, headers=_headers(step))
                assert (got.status, got.cut) == (200, False)
    assert await replay_session(home, tape) == 0
    code, found = await replay_output(home, tape, "--window", "20000", "--json")
    differing = json.loads(found)
    assert (code, differing["skipped"]) == (1, [])
    assert differing["turns"]
    assert {each["turn"] for each in differing["differences"]} == set(differing["turns"])


async def replay_session(home: Path, tape: Tape) -> int:
    """The exit code of a replay of the session that the server recorded from a tape."""
    code, said = await replay_output(home, tape)
    assert b"0 skipped: the same today" in said, said
    return code


async def replay_output(home: Path, tape: Tape, *options: str) -> tuple[int, bytes]:
    """The exit code and the output of that replay."""
    client = next(identity.read_client_headers(step.headers) for step in tape.steps() if isinstance(step, Arrives))
    assert client.external_id is not None
    command = [*MNEMOSYNE, "replay", "--from-log", client.external_id, *options]
    done = await trio.run_process(command, env=environ_for(home), check=False, capture_stdout=True)
    return done.returncode, done.stdout


def _type(step: TapedReply) -> str:
    assert step.head.status == 200, "the provider of this test knows no other"
    return dict(step.head.headers)[b"content-type"].decode()


def _headers(step: Arrives) -> list[tuple[bytes, bytes]]:
    left_out = HOP_BY_HOP | {b"host", b"content-length", b"accept-encoding"}
    pairs = [(name.encode(), value.encode()) for name, value in step.headers]
    return [pair for pair in pairs if pair[0].lower() not in left_out]


@asynccontextmanager
async def open_server(home: Path, upstream: str, **variables: str) -> AsyncIterator[str]:
    """A real server with the embedded database, in a process of its own."""
    server = serving("--upstream", upstream, environ=environ_for(home, **variables))
    url = await trio.to_thread.run_sync(server.__enter__)
    try:
        yield url
    finally:
        with trio.CancelScope(shield=True):
            await trio.to_thread.run_sync(server.__exit__, None, None, None)
