"""The preview inputs of an observed branch: its history and account, as if it were managed."""

from collections.abc import Sequence
from fractions import Fraction

import trio

from mnemosyne.domain.history import rewrite_preview
from mnemosyne.domain.history.memory_travel import MemorySnapshot, snapshot
from mnemosyne.domain.ports import Recorded
from mnemosyne.domain.session.decision_inputs import ServerSettings
from mnemosyne.domain.session.events import Event
from mnemosyne.domain.session.ledger import equivalents
from mnemosyne.domain.session.ledger_events import TurnAccounted
from mnemosyne.domain.window.situation import PendingRequest
from mnemosyne.domain.wire import transcript
from tests.not_none import not_none
from tests.replay.recordings import played, session, streams
from tests.replay.session_tapes import requests, tape_of


def make_preview_inputs(turn: int | None = None) -> tuple[Sequence[Recorded[Event]], MemorySnapshot, PendingRequest]:
    """A session's snapshot, and the request that follows."""
    recording = session(turns=6)
    log, _ = played(tape_of(recording))
    (stream,) = streams(log)
    events = trio.run(log.read, stream)
    found = snapshot(events, "main", turn)
    read = transcript.read(list(requests(recording))[found.turn - 1]).transcript
    return events, found, rewrite_preview.next_request(found, read, 10**9, ServerSettings(window=50_000))


def test_the_preview_uses_the_clients_history_without_new_messages() -> None:
    _, found, asked = make_preview_inputs()
    assert (asked.turn, asked.settings.window, asked.at) == (found.turn + 1, 50_000, 10**9)
    assert asked.before == asked.history
    assert asked.history.messages == tuple(asked.read.message_bytes(each) for each in range(len(asked.read.messages)))
    assert asked.history.ends == tuple(range(1, len(asked.read.messages) + 1))


def test_the_preview_assumes_the_cost_of_an_unmanaged_session() -> None:
    for turn in (3, None):
        events, found, asked = make_preview_inputs(turn)
        recorded = [(each.version, each.envelope.event) for each in events]
        turns = [(version, event) for version, event in recorded if isinstance(event, TurnAccounted)]
        before = [event for version, event in turns if version <= found.session.version]
        assert 0 < len(before) < len(turns) or turn is None
        spent = sum((equivalents(each.actual, each.model) for each in before), Fraction(0))
        assert spent > 0
        managed = rewrite_preview.assume_managed(found, asked)
        assert managed.ledger.billed == managed.ledger.unmanaged == spent
        assert found.session.ledger.billed == found.session.ledger.unmanaged == 0


def test_the_preview_changes_only_wire_and_ledger_of_the_session() -> None:
    _, found, asked = make_preview_inputs()
    managed = rewrite_preview.assume_managed(found, asked)
    wire = not_none(managed.branches["main"].wire)
    assert (wire.at, wire.epoch, wire.rewritten, wire.since) == (found.began.at, 1, 0, None)
    assert (managed.memory, managed.version) == (found.session.memory, found.session.version)
    assert found.session.branches["main"].wire is None
