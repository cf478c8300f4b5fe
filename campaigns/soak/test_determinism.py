"""A replay depends on the recordings alone: not on the hash seed, the time zone, the processors or the network."""

import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio

from mnemosyne.domain.session.input_events import SettingsTaken
from mnemosyne.domain.session.round_events import EpochBegan, Mode, RoundBegan
from mnemosyne.domain.wire import identity
from mnemosyne.http.headers import HOP_BY_HOP
from tests.cli.support import MNEMOSYNE, environ_for, serving
from tests.domain.recorded import folder
from tests.http.playback import open_playback
from tests.http.raw_client import exchange
from tests.replay.recordings import session
from tests.replay.session_tapes import tape_of
from tests.replay.tapes import Arrives, Tape, TapedReply

RESET = {
    "before_msg": 5,
    "kind": "compact",
    "summary": "This session is being continued from a previous conversation that ran out of context. We listed files.",
}
SESSIONS = [session("one"), session("two", turns=5, resets=[RESET]), session("long", turns=45, size=10)]
"""Recordings of our own; the last one fills a window, so that an epoch begins."""

PLAY = """
import json, sys
from mnemosyne.domain.session.round_events import Mode
from tests.replay.recordings import played, read, streams
from tests.replay.session_tapes import tape_of

for line in sys.stdin:
    log, _ = played(tape_of(json.loads(line)), mode=Mode(sys.argv[1]))
    for stream in streams(log):
        sys.stdout.buffer.write(log.state_bytes(stream))
        sys.stdout.buffer.writelines(type(each.event).__name__.encode() for each in read(log, stream))
"""


def logged(lines: bytes, mode: Mode, *, seed: str, zone: str, processors: set[int]) -> bytes:
    """The stored events of sessions that a process of its own plays."""
    environ = {**os.environ, "PYTHONHASHSEED": seed, "TZ": zone}
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, processors)  # inherited by the process
    try:
        command = [sys.executable, "-c", PLAY, mode.value]
        done = subprocess.run(command, input=lines, env=environ, stdout=subprocess.PIPE, check=True)
    finally:
        os.sched_setaffinity(0, before)
    return done.stdout


def check_two_runs(lines: bytes, mode: Mode) -> bytes:
    """Two runs give the same log: that one."""
    processors = os.sched_getaffinity(0)
    one = logged(lines, mode, seed="1", zone="Asia/Kolkata", processors={min(processors)})
    two = logged(lines, mode, seed="4242", zone="America/St_Johns", processors=processors)
    assert one == two != b""
    return one


def test_two_managed_runs_give_the_same_log_byte_for_byte() -> None:
    log = check_two_runs("\n".join(map(json.dumps, SESSIONS)).encode(), Mode.MANAGE)
    for name in (SettingsTaken, RoundBegan, EpochBegan):
        assert name.__name__.encode() in log


@pytest.mark.soak
def test_two_runs_over_all_real_sessions_give_the_same_log() -> None:
    for path in folder("sessions").glob("*.jsonl"):
        check_two_runs(path.read_bytes(), Mode.OBSERVE)


# Over loopback


@pytest.mark.soak
async def test_the_command_replays_a_managed_session_of_a_real_server(tmp_path: Path) -> None:
    """With its database, index, worker and clock; in a smaller window the changed turns are named."""
    tape = tape_of(SESSIONS[-1])
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
