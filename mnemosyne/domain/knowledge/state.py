"""The state of knowledge: the bitemporal fold of a stream of entries.

An entry has a valid time, from ``valid_from`` up to, not including, ``valid_until``, and the recording time of its
event. So "true at that time" and "known at that time" are two questions.
"""

from collections.abc import Iterable, Mapping
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
from mnemosyne.domain.knowledge.kinds import EndReason, EntryKind, EntrySource, OwnerProof

DAY = 24 * 60 * 60 * 1_000_000
HALF_LIFE = 180 * DAY
"""Time, in µs, in which belief in an extracted entry halves."""

FLOOR = 0.7
"""Minimum belief for inserting a confirmed entry; others are returned only on request."""

MOST_PRESENTED = 64
"""Maximum number of credentials admitted with the owner's token; a subscription has several a day."""


@attrs.frozen(kw_only=True)
class Entry:
    """An entry; fields as in the events. ``valid_until`` is None while it is valid."""

    id: str
    kind: EntryKind
    content: str
    summary: str
    detail: str
    source: EntrySource
    confidence: float | None
    valid_from: int
    recorded_at: int
    write: str
    valid_until: int | None = None
    ended: EndReason | None = None
    ended_by: str | None = None
    confirmed_at: int | None = None
    replaces: str | None = None
    replaced_by: str | None = None
    provenance: Provenance | None = None
    links: tuple[tuple[str, str], ...] = ()
    erased: bool = False

    @property
    def is_explicit(self) -> bool:
        """Whether a person or an agent stated it explicitly."""
        return self.confidence is None

    @property
    def is_confirmed(self) -> bool:
        """Whether it was stated explicitly, or confirmed since."""
        return self.is_explicit or self.confirmed_at is not None

    @property
    def trashed_at(self) -> int | None:
        """Since when it is in the trash; None if it is not."""
        return self.valid_until if self.ended is EndReason.TRASHED and not self.erased else None

    @property
    def is_hidden(self) -> bool:
        """Whether no list and no search shows it: it was erased, or is in the trash."""
        return self.erased or self.trashed_at is not None

    @property
    def line(self) -> str:
        """The line that is shown."""
        return self.summary or self.content

    def is_valid(self, at: int) -> bool:
        """Whether it is true at a time."""
        return self.valid_from <= at and (self.valid_until is None or at < self.valid_until) and not self.is_hidden

    def is_trusted(self, at: int) -> bool:
        """Whether sessions may get it without asking."""
        return self.is_confirmed and self.belief(at) >= FLOOR

    def belief(self, at: int) -> float:
        """The belief in it at a time: 1 for an explicit entry, else decaying since it was recorded, or from 1 since it
        was confirmed. Reading an entry does not confirm it.
        """
        if self.confidence is None:
            return 1.0
        begins, since = (self.confidence, self.recorded_at) if self.confirmed_at is None else (1.0, self.confirmed_at)
        return float(begins * 0.5 ** (max(0, at - since) / HALF_LIFE))


@attrs.frozen(kw_only=True)
class WriteRecord:
    """One write that can be undone: the entries that it wrote and ended, and those that it confirmed, each with the
    time of its earlier confirmation. ``events`` are its events.
    """

    id: str
    at: int
    events: tuple[EntryWritten | EntryEnded | EntryConfirmed, ...] = ()
    made: tuple[str, ...] = ()
    ended: tuple[str, ...] = ()
    confirmed: tuple[tuple[str, int | None], ...] = ()


@attrs.frozen(kw_only=True)
class Knowledge:
    """The state of one stream. ``entries`` are by id, in the order in which they were recorded."""

    opened: KnowledgeOpened | None = None
    version: int = 0
    last_at: int = 0
    entries: Mapping[str, Entry] = attrs.field(factory=dict)
    writes: Mapping[str, WriteRecord] = attrs.field(factory=dict)
    undone: Mapping[str, WriteRecord] = attrs.field(factory=dict)
    """Undone writes by the write that undid each: undoing that one redoes them."""
    admitted: Mapping[str, CredentialAdmitted] = attrs.field(factory=dict)
    """By fingerprint, oldest first; of credentials with proof PRESENTED only the last ``MOST_PRESENTED``."""
    has_owner: bool = False
    """Whether a credential was ever admitted."""

    def valid(self, at: int) -> list[Entry]:
        """The entries that are true at a time."""
        return [each for each in self.entries.values() if each.is_valid(at)]

    def standing(self, at: int) -> list[Entry]:
        """The entries that are or will be true at a time: those that have not ended before it."""
        return [
            each
            for each in self.entries.values()
            if not each.erased and (each.valid_until is None or at < each.valid_until)
        ]


