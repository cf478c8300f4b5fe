"""Turns of a managed branch, from a client through the complete proxy to a strict provider."""

import json
from typing import Any

import attrs
import pytest
import trio

from mnemosyne.actors.managed_turn import MOST_ROUNDS
from mnemosyne.actors.rounds import MOST_ANSWERED, ManagedRounds
from mnemosyne.actors.tools import MemoryToolExecutor
from mnemosyne.domain.objects.events import ObjectFaulted
from mnemosyne.domain.recall.memory_results import ALL_SHOWN, NO_MORE, NOT_NOW
from mnemosyne.domain.session.events import TurnFinished
from mnemosyne.domain.session.input_events import SettingsTaken
from mnemosyne.domain.session.round_events import FallbackSent, Mode
from mnemosyne.domain.window import upstream_history
from mnemosyne.domain.wire import json_spans, transcript
from mnemosyne.services import session_edits
from mnemosyne.services.knowledge import WriteStamp
from mnemosyne_lab.provider.server import open_standin
from tests.actors.support import PATIENT, StoppableLog
from tests.http.managing import (
    LOOK,
    Client,
    Json,
    assert_prefixes,
    bare_stage,
    interrupted,
    look,
    look_for,
    model_says,
    open_stage,
    open_talk,
    recall,
    release_call,
    restore,
    results,
    script,
    text,
    think,
    until_begun,
)
from tests.plain.archive import MemoryArchive
from tests.profiles import rarely
from tests.waiting import until

LOOP = {
    "replies": [
        model_says(think("I forgot."), text("Let me see."), recall()),
        model_says(think("So that was it."), text("Now look."), look(at="it")),
        model_says(look(at="this"), recall("and that?"), look(at="that")),
        model_says(recall("again?")),
        model_says(think("Done."), text("It is there.")),
    ]
}


async def test_disconnect_in_a_hidden_round_keeps_the_visible_part_and_the_provider_history() -> None:
    slow = model_says(think("Well,"), text("now I see"), pace={"first": 3600})
    rules: list[Json] = [{"replies": [model_says(think("Hm."), text("Let me see."), recall()), slow], "times": 2}]
    async with open_talk(*rules, {"reply": model_says(text("Fine."))}) as (stage, client):
        client.history.append({"role": "user", "content": [text("Where is it?")]})
        async with trio.open_nursery() as nursery:
            nursery.start_soon(client.send)
            await until(lambda: sum(bool(each.body) for each in stage.standin.messages) == 2)
            nursery.cancel_scope.cancel()
        (seen,) = await interrupted(stage)
        client.history.append({"role": "assistant", "content": seen})
        await client.turn(text("[Request interrupted by user]"), text("Leave it."))
        await stage.check(grows=True)


@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
async def test_failure_before_any_output_is_the_providers_own_error(stream: bool) -> None:
    overloaded = {"failure": {"status": 529, "headers": [["retry-after", "700"]]}}
    rules: list[Json] = [
        {"replies": [model_says(recall()), overloaded], "times": 2},
        {"reply": model_says(text("Yes."))},
    ]
    async with open_talk(*rules, stream=stream) as (_, client):
        message = await client.turn(text("Where?"))
        assert (message["status"], message["error"]["type"]) == (529, "overloaded_error")
        assert client.replies[0].header(b"retry-after") == b"700"
        assert (await client.send())["content"] == [text("Yes.")]


async def test_reply_cut_before_any_output_is_an_error_in_the_providers_format() -> None:
    cut = model_says(text("Now"), faults=[{"kind": "cut", "at": 0}])
    async with open_talk({"reply": cut, "times": 1}, {"reply": model_says(text("Yes."))}) as (_, client):
        message = await client.turn(text("Where?"))
        assert (message["status"], message["error"]["type"]) == (502, "api_error")
        assert (await client.send())["content"] == [text("Yes.")]


async def test_paused_turn_continues_in_its_assistant_message_after_a_restart() -> None:
    search = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "it"}}
    rules = [
        {"reply": model_says(think("Long."), text("I search."), search, stop_reason="pause_turn"), "times": 1},
        {"reply": model_says(think("Hm."), recall()), "times": 1},
        {"reply": model_says(think("So."), text("Found.")), "times": 1},
        {"reply": model_says(think("Hm."), recall()), "times": 1},
        {"reply": model_says(think("So."), text("Found."))},
    ]
    async with open_standin({"rules": rules}) as standin:
        log, client = StoppableLog(), Client()
        for start in range(2):
            async with open_stage(standin=standin, log=log) as stage:
                stage.join(client)
                if start == 0:
                    await client.turn(text("Search."))
                assert (await client.send())["content"][-1] == text("Found.")
        roles = [[message["role"] for message in body["messages"]] for body in stage.upstream]
        assert roles[2] == roles[4] == ["user", "assistant", "user"]


