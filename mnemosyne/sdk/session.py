"""One conversation of an agent that runs Mnemosyne in its own process (trio)."""

import json
import logging
import os
import warnings
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from functools import wraps
from inspect import iscoroutinefunction, signature
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from weakref import WeakSet

import attrs
import trio

import mnemosyne
from mnemosyne.actors.loaded_sessions import LoadedSessions
from mnemosyne.actors.messages import Identity
from mnemosyne.actors.threads import read_in_thread
from mnemosyne.actors.turn import Turn
from mnemosyne.app.object_index import catch_up
from mnemosyne.app.process import new_id, now
from mnemosyne.config import Config, load
from mnemosyne.domain.history.time_travel import history_of
from mnemosyne.domain.objects.fidelity import Fidelity
from mnemosyne.domain.objects.kinds import READ, list_declared
from mnemosyne.domain.recall.citations import Citations
from mnemosyne.domain.recall.object_search import Filter
from mnemosyne.domain.session.address import Address
from mnemosyne.domain.session.events import ToolUse
from mnemosyne.domain.session.round_events import Mode
from mnemosyne.domain.session.tool_uses import USES_HEADER, write_uses
from mnemosyne.domain.window import rounds
from mnemosyne.domain.wire.exchange import ReplyHead, UpstreamRequest
from mnemosyne.domain.wire.identity import SESSION_HEADER
from mnemosyne.domain.wire.messages import MESSAGES
from mnemosyne.errors import ActorStopped, BadEntry, BadTurn, BudgetTooSmall, MnemosyneError, ReplyCut, VersionConflict
from mnemosyne.http.client_reply import RelayProgress
from mnemosyne.http.headers import text_headers
from mnemosyne.http.relay import Relay
from mnemosyne.sdk.conversation import AgentHistory, Content, SdkMessage, message_of
from mnemosyne.sdk.runtime import Runtime, open_runtime
from mnemosyne.services import asking, host_tools, object_view, pins
from mnemosyne.services.citations import read_citations
from mnemosyne.services.knowledge import WriteStamp
from mnemosyne.services.manifests import manifest_as_json, read_manifest

log = logging.getLogger(__name__)

JSON = ((b"content-type", b"application/json"),)


@attrs.frozen
class ToSend:
    """The next request for the agent to send."""

    body: bytes = attrs.field(repr=False)


@attrs.frozen
class Ended:
    """The end of a turn: the whole reply or, without one, the ``failure``."""

    status: int
    body: bytes = attrs.field(repr=False)
    failure: MnemosyneError | None = None


@attrs.frozen
class _AgentReply:
    head: ReplyHead
    body: bytes

    async def chunks(self) -> AsyncGenerator[bytes, None]:
        yield self.body


class HandedTurn:
    """A turn whose requests the agent sends itself. The relay treats the agent as its provider, so hidden rounds,
    errors and records work as in any other turn. ``run`` runs in the nursery of turns.
    """

    def __init__(self, turn: Turn, request: UpstreamRequest, progress: RelayProgress) -> None:
        self.turn = turn
        self._relay = Relay(self, request, turn, progress, MESSAGES)
        self._send_step, self._steps = trio.open_memory_channel[ToSend | Ended](1)
        self._send_reply, self._replies = trio.open_memory_channel[_AgentReply](1)

    @asynccontextmanager
    async def exchange(self, request: UpstreamRequest, sent: Callable[[], None]) -> AsyncIterator[_AgentReply]:
        """Implement ``Upstream.exchange``: pass the request to the agent and wait for the reply it got."""
        sent()
        await self._send_step.send(ToSend(request.body))
        yield await self._replies.receive()

    async def run(self) -> None:
        """Run the relay until the turn ends."""
        client = self._relay.client
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._relay.run)
            try:
                head = await client.head()
                ended = Ended(head.status, b"".join([chunk async for chunk in client.body()]))
            except MnemosyneError as error:
                ended = Ended(0, b"", error)
        await self._send_step.send(ended)

    async def step(self) -> ToSend | Ended:
        """Wait for the next request or the end of the turn."""
        return await self._steps.receive()

    async def hand_in(self, status: int, body: bytes) -> ToSend | Ended:
        """Pass on the provider's reply to the last request; return the next request or the end."""
        await self._send_reply.send(_AgentReply(ReplyHead(status, JSON), body))
        return await self.step()

    async def abandon(self) -> None:
        """Abandon the turn and wait until that is recorded."""
        self._relay.client.abandon()
        while not isinstance(await self.step(), Ended):
            pass


