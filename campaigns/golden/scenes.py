"""The scenes of the golden logs, each with another part of a server's events."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import attrs
import trio

from campaigns.golden.archived import DatabaseLog, add, archive_of
from mnemosyne.actors.composing import Composer
from mnemosyne.actors.helper_calls import HelperBudget
from mnemosyne.actors.loaded_sessions import LoadedSessions
from mnemosyne.actors.messages import CompleteDeferred
from mnemosyne.actors.patience import USUAL
from mnemosyne.actors.questions import HelperQuestions
from mnemosyne.adapters.helpers.opening import open_helper
from mnemosyne.adapters.postgres.journal import GroupJournal, JournalLimits
from mnemosyne.domain.knowledge.knowledge_store import KnowledgeStore
from mnemosyne.domain.objects.decide import Pin
from mnemosyne.domain.objects.events import (
    ObjectCreated,
    ObjectDegraded,
    ObjectForgotten,
)
from mnemosyne.domain.session.decide import NoteImport, SwitchManaging
from mnemosyne.domain.session.events import TurnInterrupted
from mnemosyne.domain.session.input_events import HelperAsked
from mnemosyne.domain.session.round_events import FallbackSent, Mode
from mnemosyne.domain.tools.cleanup_tags import CLOSING, OPENING
from mnemosyne.services import memories, switching
from mnemosyne.services.checkpoints import name
from mnemosyne.services.forgetting import forget
from mnemosyne.services.pins import pin, release, restore, unpin
from mnemosyne_lab.provider.server import open_standin
from tests.actors.spending import EnoughTurns
from tests.actors.summaries import ENOUGH_MONEY, long_text
from tests.actors.support import IDENTITY, PATIENT, open_process
from tests.adapters.endpoint import open_endpoint
from tests.adapters.helpers.asking import ENVIRON, settings
from tests.golden.sessions import CODEC
from tests.http.evicting import DECIDED, RECALL, Index, read_and_evict, result
from tests.http.managing import Client, Json, Stage, look, model_says, open_stage, recall, script, text, think
from tests.http.proxying import open_proxy
from tests.http.raw_client import exchange
from tests.http.test_epochs import (
    MINUTES,
    SMALL,
    TOOLS,
    Clock,
    answer,
    client_of,
    edit,
    epochs_of,
    read,
    reads,
    results_of,
    run,
    violations,
)
from tests.http.test_helped_answers import PAID, QUESTION, composed
from tests.http.test_session_knowledge import USER, Working
from tests.http.test_stated_windows import read_files

CREDENTIAL = "made-up-token-0123456789"
LINES = 40
"""How long a file is that an agent reads."""


@asynccontextmanager
async def staged(log: DatabaseLog, clock: Clock, mode: Mode, window: int | None) -> AsyncIterator[Stage]:
    """A provider and a proxy on one clock."""
    async with (
        open_standin(clock=lambda: clock.now / 1e6) as standin,
        open_stage(standin=standin, log=log, mode=mode, window=window, clock=clock, index=Index(log)) as stage,
    ):
        yield stage


async def work(client: Client, stage: Stage, prompt: str, *replies: Sequence[Json], lines: int = LINES) -> Json:
    """Send the prompt and every requested result; return the replies, the final one last."""
    answer(stage, *replies)
    message = await client.turn(text(prompt))
    while message.get("stop_reason") == "tool_use":
        message = await client.turn(*results_of(message, lines))
    assert "error" not in message, message
    return message


def same(client: Client, **changed: Any) -> Client:
    """Another conversation of the same session."""
    return attrs.evolve(client, **{"history": [], "replies": [], "bodies": [], "headers": {}, **changed})


async def observed(log: DatabaseLog) -> None:
    """An observed agent: tools, attempts, a rewind, a sub-agent, a compaction, a credential."""
    async with staged(log, Clock(), Mode.OBSERVE, None) as stage:
        client = client_of(stage)
        loop = [think("I read."), text("Let me see."), read("/src/parser.py")], [think(), edit("/src/parser.py")]
        story = [think(), text(long_text("alpha", 2_400))]
        await work(client, stage, "Mend the parser, and use tabs only.", *loop, [run("make test")], story)
        await work(same(client, tools=[]), stage, "A title for this, please.", [text("Mending the parser")])

        # Another attempt after the provider was busy, and another one after the connection broke.
        stage.standin.script = script({"reply": {"failure": {"status": 529}}})
        await client.turn(text("And the tests?"))
        cut = model_says(think(), text("They are in tests/."), faults=[{"kind": "cut", "at": 6}])
        stage.standin.script = script({"reply": cut})
        await client.send()
        assert client.replies[-1].cut
        answer(stage, [think(), read("/tests/test_parser.py")], [think(), text("They pass.")])
        message = await client.send()
        client.history.append({"role": "assistant", "content": message["content"]})
        await client.turn(*results_of(message, LINES))

        agent = same(client, headers={"x-claude-code-agent-id": "agent-7"})
        await work(
            agent, stage, "Look for callers.", [think(), run("grep -rn parse")], [think(), text("There are two.")]
        )

        # The user goes back to before the tests with another message.
        del client.history[-4:]
        await work(client, stage, "Rather the lexer.", [think(), read("/src/lexer.py")], [think(), text("It is done.")])

        plain = client.members
        client.members = plain | {"metadata": {"user_id": "u-1", "session_token": CREDENTIAL}}
        await work(client, stage, "Go on with a credential.", [think(), text("I see.")])
        client.members = plain
        dialect = b'{"input":"a request in another dialect","model":"another-model"}'
        await exchange(client.url, body=dialect, headers=client.raw_headers())

        await work(client, stage, "CRITICAL: Respond with TEXT ONLY. Summarize.", [text("The lexer was mended.")])
        client.history = []
        begin = "This session is being continued from a previous conversation that ran out of context. The lexer…"
        await work(client, stage, begin, [think(), read("/src/lexer.py")], [think(), text("I go on.")])
        await work(client, stage, "Thanks.", [think(), text("You are welcome.")])
        assert {each.violation.rule for each in stage.standin.violations} == {"R0"}  # the other dialect


DONE = [think("So that was it."), text("There it is.")]


async def managed(log: DatabaseLog) -> None:
    """An agent in a small window: epochs, summaries, a prefetched object, a pin, a cold cache."""
    clock = Clock()
    async with staged(log, clock, Mode.MANAGE, SMALL) as stage:
        client = client_of(stage)
        await work(client, stage, "Tell me of alpha.", [think(), text(long_text("alpha", 3_000))])
        await filled(client, stage)
        await ask(client, stage, RECALL, [think(), text("7 retries (UPLOAD_RETRY_LIMIT).")])

        (stream,) = await log.streams()
        file = (await made_of(stage, "Read"))[0]
        decided = Pin(at=next(clock), object=file, reason="it matters", until_turn=None)
        await memories.decide(archive_of(log, stage.process.journal), stream, lambda _: decided, "a-person")

        clock.now += 24 * 60 * MINUTES  # the user returns after a day
        await ask(client, stage, "And the proxy?", [think(), read("/src/proxy.py")], DONE)
        await ask(client, stage, "Thanks.", [think(), text("You are welcome.")])
        assert violations(stage) == []
        await stage.rounds()


async def hidden_rounds(log: DatabaseLog) -> None:
    """A model that uses every memory tool and a cleanup tag; then the client goes back."""
    async with staged(log, Clock(), Mode.MANAGE, SMALL + 6_000) as stage:
        client = client_of(stage)
        await filled(client, stage)
        gone = [each.object for each in await stage.events() if isinstance(each, ObjectDegraded)]
        files = await made_of(stage, "Read")
        first = next(each for each in files if each in gone)
        search = hidden("memory_search", query="upload queue retries")
        again = hidden("memory_restore", object_id=first, target="L2", reason="needed")
        release = hidden("memory_release", object_ids=[files[-1]], reason="read")
        rounds = [[think(), text("Let me see."), recall(RECALL)], [think(), search], [think(), again], [release]]
        await ask(
            client, stage, "What of the retries?", *rounds, [think(), recall("and?"), edit("/src/queue.py")], DONE
        )

        tag = "\n".join((OPENING, f"drop: #{files[1]}", f'anchor: #{files[0]} "the plan"', CLOSING, ""))
        await ask(client, stage, "Tidy up.", [think(), text(f"On.\n{tag}")])

        del client.history[-2:]
        await ask(client, stage, "No. Something else.", [think(), recall("what else?")], DONE)
        assert violations(stage) == []
        await stage.rounds()


async def bypassed(log: DatabaseLog) -> None:
    """A client that goes back to before a rewrite, and is managed until its user switches that off."""
    async with staged(log, Clock(), Mode.MANAGE, SMALL) as stage:
        client = client_of(stage)
        await filled(client, stage)
        del client.history[-4:]
        await ask(client, stage, "No. Something else.", [think(), text("What?")])
        assert violations(stage) == []
        client.headers = {"x-mnemosyne-mode": "off"}
        await ask(client, stage, "And now?", [think(), read("/src/other.py")], DONE)
        await ask(client, stage, "Thanks.", [think(), text("You are welcome.")])
        assert {each.violation.rule for each in stage.standin.violations} == {"R10"}  # without memory tools
        await stage.rounds()


def hidden(tool: str, **given: Any) -> Json:
    """A call of a memory tool."""
    return {"type": "tool_use", "name": tool, "input": given}


async def filled(client: Client, stage: Stage) -> None:
    """Files are read until a rewrite evicts the first one."""
    await ask(client, stage, "Read the notes.", [think(), read("/docs/notes.md")], DONE)
    await ask(client, stage, "Read the parts.", [think(), read("/src/part_0.py"), read("/src/part_1.py")], DONE)
    assert await epochs_of(stage)


async def made_of(stage: Stage, tool: str) -> list[str]:
    """The object ids of a client tool's results, oldest first."""
    created = [each for each in await stage.events() if isinstance(each, ObjectCreated)]
    return [each.object for each in created if each.source_tool == tool]


