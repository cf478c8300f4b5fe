"""The events of knowledge entries, and their stored names. Each scope of a tenant has its own stream.

``at`` is the recording time in µs of UTC, and never decreases within a stream; ``write`` identifies the command that
caused an event, and is the unit of undo.
"""

from collections.abc import Callable, Mapping
from typing import Any
from uuid import UUID

import attrs

from mnemosyne.domain.knowledge.kinds import EndReason, EntryKind, EntrySource, OwnerProof, Scope


@attrs.frozen(kw_only=True)
class Provenance:
    """The source of an entry: session, branch and turn, the object that contains the text, and in a prompt its ``span``
    in characters, the end excluded.
    """

    session: UUID
    branch: str
    turn: int
    object: str | None = None
    span: tuple[int, int] | None = None


@attrs.frozen(kw_only=True)
class KnowledgeOpened:
    """The first event of a stream: the owner of its entries. ``key`` names the project or the folder; empty for the
    scopes that exist once per tenant.
    """

    at: int
    tenant: str
    scope: Scope
    key: str


@attrs.frozen(kw_only=True)
class OfWrite:
    """The first fields of an event or command."""

    at: int
    write: str


@attrs.frozen(kw_only=True)
class OfEntry(OfWrite):
    """The first fields of an event about an entry."""

    entry: str


@attrs.frozen(kw_only=True)
class EntryWritten(OfEntry):
    """An entry, true from ``valid_from`` on. ``confidence`` is None if it was stated explicitly, else 0 to 1: such an
    entry is unconfirmed until an EntryConfirmed.

    ``content`` is one line; ``summary`` a shorter line that is shown instead of it; ``detail`` is shown only on
    request. ``replaces`` is the entry that it replaces.
    """

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
class EntryEnded(OfEntry):
    """An entry is true up to, not including, ``valid_until``."""

    valid_until: int
    reason: EndReason


@attrs.frozen(kw_only=True)
class EntryConfirmed(OfEntry):
    """An entry was confirmed as true."""


@attrs.frozen(kw_only=True)
class EntriesLinked(OfEntry):
    """Two entries were linked by a ``relation``."""

    other: str
    relation: str


@attrs.frozen(kw_only=True)
class WriteUndone(OfWrite):
    """The write ``undone`` was undone, as if it had never happened."""

    undone: str


@attrs.frozen(kw_only=True)
class EntryErased(OfEntry):
    """The text of an entry was erased from the log; its events stay."""


@attrs.frozen(kw_only=True)
class CredentialAdmitted(OfWrite):
    """Requests with this credential may read a tenant's memory and add to it. Recorded in the stream of the scope
    ``user``. ``fingerprint`` is a keyed hash (``memory_key``): no part of the credential is stored.
    """

    fingerprint: str
    how: OwnerProof


@attrs.frozen(kw_only=True)
class CredentialDismissed(OfWrite):
    """Requests with this credential may no longer do so."""

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
    "knowledge.entry_written.v2": EntryWritten,
    "knowledge.entry_ended.v1": EntryEnded,
    "knowledge.entry_confirmed.v1": EntryConfirmed,
    "knowledge.entries_linked.v1": EntriesLinked,
    "knowledge.write_undone.v1": WriteUndone,
    "knowledge.entry_erased.v1": EntryErased,
    "knowledge.credential_admitted.v1": CredentialAdmitted,
    "knowledge.credential_dismissed.v1": CredentialDismissed,
}
"""The stored name of each event. A name never changes."""


def _without_span(written: dict[str, Any]) -> dict[str, Any]:
    """Upcast an entry whose source has no span."""
    source = written["provenance"]
    return {**written, "provenance": {**source, "span": None} if source else None}


KNOWLEDGE_UPCASTS: Mapping[str, tuple[str, Callable[[dict[str, Any]], dict[str, Any]]]] = {
    "knowledge.entry_written.v1": ("knowledge.entry_written.v2", _without_span)
}
"""As ``session.events.EVENT_UPCASTS``."""


def redact_entries(event: KnowledgeEvent, entries: frozenset[str]) -> KnowledgeEvent:
    """The event without the text of these entries; idempotent."""
    if isinstance(event, EntryWritten) and event.entry in entries:
        return attrs.evolve(event, content="", summary="", detail="")
    return event
