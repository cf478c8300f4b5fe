"""Shared kit for the actors' tests: requests and replies, logs that can be stopped, and a client."""

import itertools
import json
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from hashlib import sha256
from typing import Any, Protocol, cast
from uuid import UUID

import attrs
import trio

from mnemosyne.actors.knowledge_source import KnowledgeSource
from mnemosyne.actors.loaded import Loaded
from mnemosyne.actors.messages import ArrivedRequest, Begin, Begun, Finish, Identity, Interrupt
from mnemosyne.actors.owners import MemoryOwners
from mnemosyne.actors.patience import Patience
from mnemosyne.actors.questions import HelperQuestions
from mnemosyne.actors.registry import SessionRegistry
from mnemosyne.actors.session import SessionActor
from mnemosyne.actors.session_finder import SessionFinder
from mnemosyne.actors.turn import Turn, TurnOpener
from mnemosyne.adapters.postgres.batches import Committed, Committer, EncodedAppend
from mnemosyne.adapters.postgres.journal import GroupJournal, JournalLimits
from mnemosyne.app.storage import event_codec
from mnemosyne.domain.knowledge.knowledge_store import KnowledgeStore
from mnemosyne.domain.knowledge.prompts import REMEMBER
from mnemosyne.domain.objects.events import ObjectEvent, TurnAssessed
from mnemosyne.domain.ports import ContentStore, EventLog, Recorded, Ticket
from mnemosyne.domain.recall.object_search import ObjectIndex
from mnemosyne.domain.session.address import Address
from mnemosyne.domain.session.decision_inputs import ServerSettings
from mnemosyne.domain.session.directory import stream_of
from mnemosyne.domain.session.events import Event, TurnBegan
from mnemosyne.domain.session.ledger_events import TurnAccounted
from mnemosyne.domain.session.round_events import Mode
from mnemosyne.domain.window.policies import PlugIn
from mnemosyne.domain.wire import recipe
from mnemosyne.domain.wire.exchange import ReplyHead
from mnemosyne.domain.wire.messages import MESSAGES
from mnemosyne.domain.wire.recipe import Piece, Recipe
from mnemosyne.domain.wire.reply import Reply
from mnemosyne.errors import LogUnavailable
from tests.domain.recorded import dumps
from tests.plain.directory import PlainDirectory
from tests.plain.log import PlainLog

CODEC = event_codec()

PATIENT = Patience(**dict.fromkeys(attrs.fields_dict(Patience), 60.0))
"""Long limits, so that no request times out on a busy machine; the limits have their own tests."""
SOON = JournalLimits(batch_delay=0.01, first_commit=0.0)
"""No long batching delay, and a database known to be fast: the journal's own tests cover when it writes."""
SECRET = "sk-canary-0123456789"
LONG = "A long text that is a content of its own, whoever says it. " * 20
STREAM = stream_of("t", "s")
IDENTITY = Identity(stream=STREAM, tenant="t", external_id="s")
OK = ReplyHead(200, ())


def headers(session: str = "s", agent: str | None = None) -> tuple[tuple[str, str], ...]:
    """The headers of Claude Code."""
    named = (("User-Agent", "claude-cli/2.1.329"), ("X-Claude-Code-Session-Id", session))
    return (*named, ("X-Claude-Code-Agent-Id", agent)) if agent else named


def request(*texts: str, **members: Any) -> bytes:
    """A request whose messages alternate between user and assistant."""
    roles = ("user", "assistant")
    messages: list[dict[str, Any]] = [
        {"role": roles[index % 2], "content": [{"type": "text", "text": text}]} for index, text in enumerate(texts)
    ]
    return dumps({"model": "m", "messages": messages, "tools": [{"name": "n"}], **members})


def reply(text: str, **members: Any) -> Reply:
    message = {"id": "msg", "content": [{"type": "text", "text": text}], **members}
    return Reply(
        body=dumps(message),
        complete=True,
        message_id="msg",
        model="m",
        stop_reason="end_turn",
        usage={"output_tokens": 1},
        error_type=None,
    )


def begin(*texts: str, raw: bytes | None = None, agent: str | None = None, **members: Any) -> Begin:
    """The message for a received request."""
    body = request(*texts, **members) if raw is None else raw
    return Begin(
        request=ArrivedRequest(at=1, headers=headers(agent=agent), raw=body, correlation_id="c", dialect=MESSAGES)
    )