BOUND = {"failure": {"status": 400, "message": "x: The block is bound to a different conversation: its system differs"}}


async def test_request_without_thinking_is_not_retried_after_a_refusal() -> None:
    rules: list[Json] = [{"reply": model_says(think("Hm."), text("Yes.")), "times": 1}, {"reply": BOUND}]
    async with open_talk(*rules) as (stage, client):
        await client.turn(text("one"))
        assert (await client.turn(text("two")))["status"] == 400
        assert len(stage.upstream) == 3
        client.history.pop()
        assert (await client.turn(text("three")))["status"] == 400
        assert len(stage.upstream) == 4


YES = {"reply": model_says(text("Yes."))}


async def test_header_switches_managing_on_or_off() -> None:
    async with open_stage(YES, mode=Mode.OBSERVE) as stage:
        await stage.client(headers={"x-mnemosyne-mode": "manage"}).turn(text("one"))
        assert "memory_query" in json.dumps(stage.upstream[0]["tools"])
        assert stage.standin.messages[0].header("x-mnemosyne-mode") is None
    async with open_stage(YES) as stage:
        client = stage.client(headers={"x-mnemosyne-mode": "observe"})
        assert (await client.turn(text("What is it?")))["content"] == [text("Yes.")]
        assert stage.standin.messages[-1].body == client.bodies[-1]
        assert await stage.rounds_of_log() == []


async def test_headers_choose_listed_settings_and_a_bad_one_is_recorded_and_never_sent_on() -> None:
    async with open_stage(YES, window=20_000, choices=("zones",)) as stage:
        client = stage.client(headers={"x-mnemosyne-policy": "zones", "x-mnemosyne-window": "9000"})
        await client.turn(text("one"))
        client.headers = {"x-mnemosyne-policy": "os:system", "x-mnemosyne-fidelity": "graded"}
        assert (await client.turn(text("two")))["content"] == [text("Yes.")]
        sent = [name for message in stage.standin.messages for name, _ in message.headers]
        assert not [name for name in sent if name.lower().startswith(b"x-mnemosyne")]
        first, second = await stage.events_of(SettingsTaken)
    assert (first.policy, first.window, first.chosen) == ("zones", 9_000, ("window", "policy"))
    assert (second.policy, second.window, second.chosen) == ("economic", 20_000, ())
    assert second.refused == ("x-mnemosyne-policy: one of zones is needed", "x-mnemosyne-fidelity: not allowed")


async def test_chosen_grounding_applies_from_the_next_turn() -> None:
    async with open_talk(YES, YES) as (stage, client):
        await client.turn(text("one"))
        archive, stamp = MemoryArchive(stage.log), WriteStamp(1_700_000_000_000_000, "w")
        await session_edits.edit(archive, str(await stage.stream()), grounding="strict", stamp=stamp)
        await client.turn(text("two"))
        taken = [event.grounding for event in await stage.events_of(SettingsTaken)]
        assert taken == ["free", "strict"]
        await stage.check(grows=True)


def results_sent(body: Json) -> list[str]:
    """The results in a request, as the model reads them."""
    blocks = [block for message in body["messages"] if message["role"] == "user" for block in message["content"]]
    return [block["content"] for block in blocks if block["type"] == "tool_result"]


@pytest.mark.parametrize(("call", "stream"), [(recall(), True), (look_for("it"), False), (release_call(), True)])
async def test_model_that_keeps_asking_is_asked_to_continue_and_does(call: Json, stream: bool) -> None:
    asks = [model_says(text(f"Hm {number}."), call) for number in range(7)]
    async with open_stage(
        {"replies": [*asks, model_says(text("Now look."), look(at="it")), model_says(text("There."))]}
    ) as stage:
        client = stage.client(stream=stream)
        message = await client.work("Where is it?")
        assert message["content"] == [text("There.")]
        assert "Mnemosyne" not in json.dumps(client.history)
        results_of_turn = results_sent(stage.upstream[7])
        assert [each == NO_MORE for each in results_of_turn] == [False] * MOST_ANSWERED + [True] * 2
        await stage.check(grows=True)


