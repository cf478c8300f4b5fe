"""Operations of people and agents on the memory beyond sessions, shared by commands, tools and pages."""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import Any, TypeVar
from uuid import UUID

import attrs

from mnemosyne.domain.knowledge.block import MOST_RELEVANT, MOST_TOKENS, MemoryBlock, compose, describe_use
from mnemosyne.domain.knowledge.decide import (
    AdmitCredential,
    ConfirmEntry,
    DismissCredential,
    EntryDraft,
    EraseEntries,
    ForgetEntry,
    KnowledgeCommand,
    LearnFacts,
    LinkEntries,
    Place,
    RememberEntry,
    SeveralFound,
    UndoWrite,
    UpdateEntry,
    WriteOutcome,
    find_entry,
    places_of,
)
from mnemosyne.domain.knowledge.events import CredentialAdmitted, EntryWritten, Provenance
from mnemosyne.domain.knowledge.kinds import EntryKind, EntrySource, OwnerProof, Scope
from mnemosyne.domain.knowledge.knowledge_store import KnowledgeStore
from mnemosyne.domain.knowledge.prompts import LearnedFact
from mnemosyne.domain.knowledge.recalling import Meaning, PlacedEntry, RecalledEntry
from mnemosyne.domain.knowledge.state import Entry, Knowledge, fold_up_to
from mnemosyne.errors import BadEntry, NotFound
from mnemosyne.services.sessions import Archive
from mnemosyne.services.unstructuring import members

Member = TypeVar("Member", EntryKind, Scope, EntrySource)


@attrs.frozen
class WriteStamp:
    """The time of an operation and its correlation id."""

    at: int
    id: str


@attrs.frozen
class WriteReport:
    """The result of a write: see ``WriteOutcome``. ``write`` is the id for undoing it."""

    what: str
    write: str
    why: str
    place: Place
    entry: Entry | None

    @property
    def scope(self) -> Scope:
        return self.place.scope


FindFacts = Callable[[str], Awaitable[Sequence[LearnedFact]]]
"""Finds the claims of a text with a helper model; none without one."""


