"""Objects and their events for tests."""

from typing import Any

from hypothesis import strategies as st

from mnemosyne.domain.objects.events import (
    Admission,
    BlockPlace,
    FaultKind,
    Losses,
    ObjectCreated,
    ObjectDegraded,
    ObjectEvent,
    ObjectFaulted,
    ObjectForgotten,
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
from mnemosyne.domain.wire import recipe

NOTHING = recipe.encode(recipe.change_of(0, (), 0))


def made(object_id: str, *messages: int, branch: str = "main", **fields: Any) -> ObjectCreated:
    """An object of the first blocks of some messages."""
    turn = messages[-1] // 2 + 1 if messages else 1
    known: dict[str, Any] = {
        "at": 1,
        "object": object_id,
        "branch": branch,
        "turn": turn,
        "kind": ObjectKind.TOOL_RESULT,
        "role": Role.TRANSCRIPT,
        "source_tool": "Bash",
        "source_key": "ls",
        "tags": (),
        "first_turn": turn,
        "last_turn": turn,
        "places": tuple(BlockPlace(message, 0) for message in messages),
        "content": NOTHING,
        "size": 400,
        "tokens": 100,
        "stub": f"stub of {object_id}",
        "stub_tokens": 5,
        "key_entities": (object_id,),
        "links": (),
        "admission": Admission(type_prior=1, novelty=1, utility=1, recency=1, score=1, admitted=True),
    }
    return ObjectCreated(**known | fields)


def about(object_id: str) -> list[ObjectEvent]:
    """One event of each kind but the first."""
    where: dict[str, Any] = {"at": 2, "object": object_id, "branch": "main", "turn": 3}
    full, stub = Fidelity.FULL, Fidelity.STUB
    return [
        ObjectSummarized(
            at=2,
            object=object_id,
            fidelity=Fidelity.COMPACT,
            text=bytes(32),
            size=40,
            tokens=10,
            helper="h",
            losses=Losses(),
            nanodollars=0,
        ),
        ObjectDegraded(**where, before=full, after=stub, cause=Cause.PRESSURE),
        ObjectRestored(**where, before=stub, after=full, cause=Cause.FAULT),
        ObjectFaulted(**where, kind=FaultKind.MICRO, reason="r", distance=1, tokens=9, avoided_tokens=91, latency=1),
        ObjectPinned(at=2, object=object_id, reason="r", until_turn=9),
        ObjectUnpinned(at=2, object=object_id, reason="r"),
        ObjectReleased(**where, reason="r"),
        ObjectRequested(**where, after=full, reason="r"),
        ObjectSuperseded(at=2, object=object_id, branch="main", by=None, how=Supersession.EDITED),
        ObjectForgotten(at=2, object=object_id, reason="r"),
    ]


histories = st.lists(st.sampled_from(["a", "b"]).flatmap(lambda each: st.sampled_from(about(each))), max_size=12)
"""What may happen to the objects ``a`` and ``b``, in any order."""
