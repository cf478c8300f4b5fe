"""What a command does to what is known: the only place where events of entries are made.

An entry is never changed: an update ends it and writes another one in its place, in one append. What we extracted never
takes the place of what somebody said outright.
"""

from base64 import b32encode
from collections.abc import Iterable
from hashlib import sha256
from typing import Any

import attrs

from mnemosyne.domain.knowledge.events import (
    CredentialAdmitted,
    CredentialDismissed,
    EntriesLinked,
    EntryConfirmed,
    EntryEnded,
    EntryErased,
    EntryWritten,
    KnowledgeEvent,
    KnowledgeOpened,
    Provenance,
    WriteUndone,
)
from mnemosyne.domain.knowledge.kinds import EndReason, EntryKind, EntrySource, OwnerProof, Scope
from mnemosyne.domain.knowledge.state import Entry, Knowledge
from mnemosyne.domain.knowledge.words import clean_content, clean_detail, content_words, is_same, likeness
from mnemosyne.errors import BadEntry, NotFound

MOST_ENTRIES = 10_000
"""So many entries of one place hold at a time: more would help nobody, and each session's first request looks them
through.
"""

ALIKE = 0.5
"""Two entries with so much of their words in common are about the same thing."""


def _storable(key: str) -> str:
    """A key as the log can hold it: the name of a folder that is not UTF-8 has half surrogate pairs."""
    return key.encode("utf-8", "backslashreplace").decode()


@attrs.frozen
class Place:
    """Whose entries a stream holds; as in KnowledgeOpened."""

    tenant: str
    scope: Scope
    key: str = attrs.field(default="", converter=_storable)


def places_of(tenant: str, project: str | None, folder: str | None) -> tuple[Place, ...]:
    """All places that are seen from a folder of a project, the nearest first."""
    near = [(Scope.SANDBOX, folder), (Scope.PROJECT, project)]
    named = [Place(tenant, scope, key) for scope, key in near if key]
    return (*named, Place(tenant, Scope.USER), Place(tenant, Scope.GLOBAL))


@attrs.frozen(kw_only=True)
class EntryDraft:
    """An entry to be written; the fields are those of EntryWritten. ``valid_from`` None: from now on."""

    kind: EntryKind
    content: str
    source: EntrySource
    summary: str = ""
    detail: str = ""
    confidence: float | None = None
    valid_from: int | None = None
    provenance: Provenance | None = None


@attrs.frozen(kw_only=True)
class RememberEntry:
    """Somebody wants something to be known."""

    at: int
    write: str
    draft: EntryDraft


@attrs.frozen(kw_only=True)
class UpdateEntry:
    """The entry that is ``wanted`` says something else from ``valid_from`` on (None: from now on)."""

    at: int
    write: str
    wanted: str
    content: str
    source: EntrySource
    detail: str | None = None
    valid_from: int | None = None
    provenance: Provenance | None = None


@attrs.frozen(kw_only=True)
class ForgetEntry:
    """The entry that is ``wanted`` holds no longer. It stays on record."""

    at: int
    write: str
    wanted: str


@attrs.frozen(kw_only=True)
class ConfirmEntry:
    """The entry that is ``wanted`` is still true."""

    at: int
    write: str
    wanted: str


@attrs.frozen(kw_only=True)
class LinkEntries:
    """Two entries have to do with each other."""

    at: int
    write: str
    wanted: str
    other: str
    relation: str


@attrs.frozen(kw_only=True)
class UndoWrite:
    """A write is taken back."""

    at: int
    write: str
    undone: str


@attrs.frozen(kw_only=True)
class EraseEntries:
    """The words of these entries go, whether they still hold or not."""

    at: int
    write: str
    entries: tuple[str, ...]


@attrs.frozen(kw_only=True)
class AdmitCredential:
    """The credential of this fingerprint belongs to the owner of the memory. As the ``FIRST`` it counts only where
    nothing is recorded in this place.
    """

    at: int
    write: str
    fingerprint: str
    how: OwnerProof


@attrs.frozen(kw_only=True)
class DismissCredential:
    """The credential whose fingerprint begins so belongs to the owner no longer."""

    at: int
    write: str
    wanted: str


KnowledgeCommand = (
    RememberEntry
    | UpdateEntry
    | ForgetEntry
    | ConfirmEntry
    | LinkEntries
    | UndoWrite
    | EraseEntries
    | AdmitCredential
    | DismissCredential
)


@attrs.frozen
class WriteOutcome:
    """What a command leads to: events, the entry that it is about, and ``what`` was done with it: ``added``,
    ``updated``, ``skipped``, ``forgotten``, ``confirmed``, ``linked``, ``undone``, ``erased``,
    ``admitted`` or ``dismissed``.
    """

    what: str
    events: tuple[KnowledgeEvent, ...] = ()
    entry: str | None = None
    why: str = ""