@attrs.frozen
class KnowledgeService:
    """The memory as one project of a tenant sees it. ``folder`` is the sandbox, if there is one. ``meaning`` compares
    texts by meaning in ``recall``, if available. ``made`` are the ids of the writes made here.
    """

    store: KnowledgeStore
    tenant: str
    project: str | None = None
    folder: str | None = None
    source: EntrySource = EntrySource.USER
    meaning: Meaning | None = None
    find_facts: FindFacts | None = None
    made: set[str] = attrs.field(factory=set)

    @property
    def places(self) -> tuple[Place, ...]:
        """All places visible from here, the nearest first."""
        return places_of(self.tenant, self.project, self.folder)

    def place_of(self, scope: Scope) -> Place:
        """The place of a scope. Raises BadEntry without one here."""
        found = next((each for each in self.places if each.scope is scope), None)
        if found is None:
            raise BadEntry(f"There is no {scope.value} here: name its folder.")
        return found

    # Writing

    async def remember(self, scope: Scope, draft: EntryDraft, stamp: WriteStamp) -> WriteReport:
        """Save an entry. Raises BadEntry and the log's errors, as do all writes."""
        return await self._write(self.place_of(scope), RememberEntry(at=stamp.at, write=stamp.id, draft=draft))

    async def update(
        self,
        wanted: str,
        content: str,
        stamp: WriteStamp,
        *,
        detail: str | None = None,
        valid_from: int | None = None,
        provenance: Provenance | None = None,
    ) -> WriteReport:
        """Replace an entry's content. Raises NotFound if none or more than one matches, as do all methods with
        ``wanted``: an id, or words of one entry.
        """
        place = await self._find_place(wanted, stamp.at)
        command = UpdateEntry(
            at=stamp.at,
            write=stamp.id,
            wanted=wanted,
            content=content,
            source=self.source,
            detail=detail,
            valid_from=valid_from,
            provenance=provenance,
        )
        return await self._write(place, command)

    async def forget(self, wanted: str, stamp: WriteStamp) -> WriteReport:
        """End an entry; it stays in the log."""
        place = await self._find_place(wanted, stamp.at)
        return await self._write(place, ForgetEntry(at=stamp.at, write=stamp.id, wanted=wanted))

    async def confirm(self, wanted: str, stamp: WriteStamp) -> WriteReport:
        """Confirm that an entry is true. Raises BadEntry if an agent asks for an entry that was never confirmed."""
        place = await self._find_place(wanted, stamp.at)
        command = ConfirmEntry(at=stamp.at, write=stamp.id, wanted=wanted, source=self.source)
        return await self._write(place, command)

    async def learn(self, text: str, stamp: WriteStamp) -> list[WriteReport]:
        """Save the claims that a helper model finds in a text that the user asks to remember: one report for each
        entry, or one that nothing is new; none if no claim was found.
        """
        facts = await self.find_facts(text) if self.find_facts is not None and self.source is EntrySource.USER else ()
        if not facts:
            return []
        place = self.place_of(Scope.PROJECT)
        outcome = await self.store.write(place, LearnFacts(at=stamp.at, write=stamp.id, facts=facts), stamp.id)
        known = await self.store.read(place)
        written: list[str | None] = [event.entry for event in outcome.events if isinstance(event, EntryWritten)]
        return [
            WriteReport(outcome.what, stamp.id, outcome.why, place, known.entries.get(each) if each else None)
            for each in written or [outcome.entry]
        ]

    async def link(self, wanted: str, other: str, relation: str, stamp: WriteStamp) -> WriteReport:
        """Link an entry to another one of the same scope."""
        place = await self._find_place(wanted, stamp.at)
        command = LinkEntries(at=stamp.at, write=stamp.id, wanted=wanted, other=other, relation=relation)
        return await self._write(place, command)

    async def undo(self, write: str | None, stamp: WriteStamp) -> WriteReport:
        """Undo a write; None: the last one. Undoing an undo redoes the write. An agent can only undo writes made here:
        what it reads could ask it to revive an entry that a person has forgotten. Raises NotFound.
        """
        places = await self.store.read_all(self.places)
        known = [(record.at, record.id, place) for place, each in places for record in each.writes.values()]
        if write is not None:
            undone = [(0, undo, place) for place, each in places for undo in each.undone]
            known = [each for each in (*known, *undone) if each[1] == write]
        if self.source is EntrySource.AGENT:
            known = [each for each in known if each[1] in self.made]
        if not known:
            named = "write" if write is None else f"write {write!r}"
            why = "" if write is None else "; it may be undone already, or the id of an entry"
            theirs = ", or it is not yours" if self.source is EntrySource.AGENT and write is not None else ""
            raise NotFound(f"There is no {named} to undo{why}{theirs}.")
        _, wanted, place = max(known, key=lambda each: each[:2])
        return await self._write(place, UndoWrite(at=stamp.at, write=stamp.id, undone=wanted))

    async def list_undone(self) -> list[tuple[str, str]]:
        """The undos that can be undone, the last first, each with the text that it concerned."""
        found = [
            (undo, event.content if isinstance(event, EntryWritten) else known.entries[event.entry].content)
            for _, known in await self.store.read_all(self.places)
            for undo, record in known.undone.items()
            for event in record.events[:1]
            if isinstance(event, EntryWritten) or event.entry in known.entries
        ]
        return found[::-1]

    async def erase(self, matching: str, stamp: WriteStamp) -> int:
        """Erase from the log the words of every entry, current or not, with this id or these words; return their
        number. Raises NotFound if no entry matches.
        """
        erased = 0
        sought = matching.casefold().strip()
        if not sought:
            raise NotFound("Name what to erase: the id of an entry, or words in it.")
        for place, known in await self.store.read_all(self.places):
            undone = [event for each in known.undone.values() for event in each.events]
            texts = [(id_, each.content, each.summary, each.detail) for id_, each in known.entries.items()]
            texts += [
                (each.entry, each.content, each.summary, each.detail)
                for each in undone
                if isinstance(each, EntryWritten)
            ]
            found = frozenset(id_ for id_, *words in texts if id_ == matching or sought in "\n".join(words).casefold())
            erased += await erase_entries(self.store, place, found, stamp)
        if not erased:
            raise NotFound(f"No entry has the id {matching!r} or contains these words.")
        return erased

    # Ownership

    async def admit(self, fingerprint: str, stamp: WriteStamp) -> WriteReport:
        """Treat requests with the credential of this fingerprint as the owner's."""
        command = AdmitCredential(at=stamp.at, write=stamp.id, fingerprint=fingerprint, how=OwnerProof.COMMAND)
        return await self._write(self.place_of(Scope.USER), command)

    async def dismiss(self, wanted: str, stamp: WriteStamp) -> WriteReport:
        """Revoke that. Raises NotFound unless exactly one fingerprint begins with ``wanted``."""
        command = DismissCredential(at=stamp.at, write=stamp.id, wanted=wanted)
        return await self._write(self.place_of(Scope.USER), command)

    async def list_admitted(self) -> list[CredentialAdmitted]:
        """The owner's credentials, the oldest first."""
        return [*(await self.store.read(self.place_of(Scope.USER))).admitted.values()]

    async def _find_place(self, wanted: str, at: int) -> Place:
        """The place of an entry: the nearest one that has it."""
        known = await self.store.read_all(self.places)
        for place, each in known:
            if wanted in each.entries:
                return place
        several: SeveralFound | None = None
        for place, each in known:
            try:
                find_entry(each, wanted, at)
            except SeveralFound as error:
                several = error
            except NotFound:
                continue
            else:
                return place
        raise several or NotFound(f"No entry has the id {wanted!r} or contains these words.")

    async def _write(self, place: Place, command: KnowledgeCommand) -> WriteReport:
        outcome: WriteOutcome = await self.store.write(place, command, command.write)
        self.made.add(command.write)
        known = await self.store.read(place)
        entry = known.entries.get(outcome.entry) if outcome.entry is not None else None
        return WriteReport(outcome.what, command.write, outcome.why, place, entry)

    # Reading

    async def list_entries(
        self, at: int, *, scope: Scope | None = None, kind: EntryKind | None = None, known_at: int | None = None
    ) -> list[PlacedEntry]:
        """The entries valid at a time, as known now or at ``known_at``: the nearest scope first."""
        found = []
        for place in self.places:
            if scope in (None, place.scope):
                known = await self._read_known(place, known_at)
                entries = [each for each in known.valid(at) if kind in (None, each.kind)]
                found += [PlacedEntry(place, each) for each in entries]
        return found

    async def _read_known(self, place: Place, known_at: int | None) -> Knowledge:
        if known_at is None:
            return await self.store.read(place)
        return fold_up_to(await self.store.read_events(place), known_at)

    async def list_history(self, wanted: str | None = None) -> list[PlacedEntry]:
        """All entries, current and past, the oldest first, without those in the trash; with an id, that entry with its
        predecessors and successors.
        """
        known = await self.store.read_all(self.places)
        all_of_them = [PlacedEntry(place, each) for place, one in known for each in one.entries.values()]
        if wanted is not None:
            line = _find_line(wanted, {each.entry.id: each.entry for each in all_of_them})
            all_of_them = [each for each in all_of_them if each.entry.id in line]
        else:
            all_of_them = [each for each in all_of_them if each.entry.trashed_at is None]
        return sorted(all_of_them, key=lambda each: each.entry.recorded_at)  # a stable sort

    async def recall(
        self, question: str, at: int, *, limit: int = 10, kinds: Sequence[EntryKind] = (), ended: bool = False
    ) -> list[RecalledEntry]:
        """The entries that answer a question best, unconfirmed ones included."""
        if not question.strip():
            raise BadEntry("The question is empty.")
        index = await self.store.index(self.places)
        among = index.shortlist(question, at, kinds, ended=ended)
        near = None
        if self.meaning is not None:
            near = await self.meaning.nearness(question, [each.entry.content for each in among])
        return index.recall(question, at, limit, among, near)

    async def compose_block(self, prompt: str, at: int, render_date: Callable[[int], str]) -> MemoryBlock | None:
        """The memory block for a session that begins with this prompt; None if there are no entries."""
        known = await self.store.read_all(self.places)
        related = await self.recall(prompt, at, limit=MOST_RELEVANT) if prompt.strip() else []
        return compose(known, related, at, render_date, MOST_TOKENS)

    # Files

    async def export(self, at: int) -> AsyncIterator[Mapping[str, Any]]:
        """Every entry visible from here, with its times, as JSON objects."""
        for each in await self.list_history():
            if not each.entry.erased:
                yield describe(each, at)

    async def import_lines(self, lines: Sequence[Mapping[str, Any]], stamp: WriteStamp) -> Mapping[str, int]:
        """Import lines that ``export`` wrote; known entries are skipped, past ones are omitted. Returns the numbers of
        added, updated and skipped entries. Raises BadEntry with the line number before anything is written.
        """
        drafts = [parse_line(line, number, self.source) for number, line in enumerate(lines, start=1)]
        counts: dict[str, int] = {}
        for number, found in enumerate(drafts):
            if found is not None:
                scope, draft = found
                done = await self.remember(scope, draft, WriteStamp(stamp.at, f"{stamp.id}-{number}"))
                counts[done.what] = counts.get(done.what, 0) + 1
        return counts


