"""A model reads an evicted file again, and its client answers that the file is unchanged: the outgoing request, the
record, and later memory answers.
"""

import json
from collections.abc import Sequence
from functools import reduce

import pytest

from mnemosyne.domain.history import memory_travel
from mnemosyne.domain.objects.events import FaultKind, ObjectCreated, ObjectFaulted, ObjectRestored, ObjectSuperseded
from mnemosyne.domain.objects.fidelity import Fidelity
from mnemosyne.domain.objects.kinds import UNCHANGED
from mnemosyne.domain.objects.memory import Memory
from mnemosyne.domain.session.round_events import Mode
from mnemosyne.domain.session.state import Session, evolve
from mnemosyne.domain.window.rereads import render_pointer
from mnemosyne.domain.wire.rereads import WORDINGS, RefersTo
from tests.http import managing
from tests.http.managing import (
    Client,
    Json,
    Stage,
    assert_nothing_of_ours,
    assert_prefixes,
    look_for,
    open_stage,
    restore,
    text,
    think,
)
from tests.http.test_epochs import SMALL, answer, client_of, edit, read, reads, results_of, run, violations

STUBS = [each.text for each in WORDINGS if each.refers_to is RefersTo.EARLIER_RESULT]
STUB = STUBS[0]
LEDGER = "/src/ledger.py"
NEEDLE = "only_in_the_ledger"
WHOLE = "".join(f"{number + 1:6}\tentry_{number} = {NEEDLE if number == 7 else number}\n" for number in range(300))
ROOMY = 20_000
"""A window in which an evicted file has room again."""


def reads_lines(offset: int, limit: int) -> Json:
    return {"type": "tool_use", "name": "Read", "input": {"file_path": LEDGER, "offset": offset, "limit": limit}}


def as_result(call: Json, content: object) -> Json:
    return {"type": "tool_result", "tool_use_id": call["id"], "content": content}


def calls_of(message: Json) -> list[Json]:
    return [block for block in message["content"] if block["type"] == "tool_use"]


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


async def evict(client: Client, stage: Stage, first: Sequence[Json], *contents: object, turns: int = 12) -> Json:
    """Read the ledger and this many other files until the ledger is evicted; return the message whose calls are
    pending.
    """
    message = await ask(client, stage, {"content": []}, first)
    message = await deliver(client, stage, message, *contents)
    return await reads(client, stage, message, turns)


async def memory_of(stage: Stage) -> Memory:
    return reduce(evolve, await stage.events(), Session()).memory


async def ledger_objects(stage: Stage) -> list[ObjectCreated]:
    return [each for each in await stage.events() if isinstance(each, ObjectCreated) and each.source_key == LEDGER]


def last_results(stage: Stage, position: int = -1) -> list[Json]:
    return [each for each in stage.upstream[position]["messages"][-1]["content"] if each["type"] == "tool_result"]


async def faults_of(stage: Stage, object_id: str) -> list[ObjectFaulted]:
    return [each for each in await stage.events() if isinstance(each, ObjectFaulted) and each.object == object_id]


@pytest.mark.parametrize("stub", STUBS)
@pytest.mark.parametrize("shape", ["text", "blocks"])
async def test_evicted_content_replaces_the_clients_reference_permanently(stub: str, shape: str) -> None:
    async with open_stage(window=ROOMY) as stage:
        client = client_of(stage)
        message = await evict(client, stage, [read(LEDGER)], WHOLE)
        assert NEEDLE not in json.dumps(stage.upstream[-1])
        message = await ask(client, stage, message, [read(LEDGER)])
        message = await deliver(client, stage, message, stub if shape == "text" else [text(stub)])
        assert last_results(stage)[0]["content"] == WHOLE
        sent = len(stage.upstream)
        await reads(client, stage, message, 1, first=40, size=10)
        assert_prefixes(stage.upstream[sent - 1 :])
        assert NEEDLE in json.dumps(stage.upstream[-1])
        (ledger,) = await ledger_objects(stage)
        (fault,) = await faults_of(stage, ledger.object)
        assert (fault.kind, fault.turn) == (FaultKind.IMPLICIT, sent)
        moment = memory_travel.snapshot(await stage.log.read(await stage.stream()), "main", sent)
        assert moment.faults == [fault]
        restored = [each for each in await stage.events() if isinstance(each, ObjectRestored)]
        assert [(each.object, each.after) for each in restored] == [(ledger.object, Fidelity.FULL)]
        assert violations(stage) == []
        assert_nothing_of_ours(client)
        await stage.rounds()


