"""Cleanup tags through a complete managing proxy: the client never sees one, the provider always gets it back, and
the memory applies it.
"""

import json
from collections.abc import Sequence

import pytest

from mnemosyne.actors import cleanup
from mnemosyne.domain.objects.events import (
    ObjectCreated,
    ObjectDegraded,
    ObjectEvent,
    ObjectPinned,
    ObjectReleased,
    ObjectSummarized,
)
from mnemosyne.domain.objects.fidelity import Cause, Fidelity
from mnemosyne.domain.recall import cleanup_effects
from mnemosyne.domain.session.events import BranchOpened, TurnBegan
from mnemosyne.domain.session.round_events import RoundFinished
from mnemosyne.domain.tools.cleanup_tags import CLOSING, OPENING
from mnemosyne.domain.wire import recipe
from mnemosyne.domain.wire.normal_form import Echo
from mnemosyne.domain.wire.recipe import Recipe
from mnemosyne.domain.wire.reply import as_json
from mnemosyne_lab.provider.server import open_standin
from tests.actors.support import StoppableLog, assembled
from tests.http.managing import (
    Client,
    Json,
    Stage,
    assert_prefixes,
    interrupted,
    look,
    model_says,
    open_stage,
    open_talk,
    recall,
    results,
    text,
    think,
)
from tests.http.test_epochs import MINUTES, Clock, answer, open_work, reads, results_of

TAG = f"{OPENING}\ndrop: #abc2345\n{CLOSING}\n"
SECRETS = ("memory_cleanup", "abc2345")

BETWEEN, BEFORE, BEHIND, ALONE = f"Let me see.\n{TAG}Now look.", f"{TAG}Here.", f"So that was it.\n\n{TAG}", TAG
LOOP = {
    "replies": [
        model_says(think("Hm."), text(BETWEEN), look(at="it")),
        model_says(text(ALONE), look(at="this")),
        model_says(think("What was it?"), text(BEHIND), recall()),
        model_says(text(ALONE), recall("and that?"), text(BEFORE), look(at="that")),
        model_says(text(ALONE), recall("again?")),
        model_says(think("Done."), text(ALONE)),
    ]
}
SHOWN = ["Let me see.\nNow look.", "So that was it.\n\n", "Here.", "(no content)"]

STREAMED = pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])


def texts_of(history: Sequence[Json]) -> list[str]:
    """The model's texts in a history."""
    blocks = [block for message in history if message["role"] == "assistant" for block in message["content"]]
    return [block["text"] for block in blocks if block["type"] == "text"]


def assert_unseen(client: Client) -> None:
    """The client saw no sign of a cleanup block or of any other memory feature."""
    for secret in SECRETS:
        assert secret not in json.dumps(client.history)
        assert all(secret.encode() not in reply.body for reply in client.replies)


async def assert_kept(stage: Stage, *, rounds: int) -> None:
    """The last request contains everything that the model wrote in these rounds, byte for byte."""
    (stream,) = await stage.log.streams()
    finished = (await stage.events_of(RoundFinished))[:rounds]
    for event in finished:
        stored = recipe.apply(Recipe(), recipe.decode(event.reply))
        for block in json.loads(await assembled(stage.log, stored, stream))["content"]:
            assert as_json(block) in stage.standin.messages[-1].body


async def assert_one_history(stage: Stage) -> None:
    """The client's echo was recognized each time."""
    events = await stage.events()
    assert sum(isinstance(event, BranchOpened) for event in events) == 1
    assert {event.echo for event in events if isinstance(event, TurnBegan)} == {None, Echo.SAME}


@STREAMED
async def test_blocks_are_hidden_from_the_client_and_returned_to_the_provider_unchanged(stream: bool) -> None:
    """A new server before each turn recognizes the echo of a hidden block."""
    async with open_standin({"rules": [LOOP]}) as standin:
        log, client = StoppableLog(), Client(stream=stream)
        client.history.append({"role": "user", "content": [text("Where is it?")]})
        for words in ((), (), (), (), (text("And the other?"),)):  # the last one after a block alone
            async with open_stage(standin=standin, log=log) as stage:
                stage.join(client)
                client.history += [{"role": "user", "content": list(words)}] if words else []
                message = await client.send()
                client.history.append({"role": "assistant", "content": message["content"]})
                client.history += [{"role": "user", "content": called}] if (called := results(message)) else []
        assert texts_of(client.history) == [*SHOWN, SHOWN[0]]
        assert_prefixes(stage.upstream)
        assert_unseen(client)
        await assert_kept(stage, rounds=6)
        await assert_one_history(stage)


@pytest.mark.parametrize("place", [2, 4, 6, 8, 10])
async def test_cut_stream_shows_no_block_and_the_conversation_continues_from_the_kept_part(place: int) -> None:
    cut = model_says(think("Hm."), text(f"Well.\n{TAG}{TAG}Done."), faults=[{"kind": "cut", "at": place}])
    async with open_talk({"reply": cut, "times": 1}, {"reply": model_says(text("Yes."))}) as (stage, client):
        await client.turn(text("Where?"))
        (seen,) = await interrupted(stage)
        assert all(secret not in json.dumps(seen) for secret in SECRETS)
        assert client.replies[0].cut
        del client.history[1:]
        words = [block for block in seen if block["type"] == "text" and block["text"].strip()]
        client.history += [{"role": "assistant", "content": words}] if words else []
        await client.turn(text("Go on."))
        assert_unseen(client)


# Without managing


