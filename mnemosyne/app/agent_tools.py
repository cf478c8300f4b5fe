"""The MCP tools for agents, and ``mnemosyne mcp``, which serves them. They run the same operations as the commands.
Results are JSON, in which session content is only ever a string: data, not instructions.
"""

import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any
from uuid import UUID

import trio

from mnemosyne import __version__
from mnemosyne.actors.composing import Composer
from mnemosyne.adapters.embedding.embedder import EntryMeaning
from mnemosyne.adapters.mcp_sdk import make_http_app, make_server, serve_stdio
from mnemosyne.app import asking
from mnemosyne.app.knowledge import open_knowledge
from mnemosyne.app.object_index import fill_index, model_of
from mnemosyne.app.process import new_id, now
from mnemosyne.app.read_models import OpenReadModels, open_read_models
from mnemosyne.app.storage import run_journal
from mnemosyne.config import Config
from mnemosyne.data_dir import local_token, prepare_data_dir
from mnemosyne.domain.history.time_travel import history_of
from mnemosyne.domain.knowledge.kinds import EntrySource
from mnemosyne.domain.knowledge.knowledge_store import KnowledgeStore
from mnemosyne.domain.objects.fidelity import Fidelity
from mnemosyne.domain.recall.object_search import Filter
from mnemosyne.errors import NotFound
from mnemosyne.http.serving import bind, bound_url_of, run_hypercorn
from mnemosyne.services import contexts, object_view, overviews, search, sessions, windows
from mnemosyne.services.agent_tools import BY_NAME, MOST
from mnemosyne.services.asking import ask
from mnemosyne.services.knowledge import KnowledgeService, WriteStamp
from mnemosyne.services.manifests import manifest_as_json, read_manifest
from mnemosyne.services.memory_operations import ApiCall, Arguments, check_arguments
from mnemosyne.services.observing import find_open_plan, observe_history, plan_as_json
from mnemosyne.services.unstructuring import members
from mnemosyne.times import utc

LONGEST_TEXT = 100_000
"""Maximum characters of an object per result."""

PLANS_LOOKED_AT = 5
"""Number of a folder's latest sessions that are searched for a plan left open."""

_AGE = {"turn": "last_turn", "out_of_date": "stale"}


