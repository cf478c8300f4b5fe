"""Evicted content that comes back: a client refers to a file that the model reads again, or the user asks to see an
object. The outgoing request, the record, and later memory answers.
"""

import json
from collections.abc import Sequence
from functools import reduce
from types import SimpleNamespace
from typing import Any

import attrs
import pytest
import trio

from mnemosyne.actors.texts import ObjectTexts
from mnemosyne.domain.history import memory_travel
from mnemosyne.domain.history.time_travel import history_of
from mnemosyne.domain.objects.events import (
    FaultKind,
    FaultReason,
    ObjectCreated,
    ObjectDegraded,
    ObjectFaulted,
    ObjectRestored,
    ObjectSummarized,
    ObjectSuperseded,
)
from mnemosyne.domain.objects.fidelity import Cause, Fidelity
from mnemosyne.domain.objects.kinds import UNCHANGED
from mnemosyne.domain.objects.memory import Memory
from mnemosyne.domain.recall.citations import Citations
from mnemosyne.domain.session.round_events import EpochBegan, Mode
from mnemosyne.domain.session.state import Session, evolve
from mnemosyne.domain.window.assembly import CITE
from mnemosyne.domain.wire.rereads import WORDINGS, RefersTo
from mnemosyne.replay.deciding import review
from mnemosyne.services import pins
from mnemosyne.services.citations import citations_text, read_citations
from mnemosyne.services.knowledge import WriteStamp
from tests.actors.support import PATIENT
from tests.http.evicting import DECIDED, exchange, indexed_stage, read_and_evict
from tests.http.managing import (
    Client,
    Json,
    Stage,
    assert_prefixes,
    bare,
    look_for,
    open_stage,
    recall,
    restore,
    text,
    think,
)
from tests.http.test_epochs import TOOLS, answer, client_of, open_work, read, reads, results_of
from tests.http.test_forks import calls_of
from tests.plain.archive import MemoryArchive
from tests.plain.directory import PlainDirectory
from tests.profiles import rarely

STUBS = [each.text for each in WORDINGS if each.refers_to is RefersTo.EARLIER_RESULT]
STUB = STUBS[0]
LEDGER = "/src/ledger.py"
NEEDLE = "only_in_the_ledger"
WHOLE = "".join(f"{number + 1:6}\tentry_{number} = {NEEDLE if number == 7 else number}\n" for number in range(300))
ROOMY = 20_000
"""A window in which an evicted file has room again."""


def as_result(call: Json, content: object) -> Json:
    return {"type": "tool_result", "tool_use_id": call["id"], "content": content}


async def ask(client: Client, stage: Stage, message: Json, calls: Sequence[Json]) -> Json:
    """One turn: send the pending results; the model makes these calls."""
    answer(stage, [think(), *calls])
    return await client.turn(*(results_of(message) or [text("Go on.")]))


async def deliver(client: Client, stage: Stage, message: Json, *contents: object) -> Json:
    """One turn with these results for the calls in the message; the model then reads another file."""
    answer(stage, [think(), read(f"/src/next_{len(client.history)}.py")])
    calls = calls_of(message)
    assert len(calls) == len(contents)
    return await client.turn(*(as_result(call, content) for call, content in zip(calls, contents, strict=True)))


async def evict(client: Client, stage: Stage, first: Sequence[Json], *contents: object, turns: int = 6) -> Json:
    """Read the ledger and this many other files, which evict the ledger; return the message with pending calls."""
    message = await ask(client, stage, {"content": []}, first)
    message = await deliver(client, stage, message, *contents)
    message = await reads(client, stage, message, turns)
    assert NEEDLE not in json.dumps(stage.upstream[-1])
    return message


async def memory_of(stage: Stage) -> Memory:
    return reduce(evolve, await stage.events(), Session()).memory


async def ledger_objects(stage: Stage) -> list[ObjectCreated]:
    return [each for each in await stage.events_of(ObjectCreated) if each.source_key == LEDGER]


def last_results(stage: Stage, position: int = -1) -> list[Json]:
    return [each for each in stage.upstream[position]["messages"][-1]["content"] if each["type"] == "tool_result"]


async def faults_of(stage: Stage, object_id: str) -> list[ObjectFaulted]:
    return [each for each in await stage.events_of(ObjectFaulted) if each.object == object_id]


