"""With the token, the API does the same as the commands; its OpenAPI description is complete."""

import json
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import attrs
import pytest

from mnemosyne.domain.session.directory import operator_stream
from mnemosyne.domain.session.input_events import HelperWorked
from mnemosyne.http.inspector.api import LINES, ROOT
from mnemosyne.page_links import PageRole
from mnemosyne.services.memory_operations import OPERATIONS
from tests.http.inspector.shown import TOKEN, Pages, open_pages
from tests.scripted_helper import open_endpoint, says


@attrs.frozen
class Api:
    """A client with the token. ``folder`` is its project's folder."""

    pages: Pages
    folder: Path

    async def ask(self, method: str, path: str, /, given: Mapping[str, Any] | None = None, **query: str) -> Any:
        """Call an operation for the project; fail on an error status."""
        status, result = await self.try_to(method, path, given, **{"project": str(self.folder), **query})
        assert status in (200, 201), result
        return result

    async def try_to(
        self, method: str, path: str, /, given: Mapping[str, Any] | None = None, **query: str
    ) -> tuple[int, Any]:
        """Return the status and the JSON."""
        response = await self.pages.app.test_client().open(
            f"{ROOT}{path}",
            method=method,
            headers={"Authorization": f"Bearer {TOKEN}"},
            query_string=query,
            data=None if given is None else json.dumps(given),
        )
        return response.status_code, await response.get_json()

    async def add(self, content: str, **more: str) -> str:
        """Add an entry; return its id."""
        return str((await self.ask("POST", "/memories", {"content": content, **more}))["entry"]["id"])


@pytest.fixture
async def api(dsn: str, tmp_path: Path) -> AsyncIterator[Api]:
    """The API of an empty log."""
    async with open_pages(dsn, tmp_path) as pages:
        yield Api(pages, tmp_path / "project")


async def test_an_entry_can_be_added_listed_searched_changed_confirmed_and_forgotten(api: Api) -> None:
    added = await api.ask("POST", "/memories", {"content": "We deploy on Fridays", "kind": "workflow"})
    assert (added["what"], added["entry"]["source"], added["note"]) == (
        "added",
        "user",
        "It applies to new sessions, not to running ones.",
    )
    entry = added["entry"]["id"]
    assert [each["id"] for each in (await api.ask("GET", "/memories"))["entries"]] == [entry]
    for found in (
        await api.ask("POST", "/memories/search", {"query": "when do we deploy?"}),
        await api.ask("GET", "/recall", query="when do we deploy?", limit="1", ended="false"),
    ):
        assert [each["id"] for each in found["entries"]] == [entry]
    changed = await api.ask("PUT", f"/memories/{entry}", {"content": "We deploy on Mondays"})
    later = changed["entry"]["id"]
    assert changed["entry"]["replaces"] == entry
    assert (await api.ask("POST", f"/memories/{later}/confirm"))["what"] == "confirmed"
    assert (await api.ask("DELETE", f"/memories/{later}"))["what"] == "forgotten"
    assert (await api.ask("GET", "/memories"))["entries"] == []
    line = (await api.ask("GET", f"/memories/{entry}"))["entries"]
    assert {each["content"] for each in line} == {"We deploy on Fridays", "We deploy on Mondays"}
    assert (await api.ask("POST", "/undo"))["what"] == "undone"
    assert [each["id"] for each in (await api.ask("GET", "/memories"))["entries"]] == [later]


async def test_preferences_are_exactly_the_global_entries(api: Api) -> None:
    decision = await api.add("We deploy on Fridays", kind="decision")
    added = await api.ask("POST", "/preferences", {"content": "Answer in short sentences", "kind": "response-style"})
    preference = added["entry"]["id"]
    assert added["scope"] == "user"
    status, result = await api.try_to("GET", "/preferences")
    assert (status, [each["id"] for each in result["entries"]]) == (200, [preference])
    assert (await api.ask("POST", f"/preferences/{preference}/confirm"))["what"] == "confirmed"
    for method, path, given in (
        ("DELETE", f"/preferences/{decision}", None),
        ("PUT", f"/preferences/{decision}", {"content": "x"}),
        ("POST", f"/preferences/{decision}/confirm", None),
    ):
        assert (await api.try_to(method, path, given, project=str(api.folder)))[0] == 404
    status, result = await api.try_to("POST", "/preferences", {"content": "x", "kind": "decision"})
    assert (status, result["error"][:34]) == (400, "'decision' is not a kind of prefer")
    changed = await api.ask("PUT", "/preferences/short sentences", {"content": "Answer in German"})
    assert (await api.ask("DELETE", f"/preferences/{changed['entry']['id']}"))["what"] == "forgotten"