async def ask(client: Client, stage: Stage, prompt: str, *replies: Sequence[Json]) -> None:
    """As ``work``, with files that contain a decision."""
    answer(stage, *replies)
    message = await client.turn(text(prompt))
    while message.get("stop_reason") == "tool_use":
        calls = [block for block in message["content"] if block["type"] == "tool_use"]
        message = await client.turn(*(result(each, DECIDED) for each in calls))
    assert "error" not in message, message


async def gap_and_forgotten(log: DatabaseLog) -> None:
    """Three sessions: one with turns that could not be recorded, one that was forgotten, one that continued
    afterwards.
    """
    clock = Clock()
    sessions = ("with-a-gap", "forgotten", "forgotten-and-on")
    async with small_stage(log, clock) as stage:
        gap, _, on = clients = [attrs.evolve(client_of(stage), session=name) for name in sessions]
        for client in clients:
            file = f"/src/{client.session}.py"
            await work(client, stage, "Read it.", [think(), read(file)], [think(), text("Read.")], lines=20)
            await work(client, stage, "Explain it.", [think(), text(f"It is about {client.session}. " * 20)])

        log.hang()
        before, position = list(gap.history), stage.process.journal.committed.position
        for number in range(3):  # the first fills the queue
            gap.history = list(before)
            await work(gap, stage, f"This is not written down ({number}). " + "It is long. " * 1_500, [text("Yes.")])
        log.flowing.set()
        await stage.process.journal.committed.beyond(position)
        gap.history = before
        await work(gap, stage, "This is written down again.", [text("Yes.")])
        await work(gap, stage, "So is this.", [text("Yes.")])
        streams = dict(zip(sessions, await log.streams(), strict=True))

    async with small_stage(log, clock) as stage:
        archive = archive_of(log, stage.process.journal)
        for name in sessions[1:]:
            await forget(archive, streams[name], clock.__next__, "a-person")
        on.url = stage.url
        await work(on, stage, "Where were we?", [think(), text("Here.")])
        await work(on, stage, "Read it again.", [think(), read("/src/on.py")], [think(), text("Read.")], lines=20)


