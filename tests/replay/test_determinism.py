"""What is recorded depends on the recordings alone: not on the hash seed, the time zone, the processors, or whether
there is a network between.
"""

import json
import os
import subprocess
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import attrs
import pytest
import trio

from mnemosyne.app.storage import Storage, event_codec, open_storage
from mnemosyne.config import load
from mnemosyne.domain.objects.events import ObjectCreated, ObjectSummarized
from mnemosyne.domain.ports import Envelope, Recorded
from mnemosyne.domain.session.events import Event, TurnBegan
from mnemosyne.domain.session.ledger_events import TurnAccounted
from mnemosyne.domain.session.round_events import EpochBegan, Mode
from mnemosyne.domain.wire import identity
from mnemosyne.http.headers import HOP_BY_HOP
from mnemosyne.replay.deciding import review
from mnemosyne.replay.reading import read_tapes
from mnemosyne.replay.running import MemoryArchive
from mnemosyne.replay.tapes import Arrives, Tape, TapedReply
from tests.cli.support import MNEMOSYNE, environ_for, mnemosyne, serving
from tests.domain.recorded import folder
from tests.http.playback import open_playback
from tests.http.raw_client import exchange
from tests.replay.recordings import played, session, write_captures, write_lines
from tests.waiting import DEADLINE, LOOKS

pytestmark = pytest.mark.release

SAMPLE = ("sessions/swe_agent.jsonl", "sessions/tau_airline.jsonl", "captures/cc-agent", "captures/cc-turn4-compact")


def recordings(tmp_path: Path) -> list[Path]:
    """Recordings of our own."""
    summary = "This session is being continued from a previous conversation that ran out of context. We listed files."
    reset = {"before_msg": 5, "kind": "compact", "summary": summary}
    lines = write_lines(tmp_path / "sessions.jsonl", session("one"), session("two", turns=5, resets=[reset]))
    return [lines, write_captures(tmp_path / "captured", ["One", "Two", "Three"])]


def logged(
    files: Sequence[Path], out: Path, *options: str, seed: str, zone: str, processors: set[int]
) -> tuple[int, bytes, str]:
    """A run in a process of its own: its exit code, its log and its table."""
    environ = environ_for(out.parent, PYTHONHASHSEED=seed, TZ=zone)
    command = [*MNEMOSYNE, "replay", *map(str, files), "--log", str(out), *options]
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, processors)  # what is started inherits it
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


@pytest.mark.soak
def test_two_runs_give_the_same_log_byte_for_byte(tmp_path: Path) -> None:
    check_two_runs(recordings(tmp_path), tmp_path)


def long_tape(tmp_path: Path) -> Path:
    """A recording that fills a window and pays for a rewrite, so that an epoch begins."""
    return write_lines(tmp_path / "long.jsonl", session("long", turns=45, size=10))


def test_two_managed_runs_give_the_same_log_byte_for_byte(tmp_path: Path) -> None:
    log = check_two_runs([*recordings(tmp_path), long_tape(tmp_path)], tmp_path, "--manage")
    for name in ("settings_taken", "round_began", "epoch_began"):
        assert f'"name":"session.{name}.'.encode() in log


@pytest.mark.soak
def test_two_managed_runs_over_a_sample_of_real_sessions_give_the_same_log(tmp_path: Path) -> None:
    assert b"session.round_began" in check_two_runs([folder(".") / name for name in SAMPLE], tmp_path, "--manage")


def test_a_managed_tape_is_decided_the_same_today(tmp_path: Path) -> None:
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


async def test_recordings_over_the_network_give_the_streams_that_they_give_in_memory(tmp_path: Path) -> None:
    await check_over_loopback(recordings(tmp_path), tmp_path)


@pytest.mark.soak
async def test_real_sessions_over_the_network_give_the_streams_that_they_give_in_memory(tmp_path: Path) -> None:
    names = ("captures/cc-turn1", "captures/cc-turn2-continue", "captures/cc-turn3-resume", "captures/oc-agent")
    await check_over_loopback([folder(".") / name for name in (*SAMPLE, *names, "captures/cc-x-errmid")], tmp_path)