async def test_reference_is_recorded_as_a_reference_and_not_as_the_file() -> None:
    async with open_stage(window=ROOMY) as stage:
        client = client_of(stage)
        message = await evict(client, stage, [read(LEDGER)], WHOLE)
        message = await ask(client, stage, message, [read(LEDGER)])
        message = await deliver(client, stage, message, STUB)
        await reads(client, stage, message, 1, first=40)
        events = await stage.events()
        (ledger,) = await ledger_objects(stage)
        (reference,) = [each for each in events if isinstance(each, ObjectCreated) and UNCHANGED in each.tags]
        assert (reference.source_key, reference.admission.admitted) == (None, False)
        assert ledger.object in [link.target for link in reference.links]
        assert ledger.object not in [each.object for each in events if isinstance(each, ObjectSuperseded)]


async def test_observed_session_sends_the_clients_bytes_and_records_a_reference() -> None:
    async with open_stage(mode=Mode.OBSERVE) as stage:
        client = client_of(stage)
        message = await ask(client, stage, {"content": []}, [read(LEDGER)])
        message = await deliver(client, stage, message, WHOLE)
        message = await ask(client, stage, message, [read(LEDGER)])
        message = await deliver(client, stage, message, STUB)
        await reads(client, stage, message, 1, first=40)
        assert [each.body for each in stage.standin.messages] == client.bodies
        (ledger,) = await ledger_objects(stage)
        memory = await memory_of(stage)
        assert not memory.objects[ledger.object].stale
        assert not [each for each in await stage.events() if isinstance(each, ObjectFaulted)]


async def test_content_that_the_branch_shows_in_full_is_not_repeated() -> None:
    async with open_stage(window=100_000) as stage:
        client = client_of(stage)
        message = await ask(client, stage, {"content": []}, [read(LEDGER)])
        message = await deliver(client, stage, message, WHOLE)
        message = await reads(client, stage, message, 4)
        message = await ask(client, stage, message, [read(LEDGER)])
        await deliver(client, stage, message, STUB)
        assert last_results(stage)[0]["content"] == STUB


async def test_two_simultaneous_reads_of_one_file_restore_it_once() -> None:
    async with open_stage(window=ROOMY) as stage:
        client = client_of(stage)
        message = await evict(client, stage, [read(LEDGER)], WHOLE)
        message = await ask(client, stage, message, [read(LEDGER), read(LEDGER)])
        await deliver(client, stage, message, STUB, STUB)
        assert [each["content"] for each in last_results(stage)] == [WHOLE, STUB]
        await stage.rounds()


async def test_rereading_a_part_restores_that_part() -> None:
    part = "".join(f"{number:6}\tpart of the ledger {number}\n" for number in range(10, 90))
    async with open_stage(window=ROOMY) as stage:
        client = client_of(stage)
        message = await evict(client, stage, [read(LEDGER), reads_lines(10, 80)], WHOLE, part)
        message = await ask(client, stage, message, [reads_lines(10, 80)])
        await deliver(client, stage, message, STUB)
        assert last_results(stage)[0]["content"] == part