def decide(command: KnowledgeCommand, known: Knowledge, place: Place) -> WriteOutcome:
    """What happens. Raises NotFound where no entry, or more than one, is meant; BadEntry for what cannot be kept."""
    at = max(command.at, known.last_at)  # a clock that went back must not rewrite what was known when
    decided = _decide(attrs.evolve(command, at=at), known)
    if known.opened is None and decided.events:
        opened = KnowledgeOpened(at=at, tenant=place.tenant, scope=place.scope, key=place.key)
        return attrs.evolve(decided, events=(opened, *decided.events))
    return decided


def _decide(command: KnowledgeCommand, known: Knowledge) -> WriteOutcome:
    match command:
        case RememberEntry():
            return _remember(command.draft, known, command.at, command.write)
        case UpdateEntry():
            return _update(command, known)
        case ForgetEntry():
            found = find_entry(known, command.wanted, command.at)
            ended = _end(found, command.at, command.write, command.at, EndReason.FORGOTTEN)
            return WriteOutcome("forgotten", (ended,), found.id)
        case ConfirmEntry():
            found = find_entry(known, command.wanted, command.at)
            confirmed = EntryConfirmed(at=command.at, write=command.write, entry=found.id)
            return WriteOutcome("confirmed", (confirmed,), found.id)
        case LinkEntries():
            return _link(command, known)
        case UndoWrite():
            return _undo(command, known)
        case EraseEntries():
            return _erase(command, known)
        case AdmitCredential():
            return _admit(command, known)
        case DismissCredential():
            return _dismiss(command, known)


# Who may


def _admit(command: AdmitCredential, known: Knowledge) -> WriteOutcome:
    before = known.admitted.get(command.fingerprint)
    if before is not None and (before.how is command.how or command.how is OwnerProof.PRESENTED):
        return WriteOutcome("skipped", why="it is admitted already")
    if command.how is OwnerProof.FIRST and known.version:
        return WriteOutcome("skipped", why="the memory has an owner, or entries, already")
    admitted = CredentialAdmitted(at=command.at, write=command.write, fingerprint=command.fingerprint, how=command.how)
    return WriteOutcome("admitted", (admitted,))


def _dismiss(command: DismissCredential, known: Knowledge) -> WriteOutcome:
    meant = [each for each in known.admitted if command.wanted and each.startswith(command.wanted)]
    if len(meant) != 1:
        count = "No admitted credential has" if not meant else f"{len(meant)} admitted credentials have"
        raise NotFound(f"{count} a fingerprint that begins with {command.wanted!r}.")
    dismissed = CredentialDismissed(at=command.at, write=command.write, fingerprint=meant[0])
    return WriteOutcome("dismissed", (dismissed,))


# One entry


def find_entry(known: Knowledge, wanted: str, at: int) -> Entry:
    """The entry that holds at a time, or will, and is meant: by its id, else by words that it alone has.

    Raises NotFound, naming candidates.
    """
    standing = {each.id: each for each in known.standing(at)}
    if wanted in standing:
        return standing[wanted]
    if not wanted.strip():
        raise NotFound("Say which entry: by its id, or by words of it.")
    ended = known.entries.get(wanted)
    if ended is not None:
        after = f"; {ended.replaced_by} took its place" if ended.replaced_by else ""
        raise NotFound(f"The entry {wanted} does not hold any more{after}.")
    sought = wanted.casefold()
    found = [each for each in standing.values() if sought in each.content.casefold()]
    if len(found) == 1:
        return found[0]
    if not found:
        raise NotFound(f"No entry has the id {wanted!r}, or these words.")
    named = "; ".join(f"{each.id} ({_shorten(each.content)})" for each in found[:5])
    raise NotFound(f"{len(found)} entries have these words: {named}. Say which one by its id.")


def _shorten(text: str) -> str:
    return text if len(text) <= 60 else f"{text[:59]}\N{HORIZONTAL ELLIPSIS}"


def _remember(draft: EntryDraft, known: Knowledge, at: int, write: str) -> WriteOutcome:
    draft = _clean(draft, at)
    same = next(
        (each for each in known.standing(at) if each.kind is draft.kind and is_same(each.content, draft.content)), None
    )
    if same is not None and (same.is_explicit or draft.confidence is not None):
        return WriteOutcome("skipped", entry=same.id, why="it is known already")
    if same is not None:
        return _replace(same, draft, at, write)
    if len(known.standing(at)) >= MOST_ENTRIES:
        raise BadEntry(
            f"{MOST_ENTRIES:,} entries hold here, and more would help nobody. Forget some, or say several in one."
        )
    return WriteOutcome("added", (_write(draft, write, at, 0),), _make_id(write, 0))


