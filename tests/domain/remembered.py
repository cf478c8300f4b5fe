"""Memories for tests: objects and what happened to them, in a branch called main."""

from functools import reduce
from typing import Any

import attrs
from hypothesis import strategies as st

from mnemosyne.domain.objects import memory
from mnemosyne.domain.objects.events import (
    Admission,
    BlockPlace,
    FaultKind,
    Link,
    LinkRelation,
    Losses,
    ObjectCreated,
    ObjectDegraded,
    ObjectEvent,
    ObjectFaulted,
    ObjectForgotten,
    ObjectLinked,
    ObjectPinned,
    ObjectReleased,
    ObjectRequested,
    ObjectRestored,
    ObjectSummarized,
    ObjectSuperseded,
    ObjectUnpinned,
    Supersession,
)
from mnemosyne.domain.objects.fidelity import Cause, Fidelity
from mnemosyne.domain.objects.kinds import ObjectKind, Role
from mnemosyne.domain.objects.memory import Memory
from mnemosyne.domain.wire import recipe

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


NOTHING = recipe.encode(recipe.change_of(0, (), 0))


def made(object_id: str, *messages: int, branch: str = BRANCH, **fields: Any) -> ObjectCreated:
    """The output of a command, an object of the first blocks of some messages."""
    turn = messages[-1] // 2 + 1 if messages else 1
    known: dict[str, Any] = {"at": 1, "branch": branch, "turn": turn, "first_turn": turn, "last_turn": turn}
    known |= {"kind": ObjectKind.TOOL_RESULT, "source_tool": "Bash", "source_key": "ls", "tags": ()}
    known |= {"places": tuple(BlockPlace(message, 0) for message in messages), "content": NOTHING, "size": 400}
    known |= {"tokens": 100, "stub": f"stub of {object_id}", "stub_tokens": 5, "key_entities": (object_id,)}
    return created(object_id, **known | fields)


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
        why=None,
    )


def remembered(*events: ObjectEvent, before: Memory | None = None) -> Memory:
    return reduce(memory.evolve, events, before or Memory())


def about(object_id: str) -> list[ObjectEvent]:
    """One event of each kind but the first."""
    where: dict[str, Any] = {"at": 2, "object": object_id, "branch": "main", "turn": 3}
    full, stub = Fidelity.FULL, Fidelity.STUB
    return [
        attrs.evolve(summarized(object_id, Fidelity.COMPACT, 10), at=2, text=bytes(32)),
        ObjectDegraded(**where, before=full, after=stub, cause=Cause.PRESSURE),
        ObjectRestored(**where, before=stub, after=full, cause=Cause.FAULT),
        ObjectFaulted(
            **where, kind=FaultKind.MICRO, reason="r", distance=1, tokens=9, avoided_tokens=91, latency=1, why=None
        ),
        ObjectPinned(at=2, object=object_id, reason="r", until_turn=9),
        ObjectPinned(at=2, object=object_id, branch="main", reason="b", until_turn=9),
        ObjectUnpinned(at=2, object=object_id, reason="r"),
        ObjectReleased(**where, reason="r"),
        ObjectRequested(**where, after=full, reason="r"),
        ObjectSuperseded(at=2, object=object_id, branch="main", by=None, how=Supersession.EDITED),
        ObjectLinked(at=2, object=object_id, link=Link(LinkRelation.REFERENCES, "c")),
        ObjectForgotten(at=2, object=object_id, reason="r"),
    ]


histories = st.lists(st.sampled_from(["a", "b"]).flatmap(lambda each: st.sampled_from(about(each))), max_size=12)
"""What may happen to the objects ``a`` and ``b``, in any order."""
