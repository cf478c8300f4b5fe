"""Epochs that show short forms: old messages at L1, an edit with its new text."""

import json
import re
from collections.abc import Sequence

import attrs
import pytest
import trio

from mnemosyne.actors.helper_calls import HelperBudget, HelperModels
from mnemosyne.actors.helper_work import HelperWorker
from mnemosyne.actors.loaded_sessions import LoadedSessions
from mnemosyne.actors.questions import HelperQuestions
from mnemosyne.domain.helper.model import Completion, HelperPrompt, SameModels
from mnemosyne.domain.helper.tasks import BACKGROUND_TASKS
from mnemosyne.domain.objects.events import ObjectDegraded, ObjectRestored, ObjectSummarized
from mnemosyne.domain.objects.fidelity import Fidelity
from mnemosyne.domain.session.round_events import EpochBegan, Mode
from mnemosyne.domain.window.ages import AGES
from tests.actors.spending import EnoughTurns
from tests.actors.summaries import ENOUGH_MONEY, long_text
from tests.actors.support import PATIENT
from tests.actors.test_helper_calls import Model
from tests.actors.test_helper_work import Cache, summary
from tests.domain.helper.test_caption import WORDS, image
from tests.http.managing import Client, Json, Stage, open_stage, text, think
from tests.http.test_epochs import MINUTES, Clock, answer, client_of, edit, read, reads, results_of

TALES = ["alpha", "beta"]


class Copying(Model):
    """A model whose summary is the beginning of the text, and which sees the same in each image."""

    async def complete(self, prompt: HelperPrompt) -> Completion:
        if prompt.images:
            self.said.append(json.dumps({"captions": [WORDS] * len(prompt.images)}))
            return await super().complete(prompt)
        asked, _, given = prompt.user.partition("\n")
        (source,) = re.findall(r"^[0-9a-f]{24} source\n(.*?)\n[0-9a-f]{24} ", given, re.DOTALL | re.MULTILINE)
        most = json.loads(asked)["summary_at_most_characters"]
        self.said.append(summary(source[:most].rpartition("\n")[0]))
        return await super().complete(prompt)


async def played(stage: Stage, client: Client | None = None, tales: Sequence[str] = TALES) -> tuple[Client, Json]:
    """A client with long messages and an edit, so old that all of it is shown at less than full size."""
    client = client or client_of(stage)
    for name in tales:
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
    (began,) = await stage.events_of(EpochBegan)
    return json.dumps(stage.upstream[began.turn - 1]["messages"])


@pytest.mark.release
async def test_old_message_is_shown_at_l1_and_an_edit_with_its_new_text() -> None:
    clock = Clock()
    async with open_stage(clock=clock) as stage:
        client, message = await played(stage)
        sent = await resume(stage, client, message, clock)
        made = await stage.events_of(ObjectSummarized)
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


@pytest.mark.release
async def test_short_form_of_a_helper_is_shown_instead_of_an_extract() -> None:
    """Once a session has had a rewrite, the short forms of the next one are written before it."""
    clock, later = Clock(), ["gamma", "delta"]
    async with open_stage(clock=clock, questions=HelperQuestions()) as stage:
        client, message = await played(stage)
        clock.now += 24 * 60 * MINUTES
        answer(stage, [text("Hello.")])
        await client.turn(text("Go on."))
        extracts = [each.object for each in await stage.events_of(ObjectSummarized)]
        shoot = {"type": "tool_use", "name": "Bash", "input": {"command": "shoot page"}}
        answer(stage, [shoot], [text("I see.")])
        (call,) = results_of(await client.turn(text("Look.")))
        await client.turn({**call, "content": [image()]})
        _, message = await played(stage, client, later)
        models = HelperModels(SameModels((Copying([]),)), HelperBudget(EnoughTurns(), ENOUGH_MONEY, lambda: 1))
        worker = HelperWorker(models, stage.log, Cache(), BACKGROUND_TASKS, lambda: 1, lambda: "w")
        sessions = LoadedSessions(stage.process.registry)
        missing = len(later) + 1 + len(extracts)
        with trio.move_on_after(60) as patience:
            while True:
                request = await sessions.wait_for_order()
                if request.order.task in ("summarize", "compress", "caption"):
                    done = await worker.work(request)
                    assert done is not None
                    assert await sessions.tell(request.identity, done)
                    missing -= 1
                    patience.deadline = trio.current_time() + (60 if missing else 0.5)  # for one too many
        made = (await stage.events_of(ObjectSummarized))[len(extracts) :]
        ahead = [each.object for each in made if each.fidelity is Fidelity.DETAILED]
        assert (len(ahead), {each.helper for each in made}) == (len(later) + 1, {"scripted"})
        assert {each.object for each in made if each.fidelity is Fidelity.COMPACT} == {*extracts}
        clock.now += 24 * 60 * MINUTES
        await reads(client, stage, message, 2)
        sent = json.dumps(stage.upstream[-1]["messages"])
        assert (await stage.events_of(ObjectSummarized))[len(extracts) :] == made
        assert all(f"#{each} in part" in sent for each in (*extracts, *ahead))
        assert f": {WORDS}]" in sent
        assert image()["source"]["data"] not in sent


@pytest.mark.parametrize(("mode", "ordered"), [(Mode.MANAGE, ["caption"]), (Mode.OBSERVE, [])])
async def test_a_caption_is_ordered_once_when_the_image_arrives(mode: Mode, ordered: list[str]) -> None:
    """If the window fills up, images are evicted at the next request."""
    async with open_stage(mode=mode, questions=HelperQuestions()) as stage:
        client = client_of(stage)
        answer(stage, [text("Hello.")], [read("/docs/plan.png")], [text("I see.")], [text("Well.")])
        await client.turn(text("Hello."))
        (call,) = results_of(await client.turn(text("Look at the plan.")))
        await client.turn({**call, "content": [image()]})
        await client.turn(text("Go on."))
        sessions, found = LoadedSessions(stage.process.registry), []
        with trio.move_on_after(0.5):
            while True:
                found.append((await sessions.wait_for_order()).order.task)
        assert [each for each in found if each != "goal"] == ordered


async def test_observed_session_records_no_short_forms() -> None:
    clock = Clock()
    async with open_stage(clock=clock, mode=Mode.OBSERVE) as stage:
        client, message = await played(stage)
        clock.now += 24 * 60 * MINUTES
        await client.turn(*(results_of(message) or [text("Go on.")]))
        assert not await stage.events_of(ObjectSummarized)


@pytest.mark.release
async def test_late_summaries_are_shown_as_lines(caplog: pytest.LogCaptureFixture) -> None:
    clock = Clock()
    async with (
        open_stage(clock=clock, patience=attrs.evolve(PATIENT, summaries=0.0)) as stage,
    ):
        client, message = await played(stage)
        sent = await resume(stage, client, message, clock)
        assert "in part: what you said" not in sent
        assert "short forms were late" in caplog.text
