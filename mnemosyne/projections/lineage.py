"""Where each object comes from, what it is related to, and what became of it.

Columns hold no text of a conversation.
"""

from collections.abc import Sequence
from typing import Any, cast

from mnemosyne.domain.objects.events import (
    OBJECT_EVENT_NAMES,
    ObjectCreated,
    ObjectEvent,
    ObjectLinked,
    ObjectSuperseded,
    TurnAssessed,
)
from mnemosyne.domain.ports import Recorded
from mnemosyne.domain.session.events import Event
from mnemosyne.projections.projection import Merge, Projection, Query, Table, Type

OBJECTS = Table(
    "objects",
    key={"stream": Type.UUID, "object": Type.TEXT},
    columns={
        "version": Type.INTEGER,
        "made_at": Type.INTEGER,
        "branch": Type.TEXT,
        "turn": Type.INTEGER,
        "kind": Type.TEXT,
        "role": Type.TEXT,
        "first_turn": Type.INTEGER,
        "last_turn": Type.INTEGER,
        "tokens": Type.INTEGER,
        "admitted": Type.BOOLEAN,
        "superseded": Type.TEXT,
        "superseded_by": Type.TEXT,
    },
)

LINKS = Table(
    "links",
    key={"stream": Type.UUID, "object": Type.TEXT, "relation": Type.TEXT, "target": Type.TEXT},
    columns={"version": Type.INTEGER},
)

HISTORY = Table(
    "history",
    key={"stream": Type.UUID, "version": Type.INTEGER},
    columns={
        "at": Type.INTEGER,
        "object": Type.TEXT,
        "event": Type.TEXT,
        "branch": Type.TEXT,
        "turn": Type.INTEGER,
        "before": Type.INTEGER,
        "after": Type.INTEGER,
        "cause": Type.TEXT,
        "tokens": Type.INTEGER,
    },
)

ZONES = Table(
    "zones",
    key={"stream": Type.UUID, "branch": Type.TEXT, "turn": Type.INTEGER},
    columns={"zone": Type.TEXT, "tokens": Type.INTEGER},
)

_EVENTS = {kind.__name__: name.split(".")[1] for name, kind in OBJECT_EVENT_NAMES.items()}


def changes(recorded: Recorded) -> Sequence[Merge]:
    """The rows that an event changes."""
    stream, event = recorded.stream, cast("Event", recorded.envelope.event)
    if isinstance(event, TurnAssessed):
        return (Merge("zones", (stream, event.branch, event.turn), {"zone": event.zone, "tokens": event.tokens}),)
    if not isinstance(event, ObjectEvent):
        return ()
    happened = Merge("history", (stream, recorded.version), _happened(event))
    match event:
        case ObjectCreated():
            made = Merge("objects", (stream, event.object), _created(event, recorded.version))
            links = (_link(recorded, event.object, each.relation.value, each.target) for each in event.links)
            return (made, *links, happened)
        case ObjectLinked():
            return (_link(recorded, event.object, event.relation.value, event.target), happened)
        case ObjectSuperseded():
            by = {"superseded": event.how.value, "superseded_by": event.by}
            return (Merge("objects", (stream, event.object), by), happened)
        case _:
            return (happened,)


def _happened(event: ObjectEvent) -> dict[str, Any]:
    before, after, cause = (getattr(event, name, None) for name in ("before", "after", "cause"))
    return {
        "at": event.at,
        "object": event.object,
        "event": _EVENTS[type(event).__name__],
        "branch": getattr(event, "branch", None),
        "turn": getattr(event, "turn", None),
        "before": None if before is None else before.value,
        "after": None if after is None else after.value,
        "cause": None if cause is None else cause.value,
        "tokens": getattr(event, "tokens", None),
    }


def _created(event: ObjectCreated, version: int) -> dict[str, Any]:
    return {
        "version": version,
        "made_at": event.at,
        "branch": event.branch,
        "turn": event.turn,
        "kind": event.kind.value,
        "role": event.role.value,
        "first_turn": event.first_turn,
        "last_turn": event.last_turn,
        "tokens": event.tokens,
        "admitted": event.admission.admitted,
    }


def _link(recorded: Recorded, source: str, relation: str, target: str) -> Merge:
    return Merge("links", (recorded.stream, source, relation, target), {"version": recorded.version})


HISTORY_OF = Query(
    "history_of",
    "What happened to an object, in which turn and zone, and why?",
    """select h.version, h.event, h.branch, h.turn, h.before, h.after, h.cause, h.tokens, z.zone
from mnemosyne.lineage_history h
left join mnemosyne.lineage_zones z on z.stream = h.stream and z.branch = h.branch and z.turn = h.turn
where h.stream = %(stream)s and h.object = %(object)s
order by h.version""",
)

LINKS_OF = Query(
    "links_of",
    "What is an object related to, in either direction?",
    """select object, relation, target from mnemosyne.lineage_links
where stream = %(stream)s and (object = %(object)s or target = %(object)s)
order by version, object, relation, target""",
)

SUPERSEDED = Query(
    "superseded",
    "Which objects of a session no longer say how things are, and what took their place?",
    """select object, kind, branch, turn, tokens, superseded, superseded_by from mnemosyne.lineage_objects
where stream = %(stream)s and superseded is not null
order by version""",
)

LINEAGE = Projection(
    name="lineage",
    version=2,
    tables=(OBJECTS, LINKS, HISTORY, ZONES),
    changes=changes,
    queries=(HISTORY_OF, LINKS_OF, SUPERSEDED),
)
