r"""Logs that a real server once wrote: their format, and the results that every version must find in them.

Each folder of ``logs`` holds a log (``events.jsonl``: stream, stored name and state of each event, as some version
wrote them). If the sessions' contents are kept too (``contents.jsonl``: base64 of the zlib-compressed bytes, without
erased ones), ``expected.json`` lists what that version could rebuild from both.
"""

import base64
import json
import zlib
from collections.abc import Iterable, Iterator, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any
from uuid import UUID

import attrs
import pytest

from mnemosyne.app.storage import event_codec
from mnemosyne.domain.history import loading
from mnemosyne.domain.history.time_travel import Attempt, History, body_of, digests_in, history_of, reply_of
from mnemosyne.domain.ports import Append, Content, Envelope, Journal, Recorded
from mnemosyne.domain.session.events import Event
from mnemosyne.domain.session.round_events import EpochBegan
from mnemosyne.domain.session.state import Session, evolve
from mnemosyne.domain.wire import recipe
from mnemosyne.domain.wire.recipe import Recipe
from mnemosyne.errors import ContentForgotten, ContentMissing
from mnemosyne.services.sessions import Archive
from mnemosyne.services.verifying import verify
from tests.plain.archive import MemoryArchive
from tests.plain.log import PlainLog

GOLDEN = Path(__file__).parent
LOGS = GOLDEN / "logs"
FOLDERS = sorted(LOGS.iterdir())
OFTEN = ("gap-and-forgotten", "helped", "managed", "one-of-everything")
"""Logs that contain every kind of row. Where a log needs a database, `make test` reads these alone."""

EACH_IN_A_DATABASE = pytest.mark.parametrize(
    "folder",
    [each if each.name in OFTEN else pytest.param(each, marks=pytest.mark.release) for each in FOLDERS],
    ids=lambda folder: folder.name,
)

CODEC = event_codec()

Json = dict[str, Any]


@attrs.frozen
class Stored:
    stream: UUID
    name: str
    state: Any
    """Its JSON, read."""

    def decoded(self) -> Envelope[Event]:
        """The event decoded by today's code."""
        return CODEC.decode(self.name, json.dumps(self.state).encode())


def golden_event(name: str) -> Envelope[Event]:
    """The golden event of a stored name, decoded by today's code."""
    return CODEC.decode(name, (GOLDEN / f"{name}.json").read_bytes())


def stored(folder: Path) -> list[Stored]:
    """The events of a log."""
    lines = _lines(folder / "events.jsonl")
    return [Stored(UUID(line["stream"]), line["name"], line["state"]) for line in lines]


def appends(folder: Path) -> list[Append]:
    """The log, decoded by today's code, one append per event; a session's contents are in its first append."""
    held = contents(folder)
    versions: dict[UUID, int] = {}
    found = []
    for each in stored(folder):
        version = versions.get(each.stream, 0)
        found.append(Append(each.stream, version, (each.decoded(),), () if version else held.get(each.stream, ())))
        versions[each.stream] = version + 1
    return found


def contents(folder: Path) -> dict[UUID, tuple[Content, ...]]:
    """The contents of each session of a log; empty for a log without contents."""
    held: dict[UUID, tuple[Content, ...]] = {}
    if not (folder / "contents.jsonl").exists():
        return held
    for line in _lines(folder / "contents.jsonl"):
        stream = UUID(line["stream"])
        content = Content(bytes.fromhex(line["digest"]), zlib.decompress(base64.b64decode(line["data"])))
        held[stream] = (*held.get(stream, ()), content)
    return held


def opened(folder: Path) -> MemoryArchive:
    log = PlainLog(CODEC)
    for append in appends(folder):
        log.submit(append)
    return MemoryArchive(log)


def _lines(path: Path) -> Iterator[Json]:
    return map(json.loads, path.read_text(encoding="utf-8").splitlines())


async def found_in(archive: Archive) -> Json:
    """The results for ``expected.json``: what can be rebuilt of each session, and its position."""
    return {str(stream): await _found_in_session(archive, stream) for stream in await archive.events.streams()}


async def _found_in_session(archive: Archive, stream: UUID) -> Json:
    recorded = await archive.events.read(stream)
    history = history_of(str(stream), recorded)
    report = await verify(archive, stream)
    state = folded(recorded)
    epochs = [each.envelope.event for each in recorded if isinstance(each.envelope.event, EpochBegan)]
    return {
        "verdict": report.verdict,
        "checked": report.checked,
        "forgotten": report.forgotten,
        "differences": [each.sentence for each in report.differences],
        "gaps": [[each.turns, each.reason] for each in history.gaps],
        "branches": {name: _branch(state, name, epochs) for name in state.branches},
        "sent": {address(each): await _sent(archive, history, each) for each in _all_sent(history)},
    }


def folded(recorded: Sequence[Recorded[Event]]) -> Session:
    """The state that the events lead to, one after the other."""
    state = Session()
    for each in recorded:
        state = evolve(state, each.envelope.event)
    return state


def loaded(recorded: Sequence[Recorded[Event]]) -> Session:
    """The same state, as loaded by a server that reads a session for the first time."""
    return loading.with_bodies(loading.fold(recorded), "the session", recorded)


def _branch(state: Session, name: str, epochs: Iterable[EpochBegan]) -> Json:
    branch = state.branches[name]
    objects = [f"{each.id} {each.kind.value} {shown.label}" for each, shown in state.memory.standings(name)]
    return {
        "kind": branch.kind.value,
        "parent": branch.parent,
        "turns": branch.turns,
        "mode": branch.mode.value,
        "epoch": branch.wire.epoch if branch.wire is not None else None,
        "epochs": [[each.epoch, each.turn, each.reason] for each in epochs if each.branch == name],
        "objects": objects,
    }


def _all_sent(history: History) -> Iterator[Attempt]:
    """The client's requests and the upstream request for each."""
    for attempt in history.attempts:
        yield attempt
        yield from (attrs.evolve(attempt, round=each) for each in attempt.rounds)


def address(attempt: Attempt) -> str:
    """A readable address: ``main 3.1``, its second round ``main 3.1/2``."""
    at = attempt.address
    return f"{at.branch} {at.turn}.{at.attempt}" + (f"/{attempt.round.began.round}" if attempt.round else "")


async def _sent(archive: Archive, history: History, attempt: Attempt) -> Json:
    stream = UUID(history.session)
    body = await _rebuilt(archive, stream, body_of(history, attempt.body_version))
    made_of = reply_of(attempt)
    reply = None if made_of is None else await _rebuilt(archive, stream, made_of)
    return {
        "status": attempt.status.value,
        "body": body.hex() if body else None,
        "proven": body == attempt.proof,
        "withheld": attempt.sent.stored_sha256 is not None,
        "reply": reply.hex() if reply else None,
    }


async def _rebuilt(archive: Archive, stream: UUID, made_of: Recipe) -> bytes | None:
    """The SHA-256 of a recipe's result; None if its contents were erased."""
    try:
        found = await archive.contents.fetch(stream, sorted(digests_in(made_of.pieces)))
    except (ContentForgotten, ContentMissing):
        return None
    return sha256(recipe.assemble(made_of.pieces, found.__getitem__)).digest()


async def append_all(journal: Journal, appends: Iterable[Append]) -> None:
    """Write appends in order. All are queued before the first is awaited, so those that may be delayed are not
    delayed for a batch.
    """
    for ticket in [journal.submit(each) for each in appends]:
        await ticket.durable()
