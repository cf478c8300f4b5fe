"""The timeline of a session."""

import json
from typing import Any

from mnemosyne.app.storage import event_codec
from mnemosyne.domain.ports import Append, Envelope, EventLog
from mnemosyne.domain.session.events import GapRecorded, SessionForgotten
from mnemosyne.projections.projection import Projection
from mnemosyne.projections.projector import Projector
from mnemosyne.projections.timeline import TIMELINE
from mnemosyne.projections.usage import USAGE
from tests.adapters.log_support import stream
from tests.domain.session_events import began, finished, interrupted, round_began
from tests.plain.log import PlainLog
from tests.projections.plain import PlainProjections
from tests.projections.support import dump_of
from tests.services.talking import rich_session, talking


async def rows(log: EventLog[object], table: str, projection: Projection = TIMELINE) -> list[dict[str, Any]]:
    store = PlainProjections()
    status = await Projector(projection, log, store).catch_up()
    assert status.error is None
    dumped = [json.loads(line) for line in await dump_of(store, projection)]
    return [row for row in dumped if row["table"] == table]


def log_of(*events: object) -> PlainLog:
    """Return a log of one session with these events."""
    log = PlainLog(event_codec())
    log.submit(Append(stream(1), 0, tuple(Envelope(event, "c") for event in events)))
    return log


async def test_a_session_has_its_client_its_model_and_its_times() -> None:
    async with talking() as talk:
        await rich_session(talk)
        (session,) = await rows(talk.archive.log, "sessions")
    assert session["external_id"] == "a client's session"
    assert (session["client"], session["client_version"]) == ("claude-code", "2.1.329")
    assert session["model"] == "claude-opus-5-5"
    assert session["started_at"] == 1_000_000
    assert session["forgotten_at"] is None


async def test_branches_name_their_origin() -> None:
    async with talking() as talk:
        await rich_session(talk)
        by_name = {row["branch"]: row for row in await rows(talk.archive.log, "branches")}
    assert {name: (row["kind"], row["parent"], row["inherits"]) for name, row in by_name.items()} == {
        "main": ("main", None, False),
        "fork-1": ("fork", "main", True),
        "agent-1": ("agent", "fork-1", False),
        "side-1": ("side", "fork-1", False),
        "compaction-1": ("compaction", "main", True),
        "successor-1": ("successor", "fork-1", False),
        "opaque-1": ("opaque", "successor-1", False),
    }
    assert by_name["agent-1"]["agent_id"] == "agent-7"
    assert by_name["fork-1"]["forked_at"] == 2


async def test_every_attempt_is_a_row_with_its_outcome() -> None:
    async with talking() as talk:
        await rich_session(talk)
        address = await talk.ask(b'{"model":"m","messages":[{"role":"user","content":"and on"}]}', reply=None)
        turns = {(row["branch"], row["turn"], row["attempt"]): row for row in await rows(talk.archive.log, "turns")}
    assert len(turns) == len(talk.sent)
    assert {key: (row["state"], row["reason"], row["stop_reason"]) for key, row in turns.items()}.items() >= {
        ("main", 1, 1): ("interrupted", "the client left", None),
        ("main", 1, 2): ("finished", None, "end_turn"),
        (address.branch, address.turn, address.attempt): ("open", None, None),
    }.items()
    first, again = turns["main", 1, 1], turns["main", 1, 2]
    assert (first["relation"], again["relation"], turns["main", 2, 1]["relation"]) == ("first", "repeats", "continues")
    assert (again["input_tokens"], again["output_tokens"], again["status"]) == (7, 2, 200)
    assert first["input_tokens"] is None
    assert (again["messages"], turns["main", 2, 1]["messages"]) == (1, 3)
    assert turns["main", 2, 1]["echo"] == "same"
    opaque = next(row for row in turns.values() if row["opaque"])
    assert opaque["messages"] is None


async def test_gaps_and_forgetting_are_rows_too() -> None:
    log = log_of(
        GapRecorded(at=9, since=3, turns=2, reason="the database was away"),
        SessionForgotten(at=12),
    )
    (gap,) = await rows(log, "gaps")
    assert (gap["since"], gap["at"], gap["turns"], gap["reason"]) == (3, 9, 2, "the database was away")
    (session,) = await rows(log, "sessions")
    assert (session["forgotten_at"], session["last_active_at"]) == (12, None)


async def test_no_reported_usage_stops_the_projection() -> None:
    odd: list[dict[str, Any]] = [
        {"input_tokens": 2**63, "output_tokens": 1},
        {"input_tokens": "many", "output_tokens": -1},
        {"input_tokens": True, "cache_creation": [1]},
        {"output_tokens": 2.5, "service_tier": {"a": 1}},
        {"input_tokens": 1, "cache_creation": {"ephemeral_1h_input_tokens": None}, "service_tier": "a\0b"},
    ]
    for usage in odd:
        for projection in (TIMELINE, USAGE):
            (row,) = await rows(log_of(interrupted(usage)), "turns", projection)
            assert row["cache_read_tokens"] in (0, None)


async def test_a_managed_turn_has_its_number_of_rounds() -> None:
    log = log_of(began(1, "m"), round_began(1), round_began(2), finished(1, "m", {"input_tokens": 5}))
    (row,) = await rows(log, "turns")
    assert (row["rounds"], row["input_tokens"]) == (2, 5)


async def test_characters_that_a_database_cannot_hold_are_replaced() -> None:
    (row,) = await rows(log_of(interrupted({}, reason="a\0b")), "turns")
    assert row["reason"] == "a\ufffdb"
