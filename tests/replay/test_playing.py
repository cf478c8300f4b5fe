"""Recordings of any format, played through the application, give the expected events."""

from collections.abc import Sequence
from pathlib import Path

import pytest
import trio

from mnemosyne.app.storage import event_codec
from mnemosyne.domain.history import replay
from mnemosyne.domain.session.directory import stream_of
from mnemosyne.domain.session.events import BranchKind, BranchOpened, Event, TurnBegan, TurnFinished
from mnemosyne.domain.session.round_events import Mode
from mnemosyne.replay.formats import read_tapes
from mnemosyne.replay.session_tapes import tape_of
from mnemosyne.replay.tapes import NotATape, Tape
from tests.actors.support import StoppableLog
from tests.actors.support import events_of as events_of_log
from tests.domain.wire.dialects import WRITTEN, Written, conversation
from tests.http.test_dialects import talk
from tests.replay.recordings import (
    played,
    read,
    session,
    streams,
    without_ids,
    write_export,
    write_lines,
)
from tests.services.talking import Plain, plain, rich_session, talking


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


def test_a_played_export_gives_its_own_events(tmp_path: Path) -> None:
    summary = "This session is being continued from a previous conversation that ran out of context. We listed files."
    recorded = session(turns=4, resets=[{"before_msg": 5, "kind": "compact", "summary": summary}])
    log, _ = played(tape_of(recorded))
    (stream,) = streams(log)
    file = trio.run(write_export, Plain(log), stream, tmp_path / "export.jsonl")
    (tape,) = read_tapes([file], event_codec())
    assert isinstance(tape, Tape)
    again, (result,) = played(tape)
    assert (result.turns, result.unlike) == (4, 0)
    assert without_ids(read(again, stream)) == without_ids(read(log, stream))


@pytest.mark.parametrize(("streamed", "mode"), [(True, Mode.MANAGE), (False, Mode.OBSERVE)], ids=["streamed", "whole"])
@pytest.mark.parametrize("written", WRITTEN, ids=lambda written: written.dialect.name)
def test_an_export_in_any_dialect_is_played(written: Written, streamed: bool, mode: Mode, tmp_path: Path) -> None:
    async def record() -> list[Event]:
        log = StoppableLog()
        await talk(written, log, streamed=streamed)
        (stream,) = await log.streams()
        await write_export(Plain(log), stream, tmp_path / "export.jsonl")
        return await events_of_log(log, stream)

    recorded = trio.run(record)
    (tape,) = read_tapes([tmp_path / "export.jsonl"], event_codec())
    assert isinstance(tape, Tape)
    again, (result,) = played(tape, mode=mode)
    assert (result.turns, result.unlike) == (4, 0)
    (stream,) = streams(again)
    events = [each.event for each in read(again, stream)]
    assert finished(events) == finished(recorded)
    assert [event.lane for event in events if isinstance(event, BranchOpened)] == [conversation(written)]
    assert [event.echo.value for event in events if isinstance(event, TurnBegan) and event.echo] == ["same"] * 3


def finished(events: Sequence[Event]) -> list[tuple[object, ...]]:
    """The recorded replies."""
    found = [event for event in events if isinstance(event, TurnFinished)]
    return [(event.turn, event.model, event.message_id, event.stop_reason, event.usage) for event in found]


def test_invalid_recordings_are_reported_with_their_line_and_the_others_are_played(tmp_path: Path) -> None:
    good, bad = session("good"), {"name": "bad", "messages": [], "turns": [{"msg": 7}]}
    file = write_lines(tmp_path / "mixed.jsonl", good, bad, session("also"))
    text = tmp_path / "text.jsonl"
    text.write_text("nothing of this kind\n")
    export = tmp_path / "export.jsonl"
    export.write_text('{"format": "mnemosyne-session", "version": 1}\n')
    found = list(read_tapes([file, text, export, tmp_path / "absent"], event_codec()))
    assert [tape.name for tape in found if isinstance(tape, Tape)] == ["good", "also"]
    refused = [refused.sentence for refused in found if isinstance(refused, NotATape)]
    assert refused == [
        f"{file}, line 2: turn 1 does not say how many of the 0 messages its request holds.",
        f"{text}, line 1: it is no recorded session: a JSON object with a name, messages and turns.",
        f"{export}, line 1: the header is not whole.",
        f"{tmp_path / 'absent'}: it cannot be read: No such file or directory.",
    ]


def test_a_folder_is_read_with_all_its_files(tmp_path: Path) -> None:
    write_lines(tmp_path / "one.jsonl", session("one"))
    (tmp_path / "more").mkdir()
    write_lines(tmp_path / "more/two.jsonl", session("two"))
    found = read_tapes([tmp_path], event_codec())
    assert [tape.name for tape in found if isinstance(tape, Tape)] == ["two", "one"]


async def test_the_speaker_is_recorded_once_for_each_branch() -> None:
    async with talking(plain()) as talk:
        await rich_session(talk)
        events = await talk.archive.log.read(talk.stream)
    began = [each.envelope.event for each in events if isinstance(each.envelope.event, TurnBegan)]
    branches = [event.branch for event in began]
    assert [event.branch for event in began if event.speaker] == list(dict.fromkeys(branches))
    assert all(headers is not None for headers in replay.find_client_headers(events).values())
