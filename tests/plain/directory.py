"""The directory of a log in memory."""

from collections.abc import Mapping, Sequence
from operator import itemgetter
from uuid import UUID

from mnemosyne.domain.ports import EventLog
from mnemosyne.domain.session.directory import (
    UNNAMED,
    Alias,
    is_switched_on,
    modes_by_branch,
    off_since,
    operator_stream,
)
from mnemosyne.domain.session.events import BranchOpened, Event, SessionStarted, TurnBegan
from mnemosyne.domain.session.round_events import Mode, RoundBegan


class PlainDirectory:
    """See session.directory.Directory; reads the whole log for each call."""

    def __init__(self, event_log: EventLog[Event]) -> None:
        self._log = event_log

    async def modes_of(self, stream: UUID) -> Mapping[str, Mode]:
        return modes_by_branch(await self._events(stream))

    async def is_switched_on(self, stream: UUID) -> bool | None:
        return is_switched_on(await self._events(stream))

    async def root_of(self, tenant: str, agent_id: str) -> str | None:
        for external_id, events in await self._sessions(tenant):
            agents = {event.agent_id for event in events if isinstance(event, BranchOpened)}
            speakers = {event.speaker.external_id for event in events if isinstance(event, TurnBegan) and event.speaker}
            if external_id != agent_id and agent_id in agents | speakers:
                return external_id
        return None

    async def off_since(self, tenant: str) -> int | None:
        return off_since(await self._events(operator_stream(tenant)))

    async def aliases(self, name: str) -> Sequence[Alias]:
        found = []
        for stream in await self._log.streams():
            events = await self._events(stream)
            own = next((event.external_id for event in events if isinstance(event, SessionStarted)), name)
            opened = [event for event in events if isinstance(event, BranchOpened) and event.agent_id == name]
            turns = [event for event in events if isinstance(event, TurnBegan)]
            spoken = [turn for turn in turns if turn.speaker and turn.speaker.external_id == name]
            if own != name:
                found += [(event.at, Alias(stream, own, event.branch)) for event in opened]
                found += [(event.at, Alias(stream, own, event.branch)) for event in spoken]
        return [alias for _, alias in sorted(found, key=itemgetter(0))]

    async def has_managed(self, tenant: str) -> bool:
        found = await self._sessions(tenant)
        return any(isinstance(event, RoundBegan) for _, events in found for event in events)

    async def find_managed(self, tenant: str, chains: Sequence[bytes]) -> Sequence[str]:
        found = {}
        for external_id, events in await self._sessions(tenant):
            sent = {(event.branch, event.turn) for event in events if isinstance(event, RoundBegan)}
            turns = [event for event in events if isinstance(event, TurnBegan) and event.chains[-1:]]
            held = [turn.turn for turn in turns if (turn.branch, turn.turn) in sent and turn.chains[-1] in chains]
            if held:
                found[external_id] = max(held)
        return sorted(found, key=lambda each: -found[each])

    async def find_unnamed(self, tenant: str, chains: Sequence[bytes]) -> Sequence[str]:
        found = {}
        for external_id, events in await self._sessions(tenant):
            turns = [event for event in events if isinstance(event, TurnBegan) and event.chains[-1:]]
            held = [(turn.turn, turn.at) for turn in turns if turn.chains[-1] in chains]
            if held and external_id.startswith(UNNAMED):
                found[external_id] = max(held)
        return sorted(found, key=lambda each: found[each], reverse=True)

    async def _sessions(self, tenant: str) -> list[tuple[str, list[Event]]]:
        """The events of each session of a tenant, with the client's name for it."""
        found = []
        for stream in await self._log.streams():
            events = await self._events(stream)
            started = next((event for event in events if isinstance(event, SessionStarted)), None)
            if started is not None and started.tenant == tenant:
                found.append((started.external_id, events))
        return found

    async def _events(self, stream: UUID) -> list[Event]:
        return [each.envelope.event for each in await self._log.read(stream)]
