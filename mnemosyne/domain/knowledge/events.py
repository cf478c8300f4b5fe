"""What is recorded of an entry, and under which names. Each scope of a tenant has a stream of its own.

``at`` is when something was recorded, in µs of UTC, and never goes back within a stream; ``write`` names the one
command that an event belongs to, so that it can be undone as one.
"""

from collections.abc import Mapping
from uuid import UUID

import attrs

from mnemosyne.domain.knowledge.kinds import EndReason, EntryKind, EntrySource, OwnerProof, Scope


@attrs.frozen(kw_only=True)
class Provenance:
    """Where an entry was said: the session, its branch and turn, and the object of it that holds the words."""

    session: UUID
    branch: str
    turn: int
    object: str | None = None


@attrs.frozen(kw_only=True)
class KnowledgeOpened:
    """The first event of a stream: whose entries it holds. ``key`` names the project or the folder; empty for the
    scopes that a tenant has once.
    """

    at: int
    tenant: str
    scope: Scope
    key: str


@attrs.frozen(kw_only=True)
class EntryWritten:
    """An entry, true from ``valid_from`` on. ``confidence`` is None where somebody said it outright, else 0 to 1.

    ``content`` is one line; ``summary`` a shorter one that is shown instead of it; ``detail`` is shown only to who asks
    for it. ``replaces`` is the entry whose place it takes.
    """

    at: int
    write: str
    entry: str
    kind: EntryKind
    content: str
    summary: str
    detail: str
    source: EntrySource
    confidence: float | None
    valid_from: int
    replaces: str | None
    provenance: Provenance | None


@attrs.frozen(kw_only=True)
class EntryEnded:
    """An entry is true up to, not including, ``valid_until``."""

    at: int
    write: str
    entry: str
    valid_until: int
    reason: EndReason


@attrs.frozen(kw_only=True)
class EntryConfirmed:
    """Somebody said that an entry is still true."""

    at: int
    write: str
    entry: str


@attrs.frozen(kw_only=True)
class EntriesLinked:
    """Two entries have to do with each other, in the way that ``relation`` says."""

    at: int
    write: str
    entry: str
    other: str
    relation: str


@attrs.frozen(kw_only=True)
class WriteUndone:
    """All that the write ``undone`` did is taken back, as if it had not been."""

    at: int
    write: str
    undone: str


@attrs.frozen(kw_only=True)
class EntryErased:
    """The words of an entry are gone from the log; that there was one stays."""

    at: int
    write: str
    entry: str


@attrs.frozen(kw_only=True)
class CredentialAdmitted:
    """Requests with this credential may read a tenant's memory and add to it. Stands in the stream of the scope
    ``user``. ``fingerprint`` is keyed (``memory_key``): nothing of the credential is stored.
    """

    at: int
    write: str
    fingerprint: str
    how: OwnerProof


@attrs.frozen(kw_only=True)
class CredentialDismissed:
    """Requests with this credential may do so no longer."""

    at: int
    write: str
    fingerprint: str


KnowledgeEvent = (
    KnowledgeOpened
    | EntryWritten
    | EntryEnded
    | EntryConfirmed
    | EntriesLinked
    | WriteUndone
    | EntryErased
    | CredentialAdmitted
    | CredentialDismissed
)

OPENED = "knowledge.opened.v1"

KNOWLEDGE_EVENT_NAMES: Mapping[str, type[KnowledgeEvent]] = {
    OPENED: KnowledgeOpened,
    "knowledge.entry_written.v1": EntryWritten,
    "knowledge.entry_ended.v1": EntryEnded,
    "knowledge.entry_confirmed.v1": EntryConfirmed,
    "knowledge.entries_linked.v1": EntriesLinked,
    "knowledge.write_undone.v1": WriteUndone,
    "knowledge.entry_erased.v1": EntryErased,
    "knowledge.credential_admitted.v1": CredentialAdmitted,
    "knowledge.credential_dismissed.v1": CredentialDismissed,
}
"""The stored name of each event: ours, and for ever."""


def redact_entries(event: KnowledgeEvent, entries: frozenset[str]) -> KnowledgeEvent:
    """The event without the words of these entries; to do it again changes nothing."""
    if isinstance(event, EntryWritten) and event.entry in entries:
        return attrs.evolve(event, content="", summary="", detail="")
    return event