async def test_model_that_never_stops_asking_is_stopped_without_added_text() -> None:
    async with open_talk({"reply": model_says(text("Hm."), recall()), "times": MOST_ROUNDS}, YES) as (stage, client):
        message = await client.turn(text("Where is it?"))
        assert len(stage.upstream) == MOST_ROUNDS
        assert message["stop_reason"] == "end_turn"
        assert message["content"] == [text("Hm.")] * MOST_ROUNDS
        assert (await client.turn(text("Then not.")))["content"] == [text("Yes.")]
        await stage.check(grows=True)


@pytest.mark.parametrize("call", [recall(), look_for("it"), restore("abc1234")])
async def test_memory_call_before_any_eviction_is_answered_that_nothing_is_evicted(call: Json) -> None:
    async with open_stage({"replies": [model_says(text("Hm."), call), model_says(text("Yes."))]}) as stage:
        await stage.client().turn(text("Where is it?"))
        assert results_sent(stage.upstream[-1]) == [ALL_SHOWN]
        assert not await stage.events_of(ObjectFaulted)


async def test_attempts_at_one_turn_are_sent_alike() -> None:
    rules: list[Json] = [{"reply": {"failure": {"status": 529}}, "times": 2}, LOOP]
    async with open_talk(*rules) as (stage, client):
        client.history.append({"role": "user", "content": [text("Where is it?")]})
        messages = [await client.send() for _ in range(3)]
        client.history.append({"role": "assistant", "content": messages[-1]["content"]})
        await client.turn(*results(messages[-1]))
        assert stage.standin.messages[0].body == stage.standin.messages[1].body == stage.standin.messages[2].body


async def test_managed_conversation_continues_without_a_database() -> None:
    hurried = attrs.evolve(PATIENT, database=0.1, actor=0.1, loading=0.1)
    async with open_standin({"rules": [{"reply": model_says(think("Hm."), text("Yes."))}]}) as standin:
        log = StoppableLog()
        async with bare_stage(standin=standin, log=log, patience=hurried) as stage:
            client = stage.client()
            await client.turn(text("one"))
            log.hang()  # the questions are queued, and the turn continues
            assert (await client.turn(text("two")))["content"][-1] == text("Yes.")
            log.flowing.set()
        log.away = True
        async with bare_stage(standin=standin, log=log, patience=hurried) as stage:
            stage.join(client)
            assert (await client.turn(text("three")))["content"][-1] == text("Yes.")
            assert "thinking" not in json.dumps(stage.upstream[-1]["messages"])
            log.away = False
            await until_begun(stage, 3)  # the queued events are recorded, so the session has been read again
            assert (await client.turn(text("four")))["content"][-1] == text("Yes.")
            assert json.dumps(stage.upstream[-1]["messages"]).count('"thinking": "Hm."') == 2
        assert [each.violation.rule for each in standin.violations if each.violation.rule != "R10"] == []


