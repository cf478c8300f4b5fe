"""What people and agents do with what is known: the same operations, whoever asks."""

import json
from collections.abc import Mapping
from typing import Any
from uuid import UUID

import attrs
import pytest

from mnemosyne.adapters.plain.log import PlainLog
from mnemosyne.app.storage import event_codec
from mnemosyne.domain.knowledge.decide import Place
from mnemosyne.domain.knowledge.events import Provenance
from mnemosyne.domain.knowledge.kinds import EntryKind, EntrySource, Scope
from mnemosyne.domain.knowledge.knowledge_store import KnowledgeStore
from mnemosyne.errors import BadEntry, NotFound
from mnemosyne.services.knowledge import (
    KnowledgeService,
    WriteStamp,
    describe,
    list_learned,
    parse_line,
    parse_member,
)
from mnemosyne.times import render_day
from tests.domain.knowledge.support import DAY, FIRST, draft
from tests.projections.support import KINDS, POSTGRES, open_world
from tests.services.talking import Talk, assistant, body, plain, talking, user

EVERY = 41
"""One injection of so many is played through an actor here; ``tests/domain`` reads them all."""


def knowledge(log: PlainLog | None = None, tenant: str = "local", project: str | None = "app") -> KnowledgeService:
    log = log or PlainLog(event_codec())
    return KnowledgeService(KnowledgeStore(log, log), tenant, project, "/home/ada/app")


def stamp(number: int = 0, at: int = FIRST) -> WriteStamp:
    return WriteStamp(at, f"m{number}")


async def contents(of: KnowledgeService, at: int = FIRST) -> list[str]:
    return [each.entry.content for each in await of.list_entries(at)]


async def test_an_entry_lives_where_its_scope_says() -> None:
    log = PlainLog(event_codec())
    here, elsewhere = knowledge(log), knowledge(log, project="other")
    stranger = knowledge(log, tenant="other")
    for number, scope in enumerate(Scope):
        await here.remember(scope, draft(f"in {scope.value}"), stamp(number))
    assert sorted(await contents(here)) == ["in global", "in project", "in sandbox", "in user"]
    # The same folder is the same sandbox, whatever project it is taken for.
    assert sorted(await contents(elsewhere)) == ["in global", "in sandbox", "in user"]
    assert await contents(stranger) == []


async def test_without_a_folder_there_is_no_project_to_write_to() -> None:
    log = PlainLog(event_codec())
    nowhere = KnowledgeService(KnowledgeStore(log, log), "local")
    with pytest.raises(BadEntry, match="There is no project here"):
        await nowhere.remember(Scope.PROJECT, draft("x"), stamp())
    assert (await nowhere.remember(Scope.USER, draft("x"), stamp())).what == "added"


async def test_a_write_says_what_it_did_and_by_what_it_is_taken_back() -> None:
    here = knowledge()
    done = await here.remember(Scope.PROJECT, draft("we use npm"), stamp(1))
    assert (done.what, done.write, done.scope) == ("added", "m1", Scope.PROJECT)
    again = await here.remember(Scope.PROJECT, draft("We use npm"), stamp(2))
    assert (again.what, again.entry) == ("skipped", done.entry)
    assert (await here.undo("m1", stamp(3))).what == "undone"
    assert await contents(here) == []


async def test_the_last_write_is_taken_back_wherever_it_was() -> None:
    here = knowledge()
    await here.remember(Scope.PROJECT, draft("first"), stamp(1))
    await here.remember(Scope.USER, draft("second"), stamp(2, FIRST + 1))
    await here.undo(None, stamp(3, FIRST + 2))
    assert await contents(here, FIRST + 3) == ["first"]


async def test_an_entry_is_found_by_words_in_whatever_scope_and_ambiguous_ones_are_named() -> None:
    here = knowledge()
    await here.remember(Scope.PROJECT, draft("port 80 is taken"), stamp(1))
    await here.remember(Scope.PROJECT, draft("port 81 is free"), stamp(2))
    await here.remember(Scope.USER, draft("answer briefly"), stamp(3))
    assert (await here.confirm("briefly", stamp(4))).scope is Scope.USER
    with pytest.raises(NotFound, match="2 entries have these words"):
        await here.forget("port", stamp(5))
    with pytest.raises(NotFound, match="No entry has the id 'nothing'"):
        await here.forget("nothing", stamp(6))


async def test_history_lists_an_entry_s_earlier_and_later_versions() -> None:
    here = knowledge()
    await here.remember(Scope.PROJECT, draft("tabs of 2"), stamp(1))
    await here.update("tabs", "tabs of 4", stamp(2, FIRST + DAY))
    middle = await here.update("tabs", "tabs of 8", stamp(3, FIRST + 2 * DAY))
    await here.remember(Scope.PROJECT, draft("something else"), stamp(4, FIRST + 3 * DAY))
    assert middle.entry is not None
    told = [each.entry.content for each in await here.list_history(middle.entry.id)]
    assert told == ["tabs of 2", "tabs of 4", "tabs of 8"]


async def test_what_was_known_then_and_what_was_true_then_are_asked_apart() -> None:
    here = knowledge()
    await here.remember(Scope.PROJECT, draft("CI runs on amd64"), stamp(1))
    await here.update("CI", "CI runs on arm64", stamp(2, FIRST + 10 * DAY), valid_from=FIRST + 3 * DAY)
    at = FIRST + 5 * DAY
    assert [each.entry.content for each in await here.list_entries(at)] == ["CI runs on arm64"]
    assert [each.entry.content for each in await here.list_entries(at, known_at=at)] == ["CI runs on amd64"]