def finish(address: Address, text: str) -> Finish:
    """The message for a complete reply."""
    return Finish(at=2, address=address, status=200, reply=reply(text), correlation_id="c")


def interrupt(address: Address, part: Reply | None) -> Interrupt:
    """The message for a partial reply."""
    return Interrupt(at=2, address=address, status=None, reply=part, reason="left", correlation_id="c")


class StoppableLog(PlainLog):
    """A log in memory that can hang, be unavailable, or fail."""

    def __init__(self) -> None:
        super().__init__(CODEC)
        self.flowing = trio.Event()
        self.flowing.set()
        self.away = False
        self.poisoned: Exception | None = None
        self.fetched = 0

    def held_by(self, stream: UUID) -> Mapping[bytes, bytes]:
        """The contents of a stream, without deleted ones."""
        return {digest: data for digest, data in self._contents[stream].items() if data is not None}

    def hang(self) -> None:
        """Block every commit until ``flowing`` is set."""
        self.flowing = trio.Event()

    async def commit(self, batch: Sequence[EncodedAppend]) -> Committed:
        await self.flowing.wait()
        if self.away:
            raise LogUnavailable("the database is away")
        return await super().commit(batch)

    async def read(self, stream: UUID, *, after: int = 0, upto: int | None = None) -> Sequence[Recorded[Event]]:
        self._check()
        return await super().read(stream, after=after, upto=upto)

    async def fetch(self, stream: UUID, digests: Sequence[bytes]) -> dict[bytes, bytes]:
        self._check()
        self.fetched += 1
        return await super().fetch(stream, digests)

    def _check(self) -> None:
        if self.away:
            raise LogUnavailable("the database is away")
        if self.poisoned is not None:
            raise self.poisoned


class ProcessLog(EventLog[Any], ContentStore, Committer, Protocol):
    """Everything that a server process needs of a log."""


def salt() -> bytes:
    return b"s" * 16


@attrs.define
class Teller:
    """Sends messages to one actor directly, as the registry would."""

    actor: SessionActor

    async def begin(self, *texts: str, **options: Any) -> Address:
        """Report a request and wait until it is durable."""
        answer = await self.actor.mailbox.post(begin(*texts, **options)).wait()
        assert isinstance(answer, Begun)
        await answer.ticket.durable()
        return answer.address

    async def finish(self, address: Address, text: str) -> None:
        """Report a reply and wait until it is durable."""
        await self.tell(finish(address, text))

    async def tell(self, message: Finish | Interrupt) -> bool:
        """Report an end; return whether there was something to record."""
        answer = await self.actor.mailbox.post(message).wait()
        if answer is None:
            return False
        await cast("Ticket", answer).durable()
        return True


@asynccontextmanager
async def open_actor(log: PlainLog) -> AsyncIterator[Teller]:
    """An actor of the session ``s`` that commits inline."""
    actor = SessionActor(Loaded(IDENTITY, log, log, salt), event_log=log, journal=log)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(actor.run)
        yield Teller(actor)
        actor.stop()


@attrs.define
class Process:
    """One server process on a log: its journal, its registry, and its turn opener."""

    registry: SessionRegistry
    journal: GroupJournal
    opener: TurnOpener
    turns: trio.Nursery

    def open(self, *texts: str, session: str = "s", agent: str | None = None, **members: Any) -> Turn:
        """A turn whose request was just sent."""
        turn = self.opener.open_turn(headers(session, agent), request(*texts, **members), MESSAGES, None, Mode.OBSERVE)
        turn.note_sent()
        return turn

    async def turn(self, *texts: str, answer: str = "ok", **options: Any) -> None:
        turn = self.open(*texts, **options)
        await turn.note_begun()
        await turn.note_finished(OK, reply(answer))