def _update(command: UpdateEntry, known: Knowledge) -> WriteOutcome:
    found = find_entry(known, command.wanted, command.at)
    draft = EntryDraft(
        kind=found.kind,
        content=command.content,
        source=command.source,
        detail=found.detail if command.detail is None else command.detail,
        valid_from=command.valid_from,
        provenance=command.provenance,
    )
    return _replace(found, _clean(draft, command.at), command.at, command.write)


def _replace(found: Entry, draft: EntryDraft, at: int, write: str, number: int = 0) -> WriteOutcome:
    """An entry ends where another one begins. One that begins before it says that it never was true."""
    begins = at if draft.valid_from is None else draft.valid_from
    ended = _end(found, at, write, max(begins, found.valid_from), EndReason.REPLACED)
    return WriteOutcome("updated", (ended, _write(draft, write, at, number, found.id)), _make_id(write, number))


def _end(found: Entry, at: int, write: str, until: int, reason: EndReason) -> EntryEnded:
    return EntryEnded(at=at, write=write, entry=found.id, valid_until=until, reason=reason)


def _write(draft: EntryDraft, write: str, at: int, number: int, replaces: str | None = None) -> EntryWritten:
    fields: dict[str, Any] = attrs.asdict(draft, recurse=False)
    fields["valid_from"] = at if draft.valid_from is None else draft.valid_from
    return EntryWritten(at=at, write=write, entry=_make_id(write, number), replaces=replaces, **fields)


def _make_id(write: str, number: int) -> str:
    return "k" + b32encode(sha256(f"{write}/{number}".encode()).digest()[:_ID_BYTES]).decode().rstrip("=").lower()


_ID_BYTES = 6
"""Enough that 10,000 entries have different ids."""


def _clean(draft: EntryDraft, at: int) -> EntryDraft:
    if draft.confidence is not None and not 0 <= draft.confidence <= 1:
        raise BadEntry(f"A confidence is between 0 and 1, not {draft.confidence}.")
    if draft.valid_from is not None and not 0 <= draft.valid_from < _LAST_TIME:
        raise BadEntry("An entry holds from a time between 1970 and 9999 on.")
    return attrs.evolve(
        draft,
        content=clean_content(draft.content),
        summary=clean_content(draft.summary) if draft.summary.strip() else "",
        detail=clean_detail(draft.detail),
    )


_LAST_TIME = 253_402_300_800_000_000
"""µs: the year 10000."""


def _link(command: LinkEntries, known: Knowledge) -> WriteOutcome:
    found = find_entry(known, command.wanted, command.at)
    other = find_entry(known, command.other, command.at)
    relation = clean_content(command.relation)
    if found.id == other.id:
        raise BadEntry("An entry has nothing to do with itself.")
    if (relation, other.id) in found.links:
        return WriteOutcome("skipped", entry=found.id, why="they are linked so already")
    linked = EntriesLinked(at=command.at, write=command.write, entry=found.id, other=other.id, relation=relation)
    return WriteOutcome("linked", (linked,), found.id)


# Back


def _undo(command: UndoWrite, known: Knowledge) -> WriteOutcome:
    record = known.writes.get(command.undone)
    if record is None:
        raise NotFound(f"There is no write {command.undone!r} to be taken back; it may have been already.")
    for made in record.made:
        entry = known.entries[made]
        if entry.ended_by is not None or entry.erased:
            raise NotFound(f"{made} was changed since, by {entry.ended_by or 'erasing it'}. Take that back first.")
    undone = WriteUndone(at=command.at, write=command.write, undone=command.undone)
    return WriteOutcome("undone", (undone,), next(iter((*record.ended, *record.made)), None))


def _erase(command: EraseEntries, known: Knowledge) -> WriteOutcome:
    unknown = [each for each in command.entries if each not in known.entries]
    if unknown:
        raise NotFound(f"No entry has the id {unknown[0]!r}.")
    left = [each for each in command.entries if not known.entries[each].erased]
    erased = tuple(EntryErased(at=command.at, write=command.write, entry=each) for each in left)
    return WriteOutcome("erased", erased, why=f"{len(left)} of {len(command.entries)}")


def _find_alike(draft: EntryDraft, entries: Iterable[Entry]) -> Entry | None:
    nearest, near = _find_nearest(draft, entries)
    return nearest if near >= ALIKE else None


def _find_nearest(draft: EntryDraft, entries: Iterable[Entry]) -> tuple[Entry | None, float]:
    wanted = content_words(draft.content)
    best, most = None, 0.0
    for each in entries:
        near = likeness(wanted, content_words(each.content))
        if near > most:
            best, most = each, near
    return best, most
