"""The recorded cost is added up exactly, the alternative is simulated, and unknowns are reported."""

import json
import os
from pathlib import Path

import pytest

from mnemosyne_lab.evaluation.policy import LOCAL
from mnemosyne_lab.evaluation.what_if import WhatIf, what_if
from tests.damaged import chances, damage_lines
from tests.lab.evaluation.transcripts_made import Transcript


def review(*paths: Path, since: str = "2026-10-01", said: list[str] | None = None) -> WhatIf:
    return what_if(
        paths,
        since=since,
        tariffs=(),
        say=(said if said is not None else []).append,
        progress=lambda *_: None,
        workers=1,
    )


def test_progress_counts_read_files_before_simulations(tmp_path: Path) -> None:
    for name in ("one", "two", "three"):
        Transcript(prefix=name).work(2).write(tmp_path / f"{name}.jsonl")
    seen: list[tuple[int, int]] = []

    def record_progress(done: int, total: int) -> None:
        seen.append((done, total))

    what_if([tmp_path], since="2026-10-01", tariffs=(), say=lambda _: None, progress=record_progress, workers=1)
    assert seen[:3] == [(0, 3), (1, 3), (2, 3)]
    assert len(seen) > 3


def test_recorded_cost_is_the_sum_of_all_replies_and_the_simulation_is_close(tmp_path: Path) -> None:
    Transcript().work(30).write(tmp_path / "a" / "one.jsonl")
    Transcript(prefix="x", sidechain="a7").work(4).write(tmp_path / "a" / "one" / "subagents" / "agent-a7.jsonl")
    found = review(tmp_path)
    assert (found.sessions, found.agents, found.replies) == (1, 1, 36)
    assert found.evaluation is not None
    (unmanaged, ours) = found.evaluation.policies
    assert sum(each.nanodollars for each in unmanaged.sessions) == found.recorded > 0
    assert all(each.scale == pytest.approx(1, rel=0.02) for each in unmanaged.sessions)
    assert sum(each.nanodollars for each in ours.sessions) <= found.recorded
    assert any(
        "14," in each or "15," in each
        for each in found.unknown
        if each.startswith("Transcripts omit the system prompt")
    )
    assert any(each.startswith("1 sub-agent conversation:") for each in found.unknown)


def test_only_conversations_active_in_the_period_count_completely(tmp_path: Path) -> None:
    Transcript(prefix="old").work(2).write(tmp_path / "old.jsonl")
    Transcript(prefix="new", seconds=86_400 - 20.0).work(2).write(tmp_path / "new.jsonl")
    assert review(tmp_path, since="2026-11-01").replies == 6
    assert review(tmp_path, since="2026-11-02").replies == 3
    nothing = review(tmp_path, since="2026-11-03")
    assert (nothing.replies, nothing.evaluation) == (0, None)


def test_reply_in_two_files_counts_in_the_older_file(tmp_path: Path) -> None:
    first = Transcript().work(2)
    again = Transcript(lines=list(first), number=3, prompt=first.prompt, seconds=first.seconds).work(1)
    newer, older = again.write(tmp_path / "a.jsonl"), first.write(tmp_path / "b.jsonl")
    os.utime(older, (1, 1))
    os.utime(newer, (2, 2))
    found = review(tmp_path)
    assert found.replies == 5
    assert found.evaluation is not None
    assert {each.name: each.turns for each in found.evaluation.policies[0].sessions} == {"b": 3, "a": 2}


def test_recorded_tariff_is_used_and_others_only_on_request(tmp_path: Path) -> None:
    made = Transcript()
    made.user("Go.")
    made.reply({"type": "text", "text": "Done."}, hour=True)
    path = made.write(tmp_path / "t.jsonl")
    found = review(path)
    assert found.tariff.name == "api-1h"
    assert found.evaluation is not None
    assert {each.tariff for each in found.evaluation.comparisons} == {"api-1h", "quota"}
    other = what_if([path], since="", tariffs=[LOCAL], say=lambda _: None, progress=lambda *_: None, workers=1)
    assert other.evaluation is not None
    assert {each.tariff for each in other.evaluation.comparisons} == {"api-1h", "local"}


def test_two_files_of_one_name_are_two_sessions(tmp_path: Path) -> None:
    for folder in ("a", "b"):
        Transcript(prefix=folder).work(1).write(tmp_path / folder / "t.jsonl")
    found = review(tmp_path)
    assert found.evaluation is not None
    assert [each.name for each in found.evaluation.policies[0].sessions] == ["t", "t (2)"]
    assert sum(each.nanodollars for each in found.evaluation.policies[0].sessions) == found.recorded


def test_any_transcript_is_evaluated_or_skipped(tmp_path: Path) -> None:
    whole = Transcript()
    whole.work(3)
    whole.put(type="system", subtype="compact_boundary", compactMetadata={"trigger": "auto", "preTokens": 100})
    whole.user("So it was.", isCompactSummary=True)
    whole.reply({"type": "text", "text": "Well."})
    lines = [json.dumps(line).encode() + b"\n" for line in whole.lines]
    for chance in chances(25):
        path = tmp_path / "a.jsonl"
        path.write_bytes(damage_lines(lines, chance))
        review(path)


@pytest.mark.parametrize("time", [None, "", 1_793_000_000_000])
def test_conversations_without_times_are_named_and_skipped(time: object, tmp_path: Path) -> None:
    for name in ("a", "b"):
        made = Transcript(prefix=name).work(1)
        made.lines = [line | {"timestamp": time} for line in made]
        made.write(tmp_path / f"{name}.jsonl")
    assert list(review(tmp_path).unknown) == [
        "2 conversations left out: the records have no times, so when they were used is not known."
    ]
    Transcript(prefix="c").work(1).write(tmp_path / "c.jsonl")
    found = review(tmp_path)
    assert (found.sessions, found.replies, found.unknown[0][:30]) == (1, 2, "2 conversations left out: the ")


def test_reply_to_an_untimed_prompt_has_the_time_of_its_first_record(tmp_path: Path) -> None:
    made = Transcript().work(1)
    made.lines = [{**line, "timestamp": None} if line["type"] == "user" else line for line in made]
    assert review(made.write(tmp_path / "t.jsonl")).replies == 2


@pytest.mark.parametrize("since", ["2026-10-01", "2026-12-01"])
def test_replies_without_whole_counts_in_the_period_are_named_and_skipped(since: str, tmp_path: Path) -> None:
    made = Transcript().work(2)
    for line in made:
        if line["type"] == "assistant":
            line["message"]["usage"] = {"input_tokens": 1e3, "output_tokens": 1e2}
    found = review(made.write(tmp_path / "t.jsonl"), since=since)
    sentence = "3 replies left out: the token counts are missing or are not whole numbers."
    assert (found.replies, list(found.unknown)) == (0, [sentence] if since < "2026-11" else [])