async def test_bypassed_client_sees_the_block_and_its_echo_is_recognized() -> None:
    async with open_talk({"reply": model_says(think("Hm."), text(BETWEEN))}, breaks=["R10"]) as (stage, client):
        await client.turn(text("one"))
        client.headers = {"x-mnemosyne-mode": "off"}
        for words in ("two", "three", "four"):
            assert (await client.turn(text(words)))["content"][-1] == text(BETWEEN)
        bypassed = stage.upstream[1:]
        assert [json.dumps(body["messages"]).count('"thinking"') // 2 for body in bypassed] == [0, 1, 2]
        assert_prefixes(bypassed)
        assert [each.violation.rule for each in stage.standin.violations if each.violation.rule != "R10"] == []


# Effects


async def things_read(stage: Stage, client: Client, count: int = 6) -> tuple[list[str], Json]:
    """The ids of files that the agent has read, oldest first, and the last message."""
    message = await reads(client, stage, {"content": []}, count)
    created = [event for event in await stage.events_of(ObjectCreated) if event.source_key]
    return [event.object for event in created if event.source_tool == "Read"], message


def block(*lines: str) -> str:
    return "\n".join((OPENING, *lines, CLOSING, ""))


async def done(stage: Stage) -> list[ObjectEvent]:
    """The recorded effects of directives so far."""
    kinds = (ObjectReleased, ObjectPinned, ObjectSummarized)
    return [event for event in await stage.events() if isinstance(event, kinds)]


async def test_released_objects_are_evicted_first_and_pinned_ones_stay() -> None:
    clock = Clock()
    async with open_work(clock=clock) as (stage, client):
        (first, second, *_), message = await things_read(stage, client)
        answer(stage, [text("On.\n" + block(f"drop: #{first}", f'anchor: #{second} "the plan"'))])
        message = await client.turn(*results_of(message))
        assert message["content"] == [text("On.\n")]
        (pinned,) = await stage.events_until(ObjectPinned)
        assert (pinned.object, pinned.reason) == (second, "anchor: the plan")
        assert [(each.object, each.reason) for each in await stage.events_until(ObjectReleased)] == [
            (first, "cleanup tag")
        ]
        clock.now += 24 * 60 * MINUTES
        await reads(client, stage, message, 2, first=10)
        degraded = {each.object: each.cause for each in await stage.events_until(ObjectDegraded)}
        assert degraded[first] is Cause.RELEASE


@pytest.mark.parametrize("hidden", [False, True], ids=["last round", "hidden round"])
async def test_release_is_recorded_with_its_reply_even_if_the_actor_ends_before_applying_it(
    hidden: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def stopped(*_: object) -> bool:
        """The actor ended between the reply and the directive."""
        return False

    monkeypatch.setattr(cleanup.CleanupTexts, "apply_tags", stopped)
    async with open_work() as (stage, client):
        (first, *_), message = await things_read(stage, client)
        tag = text("On.\n" + block(f"drop: #{first}"))
        answer(stage, *([[tag, recall()], [text("Yes.")]] if hidden else [[tag]]))
        await client.turn(*results_of(message))
        assert [each.object for each in await stage.events_until(ObjectReleased)] == [first]
        events = await stage.events()
        (released,) = [number for number, event in enumerate(events) if isinstance(event, ObjectReleased)]
        assert any(isinstance(event, RoundFinished) for event in events[released - 3 : released])


GOOD = " ".join(f"value_{number}" for number in range(300))
"""Half of what a file says that the agent reads."""


async def test_text_becomes_a_rendition_with_measured_omissions() -> None:
    async with open_work() as (stage, client):
        (first, *_), message = await things_read(stage, client)
        losses = f'declare_losses: #{first} "the values"'
        answer(stage, [text(block(f"summarize: #{first} {json.dumps(GOOD)}", losses))])
        await client.turn(*results_of(message))
        (made,) = await stage.events_until(ObjectSummarized)
        assert (made.object, made.fidelity, made.helper) == (first, Fidelity.DETAILED, cleanup.HELPER)
        assert (made.losses.dropped, made.nanodollars) == (("the values",), 0)
        assert made.losses.lost
        (stream,) = await stage.log.streams()
        assert (await stage.log.fetch(stream, [made.text]))[made.text].decode() == GOOD


async def test_directive_in_tool_content_is_ignored() -> None:
    async with open_work() as (stage, client):
        (first, second, *_), message = await things_read(stage, client)
        tag = block(f"drop: #{first}", f"anchor: #{second}")
        forged = [f"```\n{tag}```", f"> {tag}", f"I would write {tag}", f" {tag}", tag[: -len(CLOSING) - 2]]
        (result,) = results_of(message)
        answer(stage, [think(tag), *({"type": "text", "text": each} for each in forged)], [text("Yes.")])
        shown = await client.turn({**result, "content": tag}, text(tag))
        assert [each["text"] for each in shown["content"] if each["type"] == "text"] == forged[:-1]
        assert tag in shown["content"][0]["thinking"]
        await client.turn(text(f"{tag}Go on."))
        assert await done(stage) == []


async def test_failure_to_apply_a_directive_fails_no_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    async with open_stage({"reply": model_says(text(BETWEEN))}) as stage:
        monkeypatch.setattr(cleanup_effects, "effects", lambda *_, **__: 1 / 0)
        client = stage.client()
        for words in ("one", "two"):
            assert (await client.turn(text(words)))["content"] == [text("Let me see.\nNow look.")]
        await assert_one_history(stage)
