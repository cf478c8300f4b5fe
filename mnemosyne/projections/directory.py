"""The directory of sessions: to which of them an agent belongs, so that a new server knows who called whom."""

from collections.abc import Sequence
from typing import cast

from mnemosyne.domain.ports import Recorded
from mnemosyne.domain.session.events import BranchOpened, Event, SessionStarted
from mnemosyne.projections.projection import Merge, Projection, Query, Table, Type, text

SESSIONS = Table("sessions", key={"stream": Type.UUID}, columns={"tenant": Type.TEXT, "external_id": Type.TEXT})

AGENTS = Table(
    "agents", key={"agent_id": Type.TEXT, "stream": Type.UUID, "branch": Type.TEXT}, columns={"opened_at": Type.INTEGER}
)


def changes(recorded: Recorded[object]) -> Sequence[Merge]:
    """The rows that an event changes."""
    stream, event = recorded.stream, cast("Event", recorded.envelope.event)
    match event:
        case SessionStarted():
            named = {"tenant": text(event.tenant), "external_id": text(event.external_id)}
            return (Merge("sessions", (stream,), named),)
        case BranchOpened() if event.agent_id is not None:
            return (Merge("agents", (text(event.agent_id), stream, event.branch), {"opened_at": event.at}),)
        case _:
            return ()


ROOT_OF = Query(
    "root_of",
    "In which session was an agent called first?",
    """select s.external_id from mnemosyne.directory_agents a join mnemosyne.directory_sessions s using (stream)
where a.agent_id = %(agent)s and s.tenant = %(tenant)s
order by a.opened_at, s.stream
limit 1""",
)

DIRECTORY = Projection(name="directory", version=1, tables=(SESSIONS, AGENTS), changes=changes, queries=(ROOT_OF,))
