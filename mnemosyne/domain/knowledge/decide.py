"""Decide commands on knowledge entries: the only module that makes their events.

An entry never changes: an update ends it and writes its replacement, in one append. An unconfirmed entry never
replaces a confirmed one.
"""

from base64 import b32encode
from collections.abc import Sequence
from hashlib import sha256
from typing import Any

import attrs

from mnemosyne.domain.knowledge.entry_text import clean_content, clean_detail, is_same
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
    OfWrite,
    Provenance,
    WriteUndone,
)
from mnemosyne.domain.knowledge.kinds import EndReason, EntryKind, EntrySource, OwnerProof, Scope
from mnemosyne.domain.knowledge.prompts import LearnedFact, SubmittedPrompt
from mnemosyne.domain.knowledge.state import Entry, Knowledge, fold
from mnemosyne.errors import BadEntry, NotFound

MOST_ENTRIES = 10_000
"""Limit on the valid entries of one place: each session's first request searches all of them."""

MOST_UNCONFIRMED = 1_000
"""Limit on those of them that are unconfirmed, so that pasted text leaves room for the user's own entries."""

MOST_FACTS = 20
"""Limit on the claims that are learned from one prompt."""

LEARNED = 0.5
"""The confidence in a claim of a prompt."""

CORRECTS = "corrects"
"""The link from an unconfirmed entry to a confirmed one that it replaces once it is confirmed."""


def _storable(key: str) -> str:
    """A key that the log can store: the name of a folder that is not UTF-8 contains lone surrogates."""
    return key.encode("utf-8", "backslashreplace").decode()


@attrs.frozen
class Place:
    """The tenant, scope and key of a stream of entries; fields as in KnowledgeOpened."""

    tenant: str
    scope: Scope
    key: str = attrs.field(default="", converter=_storable)


def places_of(tenant: str, project: str | None, folder: str | None) -> tuple[Place, ...]:
    """All places visible from a folder of a project, nearest first."""
    near = [(Scope.SANDBOX, folder), (Scope.PROJECT, project)]
    named = [Place(tenant, scope, key) for scope, key in near if key]
    return (*named, Place(tenant, Scope.USER), Place(tenant, Scope.GLOBAL))


@attrs.frozen(kw_only=True)
class EntryDraft:
    """An entry to write; fields as in EntryWritten. ``valid_from`` defaults to now."""

    kind: EntryKind
    content: str
    source: EntrySource
    summary: str = ""
    detail: str = ""
    confidence: float | None = None
    valid_from: int | None = None
    provenance: Provenance | None = None


@attrs.frozen(kw_only=True)
class RememberEntry(OfWrite):
    """Write an entry."""

    draft: EntryDraft


@attrs.frozen(kw_only=True)
class LearnFacts(OfWrite):
    """Learn claims from a ``prompt``; None: from an explicit act. ``commanded``: the prompt is a command to remember
    them.
    """

    facts: Sequence[LearnedFact]
    prompt: SubmittedPrompt | None = None
    commanded: bool = False


@attrs.frozen(kw_only=True)
class _WriteOfEntry(OfWrite):
    """A command about the entry ``wanted``: its id, or words that only it contains."""

    wanted: str


@attrs.frozen(kw_only=True)
class UpdateEntry(_WriteOfEntry):
    """Replace the entry ``wanted`` from ``valid_from`` on (None: from now on)."""

    content: str
    source: EntrySource
    detail: str | None = None
    valid_from: int | None = None
    provenance: Provenance | None = None


@attrs.frozen(kw_only=True)
class ForgetEntry(_WriteOfEntry):
    """End the entry. It stays in the log."""


@attrs.frozen(kw_only=True)
class TrashEntry(_WriteOfEntry):
    """Put the entry into the trash. Undoing this write takes it out."""


@attrs.frozen(kw_only=True)
class ConfirmEntry(_WriteOfEntry):
    """Confirm that the entry is true. Only a person can confirm one that was never confirmed."""

    source: EntrySource = EntrySource.USER


@attrs.frozen(kw_only=True)
class LinkEntries(_WriteOfEntry):
    """Link two entries."""

    other: str
    relation: str


