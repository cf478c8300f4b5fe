"""A stored session in which a removed feature took part is decided again, with a note where it did."""

from pathlib import Path

import pytest

from mnemosyne.replay.deciding import REMOVED, review
from tests.golden.sessions import LOGS, opened, stored

RETIRED = {"session.goal_changed.v1", "session.memory_brought.v1", "session.brought_judged.v1"}
FOLDERS = [
    folder
    for folder in sorted(LOGS.iterdir())
    if (folder / "contents.jsonl").exists() and RETIRED & {each.name for each in stored(folder)}
]


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
async def test_a_decision_with_goals_or_prefetch_is_skipped_with_a_note(folder: Path) -> None:
    archive = opened(folder)
    streams = dict.fromkeys(each.stream for each in stored(folder) if each.name in RETIRED)
    for stream in streams:
        found = await review(archive, str(stream))
        assert REMOVED in {each.why for each in found.skipped}
        assert not {"GoalChanged", "MemoryBrought", "BroughtJudged"} & {each.event for each in found.differences}
