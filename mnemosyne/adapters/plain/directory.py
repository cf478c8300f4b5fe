"""The directory of a log in plain objects."""

from collections.abc import Mapping
from uuid import UUID

from mnemosyne.domain.ports import EventLog
from mnemosyne.domain.session.directory import decided_modes, off_since, operator_stream
from mnemosyne.domain.session.events import BranchOpened, Event, SessionStarted
from mnemosyne.domain.session.round_events import Mode


class PlainDirectory:
    """See session.directory.Directory: everything as the log says, read whole for each question."""

    def __init__(self, event_log: EventLog[Event]) -> None:
        self._log = event_log

    async def modes_of(self, stream: UUID) -> Mapping[str, Mode]:
        return decided_modes(await self._events(stream))

    async def root_of(self, tenant: str, agent_id: str) -> str | None:
        for stream in await self._log.streams():
            events = await self._events(stream)
            started = next((event for event in events if isinstance(event, SessionStarted)), None)
            agents = {event.agent_id for event in events if isinstance(event, BranchOpened)}
            if started is not None and started.tenant == tenant and agent_id in agents:
                return started.external_id
        return None

    async def off_since(self, tenant: str) -> int | None:
        return off_since(await self._events(operator_stream(tenant)))

    async def _events(self, stream: UUID) -> list[object]:
        return [each.envelope.event for each in await self._log.read(stream)]
