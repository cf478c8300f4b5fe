"""The directory of sessions: the session of each agent, so that a new server knows which session called it, and the
histories that were managed, so that a session is recognized if it continues under another name.
"""

from collections.abc import Iterator, Sequence
from typing import cast
from uuid import UUID

from mnemosyne.domain.ports import Recorded
from mnemosyne.domain.session.directory import UNNAMED
from mnemosyne.domain.session.events import BranchOpened, Event, SessionStarted, TurnBegan
from mnemosyne.domain.session.round_events import RoundBegan
from mnemosyne.projections.projection import Merge, Projection, Query, Table, Type, text

SESSIONS = Table("sessions", key={"stream": Type.UUID}, columns={"tenant": Type.TEXT, "external_id": Type.TEXT})

AGENTS = Table(
    "agents", key={"agent_id": Type.TEXT, "stream": Type.UUID, "branch": Type.TEXT}, columns={"opened_at": Type.INTEGER}
)

SPEAKERS = Table(
    "speakers",
    key={"external_id": Type.TEXT, "stream": Type.UUID, "branch": Type.TEXT},
    columns={"since": Type.INTEGER},
)
"""The client's names for its session in the requests of a branch."""

_TURN = {"stream": Type.UUID, "branch": Type.TEXT, "turn": Type.INTEGER}

HISTORIES = Table("histories", key={"chain": Type.TEXT, **_TURN}, columns={"began_at": Type.INTEGER})
"""The history of the client's request in a turn, as a chain hash in hexadecimal."""

ROUNDS = Table("rounds", key=_TURN, columns={"began_at": Type.INTEGER})
"""The turns for which the proxy sent a body of its own."""


def changes(recorded: Recorded[object]) -> Sequence[Merge]:
    """Return the rows that an event changes."""
    stream, event = recorded.stream, cast("Event", recorded.envelope.event)
    match event:
        case SessionStarted():
            named = {"tenant": text(event.tenant), "external_id": text(event.external_id)}
            return (Merge("sessions", (stream,), named),)
        case BranchOpened() if event.agent_id is not None:
            return (Merge("agents", (text(event.agent_id), stream, event.branch), {"opened_at": event.at}),)
        case TurnBegan():
            return tuple(_turn(stream, event))
        case RoundBegan():
            return (Merge("rounds", (stream, event.branch, event.turn), {"began_at": event.at}),)
        case _:
            return ()


def _turn(stream: UUID, event: TurnBegan) -> Iterator[Merge]:
    if event.chains:
        key = (event.chains[-1].hex(), stream, event.branch, event.turn)
        yield Merge("histories", key, {"began_at": event.at})
    if event.speaker is not None and event.speaker.external_id is not None:
        yield Merge("speakers", (text(event.speaker.external_id), stream, event.branch), {"since": event.at})


ROOT_OF = Query(
    "root_of",
    """select s.external_id from mnemosyne.directory_sessions s join (
    select stream, opened_at as since from mnemosyne.directory_agents where agent_id = %(agent)s
    union all select stream, since from mnemosyne.directory_speakers where external_id = %(agent)s) a using (stream)
where s.tenant = %(tenant)s and s.external_id <> %(agent)s
order by a.since, s.stream
limit 1""",
)

ALIASES = Query(
    "aliases",
    """select s.stream, s.external_id, a.branch from mnemosyne.directory_sessions s join (
    select stream, branch, opened_at as since from mnemosyne.directory_agents where agent_id = %(name)s
    union all
    select stream, branch, since from mnemosyne.directory_speakers where external_id = %(name)s) a using (stream)
where s.external_id <> %(name)s
order by a.since, s.stream, a.branch""",
)

MANAGED_WITH = Query(
    "managed_with",
    """select s.external_id from mnemosyne.directory_sessions s
join mnemosyne.directory_histories h using (stream) join mnemosyne.directory_rounds r using (stream, branch, turn)
where h.chain = any(%(chains)s) and s.tenant = %(tenant)s
group by s.stream, s.external_id
order by max(h.turn) desc, max(h.began_at) desc, s.stream
limit 8""",
)

UNNAMED_WITH = Query(
    "unnamed_with",
    f"""select s.external_id from mnemosyne.directory_sessions s join mnemosyne.directory_histories h using (stream)
where h.chain = any(%(chains)s) and s.tenant = %(tenant)s and starts_with(s.external_id, '{UNNAMED}')
group by s.stream, s.external_id
order by max(h.turn) desc, max(h.began_at) desc, s.stream
limit 8""",
)

DIRECTORY = Projection(
    name="directory",
    version=2,
    tables=(SESSIONS, AGENTS, SPEAKERS, HISTORIES, ROUNDS),
    changes=changes,
    queries=(ROOT_OF, ALIASES, MANAGED_WITH, UNNAMED_WITH),
)