def fold(events: Iterable[KnowledgeEvent], known: Knowledge | None = None) -> Knowledge:
    """The state after events."""
    known, events = known or Knowledge(), list(events)
    folding = _Folding(known)
    for event in events:
        folding.take(event)
    return Knowledge(
        opened=next((event for event in events if isinstance(event, KnowledgeOpened)), known.opened),
        version=known.version + len(events),
        last_at=max([known.last_at, *(event.at for event in events)]),
        entries=folding.entries,
        writes=folding.writes,
        undone=folding.undone,
        admitted=folding.admitted,
        has_owner=known.has_owner or any(isinstance(event, CredentialAdmitted) for event in events),
    )


def fold_up_to(events: Iterable[KnowledgeEvent], at: int) -> Knowledge:
    """The knowledge at a time: the fold of the events recorded up to then."""
    return fold(event for event in events if event.at <= at)


class _Folding:
    """One pass over events. Dictionaries are copied once, not for every event."""

    def __init__(self, known: Knowledge) -> None:
        self.entries = dict(known.entries)
        self.writes = dict(known.writes)
        self.undone = dict(known.undone)
        self.admitted = dict(known.admitted)
        self._has_links = any(each.links for each in known.entries.values())

    def take(self, event: KnowledgeEvent) -> None:
        match event:
            case KnowledgeOpened():
                pass
            case EntryWritten() | EntryEnded() | EntryConfirmed():
                self._take_entry(event)
            case EntriesLinked():
                entry = self.entries[event.entry]
                self._has_links = True
                self._change(event.entry, links=(*entry.links, (event.relation, event.other)))
            case WriteUndone() if event.undone in self.undone:
                for each in self.undone.pop(event.undone).events:
                    self._take_entry(attrs.evolve(each, at=event.at, write=event.write))
            case WriteUndone():
                self.undone[event.write] = self.writes.pop(event.undone)
                self._undo(self.undone[event.write])
            case EntryErased() if event.entry in self.entries:
                self._change(event.entry, erased=True, content="", summary="", detail="")
            case EntryErased():
                self.undone = {write: each for write, each in self.undone.items() if event.entry not in each.made}
            case CredentialAdmitted():
                self._admit(event)
            case CredentialDismissed():
                self.admitted.pop(event.fingerprint, None)

    def _admit(self, event: CredentialAdmitted) -> None:
        self.admitted.pop(event.fingerprint, None)
        self.admitted[event.fingerprint] = event
        presented = [name for name, each in self.admitted.items() if each.how is OwnerProof.PRESENTED]
        for name in presented[:-MOST_PRESENTED]:
            del self.admitted[name]

    def _take_entry(self, event: EntryWritten | EntryEnded | EntryConfirmed) -> None:
        record = self.writes.get(event.write, WriteRecord(id=event.write, at=event.at))
        record = attrs.evolve(record, events=(*record.events, event))
        match event:
            case EntryWritten():
                self._write(event)
                record = attrs.evolve(record, made=(*record.made, event.entry))
            case EntryEnded():
                self._change(event.entry, valid_until=event.valid_until, ended=event.reason, ended_by=event.write)
                record = attrs.evolve(record, ended=(*record.ended, event.entry))
            case EntryConfirmed():
                before = (event.entry, self.entries[event.entry].confirmed_at)
                record = attrs.evolve(record, confirmed=(*record.confirmed, before))
                self._change(event.entry, confirmed_at=event.at)
        self.writes[event.write] = record

    def _write(self, event: EntryWritten) -> None:
        fields = attrs.asdict(event, recurse=False)
        self.entries[event.entry] = Entry(id=fields.pop("entry"), recorded_at=fields.pop("at"), **fields)
        if event.replaces is not None:
            self._change(event.replaces, replaced_by=event.entry)
            self._hand_over_links(event.replaces, event.entry)

    def _undo(self, record: WriteRecord) -> None:
        for made in record.made:
            replaced = self.entries.pop(made).replaces
            if replaced is not None:
                self._change(replaced, replaced_by=None)
                self._hand_over_links(made, replaced)
        for confirmed, before in record.confirmed:
            if confirmed in self.entries:  # another undo may have removed it since
                self._change(confirmed, confirmed_at=before)
        for ended in record.ended:
            self._change(ended, valid_until=None, ended=None, ended_by=None)

    def _hand_over_links(self, before: str, after: str) -> None:
        """Move links to and from an entry to its replacement."""
        if not self._has_links:
            return
        if before in self.entries:
            self._change(after, links=self.entries[before].links)
        for each in list(self.entries.values()):
            if any(other == before for _, other in each.links):
                links = tuple((relation, after if other == before else other) for relation, other in each.links)
                self._change(each.id, links=links)

    def _change(self, entry: str, **fields: Any) -> None:
        self.entries[entry] = attrs.evolve(self.entries[entry], **fields)