@pytest.mark.parametrize(
    ("stub", "shape"), [(STUBS[0], "text"), *rarely([(STUBS[1], "blocks")])], ids=["text", "blocks"]
)
async def test_evicted_content_replaces_the_clients_reference_permanently(stub: str, shape: str) -> None:
    async with open_work(window=ROOMY) as (stage, client):
        message = await evict(client, stage, [read(LEDGER)], WHOLE)
        message = await ask(client, stage, message, [read(LEDGER)])
        message = await deliver(client, stage, message, stub if shape == "text" else [text(stub)])
        assert last_results(stage)[0]["content"] == WHOLE
        sent = len(stage.upstream)
        await reads(client, stage, message, 1, first=40, size=10)
        assert_prefixes(stage.upstream[sent - 1 :])
        assert NEEDLE in json.dumps(stage.upstream[-1])
        (ledger,) = await ledger_objects(stage)
        (fault,) = await faults_of(stage, ledger.object)
        assert (fault.kind, fault.turn, fault.why) == (FaultKind.IMPLICIT, sent, FaultReason.REFERENCE)
        moment = memory_travel.snapshot(await stage.log.read(await stage.stream()), "main", sent)
        assert moment.faults == [fault]
        restored = await stage.events_of(ObjectRestored)
        assert [(each.object, each.after) for each in restored] == [(ledger.object, Fidelity.FULL)]
        client.headers = {"x-mnemosyne-restores": "0"}
        lowered = [each.object for each in await stage.events_of(ObjectDegraded)]
        gone = next(each for each in lowered if each != ledger.object)
        answer(stage, [think(), restore(gone)], [text("I see.")])
        await client.turn(*results_of(client.history[-1]))
        assert "0 objects or answers were brought back in this turn" in json.dumps(last_results(stage))
        assert await faults_of(stage, gone) == []


@pytest.mark.release
async def test_where_only_the_model_restores_a_reference_stays_with_a_pointer() -> None:
    async with open_work(window=ROOMY, restores="model") as (stage, client):
        message = await evict(client, stage, [read(LEDGER)], WHOLE)
        message = await ask(client, stage, message, [read(LEDGER)])
        await deliver(client, stage, message, STUB)
        (ledger,) = await ledger_objects(stage)
        assert NEEDLE not in json.dumps(stage.upstream[-1])
        assert f"#{ledger.object}" in str(last_results(stage)[0]["content"])
        assert await faults_of(stage, ledger.object) == []


@pytest.mark.release
async def test_where_only_the_proxy_restores_the_model_may_ask_and_its_call_is_refused() -> None:
    async with open_work(window=ROOMY, restores="proxy") as (stage, client):
        message = await evict(client, stage, [read(LEDGER)], WHOLE)
        (ledger,) = await ledger_objects(stage)
        answer(stage, [think(), restore(ledger.object)], [read("/src/more.py")])
        message = await client.turn(*results_of(message))
        assert "only the proxy restores content." in json.dumps(stage.upstream[-1]["messages"][-1])
        assert await faults_of(stage, ledger.object) == []
        answer(stage, [think(), recall(f"Which line has {NEEDLE}?")], [text("I see.")])
        await client.turn(*results_of(message))
        assert NEEDLE in json.dumps(stage.upstream[-1]["messages"][-1])


async def test_observed_session_sends_the_clients_bytes_and_records_a_reference() -> None:
    async with open_work(mode=Mode.OBSERVE) as (stage, client):
        message = await ask(client, stage, {"content": []}, [read(LEDGER)])
        message = await deliver(client, stage, message, WHOLE)
        message = await ask(client, stage, message, [read(LEDGER)])
        message = await deliver(client, stage, message, STUB)
        await reads(client, stage, message, 1, first=40)
        assert [each.body for each in stage.standin.messages] == client.bodies
        (ledger,) = await ledger_objects(stage)
        memory = await memory_of(stage)
        assert not memory.objects[ledger.object].stale
        assert not await stage.events_of(ObjectFaulted)


@pytest.mark.release
async def test_repeated_request_repeats_the_content_and_counts_one_fault() -> None:
    async with open_work(window=ROOMY) as (stage, client):
        message = await evict(client, stage, [read(LEDGER)], WHOLE)
        message = await ask(client, stage, message, [read(LEDGER)])
        await deliver(client, stage, message, STUB)
        del client.history[-1]
        await client.send()
        assert stage.upstream[-1]["messages"] == stage.upstream[-2]["messages"]
        (ledger,) = await ledger_objects(stage)
        assert len(await faults_of(stage, ledger.object)) == 1
        assert (await memory_of(stage)).view_of("main").fidelity_of(ledger.object) is Fidelity.FULL


@pytest.mark.release
async def test_restarted_server_sends_the_same_content() -> None:
    async with open_work(window=ROOMY) as (stage, client):
        message = await evict(client, stage, [read(LEDGER)], WHOLE)
        message = await ask(client, stage, message, [read(LEDGER)])
        message = await deliver(client, stage, message, STUB)
        before = stage.upstream
        async with open_stage(window=ROOMY, log=stage.log, standin=stage.standin) as again:
            again.join(client)
            await reads(client, again, message, 1, first=40, size=10)
            assert_prefixes([before[-1], again.upstream[-1]])
            assert NEEDLE in json.dumps(again.upstream[-1])


