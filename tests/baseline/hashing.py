"""Hashes of the application's output for sessions: upstream bodies, evaluation reports, rebuilt logs.

Each function returns ``{entry: hash}``, a group for comparison with the reference.
"""

import json
from hashlib import sha256
from pathlib import Path
from typing import Any

import trio

from mnemosyne.app.storage import event_codec
from mnemosyne.domain.history.time_travel import history_of
from mnemosyne.domain.session.round_events import Mode
from mnemosyne.projections.catalog import ALL
from mnemosyne.services.verifying import verify
from mnemosyne_lab.evaluation.policies import UNMANAGED
from mnemosyne_lab.evaluation.policy import Settings
from mnemosyne_lab.evaluation.reading import recording
from mnemosyne_lab.evaluation.report_json import report
from mnemosyne_lab.evaluation.running import RunPlan, evaluate_recordings
from mnemosyne_lab.evaluation.verdict import OURS
from tests.golden.sessions import address, found_in, opened
from tests.plain.archive import MemoryArchive
from tests.plain.log import PlainLog
from tests.projections.support import rebuilt_dump
from tests.replay.playing import RecordedClock, play
from tests.replay.session_tapes import tape_of

Json = dict[str, Any]
Entries = dict[str, str]


def hash_upstream(session: Json) -> Entries:
    """The bodies that a managing server would send for a recorded session, as written by ``context --turn … --raw``.

    The recorded usage is omitted: it belongs to the client's own requests, and the bill's guard would stop managing.
    """
    clock = RecordedClock()
    turns = [{**turn, "usage": None} for turn in session["turns"]]
    return trio.run(_hash_upstream, {**session, "turns": turns}, clock, clock=clock)


async def _hash_upstream(session: Json, clock: RecordedClock) -> Entries:
    log = PlainLog(event_codec())
    await play(log, tape_of(session), clock, Mode.MANAGE)
    entries: Entries = {}
    for stream in await log.streams():
        verified = await verify(MemoryArchive(log), stream)
        assert verified.is_sound, [each.sentence for each in verified.differences]
        history = history_of(str(stream), await log.read(stream))
        for attempt in history.attempts:
            if not attempt.rounds:
                entries[address(attempt)] = _short(attempt.proof)
            for each in attempt.rounds:
                entries[f"{address(attempt)}/{each.began.round}"] = _short(
                    each.began.stored_sha256 or each.began.sha256
                )
    return entries


def hash_report(session: Json, *, every_policy: bool) -> Entries:
    """The report of ``mnemosyne evaluate`` for a session under every policy, or ours alone."""
    policies = [] if every_policy else [UNMANAGED.name, OURS]
    plan = RunPlan(policies=policies, settings=Settings(memory_tools=True), model=None)
    recorded = recording(session["name"], session)
    found = report(evaluate_recordings([recorded], plan, progress=lambda done, whole: None, workers=1))
    by_policy = {name: _hash(each) for name, each in found.pop("policies").items()}
    return {**by_policy, "rest": _hash(found)}


async def hash_golden(folder: Path) -> Entries:
    """The rebuilt bodies and read models of a golden log."""
    kept = opened(folder)
    entries = {projection.name: _hash(await rebuilt_dump(kept.log, projection)) for projection in ALL}
    if (folder / "contents.jsonl").exists():
        entries["rebuilt"] = _hash(await found_in(kept))
    return entries


def _hash(value: object) -> str:
    return _short(sha256(json.dumps(value, sort_keys=True).encode()).digest())


def _short(digest: bytes) -> str:
    return digest.hex()[:16]