async def test_internal_error_costs_the_turn_nothing_while_the_wire_history_is_known(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async with open_talk({"reply": model_says(think("Hm."), text("Yes."))}) as (stage, client):
        await client.turn(text("one"))
        with monkeypatch.context() as broken:
            broken.setattr(upstream_history, "body", fails(upstream_history.body))
            assert (await client.turn(text("two")))["content"][-1] == text("Yes.")
        assert "continues its last request without a plan" in caplog.text
        await client.turn(text("three"))
        await stage.check(grows=True)


async def test_internal_error_costs_the_turn_at_most_its_wire_history(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async with open_talk({"reply": model_says(think("Hm."), text("Yes."))}, breaks=["R10"]) as (stage, client):
        await client.turn(text("one"))
        with monkeypatch.context() as broken:
            broken.setattr(ManagedRounds, "plan", fails(ManagedRounds.plan))
            broken.setattr(ManagedRounds, "continue_last", fails(ManagedRounds.continue_last))
            assert (await client.turn(text("two")))["content"][-1] == text("Yes.")
        assert "thinking" not in json.dumps(stage.upstream[-1]["messages"])
        assert stage.upstream[-1]["tools"] == [LOOK]
        assert "is sent without its upstream history" in caplog.text
        assert (await client.turn(text("three")))["content"][-1] == text("Yes.")
        assert len(stage.upstream[-1]["tools"]) == 5
        assert json.dumps(stage.upstream[-1]["messages"]).count('"thinking": "Hm."') == 1
        assert [each.violation.rule for each in stage.standin.violations if each.violation.rule != "R10"] == []


def fails(function: Any) -> Any:
    """The same, except for its first call."""
    failed: list[bool] = []

    def failing(*given: Any, **options: Any) -> Any:
        if not failed:
            failed.append(True)
            raise RuntimeError("a bug")
        return function(*given, **options)

    return failing


ASKS_TWICE = {
    "replies": [
        model_says(think("Hm."), text("Well."), recall()),
        model_says(think("So."), recall("and?")),
        model_says(text("Yes.")),
    ]
}


async def test_hidden_calls_unanswered_after_an_internal_error_do_not_end_the_turn(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with open_stage(ASKS_TWICE) as stage:
        with monkeypatch.context() as broken:
            broken.setattr(ManagedRounds, "answer", fails(ManagedRounds.answer))
            client = stage.client()
            assert (await client.turn(text("one")))["content"][-1] == text("Yes.")
        assert results_sent(stage.upstream[2]) == [NOT_NOW, ALL_SHOWN]
        assert (await client.turn(text("two")))["content"][-1] == text("Yes.")
        assert_prefixes(stage.upstream)
        await stage.events_until(TurnFinished, 2)
        assert [(each.turn, each.round) for each in await stage.rounds()][:3] == [(1, 1), (1, 2), (1, 3)]


async def test_hidden_calls_without_a_timely_answer_do_not_end_the_turn_and_are_recorded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    answers, late = MemoryToolExecutor.answer, trio.Event()

    async def slowly(*given: Any, **named: Any) -> Any:
        await late.wait()  # longer than the turn waits
        return await answers(*given, **named)

    monkeypatch.setattr(MemoryToolExecutor, "answer", slowly)
    async with open_talk(ASKS_TWICE, patience=attrs.evolve(PATIENT, answers=0.1, database=0.1)) as (stage, client):
        assert (await client.turn(text("one")))["content"][-1] == text("Yes.")
        assert results_sent(stage.upstream[2]) == [NOT_NOW] * 2
        late.set()
        await stage.events_until(TurnFinished)
        assert (await client.turn(text("two")))["content"][-1] == text("Yes.")
        assert_prefixes(stage.upstream)
        await stage.events_until(TurnFinished, 2)
        assert [(each.turn, each.round) for each in await stage.rounds()][:3] == [(1, 1), (1, 2), (1, 3)]


async def test_request_with_too_many_values_is_sent_without_earlier_thinking_and_stays_managed() -> None:
    async with open_talk(LOOP, breaks=["R10"]) as (stage, client):
        await client.work("Where is it?")
        stage.standin.script = script({"reply": model_says(think("Hm."), text("Yes."))})
        kept, sent = list(client.history), len(stage.upstream)
        client.tools = [{**LOOK, "input_schema": {"type": "object", "enum": [0] * json_spans.MOST_VALUES}}]
        for prompt in ("And now?", "And then?"):
            assert (await client.turn(text(prompt)))["content"][-1] == text("Yes.")
        assert all('"thinking": "' not in json.dumps(body["messages"]) for body in stage.upstream[sent:])
        assert [each.why for each in await stage.events_of(FallbackSent)] == [transcript.TOO_MANY_VALUES] * 2
        client.history, client.tools = kept, [LOOK]
        assert (await client.turn(text("And there?")))["content"][-1] == text("Yes.")
        assert "memory_query" in json.dumps(stage.upstream[-1]["tools"])
        assert {each.status for each in stage.standin.messages} == {200}


@pytest.mark.parametrize(
    "rule", [LOOP, *rarely([{"reply": model_says(text("All of it. " * 9_000))}])], ids=["rounds", "long"]
)
async def test_whole_managed_reply_has_a_length_and_a_streamed_one_has_none(rule: Json) -> None:
    async with open_stage(rule) as stage:
        whole, streamed = stage.client(stream=False), stage.client(session="streamed")
        await whole.work("Where is it?")
        await streamed.work("Where is it?")
        for reply in whole.replies:
            fields = {name.lower(): value for name, value in reply.headers}
            assert int(fields[b"content-length"]) == len(reply.body)
            assert b"transfer-encoding" not in fields
        assert all(b"content-length" not in {name.lower() for name, _ in each.headers} for each in streamed.replies)
