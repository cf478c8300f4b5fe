"""Managed requests larger than their window are found in the log, with the reason."""

import attrs
import pytest

from mnemosyne.cli.windows import excess_as_json, excess_text
from mnemosyne.domain.history.excess import UNFORESEEN, Excess, excesses
from mnemosyne.domain.history.time_travel import history_of
from mnemosyne.domain.session.round_events import EpochBegan, Mode, RoundBegan, WindowFilled
from mnemosyne.domain.window.epochs import REST_STAYS, UNPLANNED
from mnemosyne_lab.provider.cache import steps
from tests.actors.support import PATIENT
from tests.http.managing import Stage, open_stage, text
from tests.http.test_epochs import SMALL, answer, client_of, read, reads, results_of, starved
from tests.http.test_switching import MODE


async def found_in(stage: Stage, window: int = SMALL) -> list[Excess]:
    return list(excesses(history_of("s", await stage.log.read(await stage.stream())), window))


async def test_an_excess_from_one_requests_new_content_is_reported() -> None:
    async with open_stage(window=SMALL) as stage:
        client = client_of(stage)
        message = await reads(client, stage, {"content": []}, 2)
        assert await found_in(stage) == []
        answer(stage, [read("/src/next.py")])
        await client.turn(*results_of(message, size=1_800))
        await stage.events_until(WindowFilled)
        (found,) = await found_in(stage)
        assert (found.branch, found.turn, found.window) == ("main", 3, SMALL)
        assert found.sent == max(_prompts(stage))
        assert found.why.startswith("the window overflows, but a rewrite would free only ")
        assert found.new is not None
        assert 10_000 < found.new < found.sent
        said = excess_text(found)
        assert said.startswith("window 14.0k, sent ")
        assert " at turn 3, because the window overflows" in said
        assert "is new in this request" in said
        assert excess_as_json(found)["window_tokens"] == SMALL


async def test_an_excess_that_no_rewrite_can_avoid_is_reported() -> None:
    async with open_stage(window=SMALL) as stage:
        client = client_of(stage)
        message = await reads(client, stage, {"content": []}, 5)
        answer(stage, [read("/src/next.py")])
        await client.turn(*results_of(message, size=1_500))
        *_, filled = await stage.events_until(WindowFilled)
        *_, epoch = await stage.events_until(EpochBegan)
        assert (filled.turn, filled.why) == (epoch.turn, REST_STAYS) == (6, REST_STAYS)


async def test_an_unplanned_request_reports_its_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    async with open_stage(window=SMALL) as stage:
        client = client_of(stage)
        message = await reads(client, stage, {"content": []}, 4)
        stage.process.registry.patience = attrs.evolve(PATIENT, actor=0.01, database=0.01)
        fed = await starved(monkeypatch)
        answer(stage, [read("/src/next.py")])
        await client.turn(*results_of(message, size=900))
        fed.set()
        await stage.events_until(RoundBegan, 5)
        *_, filled = await stage.events_until(WindowFilled)
        assert (filled.turn, filled.why) == (5, UNPLANNED)


async def test_an_underestimate_is_reported_and_an_unmanaged_branch_has_no_window() -> None:
    async with open_stage(window=SMALL) as stage:
        client = client_of(stage)
        await reads(client, stage, {"content": []}, 3)
        least = min(_prompts(stage))
        over = await found_in(stage, least)
        assert {each.why for each in over} == {UNFORESEEN}
        assert len(over) == 2
        client.headers = {MODE: "off"}
        answer(stage, [text("Well.")])
        await client.turn(*results_of(client.history[-1]))
        assert [each.mode for each in await stage.modes()][-1] is Mode.BYPASS
        assert await found_in(stage, least) == over, "what was sent while it was managed, and nothing since"


def _prompts(stage: Stage) -> list[int]:
    """The sizes of the requests to the provider, by its own count."""
    return [steps(each.json()).tokens for each in stage.standin.messages]