@asynccontextmanager
async def open_process(
    log: ProcessLog,
    journal: GroupJournal | None = None,
    *,
    clock: Iterator[int] | None = None,
    new_id: Callable[[], str] | None = None,
    index: ObjectIndex | None = None,
    manages_small: bool = True,
    patience: Patience = PATIENT,
    questions: HelperQuestions | None = None,
    memory_tokens: int | None = None,
    owners: MemoryOwners | None = None,
    plug_in: PlugIn | None = None,
    **settings: Any,
) -> AsyncIterator[Process]:
    """A server process with these ``settings``; at the end it writes its queue, as far as the log permits."""
    journal = journal or GroupJournal(log, CODEC, SOON)
    clock = clock or iter(range(1, 1_000_000))
    async with trio.open_nursery() as storage:
        await storage.start(journal.run)
        async with trio.open_nursery() as sessions:
            knowledge_source = None
            if memory_tokens is not None:
                knowledge_source = knowledge_source_of(log, journal, memory_tokens, clock)
                sessions.start_soon(knowledge_source.run)
            registry = SessionRegistry(
                sessions,
                event_log=log,
                contents=log,
                journal=journal,
                new_salt=salt,
                index=index,
                settings=ServerSettings(
                    manages_small=manages_small,
                    policy=plug_in.name if plug_in is not None else "economic",
                    policy_version=plug_in.version if plug_in is not None else "",
                    **settings,
                ),
                patience=patience,
                questions=questions,
                knowledge_source=knowledge_source,
                plug_in=plug_in,
            )
            sessions.start_soon(registry.run)
            async with trio.open_nursery() as turns:
                ids = itertools.count(1)
                opener = TurnOpener(
                    registry,
                    SessionFinder(registry, PlainDirectory(log), "t"),
                    turns,
                    lambda: next(clock),
                    new_id or (lambda: f"c{next(ids)}"),
                    owners=owners,
                )
                yield Process(registry, journal, opener, turns)
            sessions.cancel_scope.cancel()
        await journal.close(within=1)


SCHEDULED = "scheduled"

WRITES = itertools.count(1)
"""Ids of writes: no two knowledge sources of one log may share one."""


def knowledge_source_of(log: ProcessLog, journal: GroupJournal, tokens: int, clock: Iterator[int]) -> KnowledgeSource:
    """A knowledge source that takes the last part of a folder's name for its project. The client's record says that a
    person typed all prompts, except those of the session ``SCHEDULED``.
    """

    async def find_project(folder: str) -> str:
        await trio.lowlevel.checkpoint()
        return folder.rpartition("/")[2]

    async def was_typed(session: str, text: str) -> bool:
        await trio.lowlevel.checkpoint()
        return session != SCHEDULED

    store = KnowledgeStore(log, journal)
    return KnowledgeSource(
        store,
        find_project,
        lambda: next(clock),
        lambda: f"w{next(WRITES)}",
        tokens=tokens,
        share=1.0,
        words=(*REMEMBER, "merke"),
        was_typed=was_typed,
        pauses=(),
    )


async def events_of(log: EventLog[Event], stream: UUID = STREAM) -> list[Event]:
    """The events of a session, whose versions must count from 1."""
    recorded = await log.read(stream)
    assert [each.version for each in recorded] == list(range(1, len(recorded) + 1))
    return [each.envelope.event for each in recorded]


async def rebuilt(log: EventLog[Event], contents: ContentStore, stream: UUID = STREAM) -> dict[Address, bytes]:
    """Every request of a session, rebuilt from its events and verified by its hash."""
    recipes = {0: Recipe()}
    bodies: dict[Address, bytes] = {}
    for version, event in enumerate(await events_of(log, stream), 1):
        if isinstance(event, TurnBegan):
            recipes[version] = recipe.apply(recipes[event.base], recipe.decode(event.body))
            body = await assembled(contents, recipes[version], stream)
            assert sha256(body).digest() == (event.stored_sha256 or event.sha256)
            bodies[Address(event.branch, event.turn, event.attempt)] = body
    return bodies


async def assembled(contents: ContentStore, body: Recipe, stream: UUID = STREAM) -> bytes:
    """The bytes of a recipe."""
    digests = {piece.digest for piece in body.pieces if isinstance(piece, Piece)}
    return recipe.assemble(body.pieces, (await contents.fetch(stream, sorted(digests))).__getitem__)


async def reply_text(contents: ContentStore, stored: bytes, stream: UUID = STREAM) -> str:
    message = json.loads(await assembled(contents, recipe.apply(Recipe(), recipe.decode(stored)), stream))
    text = message["content"][0]["text"]
    assert isinstance(text, str)
    return text


def of_turns(events: Sequence[Event]) -> list[Event]:
    """The events of turns, without those about objects: these are appended separately, and no turn waits for them."""
    return [event for event in events if not isinstance(event, ObjectEvent | TurnAssessed | TurnAccounted)]


def turns(events: Sequence[Event]) -> list[str]:
    """The turns in the order in which they began: ``main 1``, ``main 1.2``."""
    return [
        f"{event.branch} {event.turn}" + (f".{event.attempt}" if event.attempt > 1 else "")
        for event in events
        if isinstance(event, TurnBegan)
    ]
