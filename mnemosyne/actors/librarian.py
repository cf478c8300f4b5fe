"""What the sessions of a server and the memory beyond them have to do with each other: a session that begins is told,
and what its user settles is learned. Both only for the owner of the memory.

A credential is the owner's once it came with the secret of the data directory, or by a command. The first that speaks
where the tenant has no memory at all is the owner's, too: there is nothing yet that it could read.

Telling is waited for, and not for long; learning is not. Whatever fails here, sessions go on.
"""

import logging
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from itertools import islice

import attrs
import trio

from mnemosyne.actors.messages import Identity
from mnemosyne.actors.owners import MemoryClient
from mnemosyne.bounded import Lru
from mnemosyne.domain.knowledge.block import MOST_RELEVANT, MemoryBlock, compose
from mnemosyne.domain.knowledge.book import KnowledgeBook
from mnemosyne.domain.knowledge.decide import AdmitCredential, LearnSession, Place, places_of
from mnemosyne.domain.knowledge.events import Provenance
from mnemosyne.domain.knowledge.extraction import FoundDraft, extract, extract_prompt, list_typed_branches
from mnemosyne.domain.knowledge.kinds import OwnerProof, Scope
from mnemosyne.domain.segmentation.segment import SeenMessage
from mnemosyne.domain.session.state import Branch, Session
from mnemosyne.domain.wire.project import project_of_transcript
from mnemosyne.domain.wire.transcript import Transcript
from mnemosyne.errors import MnemosyneError
from mnemosyne.times import render_day

log = logging.getLogger(__name__)

FOLDERS_HELD = 100
"""Of how many folders it is remembered to which project they belong."""

WAITING = 1_000
"""So many findings may wait for the database; those that come then are lost, unless somebody asks for them again."""

SHARE = 0.015
"""Of a first request. With our tools a managed session is not to cost 2 % more than without us, however short it is."""

BYTES_A_TOKEN = 4

FEWEST = 70
"""Tokens: with less there is no room for a line beside the words around it."""

LONGEST_PROMPT = 32_000
"""Bytes of a message that is read as it comes, while sessions wait; a first one brings its client's reminders, too.
What is longer was pasted, or holds results: what is settled in it is found once it is an object.
"""

FindProject = Callable[[str], Awaitable[str]]
"""The project of a folder."""


CLIENTS_HELD = 1_000
"""Of how many clients it is remembered that the log was asked about them, and in how many turns of a session who spoke.
"""


@attrs.frozen
class _Finding:
    """What a session of a tenant gave, whose client works in a folder; without drafts, only who speaks."""

    tenant: str
    client: MemoryClient
    folder: str | None
    drafts: tuple[FoundDraft, ...]


class Librarian:
    """One for a server. ``run`` writes down what was heard; ``tokens`` is the most that a session is told, 0 for
    nothing, and ``share`` how much of its first request that may be; ``learns`` says whether anything is learned.
    """

    def __init__(
        self,
        book: KnowledgeBook,
        find_project: FindProject,
        now: Callable[[], int],
        new_id: Callable[[], str],
        *,
        tokens: int,
        learns: bool,
        share: float = SHARE,
    ) -> None:
        self._book = book
        self._find_project = find_project
        self._now = now
        self._new_id = new_id
        self._tokens = tokens
        self._share = share
        self.learns = learns
        self._projects: Lru[str, str] = Lru(FOLDERS_HELD)
        self._strangers: Lru[str, bool] = Lru(CLIENTS_HELD)
        self._send, self._receive = trio.open_memory_channel[_Finding](WAITING)

    async def recollect(
        self, tenant: str, client: MemoryClient, folder: str | None, prompt: str, size: int, at: int
    ) -> MemoryBlock | None:
        """What a session is told that begins now with a prompt, in a request of so many bytes; None for nothing, as for
        a stranger. Raises LogFailed.
        """
        most = min(self._tokens, int(size / BYTES_A_TOKEN * self._share))
        if most < FEWEST or not await self._is_owner(tenant, client):
            return None
        places = await self._list_places(tenant, folder)
        known = await self._book.read_all(places)
        if not any(each.entries for _, each in known):
            return None
        index = await self._book.index(places)
        return await trio.to_thread.run_sync(
            lambda: compose(known, index.relate(prompt, at, MOST_RELEVANT) if prompt else [], at, render_day, most),
            abandon_on_cancel=True,
        )

    def hear(
        self, identity: Identity, client: MemoryClient, said: Transcript, drafts: Sequence[FoundDraft] = ()
    ) -> None:
        """Note who speaks, and learn what a session gave; its client ``said`` where it works."""
        finding = _Finding(identity.tenant, client, project_of_transcript(said) if drafts else None, tuple(drafts))
        try:
            self._send.send_nowait(finding)
        except trio.WouldBlock:
            log.warning("what session %s gave is not written down now: too much waits", identity.stream)

    async def run(self) -> None:
        """Write down what was heard."""
        async for finding in self._receive:
            try:
                await self._write(finding)
            except MnemosyneError as error:
                log.warning("what a session gave is not written down: %s", error)
            except Exception:
                log.exception("what a session gave could not be written down")

    async def _write(self, finding: _Finding) -> None:
        if not await self._admit(finding.tenant, finding.client) or not finding.drafts:
            return
        for place in await self._list_places(finding.tenant, finding.folder):
            drafts = tuple(each.draft for each in finding.drafts if each.scope is place.scope)
            if drafts:
                write = self._new_id()
                await self._book.write(place, LearnSession(at=self._now(), write=write, drafts=drafts), write)

    async def _is_owner(self, tenant: str, client: MemoryClient) -> bool:
        """Whether the memory of a tenant is this client's."""
        if client.is_owner or client.fingerprint is None:
            return client.is_owner
        return client.fingerprint in (await self._book.read(Place(tenant, Scope.USER))).admitted

    async def _admit(self, tenant: str, client: MemoryClient) -> bool:
        """Record to whom the memory belongs where this client settles that; whether it is this client's."""
        if client.fingerprint is None:
            return client.is_owner
        place = Place(tenant, Scope.USER)
        known = await self._book.read(place)
        if client.fingerprint in known.admitted:
            return True
        how = OwnerProof.PRESENTED if client.is_owner else OwnerProof.FIRST
        if how is OwnerProof.FIRST and (known.version or await self._book.list_places(tenant)):
            self._warn(tenant, client.fingerprint)
            return False
        write = self._new_id()
        command = AdmitCredential(at=self._now(), write=write, fingerprint=client.fingerprint, how=how)
        outcome = await self._book.write(place, command, write)
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