@attrs.frozen(kw_only=True)
class UndoWrite(WriteUndone):
    """Undo a write, or redo the write that the write ``undone`` undid."""


@attrs.frozen(kw_only=True)
class EraseEntries(OfWrite):
    """Erase the text of these entries, valid or not."""

    entries: tuple[str, ...]


@attrs.frozen(kw_only=True)
class AdmitCredential(CredentialAdmitted):
    """Admit a credential as the memory owner's; as ``FIRST`` only if nothing is recorded in this place."""


@attrs.frozen(kw_only=True)
class DismissCredential(_WriteOfEntry):
    """Dismiss the owner's credential whose fingerprint begins with ``wanted``."""


KnowledgeCommand = (
    RememberEntry
    | LearnFacts
    | UpdateEntry
    | ForgetEntry
    | TrashEntry
    | ConfirmEntry
    | LinkEntries
    | UndoWrite
    | EraseEntries
    | AdmitCredential
    | DismissCredential
)


@attrs.frozen
class WriteOutcome:
    """The outcome of a command: its events, the entry that it is about, and ``what`` was done with it: ``added``,
    ``updated``, ``skipped``, ``forgotten``, ``trashed``, ``confirmed``, ``linked``, ``undone``, ``redone``,
    ``erased``, ``admitted`` or ``dismissed``.
    """

    what: str
    events: tuple[KnowledgeEvent, ...] = ()
    entry: str | None = None
    why: str = ""


def decide(command: KnowledgeCommand, known: Knowledge, place: Place) -> WriteOutcome:
    """Decide a command. Raises NotFound if it does not identify exactly one entry; BadEntry for an invalid text."""
    at = max(command.at, known.last_at)  # a clock that went back must not change past states
    decided = _decide(attrs.evolve(command, at=at), known)
    if known.opened is None and decided.events:
        opened = KnowledgeOpened(at=at, tenant=place.tenant, scope=place.scope, key=place.key)
        return attrs.evolve(decided, events=(opened, *decided.events))
    return decided


def _decide(command: KnowledgeCommand, known: Knowledge) -> WriteOutcome:
    match command:
        case RememberEntry():
            return _remember(command.draft, known, command.at, command.write)
        case LearnFacts():
            return _learn(command, known)
        case UpdateEntry():
            return _update(command, known)
        case ForgetEntry() | TrashEntry():
            found = find_entry(known, command.wanted, command.at)
            reason = EndReason.TRASHED if isinstance(command, TrashEntry) else EndReason.FORGOTTEN
            ended = _end(found, command.at, command.write, command.at, reason)
            return WriteOutcome(reason.value, (ended,), found.id)
        case ConfirmEntry():
            found = find_entry(known, command.wanted, command.at)
            if command.source is not EntrySource.USER and not found.is_confirmed:
                raise BadEntry(f"Only the user can confirm this entry: `mnemosyne memory confirm {found.id}`.")
            return _confirm(found, known, command.at, command.write)
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


# Credentials


def _admit(command: AdmitCredential, known: Knowledge) -> WriteOutcome:
    before = known.admitted.get(command.fingerprint)
    if before is not None and (before.how is command.how or command.how is OwnerProof.PRESENTED):
        return WriteOutcome("skipped", why="it is admitted already")
    if command.how is OwnerProof.FIRST and known.version:
        return WriteOutcome("skipped", why="the memory has an owner, or entries, already")
    return WriteOutcome("admitted", (CredentialAdmitted(**attrs.asdict(command)),))


def _dismiss(command: DismissCredential, known: Knowledge) -> WriteOutcome:
    meant = [each for each in known.admitted if command.wanted and each.startswith(command.wanted)]
    if len(meant) != 1:
        count = "No admitted credential has" if not meant else f"{len(meant)} admitted credentials have"
        raise NotFound(f"{count} a fingerprint that begins with {command.wanted!r}.")
    dismissed = CredentialDismissed(at=command.at, write=command.write, fingerprint=meant[0])
    return WriteOutcome("dismissed", (dismissed,))