async def erase_all(archive: Archive, tenant: str, stamp: WriteStamp) -> int:
    """Erase from the log the words of every entry of a tenant; return how many still had theirs."""
    store, had = KnowledgeStore(archive.events, archive.journal), 0
    for place, known in await store.read_all(await store.list_places(tenant)):
        had += sum(not each.erased for each in known.entries.values())
        await erase_entries(store, place, frozenset(known.entries), stamp)
    return had


async def list_learned(archive: Archive, tenant: str, session: UUID) -> list[Entry]:
    """The entries learned in a session that are not erased: they outlive it."""
    store = KnowledgeStore(archive.events, archive.journal)
    known = await store.read_all(await store.list_places(tenant))
    entries = [each for _, one in known for each in one.entries.values() if not each.erased]
    return [each for each in entries if each.provenance is not None and each.provenance.session == session]


async def erase_entries(store: KnowledgeStore, place: Place, entries: frozenset[str], stamp: WriteStamp) -> int:
    """Erase the words of these entries of a place from the log; return their number."""
    if entries:
        command = EraseEntries(at=stamp.at, write=stamp.id, entries=tuple(sorted(entries)))
        await store.write(place, command, stamp.id)
        await store.erase(place, entries)
    return len(entries)


def _find_line(wanted: str, entries: Mapping[str, Entry]) -> set[str]:
    """The ids of an entry, its predecessors and its successors."""
    if wanted not in entries:
        raise NotFound(f"No entry has the id {wanted!r}.")
    line = {wanted}
    for way in ("replaces", "replaced_by"):
        at = getattr(entries[wanted], way)
        while at in entries and at not in line:
            line.add(at)
            at = getattr(entries[at], way)
    return line


