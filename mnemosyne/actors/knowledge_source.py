"""The memory beyond sessions, as a server's sessions use it: a new session gets entries if its client owns the memory,
and prompts of the owner add entries.

A credential becomes the owner's when it is presented with the secret of the data directory, or by a command. If the
tenant has no memory at all, the first client is also the owner: there is nothing yet that it could read.

A request waits a short time for the entries. A failure here does not stop a session.
"""

import logging
from collections.abc import Awaitable, Callable, Collection, Sequence
from contextlib import suppress
from functools import partial

import attrs
import trio

from mnemosyne.actors.messages import Identity
from mnemosyne.actors.owners import MemoryClient
from mnemosyne.bounded import Lru
from mnemosyne.domain.knowledge.block import MOST_RELEVANT, MemoryBlock, compose
from mnemosyne.domain.knowledge.decide import AdmitCredential, EntryDraft, LearnFacts, Place, RememberEntry, places_of
from mnemosyne.domain.knowledge.entry_text import LONGEST_CONTENT
from mnemosyne.domain.knowledge.events import Provenance
from mnemosyne.domain.knowledge.kinds import EntryKind, EntrySource, OwnerProof, Scope
from mnemosyne.domain.knowledge.knowledge_store import KnowledgeStore
from mnemosyne.domain.knowledge.prompts import REMEMBER, LearnedFact, SubmittedPrompt
from mnemosyne.domain.knowledge.recalling import Meaning, Nearness
from mnemosyne.errors import MnemosyneError
from mnemosyne.times import render_day

log = logging.getLogger(__name__)

FOLDERS_HELD = 100
"""Number of folders whose project is cached."""

WAITING = 1_000
"""Maximum number of writes that wait; further ones are dropped."""

LONGEST_SUMMARY = 400
"""Characters of a session's summary that the next session gets."""

LINES_LISTED = 50
"""Number of entries in a list for a helper model."""

SHARE = 0.015
"""Share of a first request. With the memory tools, even a short managed session must not cost 2 % more than an
unmanaged one.
"""

BYTES_A_TOKEN = 4

FEWEST = 70
"""Minimum number of tokens: less leaves no room for an entry beside the fixed text."""

MEANING_SECONDS = 0.1
"""How long a first request waits for a comparison by meaning."""

COMPARISONS_WAITING = 10
"""Maximum number of comparisons that wait for another; further sessions get what words alone find."""

FindProject = Callable[[str], Awaitable[str]]
"""The project of a folder."""


WasTyped = Callable[[str, str], Awaitable[bool]]
"""Whether the client's own record of a session says that a person typed a prompt."""

PAUSES = (0.2, 0.5, 1.0, 2.0)
"""Seconds between reads of that record, which the client writes a little later than its request."""


async def deny(session: str, text: str) -> bool:
    """No client keeps such a record."""
    await trio.lowlevel.checkpoint()
    return False


CLIENTS_HELD = 1_000
"""Number of foreign clients for which a warning is remembered."""