@pytest.mark.release
async def test_forked_branch_also_restores_the_content() -> None:
    async with open_work(window=ROOMY) as (stage, client):
        message = await evict(client, stage, [read(LEDGER)], WHOLE)
        (call,) = calls_of(message)
        headers = client.headers | {"x-claude-code-agent-id": "x"}
        agent = stage.client(tools=client.tools, headers=headers, history=list(client.history))
        answer(stage, [think(), read(LEDGER)])
        of_agent = await agent.turn(as_result(call, "Fork started: you are it."), text("Your part."))
        assert NEEDLE not in json.dumps(stage.upstream[-1])
        await deliver(agent, stage, of_agent, STUB)
        assert last_results(stage)[0]["content"] == WHOLE
        answer(stage, [think(), read(LEDGER)])
        message = await client.turn(as_result(call, "x = 1"))
        assert NEEDLE not in json.dumps(stage.upstream[-1]), "the agent's branch alone has it back"
        del client.history[-2:]
        message = await client.turn(as_result(call, "x = 2"))  # the user went back
        await deliver(client, stage, message, STUB)
        assert last_results(stage)[0]["content"] == WHOLE


NEVER_HELD = ["recorded late", "continued", "hook", "agent"]
"""Conversations that a client answers with a reference to what they never held: the proxy was started in their midst,
they go on from a summary, or they share what another conversation of their client has read. A hook of Claude Code
2.1.300 that is an agent does so, and sends no header that tells it from a new session.
"""


async def read_without_content(stage: Stage, kind: str) -> tuple[Client, Json]:
    """A conversation without the file's content, up to the reference to it."""
    client = client_of(stage)
    if kind in ("hook", "agent"):
        await evict(client, stage, [read(LEDGER)], WHOLE)
        headers = {"x-claude-code-agent-id": "x"} if kind == "agent" else {}
        client = stage.client(tools=client.tools, headers=client.headers | headers)
    opening = "This session is being continued from a previous conversation that ran out of context. Summary: it went."
    answer(stage, [think(), read(LEDGER)])
    message = await client.turn(text(opening if kind == "continued" else "Verify it."))
    return client, await deliver(client, stage, message, STUB)


@pytest.mark.parametrize("kind", [NEVER_HELD[0], *rarely(NEVER_HELD[1:])])
async def test_reference_to_content_the_conversation_never_had_is_sent_unchanged(kind: str) -> None:
    async with open_stage(window=ROOMY) as stage:
        client, message = await read_without_content(stage, kind)
        assert last_results(stage)[0]["content"] == STUB
        sent = len(stage.upstream)
        await reads(client, stage, message, 2, first=40, size=10)
        assert_prefixes(stage.upstream[sent - 1 :])
        assert NEEDLE not in json.dumps(stage.upstream[-1])
        assert not [each for each in await stage.events() if isinstance(each, ObjectFaulted | ObjectRestored)]


@pytest.mark.parametrize(("kind", "mode"), [*rarely([("agent", Mode.MANAGE)]), ("recorded late", Mode.OBSERVE)])
async def test_reference_to_content_the_conversation_never_had_is_neither_version_nor_answer(
    kind: str, mode: Mode
) -> None:
    async with open_stage(window=ROOMY, mode=mode) as stage:
        client, message = await read_without_content(stage, kind)
        message = await reads(client, stage, message, 2, first=40, size=10)
        events = await stage.events()
        (reference,) = [each for each in events if isinstance(each, ObjectCreated) and UNCHANGED in each.tags]
        assert (reference.source_key, reference.admission.admitted) == (None, False)
        assert not [each for each in events if isinstance(each, ObjectSuperseded)]
        assert len(await ledger_objects(stage)) == (kind in ("hook", "agent"))
        if mode is Mode.MANAGE:
            answer(stage, [think(), look_for(f"{LEDGER} unchanged"), restore(reference.object)], [read("/x.py")])
            await client.turn(*results_of(message))
            assert all(STUB not in json.dumps(each) for each in last_results(stage))


OURS = "Not the user's words"


async def ask_back(stage: Stage) -> str:
    """The user asks to see the evicted file again; return its id."""
    made = await stage.events_of(ObjectCreated)
    first = next(each.object for each in made if each.source_key == "/docs/notes.md")
    log, journal = stage.log, stage.process.journal
    archive: Any = SimpleNamespace(events=log, contents=log, journal=journal, directory=PlainDirectory(log))
    asked = {"session": str(await stage.stream()), "branch": "main", "reason": "a person"}
    await pins.restore(archive, first, stamp=WriteStamp(1_700_000_000_000_000, "p"), **asked)
    return first


