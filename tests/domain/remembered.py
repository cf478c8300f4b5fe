"""Memories for tests: objects and what happened to them, in a branch called main."""

from functools import reduce
from typing import Any

import attrs

from mnemosyne.domain.objects import memory
from mnemosyne.domain.objects.events import (
    Admission,
    BlockPlace,
    FaultKind,
    Losses,
    ObjectCreated,
    ObjectDegraded,
    ObjectEvent,
    ObjectFaulted,
    ObjectSummarized,
    ObjectSuperseded,
    Supersession,
)
from mnemosyne.domain.objects.fidelity import Cause, Fidelity
from mnemosyne.domain.objects.kinds import ObjectKind, Role
from mnemosyne.domain.objects.memory import Memory

BRANCH = "main"
_READ = ObjectCreated(
    at=0,
    object="",
    branch=BRANCH,
    turn=1,
    kind=ObjectKind.FILE_CONTEXT,
    role=Role.TRANSCRIPT,
    source_tool="Read",
    source_key="src/a.py",
    tags=("read", "whole"),
    first_turn=1,
    last_turn=1,
    places=(BlockPlace(1, 0), BlockPlace(2, 0)),
    content=b"",
    size=4_000,
    tokens=1_000,
    stub="Read src/a.py (100 lines, 4 KB)",
    stub_tokens=20,
    key_entities=(),
    links=(),
    admission=Admission(type_prior=0, novelty=0, utility=0, recency=0, score=0, admitted=True),
)


def created(object_id: str, message: int = 1, **changes: Any) -> ObjectCreated:
    """A file that was read whole by the call in a message, unless something else is said of it."""
    places = (BlockPlace(message, 0), BlockPlace(message + 1, 0))
    turn = message // 2 + 1
    base = attrs.evolve(_READ, object=object_id, turn=turn, first_turn=turn, last_turn=turn, places=places)
    return attrs.evolve(base, **changes)


def degraded(object_id: str, after: Fidelity, turn: int = 10, before: Fidelity = Fidelity.FULL) -> ObjectDegraded:
    return ObjectDegraded(
        at=0, object=object_id, branch=BRANCH, turn=turn, before=before, after=after, cause=Cause.PRESSURE
    )


def summarized(object_id: str, fidelity: Fidelity, tokens: int) -> ObjectSummarized:
    return ObjectSummarized(
        at=0,
        object=object_id,
        fidelity=fidelity,
        text=b"",
        size=4 * tokens,
        tokens=tokens,
        helper="h",
        losses=Losses(),
        nanodollars=0,
    )


def superseded(object_id: str, how: Supersession, by: str | None = None) -> ObjectSuperseded:
    return ObjectSuperseded(at=0, object=object_id, branch=BRANCH, by=by, how=how)


def faulted(object_id: str, turn: int, kind: FaultKind = FaultKind.EXPLICIT, branch: str = BRANCH) -> ObjectFaulted:
    return ObjectFaulted(
        at=0,
        object=object_id,
        branch=branch,
        turn=turn,
        kind=kind,
        reason="",
        distance=1,
        tokens=1,
        avoided_tokens=0,
        latency=0,
    )


def remembered(*events: ObjectEvent, before: Memory | None = None) -> Memory:
    return reduce(memory.evolve, events, before or Memory())
