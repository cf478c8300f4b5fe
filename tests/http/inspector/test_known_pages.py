"""The memory page shows entries with their sources and offers the same changes as the commands."""

import re
from pathlib import Path

import trio

from mnemosyne.domain.knowledge.kinds import EntryKind, Scope
from mnemosyne.page_links import PageRole
from mnemosyne.services.knowledge import WriteStamp
from tests.domain.knowledge.support import draft
from tests.http.inspector.shown import NASTY, NOW, TOKEN, Pages, fill, open_pages, session

PROJECT = "/-/known?project=github.com%2Fada%2Fapp"


async def know(pages: Pages, content: str, at: int = NOW, write: str = "w", **fields: object) -> str:
    """Add an entry to the project; return its id."""
    knowledge = pages.page_context.knowledge_of("github.com/ada/app")
    done = await knowledge.remember(Scope.PROJECT, draft(content, **fields), WriteStamp(at, write))
    assert done.entry is not None
    return done.entry.id


async def decide(pages: Pages, path: str, word: str | None = None, **form: str) -> int:
    """Submit a form of the page, with the page's CSRF token unless ``word`` is given."""
    _, text = await pages.get(PROJECT)
    match = re.search(r'name="word" value="([^"]*)"', text)
    own = match[1] if match else ""
    fields = {"project": "github.com/ada/app", "word": own if word is None else word, **form}
    response = await pages.client.post(path if path[0] == "/" else f"/-/known/{path}", form=fields)
    return int(response.status_code)


async def test_a_user_can_add_change_confirm_forget_and_undo(dsn: str, tmp_path: Path) -> None:
    async with open_pages(dsn, tmp_path) as pages:
        assert await decide(pages, "remember", text="We use pnpm", kind="tooling", scope="project") == 303
        result = await pages.json("/-/known.json?project=github.com%2Fada%2Fapp")
        (kind, (first,)) = result["entries"][0]
        assert (kind, first["entry"]["content"]) == ("tooling", "We use pnpm")
        assert "We use pnpm" in result["block"]["text"]
        old = first["entry"]["id"]
        assert f'<code>claude "/mnemosyne:edit {old}"</code>' in (await pages.get(PROJECT))[1]
        assert await decide(pages, f"entry/{old}/update", text="We use bun") == 303
        assert await decide(pages, "entry/bun/confirm") == 303
        status, text = await pages.get(PROJECT)
        assert status == 200
        assert "<h2>Past</h2>" in text
        assert "We use pnpm" in text
        assert await decide(pages, "entry/bun/forget") == 303
        result = await pages.json("/-/known.json?project=github.com%2Fada%2Fapp")
        assert result["entries"] == []
        write = result["ended"][0]["entry"]["ended_by"]
        assert await decide(pages, f"write/{write}/undo") == 303
        result = await pages.json("/-/known.json?project=github.com%2Fada%2Fapp")
        assert result["entries"][0][1][0]["entry"]["content"] == "We use bun"
        ((undo, text),) = result["undone"]
        assert text == "We use bun"
        assert "<button>Redo</button>" in (await pages.get(PROJECT))[1]
        assert await decide(pages, f"write/{undo}/undo") == 303
        assert (await pages.json("/-/known.json?project=github.com%2Fada%2Fapp"))["entries"] == []


async def test_the_trash_hides_sessions_and_entries_until_they_are_restored(dsn: str, tmp_path: Path) -> None:
    (stream,) = map(str, await trio.to_thread.run_sync(fill, dsn, tmp_path, session(turns=2)))
    async with open_pages(dsn, tmp_path) as pages:
        entry = await know(pages, "We use pnpm")
        assert await decide(pages, f"entry/{entry}/trash") == 303
        assert await decide(pages, f"/-/trash/{stream}/put") == 303
        assert (await pages.json("/-/sessions.json"))["sessions"] == []
        result = await pages.json("/-/known.json?project=github.com%2Fada%2Fapp")
        assert (result["entries"], result["ended"]) == ([], [])
        _, text = await pages.get(f"/-/session/{stream}")
        assert "is in the <a" in text
        held = (await pages.json("/-/trash.json"))["trash"]
        assert {each["id"] for each in held} == {entry, stream}
        for each in held:
            assert await decide(pages, f"/-/trash/{each['id']}/restore") == 303
        assert [each["stream"] for each in (await pages.json("/-/sessions.json"))["sessions"]] == [stream]
        assert (await pages.json("/-/trash.json"))["trash"] == []