async def test_restored_object_follows_the_next_prompt_and_stays_in_later_requests() -> None:
    async with indexed_stage() as stage:
        client = stage.client(tools=TOOLS)
        await read_and_evict(client, stage)
        object_id = await ask_back(stage)
        await exchange(client, stage, "Thanks.", [think(), text("Yes.")])
        typed, added = bare(stage.upstream[-1]["messages"][-1]["content"])
        assert typed == text("Thanks.")
        assert added["text"].startswith(OURS)
        assert DECIDED in added["text"]
        (event,) = await stage.events_of(ObjectRestored)
        assert (event.object, event.after, event.cause) == (object_id, Fidelity.FULL, Cause.PREFETCH)
        await exchange(client, stage, "Go on.", [think(), text("Well.")])
        assert_prefixes(stage.upstream[-2:])
        assert json.dumps(stage.upstream[-1]).count(DECIDED) == 1


async def test_object_too_large_for_one_turn_is_restored_as_a_summary_made_on_demand() -> None:
    async with indexed_stage() as stage:
        client = stage.client(tools=TOOLS)
        await read_and_evict(client, stage, size=600)
        object_id = await ask_back(stage)
        assert not await stage.events_of(ObjectSummarized)
        await exchange(client, stage, "Thanks.", [think(), text("Yes.")])
        (made,) = await stage.events_of(ObjectSummarized)
        (event,) = await stage.events_of(ObjectRestored)
        assert (made.object, made.fidelity) == (event.object, event.after) == (object_id, Fidelity.DETAILED)
        stored = (await stage.log.fetch(await stage.stream(), [made.text]))[made.text].decode()
        assert stored in bare(stage.upstream[-1]["messages"][-1]["content"])[-1]["text"]
        await exchange(client, stage, "Go on.", [think(), text("Well.")])
        assert_prefixes(stage.upstream[-2:])


async def test_late_contents_are_restored_with_the_following_request(monkeypatch: pytest.MonkeyPatch) -> None:
    async def never(*_: object) -> Any:
        await trio.sleep_forever()

    async with indexed_stage(patience=attrs.evolve(PATIENT, restores=0.05)) as stage:
        client = stage.client(tools=TOOLS)
        await read_and_evict(client, stage)
        await ask_back(stage)
        with monkeypatch.context() as patch:
            patch.setattr(ObjectTexts, "read_at", never)
            await exchange(client, stage, "Thanks.", [think(), text("Yes.")])
        assert await stage.events_of(ObjectRestored) == []
        assert DECIDED not in json.dumps(stage.upstream[-1])
        await exchange(client, stage, "Go on.", [think(), text("Well.")])
        assert DECIDED in json.dumps(stage.upstream[-1])


async def cited_in(stage: Stage, attempt: int) -> Citations | None:
    stream, events = await stage.stream(), await stage.log.read(await stage.stream())
    history = history_of(str(stream), events)
    return await read_citations(MemoryArchive(stage.log), stream, events, history, history.attempts[attempt])


async def test_grounding_asks_for_sources_where_a_rewrite_changed_the_context_and_checks_the_reply() -> None:
    """Once, at no cost to the cache; the client's reply is unchanged."""
    async with open_work(window=ROOMY) as (stage, client):
        client.headers = {"x-mnemosyne-grounding": "cited"}
        await exchange(client, stage, "Hello.", [think(), text("Hello.")])
        message = await evict(client, stage, [read(LEDGER)], WHOLE)
        (ledger,) = await ledger_objects(stage)
        said = text(f"Line 8 has it [#{ledger.object}], and so has #zzzzzzz.")
        answer(stage, [think(), recall(f"Which line has {NEEDLE}?")], [said])
        assert (await client.turn(*results_of(message)))["content"][-1] == said
        (epoch, *_) = [each.turn for each in await stage.events_of(EpochBegan)]
        asked = [json.dumps(body["messages"]).count(CITE) for body in stage.upstream]
        assert asked == [0] * (epoch - 1) + [1] * (len(asked) - epoch + 1)
        found = await cited_in(stage, -1)
        assert found == Citations(cited=(ledger.object,), absent=("zzzzzzz",))
        assert citations_text(found) == (
            "The reply cites 1 record of its context, 1 id whose text its context did not hold (zzzzzzz)."
        )
        assert not (await review(MemoryArchive(stage.log), str(await stage.stream()))).differences
        await exchange(client, stage, "Again?", [think(), text(f"As said [#{ledger.object}].")])
        assert await cited_in(stage, -1) == Citations(cited=(ledger.object,))  # the answer is still in the context
        assert await cited_in(stage, 0) is None  # no request asked before the first rewrite
