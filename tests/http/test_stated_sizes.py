"""The model reads the same object sizes as people do in `mnemosyne objects`, however the provider counts."""

import re
from collections.abc import Mapping, Sequence
from typing import cast

import attrs
import pytest

from mnemosyne.domain.objects.events import ObjectCreated, ObjectDegraded, ObjectRequested, TurnAssessed
from mnemosyne.domain.objects.fidelity import Fidelity
from mnemosyne.domain.session.events import Event
from mnemosyne.domain.session.input_events import SettingsTaken
from mnemosyne.replay.running import MemoryArchive
from mnemosyne.services import pins, windows
from mnemosyne.services.read_models import ReadModels
from mnemosyne_lab.provider import reading
from tests.http.managing import Client, Json, Stage, look_for, open_stage, restore, think
from tests.http.test_epochs import LARGE, MINUTES, Clock, answer, client_of, explore, read, reads, results_of
from tests.replay.test_managed import copy_with, review_only, reviewed


@pytest.fixture(params=[0.7, 1.4], ids=["counts-fewer", "counts-more"])
def share(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> float:
    """The ratio of the provider's token count to the expected one."""
    monkeypatch.setattr(reading, "TOKENS_PER_CHARACTER", request.param * reading.TOKENS_PER_CHARACTER)
    return cast("float", request.param)


async def evict(client: Client, stage: Stage, clock: Clock, *, size: int = 300) -> Json:
    """A session that resumes after an hour, when old content is evicted."""
    message = await explore(client, stage, 12, size=size)
    clock.now += 60 * MINUTES
    return await reads(client, stage, message, 1, first=12, size=size)


async def find_evicted(stage: Stage) -> Sequence[str]:
    """The evicted objects, largest estimate first."""
    events = await stage.events()
    estimates = {each.object: each.tokens for each in events if isinstance(each, ObjectCreated)}
    left = {each.object for each in events if isinstance(each, ObjectDegraded)}
    return sorted(left, key=lambda each: -estimates[each])


async def list_sizes(stage: Stage) -> Mapping[str, int]:
    """The full size of each object, as `mnemosyne objects` states it."""
    turn = [each.turn for each in await stage.events() if isinstance(each, TurnAssessed)][-1]
    archive, session = MemoryArchive(stage.log), str(await stage.stream())
    no_tables = cast("ReadModels", None)
    listing = await windows.list_objects(archive, no_tables, session, "main", turn)
    return {each.object.id: each.object.tokens for each in listing.standings}


async def call(client: Client, stage: Stage, message: Json, hidden: Json) -> tuple[str, Json]:
    """The model's result for a hidden call, and the client's final reply."""
    answer(stage, [think(), hidden], [think(), read("/src/next.py")])
    message = await client.turn(*results_of(message))
    assert "error" not in message, message
    (result,) = stage.upstream[-1]["messages"][-1]["content"]
    return str(result["content"]), message


async def check_answers(client: Client, stage: Stage, message: Json, wanted: str) -> Json:
    """Each tool that states a size states the same one as `mnemosyne objects`."""
    searched, message = await call(client, stage, message, look_for("part_0.py part_1.py part_2.py"))
    restored, message = await call(client, stage, message, restore(wanted))
    ids = re.findall(r": #(\S+) L0, ", searched)
    release = {"type": "tool_use", "name": "memory_release", "input": {"object_ids": [wanted, *ids], "reason": "done"}}
    released, message = await call(client, stage, message, release)
    sizes = await list_sizes(stage)
    found = re.findall(r": #(\S+) L\d, .* ([\d,]+) tokens in full", searched)
    assert len(found) >= 3
    assert {each: as_number(size) for each, size in found} == {each: sizes[each] for each, _ in found}
    (cost,) = re.findall(r"Cost: about ([\d,]+) tokens", restored)
    assert as_number(cost) == sizes[wanted]
    (left,) = re.findall(r"restores or answers, ([\d,]+) tokens", restored)
    assert as_number(left) == 8_192 - sizes[wanted]
    for names, size in re.findall(r"Released: (.*), ([\d,]+) tokens in full", released):
        assert as_number(size) == sum(sizes[each] for each in names.replace("#", "").split(", "))
    return message


def as_number(written: str) -> int:
    return int(written.replace(",", ""))


async def test_tools_state_the_size_of_the_objects_command_also_after_a_restart(share: float) -> None:
    clock = Clock()
    async with open_stage(clock=clock) as stage:
        client = client_of(stage)
        message = await evict(client, stage, clock)
        estimates = {each.object: each.tokens for each in await stage.events() if isinstance(each, ObjectCreated)}
        first, sizes = next(iter(estimates)), await list_sizes(stage)
        assert (sizes[first] < estimates[first]) == (share < 1)
        assert sizes[first] != estimates[first]
        *_, one, other = await find_evicted(stage)
        message = await check_answers(client, stage, message, other)
        async with open_stage(clock=clock, log=stage.log, standin=stage.standin) as again:
            client.url = again.url
            await check_answers(client, again, message, one)
        assert stage.standin.violations == []
        found = await reviewed(stage.log)
        assert (found.differences, found.skipped) == ([], [])


async def test_refusal_states_the_size_of_the_objects_command(share: float) -> None:
    clock = Clock()
    async with open_stage(clock=clock) as stage:
        client = client_of(stage)
        message = await evict(client, stage, clock, size=LARGE)
        wanted = (await find_evicted(stage))[0]
        refused, _ = await call(client, stage, message, restore(wanted))
        assert refused.startswith(f"#{wanted} has about {(await list_sizes(stage))[wanted]:,} tokens at L0")
        # The user's request is met by the short form that fits.
        archive, session = MemoryArchive(stage.log), str(await stage.stream())
        await pins.restore(
            archive, wanted, session=session, branch="main", reason="needed", at=clock.now, correlation_id="c"
        )
        requested = [each for each in await stage.events() if isinstance(each, ObjectRequested)]
        assert [(each.object, each.after) for each in requested] == [(wanted, Fidelity.DETAILED)]


async def test_earlier_answers_are_replayed_with_the_estimates_they_stated(share: float) -> None:
    def of_before(event: Event) -> Event:
        return attrs.evolve(event, counted=False) if isinstance(event, SettingsTaken) else event

    clock = Clock()
    async with open_stage(clock=clock) as stage:
        client = client_of(stage)
        message = await evict(client, stage, clock)
        await call(client, stage, message, restore((await find_evicted(stage))[0]))
    differences = (await review_only(await copy_with(stage.log, of_before))).differences
    assert {(each.event, each.field) for each in differences} >= {
        ("RoundFinished", "answers"),
        ("RoundFinished", "tokens"),
        ("ObjectFaulted", "tokens"),
    }
