"""The operations of people and agents on the memory beyond sessions."""

import json
from collections.abc import Mapping
from typing import Any
from uuid import UUID

import attrs
import pytest

from mnemosyne.app.storage import event_codec
from mnemosyne.domain.knowledge.decide import Place
from mnemosyne.domain.knowledge.events import Provenance
from mnemosyne.domain.knowledge.kinds import EntryKind, EntrySource, Scope
from mnemosyne.domain.knowledge.knowledge_store import KnowledgeStore
from mnemosyne.errors import BadEntry, NotFound
from mnemosyne.services.knowledge import KnowledgeService, WriteStamp, describe, list_learned, parse_line
from mnemosyne.times import render_day
from tests.domain.knowledge.support import DAY, FIRST, draft
from tests.not_none import not_none
from tests.plain.log import PlainLog
from tests.projections.support import KINDS, POSTGRES, open_world
from tests.services.talking import Plain, body, talking, user


def knowledge(log: PlainLog | None = None, tenant: str = "local", project: str | None = "app") -> KnowledgeService:
    log = log or PlainLog(event_codec())
    return KnowledgeService(KnowledgeStore(log, log), tenant, project, "/home/ada/app")


def stamp(number: int = 0, at: int = FIRST) -> WriteStamp:
    return WriteStamp(at, f"m{number}")


async def contents(of: KnowledgeService, at: int = FIRST) -> list[str]:
    return [each.entry.content for each in await of.list_entries(at)]


async def test_an_entry_is_visible_where_its_scope_applies() -> None:
    log = PlainLog(event_codec())
    here, elsewhere = knowledge(log), knowledge(log, project="other")
    stranger = knowledge(log, tenant="other")
    for number, scope in enumerate(Scope):
        await here.remember(scope, draft(f"in {scope.value}"), stamp(number))
    assert sorted(await contents(here)) == ["in global", "in project", "in sandbox", "in user"]
    # The same folder is the same sandbox, whatever project it is taken for.
    assert sorted(await contents(elsewhere)) == ["in global", "in sandbox", "in user"]
    assert await contents(stranger) == []


async def test_a_project_entry_needs_a_folder() -> None:
    log = PlainLog(event_codec())
    nowhere = KnowledgeService(KnowledgeStore(log, log), "local")
    with pytest.raises(BadEntry, match="There is no project here"):
        await nowhere.remember(Scope.PROJECT, draft("x"), stamp())
    assert (await nowhere.remember(Scope.USER, draft("x"), stamp())).what == "added"


async def test_a_write_is_reported_and_undone_by_its_id_or_as_the_last_one() -> None:
    here = knowledge()
    done = await here.remember(Scope.PROJECT, draft("we use npm"), stamp(1))
    assert (done.what, done.write, done.scope) == ("added", "m1", Scope.PROJECT)
    again = await here.remember(Scope.PROJECT, draft("We use npm"), stamp(2))
    assert (again.what, again.entry) == ("skipped", done.entry)
    await here.remember(Scope.USER, draft("answer briefly"), stamp(3, FIRST + 1))
    await here.undo(None, stamp(4, FIRST + 2))
    assert await contents(here, FIRST + 3) == ["we use npm"]
    assert (await here.undo("m1", stamp(5, FIRST + 3))).what == "undone"
    assert await contents(here, FIRST + 4) == []
    for write in ("m1", None):
        with pytest.raises(NotFound, match="There is no write"):
            await here.undo(write, stamp(6, FIRST + 5))


async def test_an_undone_entry_is_redone_or_erased() -> None:
    here = knowledge()
    await here.remember(Scope.PROJECT, draft("the door code is 4711"), stamp(1))
    await here.undo(None, stamp(2, FIRST + 1))
    assert await here.list_undone() == [("m2", "the door code is 4711")]
    assert (await here.undo("m2", stamp(3, FIRST + 2))).what == "redone"
    assert await contents(here, FIRST + 3) == ["the door code is 4711"]
    await here.undo("m3", stamp(4, FIRST + 3))
    assert await here.erase("4711", stamp(5, FIRST + 4)) == 1
    assert await here.list_undone() == []
    assert "4711" not in repr(await here.store.read(here.place_of(Scope.PROJECT)))


async def test_an_agent_undoes_only_its_own_writes() -> None:
    person = knowledge()
    agent = attrs.evolve(person, source=EntrySource.AGENT, made=set())
    await person.remember(Scope.PROJECT, draft("deploy by hand"), stamp(1))
    await person.forget("by hand", stamp(2, FIRST + 1))
    for write in ("m2", None):
        with pytest.raises(NotFound, match="There is no write"):
            await agent.undo(write, stamp(3, FIRST + 2))
    await agent.remember(Scope.PROJECT, draft("we use npm"), stamp(4, FIRST + 2))
    assert (await agent.undo(None, stamp(5, FIRST + 3))).what == "undone"
    assert await contents(person, FIRST + 4) == []