async def test_a_session_is_named_and_closed_on_its_page_and_over_the_api(dsn: str, tmp_path: Path) -> None:
    (stream,) = map(str, await trio.to_thread.run_sync(fill, dsn, tmp_path, session(turns=2)))
    async with open_pages(dsn, tmp_path) as pages:
        assert await decide(pages, f"/-/session/{stream}/edit", title=NASTY[:60]) == 303
        (listed,) = (await pages.json("/-/sessions.json"))["sessions"]
        assert listed["title"] == " ".join(NASTY[:60].split())
        response = await pages.client.put(f"/-/api/v1/sessions/{stream}", json={"title": "The parser"})
        assert response.status_code == 403  # a browser's cookie does not suffice
        token = {"Authorization": f"Bearer {TOKEN}"}
        response = await pages.client.put(f"/-/api/v1/sessions/{stream}", json={"title": "The parser"}, headers=token)
        assert (await response.get_json())["what"] == "renamed"
        _, text = await pages.get("/-/")
        assert "<small>Older</small>" in text
        assert "The parser" in text
        assert await decide(pages, f"/-/session/{stream}/edit", closed="yes") == 303
        response = await pages.client.put(f"/-/api/v1/sessions/{stream}", json={"closed": True}, headers=token)
        assert (await response.get_json())["what"] == "unchanged"
        (listed,) = (await pages.json("/-/sessions.json"))["sessions"]
        assert listed["closed"]
        _, text = await pages.get(f"/-/session/{stream}")
        assert ">Close</button>" not in text
        assert "; completed" in text
        assert await decide(pages, f"/-/session/{stream}/edit", closed="no") == 303
        assert await decide(pages, f"/-/session/{stream}/edit", grounding="strict") == 303
        assert await decide(pages, f"/-/session/{stream}/edit", grounding="lax") == 400
        _, text = await pages.get(f"/-/session/{stream}")
        assert ">Open again</button>" not in text
        assert "<option selected>strict</option>" in text


async def test_a_reply_is_kept_as_a_note_of_the_session_s_project(dsn: str, tmp_path: Path) -> None:
    (stream,) = map(str, await trio.to_thread.run_sync(fill, dsn, tmp_path, session(turns=2)))
    async with open_pages(dsn, tmp_path) as pages:
        _, text = await pages.get(f"/-/session/{stream}/turn/2")
        assert "Keep as a note" in text
        assert await decide(pages, f"/-/session/{stream}/turn/2/keep?branch=main") == 303
        (place,) = [each for each in await pages.page_context.places() if each.key]
        known = await pages.page_context.knowledge_of(place.key).list_entries(NOW)
        (note,) = [each.entry for each in known]
        assert (note.content, note.provenance and note.provenance.turn) == ("I read part 1.", 2)


async def test_a_reader_and_a_form_without_the_csrf_token_change_nothing(dsn: str, tmp_path: Path) -> None:
    async with open_pages(dsn, tmp_path) as pages:
        id_ = await know(pages, "We use pnpm")
        assert await decide(pages, f"entry/{id_}/forget", word="another page's") == 403
    async with open_pages(dsn, tmp_path, role=PageRole.READER) as pages:
        _, text = await pages.get(PROJECT)
        assert "We use pnpm" in text
        assert "Forget" not in text
        assert await decide(pages, f"entry/{id_}/forget") == 403


async def test_entry_content_is_escaped(dsn: str, tmp_path: Path) -> None:
    async with open_pages(dsn, tmp_path) as pages:
        await know(pages, NASTY, kind=EntryKind.BRIEF, detail=NASTY)
        _, text = await pages.get(PROJECT)
        assert "<script>alert" not in text
        assert "\x1b" not in text


async def test_the_page_of_another_tenant_shows_none_of_the_entries(dsn: str, tmp_path: Path) -> None:
    async with open_pages(dsn, tmp_path) as pages:
        await know(pages, "We use pnpm")
    async with open_pages(dsn, tmp_path, tenant="other") as pages:
        _, text = await pages.get(PROJECT)
        assert "We use pnpm" not in text
        assert 'option value="github.com/ada/app"' not in text