async def test_an_export_is_imported_elsewhere_only_once(api: Api) -> None:
    await api.add("We deploy on Fridays")
    client = api.pages.app.test_client()
    bearer = {"Authorization": f"Bearer {TOKEN}"}
    exported = await client.get(f"{ROOT}/export", headers=bearer, query_string={"project": str(api.folder)})
    lines = await exported.get_data()
    assert (exported.content_type, lines.count(b"\n")) == (LINES, 1)
    for data, counts in ((lines + b"\n", {"added": 1}), (lines.replace(b"{", b"{\r", 1) + b"\r\n", {"skipped": 1})):
        taken = await client.post(f"{ROOT}/import", headers=bearer, query_string={"project": "/elsewhere"}, data=data)
        assert await taken.get_json() == counts
    refused = await client.post(f"{ROOT}/import", headers=bearer, data=lines + b"{]")
    assert (refused.status_code, (await refused.get_json())["error"]) == (400, "Line 2 is not a JSON object.")


async def test_entries_of_another_tenant_are_neither_visible_nor_writable(api: Api, dsn: str, tmp_path: Path) -> None:
    entry = await api.add("We deploy on Fridays")
    async with open_pages(dsn, tmp_path, tenant="another") as pages:
        other = Api(pages, api.folder)
        assert (await other.ask("GET", "/memories"))["entries"] == []
        assert (await other.ask("GET", "/recall", query="deploy"))["entries"] == []
        assert (await other.try_to("DELETE", f"/memories/{entry}", project=str(api.folder)))[0] == 404
        assert (await other.try_to("POST", "/erase", {"matching": "deploy", "project": str(api.folder)}))[0] == 404
    assert [each["id"] for each in (await api.ask("GET", "/memories"))["entries"]] == [entry]


INVALID: tuple[tuple[str, str, Any, dict[str, str], int, str], ...] = (
    ("POST", "/memories", {}, {}, 400, "Give the content, or the session of the reply to keep."),
    ("POST", "/memories", {"content": "x", "session": "nobody"}, {}, 404, "There is no session 'nobody'"),
    ("POST", "/memories", {"content": "x"}, {}, 400, "There is no project here: name its folder"),
    ("POST", "/memories", {"content": 5}, {}, 400, "content of addMemory must have the type string, not 5."),
    (
        "POST",
        "/memories",
        {"content": "x", "mood": "y"},
        {},
        400,
        "addMemory has no parameter 'mood'; its parameters: project",
    ),
    ("POST", "/memories", {"content": "x", "kind": "y"}, {}, 400, "'y' is not a kind; valid are project-brief"),
    ("GET", "/memories", None, {"limit": "many"}, 400, "limit of listMemories must have the type integer"),
    ("GET", "/memories", None, {"as_of": "9" * 30}, 400, "is not a time"),
    ("GET", "/memories", None, {"project": "here"}, 400, "project: 'here' is not an absolute path"),
    ("GET", "/memories", None, {"project": "/a\0b"}, 400, "'project' contains a NUL"),
    ("POST", "/memories", {"content": "x", "project": "/a\0b"}, {}, 400, "'project' contains a NUL"),
    ("GET", "/export", None, {"project": "/a\0b"}, 400, "'project' contains a NUL"),
    ("GET", "/export", None, {"kind": "fact"}, 400, "Unknown argument 'kind'"),
    ("GET", "/memories/nothing", None, {}, 404, "No entry has the id 'nothing'."),
    ("POST", "/memories", {"content": "x", "session": "\ud800"}, {}, 404, "There is no session '\\ud800'"),
    ("POST", "/undo", {}, {}, 404, "There is no write to undo."),
    ("GET", "/nothing", None, {}, 404, "Page not found"),
    ("PATCH", "/memories", None, {}, 405, "does not accept that HTTP method"),
)


async def test_an_invalid_request_is_refused_with_one_sentence(api: Api) -> None:
    for method, path, given, query, status, sentence in INVALID:
        answered, reply = await api.try_to(method, path, given, **query)
        assert (answered, sentence in reply["error"]) == (status, True), (method, path, given, query, reply)