@asynccontextmanager
async def small_stage(log: DatabaseLog, clock: Clock) -> AsyncIterator[Stage]:
    """A proxy whose journal has a short queue."""
    async with (
        open_standin(clock=lambda: clock.now / 1e6) as standin,
        open_process(
            log,
            GroupJournal(log, CODEC, JournalLimits(pending_bytes=12_000)),
            clock=clock,
            patience=attrs.evolve(PATIENT, database=USUAL.database),  # one scene loses its database for a time
        ) as process,
        open_proxy(standin.url, process.opener, mode=Mode.OBSERVE) as proxy,
    ):
        yield Stage(standin, proxy, log, process)


BACKOFF = (
    "Now implement exponential backoff for the upload queue of notes.md: double the delay between two retries,"
    " starting from half a second, cap the sum at one minute, and document the variable that configures it."
)


async def helped(log: DatabaseLog) -> None:
    r"""A helper model that answers, another goal, a broken reply, and a turn that could not wait; then the user pins
    an object and switches managing off.

    Its last event is one that no current version makes and that stays readable.
    """
    clock = Clock()
    async with helped_stage(log, clock) as stage:
        client = client_of(stage)
        await read_and_evict(client, stage)
        answer(stage, [recall(QUESTION)], [text("Seven.")])
        await client.turn(text("Go on."))
        await stage.events_until(HelperAsked)
        await ask(client, stage, BACKOFF, [think(), read("/src/backoff.py")], [think(), text("It is there.")])
        stage.standin.script = script({"reply": model_says(think(), text("So it"), faults=[{"kind": "cut", "at": 6}])})
        await client.turn(text("Is it?"))
        await stage.events_until(TurnInterrupted)
        await send_without_waiting(client, stage)
        await stage.events_until(FallbackSent)

        archive, stream = archive_of(log, stage.process.journal), await stage.stream()
        file = (await made_of(stage, "Read"))[-1]
        await pin(archive, file, reason="the plan", turns=9, at=next(clock), correlation_id="a-person")
        await unpin(archive, file, reason="done", at=next(clock), correlation_id="a-person")
        for on in (False, True):
            switch = SwitchManaging(at=next(clock), on=on, why="a person said so")
            await switching.switch_session(archive, stream, switch, "a-person")
        await switching.note_import(archive, "t", NoteImport(at=next(clock), session=stream), "a-person")

    await add(log, stream, ObjectForgotten(at=next(clock), object=file, reason="asked for"))


