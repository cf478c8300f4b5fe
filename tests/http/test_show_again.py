"""An object that the user asks to see again is restored with the next request, through a complete managing proxy."""

import json
from types import SimpleNamespace
from typing import Any

import attrs
import pytest
import trio

from mnemosyne.actors.texts import ObjectTexts
from mnemosyne.adapters.plain.directory import PlainDirectory
from mnemosyne.domain.objects.events import ObjectCreated, ObjectRestored, ObjectSummarized
from mnemosyne.domain.objects.fidelity import Cause, Fidelity
from mnemosyne.services.pins import restore
from tests.actors.support import PATIENT
from tests.http.evicting import DECIDED, RECALL, exchange, indexed_stage, read_and_evict, result
from tests.http.managing import Client, Stage, assert_nothing_of_ours, assert_prefixes, bare, text, think
from tests.http.test_epochs import TOOLS, answer, epochs_of, read

OURS = "Not the user's words"


async def ask_back(stage: Stage) -> str:
    """The user asks to see the evicted file again; return its id."""
    made = [each for each in await stage.events() if isinstance(each, ObjectCreated)]
    first = next(each.object for each in made if each.source_key == "/docs/notes.md")
    log, journal = stage.log, stage.process.journal
    archive: Any = SimpleNamespace(events=log, contents=log, journal=journal, directory=PlainDirectory(log))
    asked = {"session": str(await stage.stream()), "branch": "main", "reason": "a person", "correlation_id": "p"}
    await restore(archive, first, at=1_700_000_000_000_000, **asked)
    return first


async def restored_in(stage: Stage) -> list[ObjectRestored]:
    return [each for each in await stage.events() if isinstance(each, ObjectRestored)]


async def test_restored_object_follows_the_next_prompt_and_stays_in_later_requests() -> None:
    async with indexed_stage() as stage:
        client = Client(stage.url, tools=TOOLS)
        await read_and_evict(client, stage)
        object_id = await ask_back(stage)
        await exchange(client, stage, "Thanks.", [think(), text("Yes.")])
        typed, added = bare(stage.upstream[-1]["messages"][-1]["content"])
        assert typed == text("Thanks.")
        assert added["text"].startswith(OURS)
        assert DECIDED in added["text"]
        (event,) = await restored_in(stage)
        assert (event.object, event.after, event.cause) == (object_id, Fidelity.FULL, Cause.PREFETCH)
        await exchange(client, stage, "Go on.", [think(), text("Well.")])
        assert_prefixes(stage.upstream[-2:])
        assert json.dumps(stage.upstream[-1]).count(DECIDED) == 1
        assert_nothing_of_ours(client)


async def test_object_too_large_for_one_turn_is_restored_as_a_summary_made_on_demand() -> None:
    async with indexed_stage() as stage:
        client = Client(stage.url, tools=TOOLS)
        await read_and_evict(client, stage, size=600)
        object_id = await ask_back(stage)
        assert not [each for each in await stage.events() if isinstance(each, ObjectSummarized)]
        await exchange(client, stage, "Thanks.", [think(), text("Yes.")])
        (made,) = [each for each in await stage.events() if isinstance(each, ObjectSummarized)]
        (event,) = await restored_in(stage)
        assert (made.object, made.fidelity) == (event.object, event.after) == (object_id, Fidelity.DETAILED)
        stored = (await stage.log.fetch(await stage.stream(), [made.text]))[made.text].decode()
        assert stored in bare(stage.upstream[-1]["messages"][-1]["content"])[-1]["text"]
        await exchange(client, stage, "Go on.", [think(), text("Well.")])
        assert_prefixes(stage.upstream[-2:])


async def test_object_is_restored_in_the_middle_of_a_tool_loop() -> None:
    async with indexed_stage() as stage:
        client = Client(stage.url, tools=TOOLS)
        await read_and_evict(client, stage)
        answer(stage, [think(), read("/docs/other.md")], [think(), text("Read.")])
        message = await client.turn(text("Read the other one."))
        await ask_back(stage)
        await client.turn(result(message["content"][-1], "it says nothing"))
        blocks = bare(stage.upstream[-1]["messages"][-1]["content"])
        assert [each["type"] for each in blocks] == ["tool_result", "text"]
        assert DECIDED in blocks[-1]["text"]


async def test_late_contents_are_restored_with_the_following_request(monkeypatch: pytest.MonkeyPatch) -> None:
    async def never(*_: object) -> Any:
        await trio.sleep_forever()

    async with indexed_stage(patience=attrs.evolve(PATIENT, restores=0.05)) as stage:
        client = Client(stage.url, tools=TOOLS)
        await read_and_evict(client, stage)
        await ask_back(stage)
        with monkeypatch.context() as patch:
            patch.setattr(ObjectTexts, "read_at", never)
            await exchange(client, stage, "Thanks.", [think(), text("Yes.")])
        assert await restored_in(stage) == []
        assert DECIDED not in json.dumps(stage.upstream[-1])
        await exchange(client, stage, "Go on.", [think(), text("Well.")])
        assert DECIDED in json.dumps(stage.upstream[-1])


async def test_nothing_is_restored_without_a_request_whatever_the_user_types() -> None:
    async with indexed_stage() as stage:
        client = Client(stage.url, tools=TOOLS)
        await read_and_evict(client, stage)
        for typed in (RECALL, "Look at /docs/notes.md again.", "ok, do it"):
            await exchange(client, stage, typed, [think(), text("Well.")])
            assert bare(stage.upstream[-1]["messages"][-1]["content"]) == [text(typed)]
        assert await restored_in(stage) == []
        assert len(await epochs_of(stage)) >= 1
