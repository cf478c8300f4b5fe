r"""Conversations whose client history exceeds the model's window: they can always continue.

The provider refuses a prompt that is longer than its model's window, as the real one does.
"""

import json
from collections.abc import Iterator

import attrs
import pytest

from mnemosyne.actors.epochs import Epochs
from mnemosyne.actors.messages import CompleteDeferred
from mnemosyne.cli.explain import _as_json, _paragraphs
from mnemosyne.domain.history import memory_travel
from mnemosyne.domain.objects.events import ObjectDegraded, TurnAssessed
from mnemosyne.domain.session.round_events import FallbackSent, Mode
from mnemosyne.domain.tools.memory_tools import NAMES
from mnemosyne.domain.window.epochs import NO_LONGER_FITS
from mnemosyne.domain.window.rounds import NO_ANSWER
from tests.actors.support import IDENTITY, PATIENT
from tests.http.managing import Client, Stage, assert_nothing_of_ours, assert_prefixes, open_stage, text
from tests.http.test_epochs import SMALL, TOOLS, answer, client_of, epochs_of, read, reads, results_of
from tests.http.test_switching import MODE, broken_rules
from tests.tables import other_tables

MODEL_WINDOW = 40_000
"""Tokens that the model takes."""


@pytest.fixture(autouse=True)
def small_model() -> Iterator[None]:
    with other_tables({"models": {"claude-opus-5-5": {"window": MODEL_WINDOW}}}):
        yield


async def outgrown(stage: Stage) -> Client:
    """A managed conversation whose client history exceeds the model's window."""
    client = client_of(stage)
    await reads(client, stage, {"content": []}, 16)
    answer(stage, [text("All read.")])
    await client.turn(*results_of(client.history[-1]))
    return client


@pytest.mark.parametrize("asked", ["off", "observe"])
async def test_switched_off_conversation_continues_the_sent_history_if_the_clients_does_not_fit(
    asked: str,
) -> None:
    async with open_stage(window=SMALL) as stage:
        client = await outgrown(stage)
        client.headers = {MODE: asked}
        before = len(stage.upstream)
        answer(stage, [read("/one_more.py")], [text("Yes.")])
        await client.work("And now?")
        await client.turn(text("And then?"))
        assert [each.status for each in stage.standin.messages if each.status != 200] == []
        assert broken_rules(stage) == []
        observed, bypassed = await stage.modes()
        assert (observed.mode, bypassed.mode) == (Mode.MANAGE, Mode.BYPASS)
        assert NO_LONGER_FITS in bypassed.why
        assert (await epochs_of(stage))[-1].reason == NO_LONGER_FITS
        after = stage.upstream[before:]
        assert len(after) == 3
        assert all(body["tools"] == TOOLS for body in after)
        assert not any(name in json.dumps(each) for each in after for name in NAMES)
        assert_prefixes(after)
        gone = next(each for each in await stage.events() if isinstance(each, ObjectDegraded))
        assert f"#{gone.object} Read /src/part_0.py" in json.dumps(after[0]["messages"])
        assert_nothing_of_ours(client)
        await stage.rounds()


async def off(stage: Stage) -> Client:
    """Such a conversation after managing ended and one more request."""
    client = await outgrown(stage)
    client.headers = {MODE: "off"}
    answer(stage, [text("Yes.")])
    await client.turn(text("And now?"))
    return client


def refused(stage: Stage) -> list[int | None]:
    return [each.status for each in stage.standin.messages if each.status != 200]


async def test_client_that_goes_back_a_little_still_continues_the_sent_history() -> None:
    async with open_stage(window=SMALL) as stage:
        client = await off(stage)
        del client.history[-6:]  # the client's own history is still too long
        await client.turn(*results_of(client.history[-1]), text("No. Something else."))
        before = len(stage.upstream)
        await client.turn(text("And then?"))
        assert refused(stage) == []
        assert broken_rules(stage) == []
        assert [each.reason for each in await epochs_of(stage)][-2:] == [NO_LONGER_FITS, NO_LONGER_FITS]
        assert_prefixes(stage.upstream[before - 1 :])
        await stage.rounds()


async def test_client_that_goes_back_far_enough_is_sent_unchanged() -> None:
    async with open_stage(window=SMALL) as stage:
        client = await off(stage)
        del client.history[5:]
        await client.turn(text("No. Something else."))
        assert refused(stage) == []
        assert broken_rules(stage) == []
        assert "[#" not in json.dumps(stage.upstream[-1]["messages"])
        await stage.rounds()