@pytest.mark.parametrize(
    ("first", "second"), [("src/ledger.py", LEDGER), (LEDGER, "src/ledger.py"), ("./src/ledger.py", "src//ledger.py")]
)
async def test_file_is_restored_by_any_form_of_its_path(
    first: str, second: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    named = text("# Environment\n - Primary working directory: /")
    monkeypatch.setattr(managing, "SYSTEM", [*managing.SYSTEM, named])
    async with open_stage(window=ROOMY) as stage:
        client = client_of(stage)
        message = await evict(client, stage, [read(first)], WHOLE)
        message = await ask(client, stage, message, [read(second)])
        message = await deliver(client, stage, message, STUB)
        assert last_results(stage)[0]["content"] == WHOLE
        sent = len(stage.upstream)
        await reads(client, stage, message, 1, first=40, size=10)
        assert_prefixes(stage.upstream[sent - 1 :])
        assert violations(stage) == []
        await stage.rounds()


async def test_notebook_is_restored_cell_by_cell() -> None:
    cells = [text(f'<cell id="{number}">value = {number}\n</cell>' * 6) for number in range(20)]
    async with open_stage(window=ROOMY) as stage:
        client = client_of(stage)
        message = await evict(client, stage, [read("/src/work.ipynb")], cells)
        message = await ask(client, stage, message, [read("/src/work.ipynb")])
        await deliver(client, stage, message, STUB)
        assert last_results(stage)[0]["content"] == cells


@pytest.mark.parametrize(
    "said",
    [
        "  1\tentry = 0\n",
        "It is empty now.",
        "",
        f"{STUB} What follows is the file's own text.",
        f"# {STUB}\nprint(1)\n\nprint(2)\n",
    ],
)
async def test_new_content_of_any_length_passes_unchanged_as_the_new_file_version(said: str) -> None:
    async with open_stage(window=ROOMY) as stage:
        client = client_of(stage)
        message = await evict(client, stage, [read(LEDGER)], WHOLE)
        message = await ask(client, stage, message, [read(LEDGER)])
        message = await deliver(client, stage, message, said)
        assert str(last_results(stage)[0]["content"]).startswith(said)
        assert NEEDLE not in json.dumps(stage.upstream[-1])
        await reads(client, stage, message, 5, first=40)
        assert len(await ledger_objects(stage)) == 2


async def test_command_output_is_never_replaced() -> None:
    async with open_stage(window=ROOMY) as stage:
        client = client_of(stage)
        message = await evict(client, stage, [run(f"cat {LEDGER}")], WHOLE)
        message = await ask(client, stage, message, [run(f"cat {LEDGER}"), {**run("x"), "name": "Grep"}])
        await deliver(client, stage, message, STUB, STUB)
        assert [each["content"] for each in last_results(stage)] == [STUB, STUB]


@pytest.mark.parametrize(
    "said", ["File content unchanged since the earlier Read; refer to that result.", WORDINGS[3].text]
)
async def test_text_that_only_resembles_a_reference_gets_a_pointer_line(said: str) -> None:
    async with open_stage(window=ROOMY) as stage:
        client = client_of(stage)
        message = await evict(client, stage, [read(LEDGER)], WHOLE)
        message = await ask(client, stage, message, [read(LEDGER)])
        message = await deliver(client, stage, message, said)
        ledger = (await ledger_objects(stage))[0]
        assert last_results(stage)[0]["content"] == f"{said}\n\n{render_pointer(ledger.object)}"
        sent = len(stage.upstream)
        await reads(client, stage, message, 1, first=40, size=10)
        assert_prefixes(stage.upstream[sent - 1 :])
        assert await faults_of(stage, ledger.object) == []
        await stage.rounds()


async def test_reference_gets_a_pointer_line_if_the_window_has_no_room() -> None:
    async with open_stage(window=SMALL) as stage:
        client = client_of(stage)
        message = await evict(client, stage, [read(LEDGER), read("/src/other.py")], WHOLE, WHOLE * 9, turns=10)
        message = await ask(client, stage, message, [read("/src/other.py")])
        await deliver(client, stage, message, STUB)
        assert last_results(stage)[0]["content"].startswith(f"{STUB}\n\n[That content has left your context: call")
        assert violations(stage) == []


async def test_edit_that_refers_to_an_evicted_file_gets_a_pointer_line_once() -> None:
    done = f"The file {LEDGER} has been updated successfully. {WORDINGS[3].text}"
    async with open_stage(window=ROOMY) as stage:
        client = client_of(stage)
        message = await evict(client, stage, [read(LEDGER)], WHOLE)
        message = await ask(client, stage, message, [edit(LEDGER)])
        message = await deliver(client, stage, message, done)
        (ledger, *_) = await ledger_objects(stage)
        assert last_results(stage)[0]["content"] == f"{done}\n\n{render_pointer(ledger.object)}"
        message = await ask(client, stage, message, [edit(LEDGER)])
        await deliver(client, stage, message, done)
        assert last_results(stage)[0]["content"] == done


async def test_reference_after_an_edit_is_not_replaced_by_the_old_text() -> None:
    async with open_stage(window=ROOMY) as stage:
        client = client_of(stage)
        message = await evict(client, stage, [read(LEDGER)], WHOLE)
        message = await ask(client, stage, message, [edit(LEDGER)])
        message = await deliver(client, stage, message, "The file was updated.")
        message = await ask(client, stage, message, [read(LEDGER)])
        await deliver(client, stage, message, STUB)
        (ledger, *_) = await ledger_objects(stage)
        assert last_results(stage)[0]["content"] == f"{STUB}\n\n{render_pointer(ledger.object)}"


async def test_reminders_after_a_reference_stay_after_the_content() -> None:
    reminder = "<system-reminder>\nBe brief.\n</system-reminder>"
    async with open_stage(window=ROOMY) as stage:
        client = client_of(stage)
        message = await evict(client, stage, [read(LEDGER)], WHOLE)
        message = await ask(client, stage, message, [read(LEDGER)])
        await deliver(client, stage, message, f"{STUB}\n\n{reminder}")
        assert last_results(stage)[0]["content"] == f"{WHOLE}\n\n{reminder}"


async def test_repeated_request_repeats_the_content_and_counts_one_fault() -> None:
    async with open_stage(window=ROOMY) as stage:
        client = client_of(stage)
        message = await evict(client, stage, [read(LEDGER)], WHOLE)
        message = await ask(client, stage, message, [read(LEDGER)])
        await deliver(client, stage, message, STUB)
        del client.history[-1]
        await client.send()
        assert stage.upstream[-1]["messages"] == stage.upstream[-2]["messages"]
        (ledger,) = await ledger_objects(stage)
        assert len(await faults_of(stage, ledger.object)) == 1
        assert (await memory_of(stage)).view_of("main").fidelity_of(ledger.object) is Fidelity.FULL


async def test_restarted_server_sends_the_same_content() -> None:
    async with open_stage(window=ROOMY) as stage:
        client = client_of(stage)
        message = await evict(client, stage, [read(LEDGER)], WHOLE)
        message = await ask(client, stage, message, [read(LEDGER)])
        message = await deliver(client, stage, message, STUB)
        before = stage.upstream
        async with open_stage(window=ROOMY, log=stage.log, standin=stage.standin) as again:
            client.url = again.url
            await reads(client, again, message, 1, first=40, size=10)
            assert_prefixes([before[-1], again.upstream[-1]])
            assert NEEDLE in json.dumps(again.upstream[-1])


async def test_forked_branch_also_restores_the_content() -> None:
    async with open_stage(window=ROOMY) as stage:
        client = client_of(stage)
        message = await evict(client, stage, [read(LEDGER)], WHOLE)
        (call,) = calls_of(message)
        headers = client.headers | {"x-claude-code-agent-id": "x"}
        agent = Client(stage.url, tools=client.tools, headers=headers, history=list(client.history))
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
        assert violations(stage) == []
        await stage.rounds()


async def test_memory_tools_answer_with_the_file_and_never_with_the_reference() -> None:
    async with open_stage(window=ROOMY) as stage:
        client = client_of(stage)
        message = await evict(client, stage, [read(LEDGER)], WHOLE)
        message = await ask(client, stage, message, [read(LEDGER)])
        message = await deliver(client, stage, message, STUB)
        message = await reads(client, stage, message, 2, first=40)
        (reference,) = [
            each for each in await stage.events() if isinstance(each, ObjectCreated) and UNCHANGED in each.tags
        ]
        answer(stage, [think(), look_for(f"{LEDGER} file unchanged since your last Read")], [read("/x.py")])
        await client.turn(*results_of(message))
        found = json.dumps(last_results(stage))
        assert "ledger.py" in found
        assert reference.object not in found
        assert STUB not in found


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
        client = Client(stage.url, tools=client.tools, headers=client.headers | headers)
    opening = "This session is being continued from a previous conversation that ran out of context. Summary: it went."
    answer(stage, [think(), read(LEDGER)])
    message = await client.turn(text(opening if kind == "continued" else "Verify it."))
    return client, await deliver(client, stage, message, STUB)


@pytest.mark.parametrize("kind", NEVER_HELD)
async def test_reference_to_content_the_conversation_never_had_is_sent_unchanged(kind: str) -> None:
    async with open_stage(window=ROOMY) as stage:
        client, message = await read_without_content(stage, kind)
        assert last_results(stage)[0]["content"] == STUB
        sent = len(stage.upstream)
        await reads(client, stage, message, 2, first=40, size=10)
        assert_prefixes(stage.upstream[sent - 1 :])
        assert NEEDLE not in json.dumps(stage.upstream[-1])
        assert not [each for each in await stage.events() if isinstance(each, ObjectFaulted | ObjectRestored)]
        assert violations(stage) == []
        await stage.rounds()


@pytest.mark.parametrize("mode", [Mode.MANAGE, Mode.OBSERVE])
@pytest.mark.parametrize("kind", NEVER_HELD)
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


async def test_restarted_server_leaves_a_reference_to_unrecorded_content_alone() -> None:
    async with open_stage(window=ROOMY) as stage:
        client, message = await read_without_content(stage, "recorded late")
        message = await ask(client, stage, message, [read(LEDGER)])
        async with open_stage(window=ROOMY, log=stage.log, standin=stage.standin) as again:
            client.url = again.url
            message = await deliver(client, again, message, STUB)
            assert last_results(again)[0]["content"] == STUB
            await reads(client, again, message, 1, first=40, size=10)
            assert_prefixes(again.upstream)
            await again.rounds()