async def test_a_body_that_is_not_an_object_is_refused(api: Api) -> None:
    client, headers = api.pages.app.test_client(), {"Authorization": f"Bearer {TOKEN}"}
    for body in (b"[]", b"{", b"\xff", b"5", b"[" * 60_000, b'{"content":' * 5000):
        response = await client.post(f"{ROOT}/memories", headers=headers, data=body)
        refused = response.status_code, await response.get_json()
        assert refused == (400, {"error": "The body is not a JSON object."}), body[:20]


async def test_requests_need_the_token_and_a_cookie_allows_only_reads(dsn: str, tmp_path: Path) -> None:
    async with open_pages(dsn, tmp_path, PageRole.OWNER) as pages:
        stranger = pages.app.test_client()
        for operation in OPERATIONS:
            path = ROOT + operation.path.replace("{id}", "some")
            refused = await stranger.open(path, method=operation.method)
            assert (refused.status_code, "Bearer TOKEN" in (await refused.get_json())["error"]) == (401, True)
            by_cookie = await pages.client.open(path, method=operation.method)
            assert (by_cookie.status_code == 403) is operation.writes, path
        assert (await pages.client.post(f"{ROOT}/import")).status_code == 403


async def test_the_description_lists_exactly_the_served_routes(api: Api) -> None:
    result = await api.ask("GET", "/openapi.json")
    described = {(method.upper(), path) for path, methods in result["paths"].items() for method in methods}
    served = {
        (method, rule.rule.removeprefix(ROOT).replace("<", "{").replace(">", "}"))
        for rule in api.pages.app.url_map.iter_rules()
        if rule.rule.startswith(ROOT)
        for method in rule.methods - {"HEAD", "OPTIONS"}
    }
    assert described == served
    names = [each["operationId"] for methods in result["paths"].values() for each in methods.values()]
    assert len(names) == len(set(names))


async def test_the_description_lists_arguments_and_required_ones(api: Api) -> None:
    result = (await api.ask("GET", "/openapi.json"))["paths"]
    for operation in OPERATIONS:
        described = result[operation.path][operation.method.lower()]
        body = described.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema", {})
        named = {each["name"] for each in described["parameters"]} | body.get("properties", {}).keys()
        needed = {each["name"] for each in described["parameters"] if each["required"]} | {*body.get("required", ())}
        assert (named, needed) == ({*operation.properties}, {*operation.required}), operation.name
        in_path = {each["name"] for each in described["parameters"] if each["in"] == "path"}
        assert in_path == ({"id"} if "{id}" in operation.path else set())


VELODROME = "My project is called velodrome, a Go benchmark runner"


async def test_a_plain_text_is_saved_as_the_claims_that_a_helper_model_finds(dsn: str, tmp_path: Path) -> None:
    """Without its answer, the text is saved as it is."""
    quotes = [
        {"kind": "fact", "quote": VELODROME, "corrects": ""},
        {"kind": "fact", "quote": "invented", "corrects": ""},
    ]
    answers = iter([json.dumps({"facts": quotes}), "no"])
    async with open_endpoint(lambda path, _body: says(path, next(answers))) as endpoint:
        url = f"{endpoint.url}/v1"
        async with open_pages(dsn, tmp_path, helper="openai", helper_model="m", helper_url=url) as pages:
            api = Api(pages, tmp_path / "project")
            done = await api.ask("POST", "/memories", {"content": f"Hello! {VELODROME}. Thanks."})
            assert [each["entry"]["content"] for each in done["entries"]] == [VELODROME]
            assert (done["entry"]["source"], done["entry"]["confirmed"]) == ("user", True)
            assert (await api.ask("POST", "/memories", {"content": "Use tabs. Or not."}))["what"] == "added"
            await api.add("Use spaces", kind="code-style")
            listed = (await api.ask("GET", "/memories"))["entries"]
            assert [each["content"] for each in listed] == [VELODROME, "Use tabs. Or not.", "Use spaces"]
            events = await pages.page_context.archive.events.read(operator_stream("local"))
            work = [each.envelope.event for each in events if isinstance(each.envelope.event, HelperWorked)]
            assert [(each.task, bool(each.record)) for each in work] == [("facts", True), ("facts", False)]
            sessions = await pages.page_context.archive.events.streams()
            assert operator_stream("local") not in sessions, (
                "the operator's stream is no session, whatever it begins with"
            )