async def check_over_loopback(files: Sequence[Path], tmp_path: Path) -> None:
    tapes = [found for found in read_tapes(files, event_codec()) if isinstance(found, Tape)]
    steps = [step for tape in tapes for step in tape.steps()]
    home = tmp_path / "home"
    home.mkdir()
    replies = [(_type(step), step.payload) for step in steps if isinstance(step, TapedReply)]
    config = load({"data_dir": str(home / "data")}, {})
    requests = [step for step in steps if isinstance(step, Arrives)]
    async with (
        open_playback(replies) as provider,
        open_server(home, provider.url) as url,
        open_storage(config) as storage,
    ):
        for number, step in enumerate(requests, 1):
            got = await exchange(url, "/v1/messages", step.body, headers=_headers(step))
            assert (got.status, got.cut) == (200, False)
            await until_accounted(storage, number)
    assert await decided_again(home, tapes[0]) == 0  # which opens the database anew
    async with open_storage(config) as storage:
        served = {stream: await storage.events.read(stream) for stream in await storage.events.streams()}
    log, _ = await trio.to_thread.run_sync(lambda: played(*tapes))
    assert served.keys() == set(await log.streams())
    for stream, events in served.items():
        assert comparable(events) == comparable(await log.read(stream))


async def until_accounted(storage: Storage, turns: int) -> None:
    """Wait until the log holds all that is made of so many turns: on a busy machine the next one may begin before."""
    for _ in range(LOOKS):
        recorded = [each for stream in await storage.events.streams() for each in await storage.events.read(stream)]
        if sum(isinstance(each.envelope.event, TurnAccounted) for each in recorded) >= turns:
            return


@pytest.mark.soak
async def test_a_managed_session_of_a_real_server_is_decided_again_by_the_command(tmp_path: Path) -> None:
    """With its database, its index, its worker and its clock; in a smaller window, the turns are named."""
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
    assert await decided_again(home, tape) == 0
    code, found = await asked_again(home, tape, "--window", "20000", "--json")
    differing = json.loads(found)
    assert (code, differing["skipped"]) == (1, [])
    assert differing["turns"]
    assert {each["turn"] for each in differing["differences"]} == set(differing["turns"])


@pytest.mark.parametrize("options", [["--window", "9", "a.jsonl"], ["--manage", "--from-log", "a"], ["--window", "9"]])
def test_options_of_the_one_way_to_replay_are_refused_with_the_other(tmp_path: Path, options: list[str]) -> None:
    assert mnemosyne("replay", *options, environ=environ_for(tmp_path)).returncode == 2


async def decided_again(home: Path, tape: Tape) -> int:
    """The exit code of a look at what today's code would decide on what the server recorded of a tape."""
    code, said = await asked_again(home, tape)
    assert b"0 skipped: the same today" in said, said
    return code


async def asked_again(home: Path, tape: Tape, *options: str) -> tuple[int, bytes]:
    """The exit code and the output of that look."""
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


def comparable(events: Sequence[Recorded[Event]]) -> list[str]:
    """All but what a server takes from its own surroundings: the time and what the provider's cache makes of it, the
    session's salt and with it the ids that it keys, and the correlation ids; and what its worker does, whenever it
    finds the time.
    """
    ids = {each.envelope.event.object: "" for each in events if isinstance(each.envelope.event, ObjectCreated)}
    numbers = {key: f"object {number}" for number, key in enumerate(ids)}
    decided = [each for each in events if not isinstance(each.envelope.event, ObjectSummarized)]
    places = {each.version: number for number, each in enumerate(decided, 1)}
    return [_renamed(_told(each.envelope, places), numbers) for each in decided]


def _told(envelope: Envelope[Event], places: Mapping[int, int]) -> str:
    event: Any = envelope.event
    if isinstance(event, TurnAccounted):
        return f"account of {event.branch} {event.turn}.{event.attempt}"
    here: dict[str, Any] = {
        name: b"" if name == "salt" else 0 for name in ("at", "salt") if name in attrs.fields_dict(type(event))
    }
    if isinstance(event, TurnBegan):
        here["base"] = places.get(event.base, 0)
    name, state = event_codec().encode(attrs.evolve(envelope, event=attrs.evolve(event, **here), correlation_id=""))
    return f"{name} {state.decode()}"


def _renamed(told: str, names: Mapping[str, str]) -> str:
    for key, name in names.items():
        told = told.replace(f'"{key}"', f'"{name}"')
    return told


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


def test_the_table_and_the_exit_code_tell_of_input_that_cannot_be_played(tmp_path: Path) -> None:
    files = recordings(tmp_path)
    bad = tmp_path / "bad.jsonl"
    bad.write_text("{}\n")
    done = mnemosyne("replay", str(files[0]), str(bad), "--json", environ=environ_for(tmp_path))
    found = json.loads(done.stdout)
    assert done.returncode == 1
    assert [each["external_id"] for each in found["sessions"]] == ["one", "two"]
    assert found["problems"] == [
        f"{bad}, line 1: it is no recorded session: a JSON object with a name, messages and turns."
    ]
    assert not found["ok"]