class KnowledgeSource:
    """The knowledge source of a server. ``run`` writes the entries that the other methods queue. ``tokens`` is
    the limit per session, 0 for no entries, and ``share`` limits the entries to this share of the first request.
    ``meaning`` compares them with the prompt, if available. ``words`` begin a prompt that asks to remember something.
    """

    def __init__(
        self,
        store: KnowledgeStore,
        find_project: FindProject,
        now: Callable[[], int],
        new_id: Callable[[], str],
        *,
        tokens: int,
        share: float = SHARE,
        words: tuple[str, ...] = REMEMBER,
        meaning: Meaning | None = None,
        was_typed: WasTyped = deny,
        pauses: Sequence[float] = PAUSES,
    ) -> None:
        self.words = words
        self._store = store
        self._find_project = find_project
        self._now = now
        self._new_id = new_id
        self._tokens = tokens
        self._share = share
        self._meaning = meaning
        self._was_typed = was_typed
        self._pauses = () if was_typed is deny else pauses
        self._projects: Lru[str, str] = Lru(FOLDERS_HELD)
        self._strangers: Lru[str, bool] = Lru(CLIENTS_HELD)
        self._send, self._receive = trio.open_memory_channel[Callable[[], Awaitable[object]]](WAITING)
        self._ask, self._asked = trio.open_memory_channel[Callable[[], Awaitable[object]]](COMPARISONS_WAITING)

    async def select_knowledge(
        self, tenant: str, client: MemoryClient, folder: str | None, prompt: str, size: int, at: int
    ) -> MemoryBlock | None:
        """The memory block for a session that begins with a prompt, in a request of ``size`` bytes; None if there are
        no entries or the client is not the owner. Raises LogFailed.
        """
        most = min(self._tokens, int(size / BYTES_A_TOKEN * self._share))
        if most < FEWEST or not await self._is_owner(tenant, client):
            return None
        places = await self._list_places(tenant, folder)
        known = await self._store.read_all(places)
        if not any(each.entries for _, each in known):
            return None
        index = await self._store.index(places)
        among = await trio.to_thread.run_sync(index.shortlist, prompt, at, abandon_on_cancel=True) if prompt else []
        near = await self._compare(prompt, [each.entry.content for each in among]) if among else None
        return await trio.to_thread.run_sync(
            lambda: compose(known, index.recall(prompt, at, MOST_RELEVANT, among, near), at, render_day, most),
            abandon_on_cancel=True,
        )

    async def _compare(self, prompt: str, texts: Sequence[str]) -> Nearness | None:
        """The nearness of entries to a prompt; None without a model, or if it is late. The vectors are made anyway, by
        another task, for the next session: the threads of the model cannot be cancelled.
        """
        if (meaning := self._meaning) is None:
            return None
        found: list[Nearness | None] = []
        made = trio.Event()

        async def make() -> None:
            found.append(await meaning.nearness(prompt, texts))
            made.set()

        with trio.move_on_after(MEANING_SECONDS), suppress(trio.WouldBlock):
            self._ask.send_nowait(make)
            await made.wait()
        return found[0] if found else None

    def observe(self, identity: Identity, client: MemoryClient) -> None:
        """Admit a client that begins a turn in a session, if it is the owner."""
        self._queue(partial(self._admit, identity.tenant, client))

    def learn(self, tenant: str, folder: str | None, facts: Sequence[LearnedFact], prompt: SubmittedPrompt) -> None:
        """Learn claims of a prompt that the user submitted; without effect if no hook vouched for it."""
        if prompt.vouched:
            self._queue(partial(self._learn, tenant, folder, facts, prompt, commanded=False))

    def obey(
        self, tenant: str, client: MemoryClient, folder: str | None, wanted: LearnedFact, prompt: SubmittedPrompt
    ) -> None:
        """Write the entry that a prompt of the owner asks for."""

        async def write() -> None:
            if prompt.vouched or await self._is_owner(tenant, client):
                await self._learn(tenant, folder, (wanted,), prompt, commanded=True)

        self._queue(write)

    def summarize(
        self,
        tenant: str,
        clients: Collection[MemoryClient],
        folder: str | None,
        source: Provenance,
        at: int,
        lines: Sequence[str],
    ) -> None:
        """Keep the summary of a session, as of the time ``at``, for the project's next session, if all of the session's
        clients are the owner's. A session without a folder belongs to no project.
        """
        text = "; ".join(lines)
        draft = EntryDraft(
            kind=EntryKind.SESSION_SUMMARY,
            content=text[:LONGEST_CONTENT],
            summary=text[:LONGEST_SUMMARY],
            source=EntrySource.AGENT,
            provenance=source,
            valid_from=at,
        )

        async def write() -> None:
            if clients and all([await self._is_owner(tenant, each) for each in clients]):
                command = RememberEntry(at=self._now(), write=self._new_id(), draft=draft)
                await self._store.write(await self._find_place(tenant, folder), command, command.write)

        if folder is not None:
            self._queue(write)

    async def finish(self) -> None:
        """Wait until the entries queued so far are written."""
        done = trio.Event()

        async def note() -> None:
            done.set()

        await self._send.send(note)
        await done.wait()

    async def list_lines(self, tenant: str, folder: str | None, at: int) -> list[tuple[str, str]]:
        """The ids and lines of the project's entries, the newest first, so that a claim can correct one. Raises
        LogFailed and FolderSilent.
        """
        standing = (await self._store.read(await self._find_place(tenant, folder))).standing(at)
        return [(each.id, each.line) for each in reversed(standing[-LINES_LISTED:])]

    async def run(self) -> None:
        """Write the queued entries, and compare those that new sessions ask for."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._work, self._asked, "compared")
            nursery.start_soon(self._work, self._receive, "changed")

    async def _work(self, queued: trio.MemoryReceiveChannel[Callable[[], Awaitable[object]]], done: str) -> None:
        async for work in queued:
            try:
                await work()
            except MnemosyneError as error:
                log.warning("the memory cannot be %s: %s", done, error)
            except Exception:
                log.exception("the memory could not be %s", done)

    def _queue(self, write: Callable[[], Awaitable[object]]) -> None:
        try:
            self._send.send_nowait(write)
        except trio.WouldBlock:
            log.warning("a memory entry is not saved: the queue is full")

    async def _learn(
        self, tenant: str, folder: str | None, facts: Sequence[LearnedFact], prompt: SubmittedPrompt, *, commanded: bool
    ) -> None:
        interactive = prompt.interactive and await self._is_typed(prompt)
        prompt, write = attrs.evolve(prompt, interactive=interactive), self._new_id()
        command = LearnFacts(at=self._now(), write=write, facts=facts, prompt=prompt, commanded=commanded)
        await self._store.write(await self._find_place(tenant, folder), command, write)

    async def _is_typed(self, prompt: SubmittedPrompt) -> bool:
        """Whether a person typed a prompt: a client calls its hook for prompts of a schedule, which the model writes,
        as for the user's.
        """
        for pause in (0.0, *self._pauses):
            await trio.sleep(pause)
            session = await self._store.find_session(prompt.provenance.session)
            if session is not None and await self._was_typed(session, prompt.text):
                return True
        return False

    async def _find_place(self, tenant: str, folder: str | None) -> Place:
        """The place of a session's entries: its project, or without a folder the user's own."""
        places = await self._list_places(tenant, folder)
        return next(each for each in places if each.scope in (Scope.PROJECT, Scope.USER))

    async def _is_owner(self, tenant: str, client: MemoryClient) -> bool:
        if client.is_owner or client.fingerprint is None:
            return client.is_owner
        return client.fingerprint in (await self._store.read(Place(tenant, Scope.USER))).admitted

    async def _admit(self, tenant: str, client: MemoryClient) -> bool:
        """Record the owner of the memory if this client settles that; return whether the client is the owner."""
        if client.fingerprint is None:
            return client.is_owner
        place = Place(tenant, Scope.USER)
        known = await self._store.read(place)
        if client.fingerprint in known.admitted:
            return True
        how = OwnerProof.PRESENTED if client.is_owner else OwnerProof.FIRST
        if how is OwnerProof.FIRST and (known.version or await self._store.list_places(tenant)):
            self._warn(tenant, client.fingerprint)
            return False
        write = self._new_id()
        command = AdmitCredential(at=self._now(), write=write, fingerprint=client.fingerprint, how=how)
        outcome = await self._store.write(place, command, write)
        return client.is_owner or outcome.what == "admitted"

    def _warn(self, tenant: str, fingerprint: str) -> None:
        if self._strangers.get(fingerprint) is None:
            self._strangers.put(fingerprint, True)
            log.warning(
                "the credential %s does not belong to the owner of tenant %s's memory: its requests neither read that"
                " memory nor add to it. If it is yours, start the client with `mnemosyne run`, or use"
                " `mnemosyne memory admit`",
                fingerprint,
                tenant,
            )

    async def _list_places(self, tenant: str, folder: str | None) -> tuple[Place, ...]:
        project = None
        if folder is not None:
            project = self._projects.get(folder) or self._projects.put(folder, await self._find_project(folder))
        return places_of(tenant, project, folder)