MAX_TOKENS = 8192
"""Default of a reply's token limit."""

ANSWER_TOKENS = 2000
"""Default of the token limit of ``query``."""


@attrs.frozen
class Context:
    """A request for the agent to send: ``body``, the JSON as recorded, of about ``tokens`` tokens."""

    body: bytes = attrs.field(repr=False)
    tokens: int

    @property
    def request(self) -> dict[str, Any]:
        """The request as keyword arguments for the vendor library, to create a message."""
        arguments: dict[str, Any] = json.loads(self.body)
        return arguments


@attrs.frozen
class Pressure:
    """How full a conversation's window is: the ``zone`` (normal, caution, warning, critical, emergency), the estimated
    ``tokens`` of its history, and the ``window`` that is left for it beside system prompt, tools and reply.
    """

    session: str
    zone: str
    tokens: int
    window: int


@attrs.frozen
class CitedPassage:
    """A quote from an object of the session that answers a question."""

    text: str
    object_id: str


@attrs.frozen
class Restored:
    """An object in full. ``problem`` is the reason why the next context will not include it, or None if it will."""

    text: str
    problem: str | None


class AgentSession:
    """One conversation, named ``name`` in the log; open inside ``async with``, in the task that entered it.

    ``system``, ``tools`` and ``messages`` have the Messages API's format; ``messages`` is the history of a conversation
    to continue. The log is in ``data_dir``, or in the PostgreSQL database ``dsn``; all other settings come from
    Mnemosyne's configuration file and environment. ``on_pressure`` is called whenever the zone changes, also of a fork,
    before ``context_for`` returns; its errors are logged.
    """

    def __init__(
        self,
        name: str | None = None,
        *,
        system: Content | None = None,
        tools: Sequence[Mapping[str, Any]] = (),
        messages: Sequence[Mapping[str, Any]] = (),
        data_dir: str | Path | None = None,
        dsn: str | None = None,
        on_pressure: Callable[[Pressure], object] | None = None,
    ) -> None:
        self.name = name or f"library-{new_id()}"
        self._where = {"data_dir": None if data_dir is None else str(data_dir), "dsn": dsn}
        self._conversation = AgentHistory(system, tools, messages)
        self._stack: AsyncExitStack | None = None
        self._opened: Runtime | None = None
        self._handed: HandedTurn | None = None
        self._identity: Identity | None = None
        self._address: Address | None = None
        self._uses: list[ToolUse] = []
        self._forks: WeakSet[AgentSession] = WeakSet()
        self._on_pressure, self._zone = on_pressure, ""

    async def __aenter__(self) -> Self:
        """Open the session. Raises BadConfiguration, and LogFailed if the database cannot be opened."""
        config: Config = load(self._where, os.environ)
        async with AsyncExitStack() as stack:
            self._opened = await stack.enter_async_context(open_runtime(config))
            self._stack = stack.pop_all()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the session: make all messages durable, and abandon turns, also of forks, that wait for a reply."""
        stack, self._stack = self._stack, None
        try:
            await self._give_up()
            for fork in list(self._forks):
                await fork.__aexit__(None, None, None)
        finally:
            self._opened = None
            if stack is not None:
                await stack.aclose()  # here, an error of the agent's own code is not wrapped in exception groups

    def __del__(self) -> None:
        if getattr(self, "_stack", None) is not None:
            warnings.warn(f"{self.name}: a session was not closed; use async with", ResourceWarning, 2, self)

    # Messages

    @property
    def messages(self) -> list[dict[str, Any]]:
        """The history as the agent knows it; pass it to a later ``Session`` to continue."""
        return self._conversation.copy().messages

    @property
    def open_calls(self) -> list[str]:
        """The ids of the tool calls that wait for ``tool_result``."""
        return self._conversation.list_open_calls()

    def user_says(self, content: Content) -> None:
        """Add a user message, a text or blocks. Raises BadTurn while a reply is pending."""
        self._check_idle()
        self._conversation.add_user(content)

    def tool_result(
        self,
        call: str,
        content: Content,
        *,
        is_error: bool = False,
        reads: Sequence[str] = (),
        writes: Sequence[str] = (),
    ) -> None:
        """Add the result of the tool call with the id ``call``. The host declares which sources the tool read and
        changed: paths, other names, or ids of objects. Raises BadTurn if the call is not waiting for a result.
        """
        self._check_idle()
        self._conversation.add_result(call, content, is_error=is_error)
        if reads or writes:
            self._uses.append(ToolUse(call, tuple(reads), tuple(writes)))

    def tool(
        self, *, reads: Sequence[str] = (), writes: Sequence[str] = ()
    ) -> Callable[[Callable[..., Content]], Callable[..., None]]:
        """Decorate a tool. Called with a call's id and arguments, it adds the result with these sources, in which
        ``{name}`` is replaced by the argument of that name. Raises like ``tool_result``, and TypeError for an async
        tool or wrong arguments.
        """

        def decorate(run: Callable[..., Content]) -> Callable[..., None]:
            if iscoroutinefunction(run):
                raise TypeError(f"{run.__name__} is async: call it yourself, and pass its result to tool_result.")
            parameters = signature(run)

            @wraps(run)
            def answer(call: str, /, **arguments: Any) -> None:
                bound = parameters.bind(**arguments)
                bound.apply_defaults()
                read, written = ([each.format_map(bound.arguments) for each in sources] for sources in (reads, writes))
                self.tool_result(call, run(**arguments), reads=read, writes=written)

            return answer

        return decorate

    async def context_for(self, /, model: str, budget: int, *, max_tokens: int = MAX_TOKENS, **fields: Any) -> Context:
        """Return the next request for the agent to send, of at most about ``budget`` tokens. ``fields`` are its other
        members, such as ``thinking`` or ``temperature``.

        Abandons a request that got no reply. Raises BadTurn if it is not the model's turn, and BudgetTooSmall if the
        mandatory content alone exceeds the budget; neither records anything.
        """
        runtime = self._runtime
        await self._give_up()
        fields = {"model": model, "max_tokens": max_tokens, **fields}
        body = self._conversation.body(fields)
        await self._check_fixed(self._conversation.least_body(fields), budget)
        runtime.registry.use(attrs.evolve(runtime.registry.settings, window=budget))
        await self._check_planned(body, budget)
        request = self._request(body)
        self._handed = HandedTurn(self._open_turn(request), request, runtime.progress)
        runtime.turns.start_soon(self._handed.run)
        context = await self._advance(await self._handed.step())
        if context is None:
            raise ReplyCut("the turn ended before its request was built; see the log.")
        return context

    async def assistant_says(self, message: Mapping[str, Any] | SdkMessage) -> Context | None:
        """Pass on the provider's reply. Return another request to send if the model called a memory tool, or None once
        the reply is complete; the history then holds it without memory calls. Raises BadTurn if no request is pending.
        """
        return await self._hand_in(200, message_of(message))

    async def provider_fails(self, status: int, error: object) -> Context | None:
        """Pass on a provider error: its HTTP status and JSON. Return another request to send if a retry may succeed,
        else None; ``context_for`` then restarts the turn. Raises BadTurn if no request is pending.
        """
        return await self._hand_in(status, error)

    # Memory

    async def query(self, question: str, *, tokens: int = ANSWER_TOKENS) -> list[CitedPassage]:
        """Search this conversation's memory; return passages that answer the question, best first, of at most
        ``tokens`` tokens. Messages since the last user prompt are not searched: they are in ``messages``. Raises
        BadTurn before the first request.
        """
        runtime = self._runtime
        identity, branch = await self._find_place()
        await catch_up(runtime.models, runtime.index)
        answer = await asking.ask(
            runtime.models.archive, runtime.index, identity.stream, question, Filter(branch=branch), tokens
        )
        return [CitedPassage(passage.quote.text, passage.quote.object_id) for passage in answer.cited]

    async def pressure(self) -> Pressure | None:
        """Return how full the window of the last request was; None if another process has continued the session. Raises
        BadTurn before the first request.
        """
        identity, branch = await self._find_place()
        state = self._runtime.registry.state_of(identity.stream)
        assessed = None if state is None else state.memory.view_of(branch).measure.assessed
        if assessed is None:
            return None
        return Pressure(self.name, assessed.zone, assessed.tokens - assessed.fixed, assessed.usable)

    async def restore(self, object_id: str, reason: str = "the agent asked for it") -> Restored:
        """Return an object in full and restore it into the context after the next user message. Raises NotFound."""
        archive = self._runtime.models.archive
        identity, branch = await self._find_place()
        session = str(identity.stream)
        text = await object_view.read_text(archive, session, object_id, Fidelity.FULL)
        problem: str | None = None
        try:
            stamp = WriteStamp(now(), new_id())
            await pins.restore(archive, object_id, session=session, branch=branch, reason=reason, stamp=stamp)
        except BadEntry as error:
            problem = str(error)
        return Restored(text or "", problem)

    async def prepare(self, *sources: str) -> list[str]:
        """Restore into the next context what a tool needs: the objects that show the current state of these
        ``sources`` (paths or other names) and were evicted. Return the ids of those that have room. Raises BadTurn
        before the first request.
        """
        identity, branch = await self._find_place()
        state = self._runtime.registry.state_of(identity.stream)
        standings = () if state is None else state.memory.within_reach(branch)
        wanted = [
            each.id
            for each, level in standings
            if level is not Fidelity.FULL
            and not each.stale
            and {each.source_key, *list_declared(each.tags, READ)} & {*sources}
        ]
        return [each for each in wanted if (await self.restore(each, "a tool needs it")).problem is None]

    async def manifest(self) -> dict[str, Any]:
        """Return the manifest of the last request as ``mnemosyne context --manifest`` prints it. Raises BadTurn before
        the first request.
        """
        identity, branch = await self._find_place()
        return manifest_as_json(await read_manifest(self._runtime.models.archive, str(identity.stream), branch, None))

    async def citations(self) -> Citations | None:
        """Return which ids the last reply cites, omits and invents, so that the host can ask again; None if its
        model was not asked for any (setting ``grounding``). Raises BadTurn before the first request.
        """
        identity, branch = await self._find_place()
        archive, stream = self._runtime.models.archive, identity.stream
        events = await archive.events.read(stream)
        history = history_of(str(stream), events)
        return await read_citations(archive, stream, events, history, history.find(branch, None))

    async def create_object(self, name: str, text: str, *, tool: str | None = None, about: Sequence[str] = ()) -> str:
        """Create an object beside the conversation and return its id: the model can search and restore it. A new text
        of the same ``name`` replaces the last one. ``about`` are ids of objects that it describes. Raises NotFound.
        """
        identity, branch = await self._find_place()
        archive, stamp = self._runtime.models.archive, WriteStamp(now(), new_id())
        return await host_tools.create(
            archive, identity.stream, branch, text, name=name, tool=tool, about=about, stamp=stamp
        )

    async def annotate(self, object_id: str, note: str) -> str:
        """Create an object with a note about another one; return its id. Raises NotFound."""
        return await self.create_object(f"Note on {object_id}", note, about=[object_id])

    async def link(self, source: str, relation: str, target: str) -> None:
        """Link two objects. ``relation`` is parent_of, caused_by, references, supersedes or depends_on. Raises NotFound
        and ValueError.
        """
        identity, _ = await self._find_place()
        archive = self._runtime.models.archive
        await host_tools.link(archive, identity.stream, source, relation, target, stamp=WriteStamp(now(), new_id()))

    def fork(self, name: str | None = None) -> "AgentSession":
        """Return a new conversation that starts with this history; it stays open as long as this one. Raises BadTurn
        while a reply is pending.
        """
        self._check_idle()
        other = AgentSession(name or f"{self.name}-{new_id()}", on_pressure=self._on_pressure)
        other._conversation, other._opened = self._conversation.copy(), self._runtime
        self._forks.add(other)
        return other

    # Turns

    @property
    def _runtime(self) -> Runtime:
        if self._opened is None:
            raise BadTurn(f"Session {self.name!r} is not open: use it inside `async with`.")
        return self._opened

    def _check_idle(self) -> None:
        if self._handed is not None:
            raise BadTurn("A request is pending: pass its reply to assistant_says, or its error to provider_fails.")

    def _request(self, body: bytes) -> UpstreamRequest:
        headers = (
            (b"content-type", b"application/json"),
            (b"user-agent", f"mnemosyne-library/{mnemosyne.__version__}".encode()),
            (SESSION_HEADER.encode(), self.name.encode()),
            *([(USES_HEADER.encode(), write_uses(self._uses).encode())] if self._uses else []),
        )
        return UpstreamRequest("POST", b"/v1/messages", headers, body)

    def _open_turn(self, request: UpstreamRequest) -> Turn:
        headers = text_headers(request.headers)
        return self._runtime.opener.open_turn(headers, request.body, MESSAGES, default=Mode.MANAGE)

    async def _check_fixed(self, body: bytes, budget: int) -> None:
        fixed = await _count(body)
        if fixed > budget:
            raise BudgetTooSmall(
                f"Session {self.name!r}: the budget is {budget} tokens, but the system prompt, the tools and the "
                f"messages since the last prompt have about {fixed}. Raise the budget above that, or shorten one."
            )

    async def _check_planned(self, body: bytes, budget: int) -> None:
        planned = await self._open_turn(self._request(body)).preview()
        tokens = await _count(planned[0] if planned is not None else body)
        if tokens > budget:
            raise BudgetTooSmall(
                f"Session {self.name!r}: the budget is {budget} tokens, but the content that cannot be evicted yet has "
                f"about {tokens}. Raise the budget above that; older content can be evicted after the next reply."
            )

    async def _hand_in(self, status: int, message: object) -> Context | None:
        handed = self._handed
        if handed is None:
            raise BadTurn("No request is pending: call context_for first.")
        return await self._advance(await handed.hand_in(status, json.dumps(message).encode()))

    async def _advance(self, step: ToSend | Ended) -> Context | None:
        handed = self._handed
        assert handed is not None
        self._address = handed.turn.address or self._address
        self._identity = await handed.turn.identity()
        await self._report_pressure()
        if isinstance(step, ToSend):
            return Context(step.body, await _count(step.body))
        self._handed = None
        if step.failure is not None:
            raise step.failure
        if step.status == 200:
            self._uses.clear()
            self._conversation.add_assistant(json.loads(step.body)["content"])
        return None

    async def _report_pressure(self) -> None:
        if self._on_pressure is None or self._identity is None or self._address is None:
            return
        found = await self.pressure()
        if found is not None and found.zone != self._zone:
            self._zone = found.zone
            try:
                self._on_pressure(found)
            except Exception:
                log.exception("%s: on_pressure failed", self.name)

    async def _give_up(self) -> None:
        handed, self._handed = self._handed, None
        if handed is not None:
            await handed.abandon()

    async def _find_place(self) -> tuple[Identity, str]:
        """Return this conversation's session and branch in the log, after the last turn became objects."""
        identity, address = self._identity, self._address
        if identity is None or address is None:
            raise BadTurn("Memory is empty because no request was sent yet: call context_for first.")
        with suppress(ActorStopped, VersionConflict):  # another process has continued the session
            await LoadedSessions(self._runtime.registry).flush(identity)
        return identity, address.branch


async def _count(body: bytes) -> int:
    return rounds.count_tokens((await read_in_thread(body)).transcript)
