"""A session with a rewritten history: sizes near the provider's counts, and the turns of its blocks."""

import json
from collections.abc import Sequence
from itertools import pairwise
from uuid import UUID

import attrs
import pytest
import trio

from mnemosyne.domain.cost.tokens import Features
from mnemosyne.domain.history.memory_travel import MemorySnapshot, snapshot
from mnemosyne.domain.history.time_travel import history_of, place_of
from mnemosyne.domain.objects.ids import NOTE
from mnemosyne.domain.ports import Recorded
from mnemosyne.domain.session.events import Event
from mnemosyne.domain.session.round_events import EpochBegan
from mnemosyne.services import contexts
from tests.http.managing import text, think
from tests.http.test_epochs import SMALL, answer, open_work, read, reads
from tests.services.talking import Plain

TURNS = 12


@attrs.frozen
class Rewritten:
    """Its log, the turns that began with a rewrite, and a branch that goes back to before it."""

    archive: Plain
    stream: UUID
    recorded: Sequence[Recorded[Event]]
    epochs: Sequence[int]
    fork: str

    def moments(self, branch: str, first: int) -> list[MemorySnapshot]:
        """The branch at each of its turns from the first one on."""
        last = snapshot(self.recorded, branch).turn
        return [snapshot(self.recorded, branch, turn) for turn in range(first, last + 1)]


@pytest.fixture(scope="module")
def rewritten() -> Rewritten:
    return trio.run(_play)


async def _play() -> Rewritten:
    async with open_work(window=SMALL) as (stage, client):
        await reads(client, stage, {"content": []}, TURNS)
        turns = [each.turn for each in await stage.events_of(EpochBegan) if each.branch == "main"]
        del client.history[2 * turns[-1] - 3 :]
        answer(stage, [think(), read("/another.py")])
        message = await client.turn(text("No. Something else."))
        await reads(client, stage, message, 3, first=20)
        (stream,) = await stage.log.streams()
        recorded = await stage.log.read(stream)
        return Rewritten(Plain(stage.log), stream, recorded, turns, (await stage.events_of(EpochBegan))[-1].branch)


@pytest.mark.release
async def test_estimates_are_near_the_provider_s_counts_and_fit_the_window(rewritten: Rewritten) -> None:
    assert len(rewritten.epochs) >= 2
    for now in (*rewritten.moments("main", 2), *rewritten.moments(rewritten.fork, rewritten.epochs[-1])[1:]):
        assert now.counted is not None
        assert now.assessed.tokens == pytest.approx(now.counted, rel=0.15), (now.branch, now.turn)
        if now.branch == "main":
            estimator = now.memory.view_of("main").estimator(now.assessed.model)
            assert now.assessed.usable == SMALL - estimator.tokens(Features(*now.assessed.head))


async def test_an_estimate_starts_from_the_last_count_and_knows_of_a_rewrite(rewritten: Rewritten) -> None:
    for before, now in pairwise(rewritten.moments("main", 1)):
        assert now.anchor is not None
        assert now.anchor.total == before.counted
        assert now.since_rewritten is (now.turn in rewritten.epochs)


async def test_a_stub_has_the_turn_of_its_object(rewritten: Rewritten) -> None:
    history = history_of(str(rewritten.stream), rewritten.recorded)
    attempt = history.at("main", place_of(f"{TURNS}/1"))
    found = await contexts.context_of(rewritten.archive, rewritten.stream, history, attempt)
    objects = snapshot(rewritten.recorded, "main").memory.objects
    turns = []
    for block in found.view.blocks:
        said = json.loads(found.rebuilt.body[slice(*block.span)])
        words = said.get("text") or said.get("content") if isinstance(said, dict) else None
        if isinstance(words, str) and words.startswith(NOTE):
            turns.append((block.origin, objects[words.partition("#")[2][:7]].first_turn))
    assert turns
    assert all(origin == turn for origin, turn in turns)
    calls = [block.origin or 0 for block in found.view.blocks if block.kind == "tool_use"]
    assert calls == sorted(calls)
    assert calls[-1] == TURNS