async def test_words_find_an_entry_in_any_scope_unless_they_are_ambiguous() -> None:
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
    versions = [placed.entry.content for placed in await here.list_history(middle.entry.id)]
    assert versions == ["tabs of 2", "tabs of 4", "tabs of 8"]


async def test_valid_time_and_known_time_are_separate_filters() -> None:
    here = knowledge()
    await here.remember(Scope.PROJECT, draft("CI runs on amd64"), stamp(1))
    await here.update("CI", "CI runs on arm64", stamp(2, FIRST + 10 * DAY), valid_from=FIRST + 3 * DAY)
    at = FIRST + 5 * DAY
    assert [each.entry.content for each in await here.list_entries(at)] == ["CI runs on arm64"]
    assert [each.entry.content for each in await here.list_entries(at, known_at=at)] == ["CI runs on amd64"]


async def test_erasing_words_removes_current_and_past_entries_from_the_log() -> None:
    log = PlainLog(event_codec())
    here = knowledge(log)
    await here.remember(Scope.PROJECT, draft("Ada owns billing"), stamp(1))
    await here.update("billing", "Ada and Bob own billing", stamp(2, FIRST + 1))
    await here.remember(Scope.USER, draft("ask first", detail="ask Ada"), stamp(3, FIRST + 2))
    await here.remember(Scope.PROJECT, draft("we use npm"), stamp(6, FIRST + 2))
    assert await here.erase("ada", stamp(4, FIRST + 3)) == 3
    assert await contents(here, FIRST + 4) == ["we use npm"]
    assert "Ada" not in repr(await log.tail(after=0, limit=100))
    with pytest.raises(NotFound):
        await here.erase("ada", stamp(5, FIRST + 4))


async def test_exported_entries_are_imported_once() -> None:
    here, there = knowledge(), knowledge()
    await here.remember(Scope.PROJECT, draft("we use npm", detail="since 2020"), stamp(1))
    await here.update("npm", "we use pnpm", stamp(2, FIRST + DAY))
    await here.remember(Scope.USER, draft("be brief", kind=EntryKind.RESPONSE_STYLE), stamp(3))
    lines: list[Mapping[str, Any]] = [json.loads(json.dumps(each)) async for each in here.export(FIRST)]
    assert len(lines) == 3
    assert await there.import_lines(lines, stamp(9, FIRST + 2 * DAY)) == {"added": 2}
    assert await there.import_lines(lines, stamp(10, FIRST + 2 * DAY)) == {"skipped": 2}
    assert sorted(await contents(there, FIRST + 2 * DAY)) == ["be brief", "we use pnpm"]


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ({}, "Line 3: its content is missing"),
        ({"content": "x", "kind": "nonsense"}, "Line 3: 'nonsense' is not a kind; valid are project-brief"),
        (
            {"content": "x", "scope": "nowhere"},
            "Line 3: 'nowhere' is not a scope; valid are user, project, sandbox, global",
        ),
        ({"content": "x", "confidence": "high"}, "Line 3: its confidence or valid_from is not a number"),
    ],
)
def test_an_invalid_line_is_refused_with_its_number(line: dict[str, Any], why: str) -> None:
    with pytest.raises(BadEntry, match=why):
        parse_line(line, 3, EntrySource.USER)


async def test_recall_and_the_memory_block_select_the_same_entries() -> None:
    here = knowledge()
    await here.remember(Scope.PROJECT, draft("The billing service listens on port 8443"), stamp(1))
    (recalled,) = await here.recall("billing service port", FIRST)
    block = not_none(await here.compose_block("why is the billing service silent on its port?", FIRST, render_day))
    assert block.entries == (recalled.entry.id,)
    assert describe(recalled, FIRST)["relevance"] > 0
    with pytest.raises(BadEntry, match="The question is empty"):
        await here.recall(" ", FIRST)


async def test_entries_learned_in_a_session_are_listed_until_they_are_erased(archive: Plain) -> None:
    async with talking(archive) as talk:
        await talk.ask(body([user("Let's use PostgreSQL for the event log of the app.")]))
        here = knowledge(archive.log)
        source = Provenance(session=talk.stream, branch="main", turn=1)
        await here.remember(Scope.PROJECT, draft("The event log uses PostgreSQL", provenance=source), stamp(1))
        await here.remember(Scope.PROJECT, draft("Ada owns billing"), stamp(2))
        (learned,) = [placed.entry for placed in await here.list_entries(FIRST * 2) if placed.entry.provenance]
        tenant = here.places[0].tenant
        assert await list_learned(archive, tenant, talk.stream) == [learned]
        assert await list_learned(archive, tenant, UUID(int=1)) == []
        assert await list_learned(archive, "another", talk.stream) == []
        await here.erase(learned.id, stamp(3))
        assert await list_learned(archive, tenant, talk.stream) == []


@pytest.mark.parametrize("kind", KINDS)
async def test_the_places_of_one_tenant_are_listed_and_none_is_a_session(
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
