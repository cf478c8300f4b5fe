"""A session recorded by the real actor in memory, request by request."""

import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any
from uuid import UUID

import attrs
import trio

from mnemosyne.actors.loaded import Loaded
from mnemosyne.actors.messages import ArrivedRequest, Begin, Begun, CompleteDeferred, Finish, Identity, Interrupt
from mnemosyne.actors.session import SessionActor
from mnemosyne.app.storage import event_codec
from mnemosyne.domain.history.time_travel import History, history_of
from mnemosyne.domain.session.address import Address
from mnemosyne.domain.session.directory import stream_of
from mnemosyne.domain.wire.dialect import Dialect
from mnemosyne.domain.wire.messages import MESSAGES
from mnemosyne.domain.wire.reply import Reply, ReplyBuilder
from mnemosyne.services.exporting import Importing
from tests.plain.archive import MemoryArchive
from tests.plain.log import PlainLog

TOOLS = [{"name": "Bash", "description": "Runs a command. " * 40, "input_schema": {"type": "object"}}]
SYSTEM = [{"type": "text", "text": "You are an agent. " * 30, "cache_control": {"type": "ephemeral"}}]
CLAUDE = ("user-agent", "claude-cli/2.1.329 (external, sdk-cli)")

Headers = tuple[tuple[str, str], ...]


Plain = MemoryArchive
"""An archive in memory."""


def plain() -> Plain:
    """An empty archive."""
    return Plain(PlainLog(event_codec()))


def user(text: str) -> dict[str, Any]:
    """A message typed by a person."""
    return {"role": "user", "content": text}


def assistant(text: str) -> dict[str, Any]:
    """A reply as clients send it back."""
    return {"role": "assistant", "content": [{"type": "text", "text": text}]}


def body(messages: Sequence[dict[str, Any]], **members: Any) -> bytes:
    """A request as an agent sends it."""
    request = {"model": "claude-opus-5-5", "messages": messages, "system": SYSTEM, "tools": TOOLS, "max_tokens": 1000}
    return json.dumps(request | members, separators=(",", ":")).encode()


@attrs.define
class Talk:
    """A client of one session; ``sent`` holds every body under the address at which it was put."""

    archive: Plain
    stream: UUID
    actor: SessionActor
    sent: dict[Address, bytes] = attrs.field(factory=dict)

    async def ask(
        self, raw: bytes, *headers: tuple[str, str], reply: str | None = "Done.", dialect: Dialect = MESSAGES
    ) -> Address:
        """Send a body; with a reply, the turn is finished."""
        at = 1_000_000 * (len(self.sent) + 1)
        request = ArrivedRequest(at=at, headers=(CLAUDE, *headers), raw=raw, correlation_id="c", dialect=dialect)
        begun = await self.actor.mailbox.post(Begin(request=request)).wait()
        assert isinstance(begun, Begun)
        await begun.ticket.durable()
        self.sent[begun.address] = raw
        if reply is not None:
            await self.finish(begun.address, reply)
        return begun.address

    async def finish(self, address: Address, text: str) -> None:
        """Report a complete reply with this text."""
        builder = ReplyBuilder()
        message = {"id": f"msg_{len(self.sent)}", "content": [{"type": "text", "text": text}]}
        usage = {"input_tokens": 7, "output_tokens": 2}
        builder.take_raw(json.dumps(message | {"stop_reason": "end_turn", "usage": usage}).encode())
        builder.end_raw()
        await self.finish_with(address, builder.result())

    async def finish_with(self, address: Address, reply: Reply) -> None:
        """Report this complete reply."""
        message = Finish(at=5, address=address, status=200, reply=reply, correlation_id="c")
        await self.actor.mailbox.post(message).wait()

    async def interrupt(self, address: Address, reason: str) -> None:
        """Report that there is no reply."""
        message = Interrupt(at=5, address=address, status=None, reply=None, reason=reason, correlation_id="c")
        await self.actor.mailbox.post(message).wait()

    async def history(self) -> History:
        return history_of(str(self.stream), await self.archive.log.read(self.stream))


@asynccontextmanager
async def talking(archive: Plain | None = None, name: str = "a client's session") -> AsyncIterator[Talk]:
    archive = archive or plain()
    stream = stream_of("local", name)
    identity = Identity(stream=stream, tenant="local", external_id=name)
    memory = Loaded(identity, archive.log, archive.log, lambda: b"salt" * 4)
    actor = SessionActor(memory, event_log=archive.log, journal=archive.log)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(actor.run)
        yield Talk(archive, stream, actor)
        # The last turn is processed and accounted after its answer.
        await actor.mailbox.post(CompleteDeferred()).wait()
        actor.stop()


async def rich_session(talk: Talk) -> None:
    """Every kind of request: growth, a repeated and an interrupted turn, a rewind, an agent, a side call, a compaction
    with its successor, a body in another dialect, and one with a credential.
    """
    history = [user("Where is the bug? " * 30)]
    await talk.ask(body(history), reply=None)
    await talk.interrupt(Address("main", 1, 1), "the client left")
    await talk.ask(body(history), reply="In the parser, I believe. " * 20)
    for question in ("And the fix?", "Are you sure?", "Then do it."):
        history = [*history, assistant("In the parser, I believe. " * 20), user(question)]
        await talk.ask(body(history), reply="In the parser, I believe. " * 20)
    await talk.ask(body([*history[:3], assistant("x"), user("Another way, please.")]))
    agent = ("x-claude-code-agent-id", "agent-7")
    await talk.ask(body([user("Look for callers.")]), agent)
    await talk.ask(body([user("Look for callers."), assistant("Done."), user("More.")]), agent)
    await talk.ask(body([user("A title, please.")], tools=[], system="Write titles."))
    summary = user("CRITICAL: Respond with TEXT ONLY. Summarise.")
    await talk.ask(body([*history, assistant("ok"), summary]))
    await talk.ask(
        body([user("This session is being continued from a previous conversation that ran out of context.")])
    )
    await talk.ask(b'{"input":"another dialect","model":"gpt"}')
    secret = {"mcp_servers": [{"url": "https://example.org", "authorization_token": "hunter2-hunter2"}]}
    await talk.ask(body([*history, assistant("ok"), user("With a server.")], **secret))
    await talk.ask(body(history[:1]))  # an early turn once more


IMPORTING = Importing(tenant="local", at=1_790_000_000_000_000, correlation_id="c")
"""An import for the tenant of these sessions."""
