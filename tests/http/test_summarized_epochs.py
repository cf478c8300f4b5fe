"""Epochs that show short forms: old messages at L1, an edit with its new text."""

import json

import attrs
import pytest

from mnemosyne.domain.objects.events import ObjectDegraded, ObjectRestored, ObjectSummarized
from mnemosyne.domain.objects.fidelity import Fidelity
from mnemosyne.domain.session.round_events import Mode
from mnemosyne.domain.window.ages import AGES
from tests.actors.summaries import long_text
from tests.actors.support import PATIENT
from tests.http.managing import Client, Json, Stage, open_stage, text, think
from tests.http.test_epochs import MINUTES, Clock, answer, client_of, edit, epochs_of, reads, results_of

TALES = ["alpha", "beta"]


async def played(stage: Stage) -> tuple[Client, Json]:
    """A client with two long messages and an edit, so old that all of it is shown at less than full size."""
    client = client_of(stage)
    for name in TALES:
        answer(stage, [think(), text(long_text(name))])
        await client.turn(text(f"Tell me of {name}."))
    answer(stage, [think(), edit("/src/part_0.py")])
    message = await client.turn(text("Change it."))
    for number in range(AGES.said.turns + 1):
        answer(stage, [think(), text(f"Step {number} is done.")])
        message = await client.turn(*(results_of(message) or [text("Go on.")]))
    return client, message


async def resume(stage: Stage, client: Client, message: Json, clock: Clock) -> str:
    """The user returns after a day; return the older part of the provider's request."""
    clock.now += 24 * 60 * MINUTES
    await reads(client, stage, message, 2)
    (began,) = await epochs_of(stage)
    return json.dumps(stage.upstream[began.turn - 1]["messages"])


async def test_old_message_is_shown_at_l1_and_an_edit_with_its_new_text() -> None:
    clock = Clock()
    async with open_stage(clock=clock) as stage:
        client, message = await played(stage)
        sent = await resume(stage, client, message, clock)
        made = [each for each in await stage.events() if isinstance(each, ObjectSummarized)]
        assert {each.fidelity for each in made} == {Fidelity.DETAILED}
        (stream,) = await stage.log.streams()
        texts = await stage.log.fetch(stream, [each.text for each in made])
        assert len(made) >= len(TALES)
        for name in TALES:
            (each,) = [each for each in made if f"{name}_db" in texts[each.text].decode()]
            assert f"#{each.object} in part" in sent
            by_user, _, words = (
                texts[each.text].decode().partition("[assistant]\n")
            )  # the role of the author is clear in the window
            assert f"Tell me of {name}." in by_user  # where the user's message is complete
            assert json.dumps(words)[1:-1] in sent
            assert sent.count(f"Tell me of {name}.") == 1
        assert sent.count("old words") < 10 < sent.count("new words")
        await stage.check(client)


async def test_every_recorded_form_is_shown_by_the_rewrite_that_recorded_it() -> None:
    clock = Clock()
    async with open_stage(clock=clock) as stage:
        client, message = await played(stage)
        await resume(stage, client, message, clock)
        events = await stage.events()
    made = {(each.object, each.fidelity) for each in events if isinstance(each, ObjectSummarized)}
    shown = {(each.object, each.after) for each in events if isinstance(each, ObjectDegraded | ObjectRestored)}
    assert made
    assert made <= shown


async def test_observed_session_records_no_short_forms() -> None:
    clock = Clock()
    async with open_stage(clock=clock, mode=Mode.OBSERVE) as stage:
        client, message = await played(stage)
        clock.now += 24 * 60 * MINUTES
        await client.turn(*(results_of(message) or [text("Go on.")]))
        assert not [each for each in await stage.events() if isinstance(each, ObjectSummarized)]


async def test_late_summaries_are_shown_as_lines(caplog: pytest.LogCaptureFixture) -> None:
    clock = Clock()
    async with (
        open_stage(clock=clock, patience=attrs.evolve(PATIENT, summaries=0.0)) as stage,
    ):
        client, message = await played(stage)
        sent = await resume(stage, client, message, clock)
        assert "in part: what you said" not in sent
        assert "short forms were late" in caplog.text
        await stage.check()
