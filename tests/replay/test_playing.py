"""Recordings of any format, played through the application, give the expected events."""

from mnemosyne.domain.history import replay
from mnemosyne.domain.session.directory import stream_of
from mnemosyne.domain.session.events import BranchKind, BranchOpened, TurnBegan, TurnFinished
from tests.replay.recordings import (
    played,
    read,
    session,
)
from tests.replay.session_tapes import tape_of
from tests.replay.tapes import Tape
from tests.services.talking import plain, rich_session, talking


def events_of(tape: Tape, stream_name: str = "a-session") -> list[object]:
    log, (result,) = played(tape)
    assert result.unlike == 0
    return [envelope.event for envelope in read(log, stream_of("local", stream_name))]


def test_each_turn_of_a_session_is_recorded_with_its_reply_and_time() -> None:
    stamps = ["2026-02-09T15:15:18.139Z", "2026-02-09T15:15:19Z", "2026-02-09T15:16:00Z"]
    turns = [
        {"msg": 2 * number + 1, "ts": stamp, "usage": {"input": 8, "cache_write": 319, "cache_read": None, "output": 1}}
        for number, stamp in enumerate(stamps)
    ]
    events = events_of(tape_of(session() | {"turns": turns}))
    began = [event for event in events if isinstance(event, TurnBegan)]
    finished = [event for event in events if isinstance(event, TurnFinished)]
    assert [event.at for event in began] == [1_770_650_118_139_000, 1_770_650_119_000_000, 1_770_650_160_000_000]
    assert [event.turn for event in finished] == [1, 2, 3]
    assert finished[0].usage == {"input_tokens": 8, "cache_creation_input_tokens": 319}
    assert finished[0].stop_reason == "tool_use"
    assert [event.echo.value for event in began[1:] if event.echo] == ["same", "same"]


def test_a_successor_begins_with_the_summary_after_compaction() -> None:
    summary = "This session is being continued from a previous conversation that ran out of context. We listed files."
    reset = {"before_msg": 3, "kind": "compact", "summary": summary}
    events = events_of(tape_of(session(turns=4, resets=[reset])))
    assert [event.kind for event in events if isinstance(event, BranchOpened)] == [
        BranchKind.MAIN,
        BranchKind.SUCCESSOR,
    ]
    places = [
        (event.branch, event.turn, event.kept + len(event.chains)) for event in events if isinstance(event, TurnBegan)
    ]
    assert places == [("main", 1, 1), ("successor-1", 1, 1), ("successor-1", 2, 3), ("successor-1", 3, 5)]


def test_a_microcompact_changes_nothing_and_a_turn_without_a_time_takes_a_second() -> None:
    reset = {"before_msg": 3, "kind": "microcompact", "summary": None}
    events = events_of(tape_of(session()))
    assert events_of(tape_of(session(resets=[reset]))) == events
    assert [event.at for event in events if isinstance(event, TurnBegan)] == [0, 1_000_000, 2_000_000]


async def test_the_speaker_is_recorded_once_for_each_branch() -> None:
    async with talking(plain()) as talk:
        await rich_session(talk)
        events = await talk.archive.log.read(talk.stream)
    began = [each.envelope.event for each in events if isinstance(each.envelope.event, TurnBegan)]
    branches = [event.branch for event in began]
    assert [event.branch for event in began if event.speaker] == list(dict.fromkeys(branches))
    assert all(headers is not None for headers in replay.find_client_headers(events).values())
