"""The searchable objects, in the order in which they were made, and the objects forgotten since.

The index itself is built from this and kept outside the projections: it needs the texts of objects, which events do not
contain.
"""

from collections.abc import Sequence
from typing import cast

from mnemosyne.domain.objects.aggregate import is_searched
from mnemosyne.domain.objects.events import ObjectCreated, ObjectForgotten
from mnemosyne.domain.ports import Recorded
from mnemosyne.domain.session.events import Event, SessionForgotten
from mnemosyne.projections.projection import Merge, Projection, Row, Table, Type

ALL_OBJECTS = ""
"""Represents all objects of a session that was forgotten."""

MADE = Table(
    "made",
    key={"position": Type.INTEGER},
    columns={"stream": Type.UUID, "object": Type.TEXT, "version": Type.INTEGER},
)

FORGOTTEN = Table(
    "forgotten",
    key={"stream": Type.UUID, "object": Type.TEXT},
    columns={"version": Type.INTEGER},
)


def changes(recorded: Recorded[object]) -> Sequence[Merge]:
    """Return the rows that an event changes."""
    stream, event = recorded.stream, cast("Event", recorded.envelope.event)
    match event:
        case ObjectCreated() if is_searched(event):
            made: Row = {"stream": stream, "object": event.object, "version": recorded.version}
            return (Merge("made", (recorded.position,), made),)
        case ObjectForgotten():
            return (Merge("forgotten", (stream, event.object), {"version": recorded.version}),)
        case SessionForgotten():
            return (Merge("forgotten", (stream, ALL_OBJECTS), {"version": recorded.version}),)
        case _:
            return ()


OBJECT_INDEX = Projection(
    name="object_index",
    version=1,
    tables=(MADE, FORGOTTEN),
    changes=changes,
)