async def test_client_can_compact_such_a_conversation() -> None:
    async with open_stage(window=SMALL) as stage:
        client = await off(stage)
        answer(stage, [text("<summary>Files were read.</summary>")])
        await client.turn(text("CRITICAL: Respond with TEXT ONLY. Do NOT call any tools. Summarize."))
        opening = "This session is being continued from a previous conversation that ran out of context. "
        client.history = [{"role": "user", "content": [text(opening + "Files were read.")]}]
        answer(stage, [text("Yes.")])
        await client.send()
        assert refused(stage) == []
        assert broken_rules(stage) == []
        assert stage.standin.messages[-1].body == client.bodies[-1]


async def test_refusal_loses_nothing_if_the_sent_history_cannot_be_rendered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def failing(*_: object) -> None:
        """Nothing can be rendered."""

    async with open_stage(window=SMALL) as stage:
        client = await outgrown(stage)
        client.headers = {MODE: "off"}
        with monkeypatch.context() as broken:
            broken.setattr(Epochs, "begin_again", failing)
            message = await client.turn(text("And now?"))
            assert "prompt is too long" in message["error"]["message"]
        assert "error" not in await client.send()
        assert broken_rules(stage) == []


async def test_request_that_needs_its_session_to_fit_waits_for_it() -> None:
    async with open_stage(window=SMALL) as stage:
        client = await outgrown(stage)
        stage.process.registry.patience = attrs.evolve(PATIENT, actor=0.0)
        answer(stage, [text("Yes.")])
        await client.turn(text("And now?"))
        assert refused(stage) == []
        assert stage.standin.violations == []
        assert [each.mode for each in await stage.modes()] == [Mode.MANAGE]
        assert len(stage.upstream[-1]["tools"]) > len(TOOLS)
        await stage.rounds()


async def test_observed_conversation_of_any_size_never_waits_that_long(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with open_stage(window=1_000) as stage:
        client = client_of(stage)
        client.headers = {MODE: "observe"}
        message = await reads(client, stage, {"content": []}, 1)
        client.headers = {}
        stage.process.registry.patience = attrs.evolve(PATIENT, actor=0.0)
        await reads(client, stage, message, 1, first=1)
        assert "waits for its plan" not in caplog.text
        assert stage.standin.messages[-1].body == client.bodies[-1]


async def test_request_that_fits_without_its_session_does_not_wait_that_long() -> None:
    async with open_stage(window=SMALL) as stage:
        client = client_of(stage)
        await reads(client, stage, {"content": []}, 2)
        registry, stream = stage.process.registry, await stage.stream()
        actor, asked = registry.ask(IDENTITY, CompleteDeferred())
        await asked.wait()
        registry.discard(stream, actor)  # the last sent history must be read from the log
        registry.patience = attrs.evolve(PATIENT, loading=0.0)
        answer(stage, [text("Yes.")])
        await client.turn(*results_of(client.history[-1]))
        assert [event.why for event in await stage.events_until(FallbackSent)] == [NO_ANSWER]
        assert refused(stage) == []
        assert broken_rules(stage) == []


@pytest.mark.parametrize(("files", "outcome"), [(4, "fits"), (7, "near"), (16, "refused")])
async def test_user_is_told_the_size_of_the_conversation_without_the_proxy(files: int, outcome: str) -> None:
    async with open_stage(window=SMALL) as stage:
        await reads(client_of(stage), stage, {"content": []}, files)
        await stage.events_until(TurnAssessed, files)
        found = memory_travel.snapshot(await stage.log.read(await stage.stream()), "main")
    told = _as_json(found, None)["without_us"]
    sentences = [sentence for sentence, _ in _paragraphs(found, None)]
    assert (told["outcome"], told["model_window"]) == (outcome, MODEL_WINDOW)
    assert any(f"{told['tokens'] / 1000:.1f}k tokens, and the model's limit is 40.0k" in each for each in sentences)


async def test_user_of_an_observed_conversation_is_not_told_its_size() -> None:
    async with open_stage(mode=Mode.OBSERVE) as stage:
        await reads(client_of(stage), stage, {"content": []}, 2)
        await stage.events_until(TurnAssessed, 2)
        found = memory_travel.snapshot(await stage.log.read(await stage.stream()), "main")
    assert _as_json(found, None)["without_us"] is None
    assert not any("without the proxy" in sentence for sentence, _ in _paragraphs(found, None))
