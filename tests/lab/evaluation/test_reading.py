"""Any file is read as far as possible; assumptions and omissions are reported with file and line."""

import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mnemosyne.domain.objects.events import BlockPlace
from mnemosyne.domain.objects.fidelity import Fidelity
from mnemosyne_lab.evaluation.policies import UNMANAGED
from mnemosyne_lab.evaluation.policy import API_5M, Settings
from mnemosyne_lab.evaluation.reading import GAP, Unreadable, read, recording
from mnemosyne_lab.evaluation.running import RunPlan, evaluate_recordings
from mnemosyne_lab.evaluation.trace import Trace, trace_of
from mnemosyne_lab.evaluation.transcripts import lines_of
from tests.damaged import chances, damage_lines
from tests.lab.evaluation.recordings import LONG, STEPS, Step, long_trace, session, traced
from tests.profiles import examples


def _file(path: Path, *lines: object) -> Path:
    path.write_text("".join(line if isinstance(line, str) else json.dumps(line) + "\n" for line in lines))
    return path


def test_unreadable_session_is_named_with_its_line_and_the_rest_is_read(tmp_path: Path) -> None:
    path = _file(tmp_path / "some.jsonl", session(LONG, "one"), "{not json\n", "[1]\n", session(LONG, "two"))
    found = list(read([tmp_path / "none.jsonl", path, _file(tmp_path / "empty.jsonl")], lambda _: iter(())))
    assert [each.name for each in found if isinstance(each, Trace)] == ["one", "two"]
    assert [each for each in found if isinstance(each, str)] == [
        f"{tmp_path}/none.jsonl: it cannot be read: No such file or directory.",
        f"{path}, line 2: it is no recorded session: no JSON object stands there.",
        f"{path}, line 3: it is no recorded session: a JSON object with a name, messages and turns.",
        f"{tmp_path}/empty.jsonl: it is empty.",
    ]


def test_only_a_regular_file_is_read_as_a_recording_or_transcript(tmp_path: Path) -> None:
    """A pipe without a writer would block, and a device never ends."""
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to(tmp_path / "pipe")
    odd = [tmp_path / "pipe", tmp_path / "link", Path("/dev/zero")]
    assert list(read(odd, lambda _: iter(()))) == [
        f"{each}: it cannot be read: it is not a regular file." for each in odd
    ]
    for each in odd:
        with pytest.raises(OSError, match="it is not a regular file"):
            next(lines_of(each))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"messages": [{"role": "user"}]}, "its messages are no list of messages"),
        ({"messages": "hello"}, "its messages are no list of messages"),
        ({"turns": []}, "the session has no turns"),
        ({"turns": [{"msg": 999}]}, "turn 1 does not say how many of the 79 messages"),
        ({"turns": [{"msg": 0}]}, "none of its turns holds a message"),
        ({"name": ""}, "a JSON object with a name"),
    ],
)
def test_session_that_cannot_be_driven_says_why(change: dict[str, Any], said: str) -> None:
    with pytest.raises(Unreadable, match=said):
        recording("x", session(LONG) | change)


def test_requests_without_times_are_spaced_by_a_reported_gap() -> None:
    raw = session(LONG)
    for turn in raw["turns"]:
        turn["ts"] = None
    found = recording("x", raw)
    assert [request.at for request in found.requests] == [GAP * number for number in range(len(LONG))]
    assert found.notes == ("39 turns have no time on record: 20 s after the one before are assumed",)


def test_decreasing_times_are_corrected_and_reported() -> None:
    raw = session(LONG)
    raw["turns"][5]["ts"], raw["turns"][6]["ts"] = raw["turns"][6]["ts"], raw["turns"][5]["ts"]
    raw["turns"][0]["ts"] = "yesterday"
    found = recording("x", raw)
    times = [request.at for request in found.requests]
    assert times == sorted(times)
    assert times[1] - times[0] == GAP, "the guess gives way to what is on record"
    assert [note.split(" ", 1)[1] for note in found.notes] == [
        "turns have no time on record: 20 s after the one before are assumed",
        "turns begin before the one before them: the same time is assumed",
    ]


def test_repeated_and_out_of_order_requests_are_skipped() -> None:
    raw = session(LONG)
    raw["turns"][3:3] = [raw["turns"][2], raw["turns"][0]]
    found = recording("x", raw)
    assert [request.messages for request in found.requests] == [turn["msg"] for turn in session(LONG)["turns"]]
    assert found.notes == ("2 turns that repeat an earlier request, or hold nothing, were left out",)