async def test_erasing_a_name_takes_every_entry_with_it_also_those_that_ended() -> None:
    log = PlainLog(event_codec())
    here = knowledge(log)
    await here.remember(Scope.PROJECT, draft("Ada owns billing"), stamp(1))
    await here.update("billing", "Ada and Bob own billing", stamp(2, FIRST + 1))
    await here.remember(Scope.USER, draft("ask first", detail="ask Ada"), stamp(3, FIRST + 2))
    assert await here.erase("ada", stamp(4, FIRST + 3)) == 3
    told = [recorded.envelope.event for recorded in await log.tail(after=0, limit=100)]
    assert "Ada" not in repr(told)
    with pytest.raises(NotFound):
        await here.erase("ada", stamp(5, FIRST + 4))


async def test_what_is_exported_is_taken_in_elsewhere_once() -> None:
    here, there = knowledge(), knowledge()
    await here.remember(Scope.PROJECT, draft("we use npm", detail="since 2020"), stamp(1))
    await here.update("npm", "we use pnpm", stamp(2, FIRST + DAY))
    await here.remember(Scope.USER, draft("be brief", kind=EntryKind.RESPONSE_STYLE), stamp(3))
    lines: list[Mapping[str, Any]] = [json.loads(json.dumps(each)) async for each in here.export()]
    assert len(lines) == 3
    assert await there.import_lines(lines, stamp(9, FIRST + 2 * DAY)) == {"added": 2}
    assert await there.import_lines(lines, stamp(10, FIRST + 2 * DAY)) == {"skipped": 2}
    assert sorted(await contents(there, FIRST + 2 * DAY)) == ["be brief", "we use pnpm"]


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ({}, "Line 3: its content is missing"),
        ({"content": "x", "kind": "nonsense"}, "Line 3: 'nonsense' is no kind; there are project-brief"),
        ({"content": "x", "scope": "nowhere"}, "Line 3: 'nowhere' is no scope"),
        ({"content": "x", "confidence": "high"}, "Line 3: its confidence or valid_from is no number"),
    ],
)
def test_a_line_that_is_no_entry_is_named(line: dict[str, Any], why: str) -> None:
    with pytest.raises(BadEntry, match=why):
        parse_line(line, 3, EntrySource.USER)


def test_a_name_that_there_is_not_is_answered_with_those_there_are() -> None:
    with pytest.raises(BadEntry, match="there are user, project, sandbox, global"):
        parse_member(Scope, "x", "scope")


async def test_recall_and_block_tell_of_the_same_entries() -> None:
    here = knowledge()
    await here.remember(Scope.PROJECT, draft("The billing service listens on port 8443"), stamp(1))
    (found,) = await here.recall("billing service port", FIRST)
    block = await here.compose_block("why is the billing service silent on its port?", FIRST, render_day)
    assert block is not None
    assert block.entries == (found.entry.id,)
    assert describe(found)["relevance"] > 0
    with pytest.raises(BadEntry, match="Say what you look for"):
        await here.recall(" ", FIRST)


async def test_what_was_learned_from_a_session_is_named_until_its_words_are_erased() -> None:
    archive = plain()
    async with talking(archive) as talk:
        await say_all(talk, user("Let's use PostgreSQL for the event log of the app."))
        here = knowledge(archive.log)
        source = Provenance(session=talk.stream, branch="main", turn=1)
        await here.remember(Scope.PROJECT, draft("The event log uses PostgreSQL", provenance=source), stamp(1))
        await here.remember(Scope.PROJECT, draft("Ada owns billing"), stamp(2))
        (found,) = [each.entry for each in await here.list_entries(FIRST * 2) if each.entry.provenance]
        tenant = here.places[0].tenant
        assert await list_learned(archive, tenant, talk.stream) == [found]
        assert await list_learned(archive, tenant, UUID(int=1)) == []
        assert await list_learned(archive, "another", talk.stream) == []
        await here.erase(found.id, stamp(3))
        assert await list_learned(archive, tenant, talk.stream) == []


async def say_all(talk: Talk, *messages: dict[str, Any]) -> None:
    """Have a conversation recorded, of which these are the last request's messages but one."""
    await talk.ask(body(messages))
    await talk.ask(body([*messages, assistant("Done."), user("Go on.")]))


@pytest.mark.parametrize("kind", KINDS)
async def test_every_place_of_a_tenant_is_listed_and_none_of_anothers(
    kind: str, request: pytest.FixtureRequest
) -> None:
    dsn = str(request.getfixturevalue("dsn")) if kind == POSTGRES else ""
    async with open_world(kind, dsn, event_codec()) as world:
        store = KnowledgeStore(world.log, world.journal)
        for number, tenant in enumerate(("t", "other")):
            here = KnowledgeService(store, tenant, "app")
            for scope in (Scope.USER, Scope.PROJECT):
                await here.remember(scope, draft(f"{tenant} {scope.value}"), stamp(number))
        assert await store.list_places("t") == [Place("t", Scope.USER), Place("t", Scope.PROJECT, "app")]
        assert await world.log.streams() == []


@attrs.frozen
class Known:
    """An archive of which only the events are read."""

    events: Any
    contents: Any = None
    journal: Any = None
    directory: Any = None
