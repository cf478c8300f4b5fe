"""Recordings of any format, played through the application, give the expected events."""

import json
from collections.abc import Sequence
from pathlib import Path

import pytest
import trio

from mnemosyne.app.storage import event_codec
from mnemosyne.domain.history import replay
from mnemosyne.domain.session.directory import stream_of
from mnemosyne.domain.session.events import BranchKind, BranchOpened, Event, TurnBegan, TurnFinished, TurnInterrupted
from mnemosyne.domain.session.ledger_events import TurnAccounted
from mnemosyne.domain.session.round_events import Mode
from mnemosyne.replay import capture_tapes
from mnemosyne.replay.formats import read_tapes
from mnemosyne.replay.session_tapes import tape_of
from mnemosyne.replay.tapes import NotATape, Tape
from tests.actors.support import StoppableLog
from tests.actors.support import events_of as events_of_log
from tests.domain.wire.dialects import WRITTEN, Written, bodies, conversation, replies
from tests.http.test_dialects import talk
from tests.replay.recordings import (
    played,
    read,
    session,
    streams,
    without_ids,
    write_captures,
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


def test_captures_of_a_folder_are_one_session_without_other_requests(tmp_path: Path) -> None:
    folder = write_captures(tmp_path / "a-session", ["One", "Two"])
    write_captures(tmp_path / "a-session" / "counting", ["x"], path="/v1/messages/count_tokens")
    (folder / "counting" / "0002-POST-v1_messages.json").rename(folder / "0009-POST-v1_messages_count_tokens.json")
    began = events_of(capture_tapes.tape_of(capture_tapes.captures_in(folder)))
    assert [event.turn for event in began if isinstance(event, TurnBegan)] == [1, 2]


def test_a_reply_that_was_cut_is_interrupted_as_in_the_relay(tmp_path: Path) -> None:
    folder = write_captures(tmp_path / "a-session", ["One"])
    start = 'data: {"type":"message_start","message":{"id":"msg_1","content":[]}}\n\n'
    (folder / "0002-POST-v1_messages.reply.txt").write_text(start)
    events = events_of(capture_tapes.tape_of(capture_tapes.captures_in(folder)))
    last = [event for event in events if not isinstance(event, TurnAccounted)][-1]
    assert isinstance(last, TurnInterrupted)
    assert last.reason == "the provider's stream ended before its last event"


def test_a_played_export_gives_its_own_events(tmp_path: Path) -> None:
    summary = "This session is being continued from a previous conversation that ran out of context. We listed files."
    recorded = session(turns=4, resets=[{"before_msg": 5, "kind": "compact", "summary": summary}])
    folder = write_captures(tmp_path / "a-session", ["A capture", "of the same session"])
    (folder / "0003-POST-v1_messages.reply.txt").write_text('data: {"type":"message_start","message":{"id":"m"}}\n\n')
    log, _ = played(tape_of(recorded), capture_tapes.tape_of(capture_tapes.captures_in(folder)))
    (stream,) = streams(log)
    file = trio.run(write_export, Plain(log), stream, tmp_path / "export.jsonl")
    (tape,) = read_tapes([file], event_codec())
    assert isinstance(tape, Tape)
    again, (result,) = played(tape)
    assert (result.turns, result.unlike) == (6, 0)
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


def test_captures_of_another_dialect_are_played(tmp_path: Path) -> None:
    (chat,) = [each for each in WRITTEN if each.dialect.name == "chat"]
    headers = [["user-agent", "opencode/1.18.33 ai-sdk"], ["x-session-id", "s"]]
    folder = tmp_path / "a-session"
    folder.mkdir()
    for number, (body, said) in enumerate(zip(bodies(chat), replies(), strict=True), 2):
        capture = {"method": "POST", "path": "/v1/chat/completions", "headers": headers, "body": json.loads(body)}
        path = folder / f"{number:04}-POST-v1_chat_completions.json"
        path.write_text(json.dumps(capture))
        path.with_name(path.stem + ".reply.txt").write_bytes(chat.stream(said))
    log, _ = played(capture_tapes.tape_of(capture_tapes.captures_in(folder)))
    (stream,) = streams(log)
    found = [each.event for each in read(log, stream) if isinstance(each.event, TurnFinished)]
    assert [event.stop_reason for event in found] == ["tool_calls", "tool_calls", "stop", "stop"]


def test_two_recordings_of_one_session_share_one_log(tmp_path: Path) -> None:
    first = write_captures(tmp_path / "a" / "s", ["One", "Two"])
    second = write_captures(tmp_path / "b" / "s", ["One", "Two", "Three"])
    tapes = [found for found in read_tapes([first, second], event_codec()) if isinstance(found, Tape)]
    log, results = played(*tapes)
    assert [result.turns for result in results] == [2, 3]
    (stream,) = streams(log)
    began = [each.event for each in read(log, stream) if isinstance(each.event, TurnBegan)]
    assert [(event.turn, event.attempt) for event in began] == [(1, 1), (2, 1), (1, 2), (2, 2), (3, 1)]


def test_invalid_recordings_are_reported_with_their_line_and_the_others_are_played(tmp_path: Path) -> None:
    good, bad = session("good"), {"name": "bad", "messages": [], "turns": [{"msg": 7}]}
    file = write_lines(tmp_path / "mixed.jsonl", good, bad, session("also"))
    text = tmp_path / "text.jsonl"
    text.write_text("nothing of this kind\n")
    export = tmp_path / "export.jsonl"
    export.write_text('{"format": "mnemosyne-session", "version": 1}\n')
    capture = tmp_path / "0001-POST-v1_messages.json"
    capture.write_text("{}")
    found = list(read_tapes([file, text, export, capture, tmp_path / "absent"], event_codec()))
    assert [tape.name for tape in found if isinstance(tape, Tape)] == ["good", "also"]
    refused = [refused.sentence for refused in found if isinstance(refused, NotATape)]
    assert refused == [
        f"{file}, line 2: turn 1 does not say how many of the 0 messages its request holds.",
        f"{text}, line 1: it is no recorded session: a JSON object with a name, messages and turns.",
        f"{export}, line 1: the header is not whole.",
        f"{capture}, line 1: it is no captured request: an object with method, path, headers and body.",
        f"{tmp_path / 'absent'}: it cannot be read: No such file or directory.",
    ]


def test_a_folder_is_read_with_all_its_files(tmp_path: Path) -> None:
    write_lines(tmp_path / "one.jsonl", session("one"))
    write_captures(tmp_path / "two", ["x"])
    found = read_tapes([tmp_path], event_codec())
    assert [tape.name for tape in found if isinstance(tape, Tape)] == ["one", "two"]


async def test_the_speaker_is_recorded_once_for_each_branch() -> None:
    async with talking(plain()) as talk:
        await rich_session(talk)
        events = await talk.archive.log.read(talk.stream)
    began = [each.envelope.event for each in events if isinstance(each.envelope.event, TurnBegan)]
    branches = [event.branch for event in began]
    assert [event.branch for event in began if event.speaker] == list(dict.fromkeys(branches))
    assert all(headers is not None for headers in replay.find_client_headers(events).values())