class AgentTools:
    """The tools over an open database, as seen from a folder."""

    def __init__(
        self, models: OpenReadModels, knowledge: KnowledgeService, folder: Path, composer: Composer | None = None
    ) -> None:
        self._models = models
        self._composer = composer
        self._archive = models.archive
        self._knowledge = knowledge
        self._folder = str(folder.absolute())
        self._calls: dict[str, Callable[[Arguments], Awaitable[Any]]] = {
            "memory_query": self._query,
            "memory_search": self._search,
            "memory_restore": self._restore,
            "memory_objects": self._objects,
            "memory_stats": self._stats,
            "context_at": self._context,
        }

    async def call(self, name: str, arguments: Arguments) -> Any:
        """Call a tool; return a JSON value. Raises NotFound for an unknown tool, session or entry, BadOption for
        invalid arguments, and the errors of the services.
        """
        if name not in BY_NAME:
            raise NotFound(f"There is no tool {name!r}; there are {', '.join(BY_NAME)}.")
        tool = BY_NAME[name]
        check_arguments(tool, arguments)
        if tool.operation is None:
            return await self._calls[name](arguments)
        given = {tool.renamed[name]: value for name, value in arguments.items()}
        if name in ("memory_pin", "memory_unpin"):
            given["session"] = str(await self._find_here(arguments))
        return await tool.operation.answer(ApiCall(self._knowledge, self._archive, given, WriteStamp(now(), new_id())))

    async def _query(self, given: Arguments) -> Any:
        stream = await self._find(given)
        index, question = await fill_index(self._models), given["question"]
        compose = asking.record_answers(self._archive, self._composer, stream, question)
        answer = await ask(self._archive, index, stream, question, Filter(), None, compose)
        quotes, nearest = (
            [
                {
                    **({} if passage.sentence is None else {"sentence": passage.sentence}),
                    **members(passage.object, "kind", object="id", **_AGE),
                    **members(passage.quote, "start end text"),
                }
                for passage in passages
            ]
            for passages in (answer.cited, answer.nearest)
        )
        return {"session": str(stream), "answered": bool(quotes), "quotes": quotes, "nearest": nearest}

    async def _search(self, given: Arguments) -> Any:
        index, limit = await fill_index(self._models), given.get("limit", 10)
        if given.get("all_sessions"):
            results = await search.search_sessions(
                self._archive, index, given["query"], Filter(), limit, folder=self._folder
            )
        else:
            stream = await self._find(given)
            results = await search.search(self._archive, index, stream, given["query"], Filter(), limit)
        return {
            "results": [
                {
                    **members(result, session="stream", quote="quote.text"),
                    **members(result.object, "kind", object="id", name="stub", **_AGE),
                }
                for result in results.found
            ],
            "not_indexed": results.outside,
        }

    async def _restore(self, given: Arguments) -> Any:
        stream = await self._find(given)
        object_id = given["object"].lstrip("#")
        text = await object_view.read_text(self._archive, str(stream), object_id, Fidelity.FULL)
        if text is None:
            raise NotFound(f"Nothing is stored of the object {object_id!r}.")
        start, length = given.get("first", 1) - 1, min(given.get("characters", LONGEST_TEXT), LONGEST_TEXT)
        more = len(text) - start - length
        result = {"session": str(stream), "object": object_id, "text": text[start : start + length]}
        return result | ({"characters_left_out": more} if more > 0 else {})

    async def _objects(self, given: Arguments) -> Any:
        listing = await self._list_objects(given)
        kind, limit = given.get("kind"), given.get("limit", MOST)
        wanted = [each for each in listing.standings if kind in (None, each.object.kind.value)]
        shown = [
            {
                **members(each.object, "kind tokens", object="id", name="stub", out_of_date="stale"),
                "turns": [each.object.first_turn, each.object.last_turn],
                "fidelity": each.fidelity.label,
            }
            for each in wanted[-limit:]
        ]
        return {"session": str(listing.stream), "objects": shown, "left_out": len(wanted) - len(shown)}

    async def _stats(self, given: Arguments) -> Any:
        known = await self._knowledge.list_entries(now())
        stats: dict[str, Any] = {"known_entries": len(known)}
        try:
            listing = await self._list_objects(given)
        except NotFound:
            if "session" in given:
                raise
            return stats | {"session": None}
        window = listing.window
        placed = [each for each in listing.standings if each.object.places]
        history = history_of(str(listing.stream), await self._archive.events.read(listing.stream))
        observed = await observe_history(self._archive, listing.stream, history)
        most = 0 if "session" in given else 1 + PLANS_LOOKED_AT
        here = await overviews.sessions_in(self._archive, self._folder, most)
        earlier = [each for each in reversed(here) if each != listing.stream]
        levels = {level.label: sum(each.fidelity is level for each in placed) for level in Fidelity}
        return stats | {
            "session": str(listing.stream),
            **members(window, "branch turn tokens zone", usable_tokens="usable"),
            "objects": len(listing.standings),
            "objects_by_fidelity": levels,
            "plan": plan_as_json(observed.plan),
            "plan_left_open": await find_open_plan(self._archive, earlier[:PLANS_LOOKED_AT]),
        }

    async def _list_objects(self, given: Arguments) -> windows.Listing:
        return await windows.list_objects(self._archive, str(await self._find(given)), "main")

    async def _context(self, given: Arguments) -> Any:
        turn = given.get("turn")
        wanted = str(await self._find(given)), given.get("branch", "main"), None if turn is None else str(turn)
        if given.get("manifest"):
            return manifest_as_json(await read_manifest(self._archive, *wanted))
        found = await contexts.read_context(self._archive, *wanted)
        attempt = found.rebuilt.attempt
        return {
            "session": str(found.stream),
            **members(attempt.began, "branch turn model"),
            "at": utc(attempt.sent.at).isoformat(),
            "sha256": attempt.sent.sha256.hex(),
            "proven": found.rebuilt.proven,
            "blocks": [
                members(each, "section message role kind name tokens stands_for", since_turn="origin", begins="preview")
                for each in found.view.blocks
            ],
        }

    async def _find_here(self, given: Arguments) -> UUID:
        """Find a session of this project: an agent must not pin objects in those of others. Raises NotFound."""
        found = await self._find(given)
        if found not in await overviews.sessions_in(self._archive, self._folder):
            raise NotFound(f"Session {found} is not in {self._folder}: an agent can pin only in its own folder.")
        return found

    async def _find(self, given: Arguments) -> UUID:
        wanted = given.get("session")
        if wanted is not None:
            return await sessions.find(self._archive, wanted)
        found = await overviews.sessions_in(self._archive, self._folder, 1)
        if not found:
            raise NotFound(f"No session of {self._folder} is recorded. Name one with `session`.")
        return found[-1]


DRAIN_SECONDS = 2.0
"""How long shutdown waits for running calls."""


@asynccontextmanager
async def open_tools(config: Config, folder: Path, say: Callable[[str], None]) -> AsyncIterator[AgentTools]:
    """Open the tools; all their writes are durable when the context ends."""
    async with (
        open_read_models(config, say) as models,
        run_journal(models.archive) as archive,
        asking.open_composer(models, say) as composer,
    ):
        store, meaning = KnowledgeStore(archive.events, archive.journal), EntryMeaning(model_of(config))
        knowledge = open_knowledge(store, config.tenant, folder, EntrySource.AGENT, meaning)
        yield AgentTools(models, knowledge, folder, composer)


async def run_stdio(config: Config, folder: Path, say: Callable[[str], None]) -> None:
    """Serve one client over stdin and stdout."""
    async with open_tools(config, folder, say) as tools:
        await serve_stdio(make_server(tools, __version__))


async def run_http(config: Config, folder: Path, host: str, port: int, say: Callable[[str], None]) -> None:
    """Serve clients with the token until SIGTERM or SIGINT."""
    prepare_data_dir(config.data_dir)
    token, listener, stopping = local_token(config.data_dir), bind(host, port), trio.Event()
    url = f"{bound_url_of(listener)}/mcp"
    async with open_tools(config, folder, say) as tools:
        served = make_http_app(make_server(tools, __version__), token)
        with trio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
            async with trio.open_nursery() as nursery:
                await nursery.start(partial(run_hypercorn, served, listener, stopping, DRAIN_SECONDS))
                say(f"mnemosyne mcp listening on {url}")
                await anext(aiter(signals))
                stopping.set()