def describe(found: PlacedEntry, at: int) -> dict[str, Any]:
    """An entry as a JSON object, and when sessions get it as of a time; times are µs of UTC."""
    entry, provenance = found.entry, found.entry.provenance
    text = "id kind content summary detail source confidence ended replaces replaced_by write"
    described = {
        **members(entry, f"{text} valid_from valid_until recorded_at confirmed_at"),
        **members(found.place, "scope key"),
        "links": [{"relation": relation, "id": other} for relation, other in entry.links],
        "provenance": None if provenance is None else members(provenance, "session branch turn object span"),
        "confirmed": entry.is_confirmed,
        "used": describe_use(entry, found.place.scope, at),
    }
    if isinstance(found, RecalledEntry):
        described |= {"score": round(found.score, 3), "relevance": round(found.relevance, 3)}
    return described


def describe_write(done: WriteReport, at: int) -> dict[str, Any]:
    """The result of a write at a time as a JSON object."""
    entry = describe(PlacedEntry(done.place, done.entry), at) if done.entry is not None else None
    return {**members(done, "what write why scope"), "entry": entry}


def parse_member(kind: type[Member], value: object, what: str) -> Member:
    """The kind, scope or source with this name. Raises BadEntry with all valid names."""
    try:
        return kind(value)
    except ValueError:
        names = ", ".join(each.value for each in kind)
        raise BadEntry(f"{value!r} is not a {what}; valid are {names}.") from None


def parse_line(line: Mapping[str, Any], number: int, source: EntrySource) -> tuple[Scope, EntryDraft] | None:
    """The entry in a line of an export; None for a past one. Raises BadEntry."""
    try:
        if line.get("valid_until") is not None:
            return None
        scope = parse_member(Scope, line.get("scope", Scope.PROJECT.value), "scope")
        confidence = line.get("confidence") if not line.get("confirmed_at") else None
        begins = line.get("valid_from")
        if not isinstance(line.get("content"), str):
            raise BadEntry("its content is missing.")
        if not (confidence is None or isinstance(confidence, (int, float))) or not (
            begins is None or isinstance(begins, int)
        ):
            raise BadEntry("its confidence or valid_from is not a number.")
        draft = EntryDraft(
            kind=parse_member(EntryKind, line.get("kind", EntryKind.FACT.value), "kind"),
            content=line["content"],
            source=parse_member(EntrySource, line.get("source", source.value), "source"),
            summary=str(line.get("summary") or ""),
            detail=str(line.get("detail") or ""),
            confidence=None if confidence is None else float(confidence),
            valid_from=begins,
        )
    except BadEntry as error:
        raise BadEntry(f"Line {number}: {error}") from None
    return scope, draft