def test_session_cut_in_mid_turn_is_driven_to_its_last_request() -> None:
    raw = session(LONG)
    raw["messages"] = raw["messages"][: raw["turns"][-1]["msg"]]
    assert len(trace_of(recording("x", raw)).requests) == len(LONG)


def test_system_message_within_a_history_is_read_as_one() -> None:
    """Claude Code sends one after the first message."""
    raw = session(LONG)
    raw["messages"].insert(1, {"role": "system", "content": [{"type": "text", "text": "You have three agents."}]})
    for turn in raw["turns"]:
        turn["msg"] += 1
    trace = trace_of(recording("x", raw))
    (found,) = (item for item in trace.items if BlockPlace(1, 0) in item.places)
    assert "You have three agents." in found.text
    assert len(trace.requests) == len(LONG)


def test_user_message_begins_an_exchange() -> None:
    requests = traced([("read", 0, 5), ("say", 0, 5), ("read", 1, 5), ("run", 1, 5)]).requests
    assert [request.exchange for request in requests] == [1, 1, 3, 3]


@pytest.mark.parametrize(("trigger", "by_user"), [("auto", False), ("manual", True)])
def test_request_after_a_reset_begins_with_its_summary(trigger: str, by_user: bool) -> None:
    raw = session(LONG, resets=[{"kind": "compact", "before_msg": 21, "summary": "So far.", "trigger": trigger}])
    (reset,) = recording("x", raw).resets
    assert (reset.turn, reset.kept_from, reset.summary, reset.by_user) == (11, 21, "So far.", by_user)


def test_reset_without_a_recorded_outcome_is_ignored_and_reported() -> None:
    found = recording("x", session(LONG, resets=[{"kind": "microcompact", "before_msg": 9}, {"kind": "compact"}]))
    assert found.resets == ()
    assert found.notes == (
        "what a microcompact took away before message 9 is not on record; it is ignored",
        "a reset that does not say before which message it was is ignored",
    )


@examples(30)
@given(STEPS)
def test_reading_twice_gives_the_same_trace_with_unique_ids(steps: list[Step]) -> None:
    trace = traced(steps)
    assert trace == traced(steps)
    ids = [item.id for item in trace.items]
    assert len(set(ids)) == len(ids)
    assert all(len(each) == 8 for each in ids)


@examples(30)
@given(STEPS)
def test_object_comes_from_a_complete_request_and_no_block_is_in_two_objects(steps: list[Step]) -> None:
    trace = traced(steps)
    places = [place for item in trace.items for place in item.places]
    assert len(set(places)) == len(places)
    for item in trace.items:
        held = trace.requests[item.born - 1].messages
        assert all(place.message < held for place in item.places)
        assert item.superseded is None or item.superseded >= item.born


def test_line_of_an_evicted_object_is_short_and_names_its_source() -> None:
    for item in long_trace().items:
        if item.source_tool is not None and item.places:
            line = item.texts[Fidelity.EVICTED]
            assert len(line) <= 80 * max(1, len(item.parts) // 3), line
            for part in item.parts:
                assert any(name in line for name in part.names), (line, part.names)


@given(st.text(alphabet="abc/ .", min_size=1, max_size=300))
def test_last_part_of_a_path_is_complete_in_its_line(path: str) -> None:
    raw = session([("read", 0, 5), ("run", 0, 5)])
    raw["messages"][1]["content"][1]["input"]["file_path"] = f"/{path}/the_file.py"
    item = trace_of(recording("x", raw)).items[0]
    assert "the_file.py" in item.texts[Fidelity.EVICTED]


def test_rendition_is_smaller_than_its_original_and_names_its_lost_kinds() -> None:
    for item in long_trace().items:
        if Fidelity.DETAILED in item.texts:
            assert len(item.texts[Fidelity.DETAILED]) <= len(item.text) / 2
            assert "identifier" in item.lost[Fidelity.DETAILED]


def test_any_file_is_evaluated_or_named(tmp_path: Path) -> None:
    whole = session(LONG[:8])
    whole |= {"head": {"system": "You are.", "tools": [{"name": "Read", "input_schema": {"type": "object"}}]}}
    whole |= {"resets": [{"kind": "compact", "before_msg": 8, "summary": "So it was.", "trigger": "auto"}]}
    plan = RunPlan(policies=[UNMANAGED.name], settings=Settings(tariff=API_5M), model=None, tariffs=[API_5M])
    for chance in chances(25):
        path = tmp_path / "a.jsonl"
        path.write_bytes(damage_lines([json.dumps(whole).encode() + b"\n"], chance))
        found = [each for each in read([path], lambda _: iter(())) if isinstance(each, Trace)]
        if found:
            evaluate_recordings(found, plan, skipped=[], progress=lambda *_: None, workers=1)
