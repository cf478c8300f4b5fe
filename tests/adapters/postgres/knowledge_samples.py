"""An event of each stored name of what is known beyond sessions, as its golden file means it."""

from collections.abc import Mapping
from uuid import UUID

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

AT = 1_790_000_000_000_000
SESSION = UUID("2510e41f-e2bc-56a3-8d5f-6cd9f1b8ce50")

KNOWLEDGE_SAMPLES: Mapping[str, KnowledgeEvent] = {
    "knowledge.opened.v1": KnowledgeOpened(at=AT, tenant="local", scope=Scope.PROJECT, key="github.com/ada/app"),
    "knowledge.entry_written.v1": EntryWritten(
        at=AT,
        write="5f0c1a2b",
        entry="k0123abcd9",
        kind=EntryKind.DECISION,
        content="The event log is PostgreSQL's",
        summary="",
        detail="SQLite was tried first",
        source=EntrySource.EXTRACTED,
        confidence=0.8,
        valid_from=AT - 1,
        replaces="k99887766f",
        provenance=Provenance(session=SESSION, branch="main", turn=3, object="k7m2qpd"),
    ),
    "knowledge.entry_ended.v1": EntryEnded(
        at=AT, write="5f0c1a2b", entry="k99887766f", valid_until=AT - 1, reason=EndReason.REPLACED
    ),
    "knowledge.entry_confirmed.v1": EntryConfirmed(at=AT + 1, write="5f0c1a2c", entry="k0123abcd9"),
    "knowledge.entries_linked.v1": EntriesLinked(
        at=AT + 2, write="5f0c1a2d", entry="k0123abcd9", other="k5544332211", relation="because of"
    ),
    "knowledge.write_undone.v1": WriteUndone(at=AT + 3, write="5f0c1a2e", undone="5f0c1a2b"),
    "knowledge.entry_erased.v1": EntryErased(at=AT + 4, write="5f0c1a2f", entry="k0123abcd9"),
    "knowledge.credential_admitted.v1": CredentialAdmitted(
        at=AT + 5, write="5f0c1a30", fingerprint="0f1e2d3c4b5a69788796a5b4c3d2e1f0", how=OwnerProof.PRESENTED
    ),
    "knowledge.credential_dismissed.v1": CredentialDismissed(
        at=AT + 6, write="5f0c1a31", fingerprint="0f1e2d3c4b5a69788796a5b4c3d2e1f0"
    ),
}
