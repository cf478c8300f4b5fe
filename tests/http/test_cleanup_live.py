"""Cleanup tags through the whole of a managing proxy: the client never sees one, the provider always gets it back, and
the memory does what it says.
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
from mnemosyne.domain.session.round_events import Mode, RoundFinished
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
    assert_nothing_of_ours,
    assert_prefixes,
    interrupted,
    look,
    open_stage,
    recall,
    results,
    said,
    script,
    text,
    think,
)
from tests.http.test_epochs import MINUTES, Clock, answer, client_of, reads, results_of

TAG = f"{OPENING}\ndrop: #abc2345\n{CLOSING}\n"
SECRETS = ("memory_cleanup", "abc2345")

BETWEEN, BEFORE, BEHIND, ALONE = f"Let me see.\n{TAG}Now look.", f"{TAG}Here.", f"So that was it.\n\n{TAG}", TAG
LOOP = {
    "replies": [
        said(think("Hm."), text(BETWEEN), look(at="it")),
        said(text(ALONE), look(at="this")),
        said(think("What was it?"), text(BEHIND), recall()),
        said(text(ALONE), recall("and that?"), text(BEFORE), look(at="that")),
        said(text(ALONE), recall("again?")),
        said(think("Done."), text(ALONE)),
    ]
}
SHOWN = ["Let me see.\nNow look.", "So that was it.\n\n", "Here.", "(no content)"]

STREAMED = pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])


def texts_of(history: Sequence[Json]) -> list[str]:
    """What the model says in a history."""
    blocks = [block for message in history if message["role"] == "assistant" for block in message["content"]]
    return [block["text"] for block in blocks if block["type"] == "text"]


def assert_unseen(client: Client) -> None:
    """The client saw no sign of a cleanup block, and of nothing else of ours."""
    assert_nothing_of_ours(client)
    for secret in SECRETS:
        assert secret not in json.dumps(client.history)
        assert all(secret.encode() not in reply.body for reply in client.replies)


async def assert_kept(stage: Stage, *, rounds: int) -> None:
    """All that the model said in so many rounds stands in the last request, to the byte."""
    (stream,) = await stage.log.streams()
    finished = [event for event in await stage.events() if isinstance(event, RoundFinished)][:rounds]
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
async def test_blocks_are_hidden_wherever_they_stand_and_go_back_to_the_provider_as_they_came(stream: bool) -> None:
    async with open_stage(LOOP) as stage:
        client = Client(stage.url, stream=stream)
        for prompt in ("Where is it?", "And the other?"):
            message = await client.work(prompt)
            assert message["content"][-1] == text("(no content)")
        assert texts_of(client.history) == SHOWN * 2
        assert stage.standin.violations == []
        assert_prefixes(stage.upstream)
        assert_unseen(client)
        said_before = [BETWEEN, ALONE, BEHIND, ALONE, BEFORE, ALONE, ALONE]
        assert texts_of(stage.upstream[-1]["messages"]) == [*said_before, *said_before[:-1]]
        await assert_kept(stage, rounds=10)
        await assert_one_history(stage)
        await stage.rounds()


async def test_a_server_started_anew_knows_the_echo_of_what_it_hid() -> None:
    async with open_standin({"rules": [LOOP]}) as standin:
        log = StoppableLog()
        async with open_stage(standin=standin, log=log) as stage:
            client = Client(stage.url)
            message = await client.turn(text("Where is it?"))
        for _ in range(3):
            async with open_stage(standin=standin, log=log) as stage:
                client.url = stage.url
                message = await client.turn(*results(message))
        async with open_stage(standin=standin, log=log) as stage:
            client.url = stage.url
            await client.turn(text("And the other?"))  # behind a reply that was a block and nothing else
        assert texts_of(client.history) == [*SHOWN, SHOWN[0]]
        assert standin.violations == []
        assert_prefixes(stage.upstream)
        assert_unseen(client)
        await assert_kept(stage, rounds=6)
        await assert_one_history(stage)
        await stage.rounds()


@pytest.mark.parametrize("place", range(2, 12))
async def test_a_stream_that_is_cut_shows_no_block_and_what_the_client_kept_of_it_goes_on(place: int) -> None:
    cut = said(think("Hm."), text(f"Well.\n{TAG}{TAG}Done."), faults=[{"kind": "cut", "at": place}])
    async with open_stage({"reply": cut, "times": 1}, {"reply": said(text("Yes."))}) as stage:
        client = Client(stage.url)
        await client.turn(text("Where?"))
        (seen,) = await interrupted(stage)
        assert all(secret not in json.dumps(seen) for secret in SECRETS)
        assert client.replies[0].cut
        del client.history[1:]
        words = [block for block in seen if block["type"] == "text" and block["text"].strip()]
        client.history += [{"role": "assistant", "content": words}] if words else []
        await client.turn(text("Go on."))
        assert stage.standin.violations == []
        assert_unseen(client)
        await stage.rounds()


async def test_a_client_that_goes_back_gets_the_same_words_upstream_up_to_there() -> None:
    async with open_stage(LOOP) as stage:
        client = Client(stage.url)
        await client.work("Where is it?")
        sent = len(stage.upstream)
        del client.history[3:]
        await client.work("No, where was it?")
        assert stage.standin.violations == []
        assert texts_of(stage.upstream[sent]["messages"]) == [BETWEEN]
        assert_unseen(client)
        await stage.rounds()


async def test_words_that_the_client_rewrote_stand_as_it_says() -> None:
    async with open_stage({"reply": said(think("Hm."), text(BETWEEN))}) as stage:
        client = Client(stage.url)
        await client.turn(text("Where is it?"))
        client.history[-1]["content"] = [text("I said something else.")]
        await client.turn(text("Go on."))
        assert texts_of(stage.upstream[-1]["messages"]) == ["I said something else."]
        assert stage.standin.violations == []


# Where nothing is managed


async def test_where_nothing_is_managed_a_block_is_what_the_model_said() -> None:
    async with open_stage({"reply": said(text(BETWEEN))}, mode=Mode.OBSERVE) as stage:
        client = Client(stage.url)
        assert (await client.turn(text("one")))["content"] == [text(BETWEEN)]
        assert (await client.turn(text("two")))["content"] == [text(BETWEEN)]
        assert stage.standin.messages[-1].body == client.bodies[-1]


async def test_in_a_bypass_the_client_sees_it_and_its_echo_is_known() -> None:
    async with open_stage({"reply": said(think("Hm."), text(BETWEEN))}) as stage:
        client = Client(stage.url)
        await client.turn(text("one"))
        client.headers = {"x-mnemosyne-mode": "off"}
        for words in ("two", "three", "four"):
            assert (await client.turn(text(words)))["content"][-1] == text(BETWEEN)
        bypassed = stage.upstream[1:]
        assert [json.dumps(body["messages"]).count('"thinking"') // 2 for body in bypassed] == [0, 1, 2]
        assert_prefixes(bypassed)
        assert [each.violation.rule for each in stage.standin.violations if each.violation.rule != "R10"] == []
        await stage.rounds()


async def test_in_a_bypass_a_call_of_that_name_is_the_clients_to_answer() -> None:
    replies = {"replies": [said(think("Hm."), text("Let me see."), recall()), said(text("Yes."))]}
    async with open_stage({"reply": said(text("Yes.")), "times": 1}, replies) as stage:
        client = Client(stage.url)
        await client.turn(text("one"))
        client.headers = {"x-mnemosyne-mode": "off"}
        message = await client.work("two")
        assert message["content"] == [text("Yes.")]
        last = stage.upstream[-1]["messages"][-1]["content"]
        assert [each["type"] for each in last] == ["tool_result"]
        assert [each.violation.rule for each in stage.standin.violations if each.violation.rule != "R10"] == []


# What it does


async def things_read(stage: Stage, client: Client, count: int = 6) -> tuple[list[str], Json]:
    """The ids of files that the agent has read, oldest first, and the last message."""
    message = await reads(client, stage, {"content": []}, count)
    created = [event for event in await stage.events() if isinstance(event, ObjectCreated) and event.source_key]
    return [event.object for event in created if event.source_tool == "Read"], message


def block(*lines: str) -> str:
    return "\n".join((OPENING, *lines, CLOSING, ""))


async def done(stage: Stage) -> list[ObjectEvent]:
    """What directives led to so far."""
    kinds = (ObjectReleased, ObjectPinned, ObjectSummarized)
    return [event for event in await stage.events() if isinstance(event, kinds)]


@STREAMED
async def test_objects_are_released_and_pinned_and_what_is_released_leaves_first(stream: bool) -> None:
    clock = Clock()
    async with open_stage(clock=clock) as stage:
        client = client_of(stage)
        client.stream = stream
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
        assert stage.standin.violations == []
        await stage.rounds()


@pytest.mark.parametrize("hidden", [False, True], ids=["last round", "hidden round"])
async def test_what_a_reply_releases_is_on_record_with_it_even_if_nothing_is_done_later(
    hidden: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def stopped(*_: object) -> bool:
        """The actor ended between the reply and this."""
        return False

    monkeypatch.setattr(cleanup.CleanupTexts, "apply_tags", stopped)
    async with open_stage() as stage:
        client = client_of(stage)
        (first, *_), message = await things_read(stage, client)
        tag = text("On.\n" + block(f"drop: #{first}"))
        answer(stage, *([[tag, recall()], [text("Yes.")]] if hidden else [[tag]]))
        await client.turn(*results_of(message))
        assert [each.object for each in await stage.events_until(ObjectReleased)] == [first]
        events = await stage.events()
        (released,) = [number for number, event in enumerate(events) if isinstance(event, ObjectReleased)]
        assert any(isinstance(event, RoundFinished) for event in events[released - 3 : released])


async def test_a_round_of_hidden_calls_is_obeyed_like_any_other() -> None:
    async with open_stage() as stage:
        client = client_of(stage)
        (first, *_), message = await things_read(stage, client)
        answer(stage, [text(block(f"drop: #{first}")), recall()], [text("Found.")])
        message = await client.turn(*results_of(message))
        assert message["content"] == [text("Found.")]
        assert [each.object for each in await stage.events_until(ObjectReleased)] == [first]
        assert stage.standin.violations == []
        await stage.rounds()


GOOD = " ".join(f"value_{number}" for number in range(300))
"""Half of what a file says that the agent reads."""


async def test_a_text_becomes_a_rendition_with_what_it_lacks_declared_and_measured() -> None:
    async with open_stage() as stage:
        client = client_of(stage)
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
        await stage.rounds()


@pytest.mark.parametrize(
    "summary",
    [f"{GOOD} src/invented.py", f"{GOOD[:40]} Nothing interesting happened anywhere else.", f"{GOOD} {GOOD}", "Yes."],
    ids=["it invents", "it says something else", "it is too long", "it says too little"],
)
async def test_a_text_that_must_not_stand_for_an_object_stays_a_text(summary: str) -> None:
    async with open_stage() as stage:
        client = client_of(stage)
        (first, *_), message = await things_read(stage, client)
        answer(stage, [text(block(f"summarize: #{first} {json.dumps(summary)}"))], [text("Yes.")])
        await client.turn(*results_of(message))
        await client.turn(text("Go on."))
        assert await done(stage) == []
        assert stage.standin.violations == []


async def test_turns_that_are_collapsed_are_released_and_the_text_stays_with_the_provider(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO")
    async with open_stage() as stage:
        client = client_of(stage)
        (first, second, *_), message = await things_read(stage, client, 8)
        tag = block('collapse: turns 1-3 "Two files were read."')
        answer(stage, [text(tag)], [text("Yes.")])
        await client.turn(*results_of(message))
        released = {each.object for each in await stage.events_until(ObjectReleased)}
        assert {first, second} <= released
        assert "1 texts for what was collapsed" in caplog.text
        await client.turn(text("Go on."))
        assert "Two files were read." in texts_of(stage.upstream[-1]["messages"])[-1]
        assert not [each for each in await done(stage) if isinstance(each, ObjectSummarized)]


async def test_no_content_obeys_itself() -> None:
    async with open_stage() as stage:
        client = client_of(stage)
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
        assert stage.standin.violations == []
        await stage.rounds()


async def test_a_reply_that_was_refused_is_not_obeyed() -> None:
    async with open_stage() as stage:
        client = client_of(stage)
        (first, *_), message = await things_read(stage, client)
        refused = said(text(block(f"drop: #{first}")), stop_reason="refusal")
        next_one = {"request": len(stage.standin.messages) + 1}
        stage.standin.script = script({"reply": refused, "when": next_one}, {"reply": said(text("Yes."))})
        await client.turn(*results_of(message))
        del client.history[-1]
        assert (await client.send())["content"] == [text("Yes.")]
        assert await done(stage) == []


async def test_whatever_fails_in_obeying_no_turn_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    async with open_stage({"reply": said(text(BETWEEN))}) as stage:
        monkeypatch.setattr(cleanup_effects, "effects", lambda *_, **__: 1 / 0)
        client = Client(stage.url)
        for words in ("one", "two"):
            assert (await client.turn(text(words)))["content"] == [text("Let me see.\nNow look.")]
        await assert_one_history(stage)
        await stage.rounds()
