"""A replay depends on the recordings alone: not on the hash seed, the time zone or the processors."""

import json
import os
import subprocess
import sys

import pytest

from mnemosyne.domain.session.input_events import SettingsTaken
from mnemosyne.domain.session.round_events import EpochBegan, Mode, RoundBegan
from tests.domain.recorded import folder
from tests.replay.recordings import session

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
    """Check that two runs give the same log; return it."""
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
