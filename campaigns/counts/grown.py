"""A long session, recorded cheaply: an actor gets many small turns without a server, and its log is copied to a
database.
"""

import attrs
import trio

from mnemosyne.actors import messages
from mnemosyne.actors.actor_services import ActorServices
from mnemosyne.actors.loaded import Loaded
from mnemosyne.actors.session import SessionActor
from mnemosyne.adapters.postgres.batches import EncodedAppend
from mnemosyne.adapters.postgres.event_log import PostgresEventLog
from mnemosyne.adapters.postgres.journal import JournalTicket
from mnemosyne.adapters.postgres.recorder import EventMapper
from mnemosyne.app.storage import event_codec
from mnemosyne.domain.ports import Append, Content
from mnemosyne.domain.session.directory import stream_of
from mnemosyne.domain.session.round_events import Mode
from mnemosyne.domain.wire.messages import MESSAGES
from mnemosyne.domain.wire.reply import Reply
from tests.actors.support import CODEC, PATIENT
from tests.adapters.log_support import open_database
from tests.app.serving import SALT
from tests.domain.recorded import dumps
from tests.http.managing import Client, Json, look, text
from tests.plain.log import PlainLog

TENANT, SESSION = "local", "s"
"""The tenant of a server without settings."""

IDENTITY = messages.Identity(stream=stream_of(TENANT, SESSION), tenant=TENANT, external_id=SESSION)


class KeepingLog(PlainLog):
    def __init__(self) -> None:
        super().__init__(CODEC)
        self.given: dict[bytes, bytes] = {}

    def submit(self, append: Append) -> JournalTicket:
        self.given |= {each.digest: each.data for each in append.contents}
        return super().submit(append)


@attrs.define
class Grown:
    """A session whose turns have a short tool result and another call; ``client`` continues it."""

    mode: Mode
    client: Client = attrs.field(factory=lambda: Client("", session=SESSION))
    turns: int = 0
    _log: KeepingLog = attrs.field(factory=KeepingLog)

    async def grow(self, turns: int) -> None:
        """Add turns until the session has this many."""
        memory = Loaded(IDENTITY, self._log, self._log, lambda: SALT)
        outside = ActorServices(patience=PATIENT)
        actor = SessionActor(memory, event_log=self._log, journal=self._log, outside=outside)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(actor.run)
            while self.turns < turns:
                self.turns += 1
                await self._turn(actor)
            actor.stop()

    async def _turn(self, actor: SessionActor) -> None:
        self.client.history.append({"role": "user", "content": next_content(self.client)})
        at = 1_600_000_000_000_000 + self.turns * 1_000_000
        headers = tuple((name.decode(), value.decode()) for name, value in self.client.raw_headers())
        request = messages.ArrivedRequest(
            at=at, headers=headers, raw=self.client.body(), correlation_id="c", default=self.mode, dialect=MESSAGES
        )
        call = {**look(), "id": f"toolu_{self.turns}"}
        usage = {"input_tokens": 100, "output_tokens": 50}
        message = {"id": "msg", "role": "assistant", "content": [call], "stop_reason": "tool_use", "usage": usage}
        reply = Reply(dumps(message), True, "msg", self.client.model, "tool_use", usage, None)
        await take_turn(actor, request, reply)
        self.client.history.append({"role": "assistant", "content": [call]})

    async def store(self, dsn: str) -> None:
        codec, stream = event_codec(), IDENTITY.stream
        mapper = EventMapper(codec)
        events = tuple(mapper.to_stored_event(each) for each in await self._log.read(stream))
        contents = tuple(Content(*each) for each in self._log.given.items())
        async with open_database(dsn) as database:
            done = await PostgresEventLog(database, codec).commit([EncodedAppend(stream, 0, events, contents)])
        assert done.errors == (None,)


async def take_turn(
    actor: SessionActor, request: messages.ArrivedRequest, reply: Reply, last: messages.RoundEnd | None = None
) -> None:
    """Let an actor take a turn, until its deferred work is done. ``last`` ends the last round, if it is managed."""
    begin = messages.Begin(request=request)
    if request.default is Mode.MANAGE:
        plan = await actor.mailbox.post(messages.Prepare(request=request)).wait()
        assert isinstance(plan, messages.UpstreamPlan)
        assert plan.proposal is not None, "it is managed from its first turn"
        begin = messages.Begin(request=request, outgoing=plan.proposal)
    begun = await actor.mailbox.post(begin).wait()
    assert isinstance(begun, messages.Begun)
    at, name = request.at, request.correlation_id
    end = messages.Finish(at=at, address=begun.address, status=200, reply=reply, correlation_id=name, last=last)
    await actor.mailbox.post(end).wait()
    await actor.mailbox.post(messages.CompleteDeferred()).wait()


def next_content(client: Client, result: str = "seen") -> list[Json]:
    """The content of the client's next message: first a prompt, then the result of the last call."""
    if not client.history:
        return [text("Look at all of it.")]
    call = client.history[-1]["content"][-1]["id"]
    return [{"type": "tool_result", "tool_use_id": call, "content": result}]