@asynccontextmanager
async def helped_stage(log: DatabaseLog, clock: Clock) -> AsyncIterator[Stage]:
    """A provider, a managing proxy, and a helper model for the model's memory questions."""
    async with (
        open_standin(clock=lambda: clock.now / 1e6) as standin,
        open_endpoint(composed()) as endpoint,
        open_helper(settings("openai", endpoint.url, helper_price=PAID), ENVIRON) as model,
        open_stage(
            standin=standin, log=log, window=SMALL, clock=clock, index=Index(log), questions=HelperQuestions()
        ) as stage,
        trio.open_nursery() as nursery,
    ):
        assert model is not None
        composer = Composer(model, HelperBudget(EnoughTurns(), ENOUGH_MONEY, lambda: 1), seconds=20.0)
        nursery.start_soon(composer.run, LoadedSessions(stage.process.registry))
        yield stage
        nursery.cancel_scope.cancel()


async def send_without_waiting(client: Client, stage: Stage) -> None:
    """A turn that does not wait for its session to load."""
    registry = stage.process.registry
    actor, asked = registry.ask(IDENTITY, CompleteDeferred())
    await asked.wait()
    registry.discard(await stage.stream(), actor)
    patience, registry.patience = registry.patience, attrs.evolve(registry.patience, loading=0.0)
    await ask(client, stage, "And on.", [text("Yes.")])
    registry.patience = patience


async def recalled(log: DatabaseLog) -> None:
    """Two sessions of a project: the first decides something; the second gets it as knowledge, and rewrites its
    history.
    """
    clock = Clock()
    async with (
        open_standin(clock=lambda: clock.now / 1e6) as standin,
        open_stage(standin=standin, log=log, window=SMALL, clock=clock, index=Index(log), memory_tokens=600) as stage,
    ):
        client = Working(stage.url, tools=TOOLS)
        answer(stage, [text("As you say.")])
        await client.turn(text("I prefer short answers over long explanations."))
        await client.turn(text("Go on."))
        position = 0
        while not (await KnowledgeStore(log, stage.process.journal).read(USER)).entries:
            position = await stage.process.journal.committed.beyond(position)
        await reads(same(client, session="s2"), stage, {"content": []}, 9)