# One entry


class SeveralFound(NotFound):
    """Several entries contain the words of a request, which does not say which of them it is about."""


def find_entry(known: Knowledge, wanted: str, at: int) -> Entry:
    """Find an entry that is or will be valid at a time: by its id, else by words that only it contains.

    Raises NotFound, and SeveralFound with the candidates.
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
    raise SeveralFound(f"{len(found)} entries have these words: {named}. Say which one by its id.")


def _shorten(text: str) -> str:
    return text if len(text) <= 60 else f"{text[:59]}\N{HORIZONTAL ELLIPSIS}"


def _remember(draft: EntryDraft, known: Knowledge, at: int, write: str) -> WriteOutcome:
    """Write an entry, unless it is known. A session's summary replaces an earlier session's; a delayed summary does not
    replace a later session's.
    """
    draft, standing = _clean(draft), known.standing(at)
    last = [each for each in standing if draft.kind is each.kind is EntryKind.SESSION_SUMMARY][-1:]
    equal = [
        each
        for each in standing
        if (each.kind is draft.kind or not each.is_confirmed) and is_same(each.content, draft.content)
    ]
    same = next(iter((*equal, *last)), None)
    if equal and same is not None and (same.is_explicit or draft.confidence is not None):
        return WriteOutcome("skipped", entry=same.id, why="it is known already")
    if last and draft.valid_from is not None and draft.valid_from < last[0].valid_from:
        return WriteOutcome("skipped", entry=last[0].id, why="a later session has been summarized")
    if same is not None:
        return _replace(same, draft, at, write)
    if len(standing) >= MOST_ENTRIES:
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
    return _replace(found, _clean(draft), command.at, command.write)


def _replace(found: Entry, draft: EntryDraft, at: int, write: str, number: int = 0) -> WriteOutcome:
    """End an entry at the beginning of its replacement. If that begins earlier, the entry was never true."""
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
"""Enough for distinct ids of 10,000 entries."""


def _clean(draft: EntryDraft) -> EntryDraft:
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


def _confirm(found: Entry, known: Knowledge, at: int, write: str) -> WriteOutcome:
    """Confirm an entry, and end those that it corrects."""
    corrected = [other for relation, other in found.links if relation == CORRECTS]
    ended = [
        _end(each, at, write, max(at, each.valid_from), EndReason.REPLACED)
        for each in known.standing(at)
        if each.id in corrected and not found.is_confirmed
    ]
    return WriteOutcome("confirmed", (EntryConfirmed(at=at, write=write, entry=found.id), *ended), found.id)


# Several entries


def _learn(command: LearnFacts, known: Knowledge) -> WriteOutcome:
    outcomes: list[WriteOutcome] = []
    for number, fact in enumerate(command.facts[:MOST_FACTS]):
        try:
            outcome = _learn_fact(fact, number, command, known)
        except BadEntry:
            continue  # nothing of it can be stored
        known = fold(outcome.events, known)
        outcomes.append(outcome)
    done = [each for each in outcomes if each.events]
    if not done:
        return WriteOutcome("skipped", entry=outcomes[0].entry if outcomes else None, why="nothing new was found")
    return attrs.evolve(done[0], events=tuple(event for each in done for event in each.events))


def _learn_fact(fact: LearnedFact, number: int, command: LearnFacts, known: Knowledge) -> WriteOutcome:
    prompt, at, write = command.prompt, command.at, command.write
    if prompt is not None and not prompt.has(fact):
        raise BadEntry("It is not in the prompt.")
    is_own = prompt is None or (command.commanded and prompt.is_typed(fact.start, fact.end))
    span = None if fact.proposed else (fact.start, fact.end)
    source = None if prompt is None else attrs.evolve(prompt.provenance, span=span)
    extracted = EntrySource.AGENT if fact.proposed else EntrySource.EXTRACTED
    draft = EntryDraft(
        kind=fact.kind,
        content=fact.text,
        detail="" if is_own or prompt is None else prompt.find_context(fact),
        source=EntrySource.USER if is_own else extracted,
        confidence=None if is_own else LEARNED,
        provenance=source,
    )
    draft, standing = _clean(draft), known.standing(at)
    same = next((each for each in standing if is_same(each.content, draft.content)), None)
    if same is not None:
        if same.is_confirmed:
            return WriteOutcome("skipped", entry=same.id)
        if is_own:
            return _replace(same, draft, at, write, number)
        if prompt is not None and _is_second(same, source) and prompt.confirms(fact, same.detail or same.content):
            return _confirm(same, known, at, write)
        return WriteOutcome("skipped")
    if source is not None and any(_overlaps(each.provenance, source) for each in standing):
        return WriteOutcome("skipped")
    unconfirmed = sum(not each.is_confirmed for each in standing)
    if len(standing) >= MOST_ENTRIES or (not is_own and unconfirmed >= MOST_UNCONFIRMED):
        return WriteOutcome("skipped")
    corrected = next((each for each in standing if each.id == fact.corrects), None)
    if corrected is not None and (is_own or not corrected.is_confirmed):
        return _replace(corrected, draft, at, write, number)
    written = _write(draft, write, at, number)
    if corrected is None:
        return WriteOutcome("added", (written,), written.entry)
    linked = EntriesLinked(at=at, write=write, entry=written.entry, other=corrected.id, relation=CORRECTS)
    return WriteOutcome("added", (written, linked), written.entry)


def _is_second(first: Entry, source: Provenance | None) -> bool:
    """Whether a claim comes from another session than an entry."""
    return source is not None and (first.provenance is None or first.provenance.session != source.session)


def _overlaps(one: Provenance | None, other: Provenance) -> bool:
    """Whether two entries come from the same words."""
    if one is None or one.span is None or other.span is None:
        return False
    if (one.session, one.branch, one.turn) != (other.session, other.branch, other.turn):
        return False
    return one.span[0] < other.span[1] and other.span[0] < one.span[1]


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


# Undo and erase


def _undo(command: UndoWrite, known: Knowledge) -> WriteOutcome:
    if command.undone in known.undone:
        return _redo(command, known)
    record = known.writes.get(command.undone)
    if record is None:
        raise NotFound(f"There is no write {command.undone!r} to undo; it may be undone already.")
    for made in record.made:
        entry = known.entries[made]
        if entry.ended_by is not None or entry.erased:
            by = "erased" if entry.erased else f"changed by the write {entry.ended_by}; undo that one first"
            raise NotFound(f"The entry {made} was since {by}.")
    undone = WriteUndone(**attrs.asdict(command))
    if record.ended:
        return WriteOutcome("undone", (undone,), record.ended[0], "it is active again")
    if record.made:
        return WriteOutcome("undone", (undone,), why=f"removed: {known.entries[record.made[0]].content}")
    return WriteOutcome("undone", (undone,), next(iter(dict(record.confirmed)), None), "it is unconfirmed again")


def _redo(command: UndoWrite, known: Knowledge) -> WriteOutcome:
    record = known.undone[command.undone]
    confirmed = [entry for entry, _ in record.confirmed if entry not in record.made]
    for each in (*record.ended, *confirmed):
        entry = known.entries.get(each)
        if entry is None or entry.erased or entry.ended_by is not None:
            raise NotFound(f"{each} was changed since, so the write cannot be redone.")
    redone = WriteUndone(**attrs.asdict(command))
    why = "" if record.made or not record.ended else "it has ended again"
    return WriteOutcome("redone", (redone,), next(iter((*record.made, *record.ended, *confirmed)), None), why)


def _erase(command: EraseEntries, known: Knowledge) -> WriteOutcome:
    undone = {each for record in known.undone.values() for each in record.made}
    unknown = [each for each in command.entries if each not in known.entries.keys() | undone]
    if unknown:
        raise NotFound(f"No entry has the id {unknown[0]!r}.")
    left = [each for each in command.entries if each not in known.entries or not known.entries[each].erased]
    erased = tuple(EntryErased(at=command.at, write=command.write, entry=each) for each in left)
    return WriteOutcome("erased", erased, why=f"{len(left)} of {len(command.entries)}")