class Ear:
    """What one session tells the librarian: who speaks, each object once, and each prompt as it is typed. What a turn
    brought of which this process does not know the client, as it began before, is not learned.
    """

    def __init__(self, identity: Identity, librarian: Librarian | None) -> None:
        self._identity = identity
        self._librarian = librarian
        self._objects = 0
        self._prompts: dict[str, int] = {}
        self._clients: Lru[tuple[str, int], MemoryClient] = Lru(CLIENTS_HELD)
        self._heard: set[MemoryClient] = set()
        self._new_clients: list[MemoryClient] = []

    def note(self, branch: str, turn: int, client: MemoryClient) -> None:
        """A client begins a turn; who repeats one does not make it theirs."""
        if self._clients.get((branch, turn)) is None:
            if client not in self._heard:
                self._heard.add(client)
                self._new_clients.append(client)
            self._clients.put((branch, turn), client)

    def hear(self, session: Session, find_held: Callable[[Branch], Transcript | None]) -> None:
        """Tell of what is new, of branches whose last request is in memory. Nobody's turn fails by it."""
        if self._librarian is None:
            return
        try:
            self._hear(self._librarian, session, find_held)
        except Exception:
            log.exception("nothing more is learned from session %s", self._identity.stream)
            self._librarian = None

    def _hear(self, librarian: Librarian, session: Session, find_held: Callable[[Branch], Transcript | None]) -> None:
        held = {each.name: read for each in session.branches.values() if (read := find_held(each)) is not None}
        if not held:
            return
        said = next(iter(held.values()))
        while self._new_clients:
            librarian.hear(self._identity, self._new_clients.pop(0), said)
        if not librarian.learns:
            return
        typed = list_typed_branches(session.branches.values())
        new = [*islice(session.memory.objects.values(), self._objects, None)]
        self._objects = len(session.memory.objects)
        drafts = list(extract(new, self._identity.stream, typed))
        for name, read in held.items():
            turn = session.branches[name].turns
            if name in typed and self._prompts.get(name) != turn:
                self._prompts[name] = turn
                drafts += self._extract_prompt(name, turn, read)
        for client, theirs in self._sort_by_client(drafts).items():
            librarian.hear(self._identity, client, said, theirs)

    def _sort_by_client(self, drafts: Iterable[FoundDraft]) -> dict[MemoryClient, list[FoundDraft]]:
        """What was found, by who brought it."""
        found: dict[MemoryClient, list[FoundDraft]] = {}
        for each in drafts:
            source = each.draft.provenance
            client = None if source is None else self._clients.get((source.branch, source.turn))
            if client is not None:
                found.setdefault(client, []).append(each)
        return found

    def _extract_prompt(self, branch: str, turn: int, read: Transcript) -> Iterator[FoundDraft]:
        last = len(read.messages) - 1
        if last < 0 or read.messages[last].end - read.messages[last].start > LONGEST_PROMPT:
            return
        answered = (number for number in range(last, -1, -1) if read.messages[number].role == "assistant")
        first = next(answered, 0)  # what was typed has been since the model spoke last
        messages = [
            SeenMessage(number, read.messages[number].role, turn, read.blocks(number))
            for number in range(first, last + 1)
        ]
        yield from extract_prompt(messages, Provenance(session=self._identity.stream, branch=branch, turn=turn))