async def requested(log: DatabaseLog) -> None:
    """The user requests an evicted file: it is restored after the next prompt. Then it may be evicted again."""
    clock = Clock()
    async with (
        open_standin(clock=lambda: clock.now / 1e6) as standin,
        open_stage(standin=standin, log=log, window=SMALL, clock=clock, index=Index(log)) as stage,
    ):
        client = client_of(stage)
        await read_and_evict(client, stage)
        archive, session = archive_of(log, stage.process.journal), str(await stage.stream())
        first, *_ = await made_of(stage, "Read")
        said = {"session": session, "branch": "main", "reason": "a person said so", "correlation_id": "a-person"}
        await restore(archive, first, at=next(clock), **said)
        await ask(client, stage, "Thanks.", [think(), text("You are welcome.")])
        await release(archive, first, at=next(clock), **said)
        await ask(client, stage, "What is next?", [think(), text("The parts.")])
        assert violations(stage) == []
        await stage.rounds()


async def repeated(log: DatabaseLog) -> None:
    """A model repeats one call three times with the same result, and gets a note."""
    clock = Clock()
    async with (
        open_standin(clock=lambda: clock.now / 1e6) as standin,
        open_stage(standin=standin, log=log, clock=clock, index=Index(log), tell_repeats=True) as stage,
    ):
        standin.script = script({"replies": [*[model_says(look(at="it"))] * 3, model_says(text("There is nothing."))]})
        client = Client(stage.url)
        message = await client.turn(text("Look."))
        while message["stop_reason"] == "tool_use":
            call = message["content"][0]["id"]
            message = await client.turn({"type": "tool_result", "tool_use_id": call, "content": "nothing"})
        assert violations(stage) == []
        await stage.rounds()


async def waited(log: DatabaseLog) -> None:
    """A small conversation waits for its memory tools, which are added after a break."""
    clock = Clock()
    async with (
        open_standin(clock=lambda: clock.now / 1e6) as standin,
        open_stage(standin=standin, log=log, clock=clock, index=Index(log), manages_small=False) as stage,
    ):
        standin.script = script({"replies": [model_says(think(), text(f"Answer {number}.")) for number in range(3)]})
        client = Client(stage.url)
        await client.turn(text("Look."))
        clock.now += 10 * MINUTES
        await client.turn(text(long_text("parser", 80_000)))
        await client.turn(text("Thanks."))
        assert {each.violation.rule for each in stage.standin.violations} == {"R10"}  # memory tools added
        assert [len(each.json()["tools"]) > len(client.tools) for each in standin.messages] == [False, True, True]


async def named_turns(log: DatabaseLog) -> None:
    """The user names turns of two sessions, and one of the sessions is forgotten."""
    clock = Clock()
    async with small_stage(log, clock) as stage:
        clients = [attrs.evolve(client_of(stage), session=each) for each in ("named", "named-and-forgotten")]
        for client in clients:
            await work(client, stage, "Read it.", [think(), read("/src/a.py")], [think(), text("Read.")], lines=20)
            await work(client, stage, "Explain it.", [think(), text("It is about a. " * 20)])
        archive = archive_of(log, stage.process.journal)
        for stream in await log.streams():
            for called, turn in (("before-the-rewrite", 1), ("now", None)):
                at = next(clock)
                await name(archive, str(stream), called, branch="main", turn=turn, at=at, correlation_id="a-person")
        _, last = await log.streams()
        await forget(archive, last, clock.__next__, "a-person")
        await work(clients[0], stage, "Go on.", [think(), text("Done.")])


async def stated_window(log: DatabaseLog) -> None:
    """The provider refuses a prompt and states a window that is smaller than the table's."""
    clock = Clock()
    async with (
        open_standin({"rules": []}, clock=lambda: clock.now / 1e6) as standin,
        open_stage(standin=standin, log=log, clock=clock, index=Index(log)) as stage,
    ):
        client = Client(stage.url, tools=TOOLS)
        await read_files(client, standin, 14)
        assert [message.status for message in standin.messages].count(400) == 1


SCENES = {
    "stated-window": stated_window,
    "named-turns": named_turns,
    "repeated": repeated,
    "waited": waited,
    "measured": waited,  # by a ledger that measures the parts of a prompt separately
    "by-model": waited,  # by a server that leaves the window to the model
    "counted": hidden_rounds,  # by a server whose memory tools state the sizes that the provider counted
    "requested": requested,
    "told": recalled,
    "observed": observed,
    "managed": managed,
    "hidden-rounds": hidden_rounds,
    "bypassed": bypassed,
    "gap-and-forgotten": gap_and_forgotten,
    "helped": helped,
}
