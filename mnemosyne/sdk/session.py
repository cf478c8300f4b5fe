"""One conversation of an agent that has Mnemosyne in its own process (trio)."""

import json
import os
import warnings
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import attrs

import mnemosyne
from mnemosyne.actors.loaded_sessions import LoadedSessions
from mnemosyne.actors.messages import Identity
from mnemosyne.actors.threads import read_in_thread
from mnemosyne.actors.turn import Turn
from mnemosyne.app.object_index import catch_up
from mnemosyne.app.process import new_id, now
from mnemosyne.config import Config, load
from mnemosyne.domain.objects.fidelity import Fidelity
from mnemosyne.domain.recall.object_search import Filter
from mnemosyne.domain.session.address import Address
from mnemosyne.domain.session.round_events import Mode
from mnemosyne.domain.window import rounds
from mnemosyne.domain.wire.exchange import UpstreamRequest
from mnemosyne.domain.wire.identity import SESSION_HEADER
from mnemosyne.domain.wire.messages import MESSAGES
from mnemosyne.errors import ActorStopped, BadEntry, BadTurn, BudgetTooSmall, ReplyCut, VersionConflict
from mnemosyne.http.headers import text_headers
from mnemosyne.sdk.conversation import AgentHistory, Content, SdkMessage, message_of
from mnemosyne.sdk.handed import Ended, HandedTurn, ToSend
from mnemosyne.sdk.runtime import Runtime, open_runtime
from mnemosyne.services import asking, object_view, pins

MAX_TOKENS = 8192
"""The most that a reply may have, unless the agent says otherwise."""

ANSWER_TOKENS = 2000
"""The most that ``query`` answers, unless the agent says otherwise."""


@attrs.frozen
class Context:
    """A request that the agent sends now. ``body`` is its JSON, as it is on record; it has about ``tokens``."""

    body: bytes = attrs.field(repr=False)
    tokens: int

    @property
    def request(self) -> dict[str, Any]:
        """The same as arguments of the vendor's library, to create a message."""
        found: dict[str, Any] = json.loads(self.body)
        return found


@attrs.frozen
class CitedPassage:
    """Words of an object of the session that answer a question."""

    text: str
    object_id: str


@attrs.frozen
class Restored:
    """An object in full. ``problem`` says why the next context does not show it again; None if it does."""

    text: str
    problem: str | None


class AgentSession:
    """One conversation, named ``name`` in the log. It is open inside ``async with``, in the task that opened it.

    ``system``, ``tools`` and ``messages`` are those of the Messages API; ``messages`` is the history of a conversation
    that goes on. The log is in ``data_dir``, or in the PostgreSQL that ``dsn`` names; all other settings come from
    Mnemosyne's own file and environment.
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
    ) -> None:
        self.name = name or f"library-{new_id()}"
        self._where = {"data_dir": None if data_dir is None else str(data_dir), "dsn": dsn}
        self._conversation = AgentHistory(system, tools, messages)
        self._stack: AsyncExitStack | None = None
        self._opened: Runtime | None = None
        self._handed: HandedTurn | None = None
        self._identity: Identity | None = None
        self._address: Address | None = None

    async def __aenter__(self) -> Self:
        """Open it. Raises BadConfiguration, and LogFailed where the database cannot be had."""
        config: Config = load(self._where, os.environ)
        async with AsyncExitStack() as stack:
            self._opened = await stack.enter_async_context(open_runtime(config))
            self._stack = stack.pop_all()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close it: what was said is durable then, and a turn that waits for its reply is given up."""
        stack, self._stack = self._stack, None
        try:
            await self._give_up()
        finally:
            self._opened = None
            if stack is not None:
                await stack.aclose()  # an error of the agent's own is not wrapped in groups

    def __del__(self) -> None:
        if getattr(self, "_stack", None) is not None:
            warnings.warn(f"{self.name}: a session was not closed; use async with", ResourceWarning, 2, self)

    # What is said

    @property
    def messages(self) -> list[dict[str, Any]]:
        """The history as the agent knows it, to be kept and given to a later ``Session``."""
        return self._conversation.copy().messages

    @property
    def open_calls(self) -> list[str]:
        """The ids of the calls that wait for ``tool_result``."""
        return self._conversation.list_open_calls()

    def user_says(self, content: Content) -> None:
        """The user says a text, or blocks. Raises BadTurn while a reply is awaited."""
        self._check_idle()
        self._conversation.add_user(content)

    def tool_result(self, call: str, content: Content, *, is_error: bool = False) -> None:
        """The call with this id got a result. Raises BadTurn where it does not wait for one."""
        self._check_idle()
        self._conversation.add_result(call, content, is_error=is_error)

    async def context_for(self, model: str, budget: int, *, max_tokens: int = MAX_TOKENS, **fields: Any) -> Context:
        """The request that the agent sends now, in at most ``budget`` tokens, about. ``fields`` are further members of
        it, as ``thinking`` or ``temperature``.

        A request that no reply came for is given up. Raises BadTurn where it is not the model's turn, and
        BudgetTooSmall where what must be sent has more tokens; nothing is recorded then.
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
        context = await self._go_on(await self._handed.step())
        if context is None:
            raise ReplyCut("the turn ended before its request could be made; see the log.")
        return context

    async def assistant_says(self, message: Mapping[str, Any] | SdkMessage) -> Context | None:
        """The provider replied with this message. Another request to send, where the model asked its memory; None once
        the reply is whole, and in the history without what was asked of memory. Raises BadTurn where no request is out.
        """
        return await self._hand_in(200, message_of(message))

    async def provider_fails(self, status: int, error: object) -> Context | None:
        """The provider answered with this HTTP status and the JSON of this error. Another request to send, where that
        helps; None where it does not: then ``context_for`` begins the turn anew. Raises BadTurn where no request is
        out.
        """
        return await self._hand_in(status, error)

    # What is remembered

    async def query(self, question: str, *, tokens: int = ANSWER_TOKENS) -> list[CitedPassage]:
        """What this conversation remembers that answers a question, the best first, in at most so many tokens. What was
        said since the user last spoke is not searched: it stands in ``messages``. Raises BadTurn before the first
        request.
        """
        runtime = self._runtime
        identity, branch = await self._find_place()
        await catch_up(runtime.models, runtime.index)
        found = await asking.ask(
            runtime.models.archive, runtime.index, identity.stream, question, Filter(branch=branch), tokens
        )
        return [CitedPassage(each.quote.text, each.quote.object_id) for each in found.cited]

    async def restore(self, object_id: str, reason: str = "the agent asked for it") -> Restored:
        """An object in full, which the context shows again behind what the user says next. Raises NotFound."""
        archive = self._runtime.models.archive
        identity, branch = await self._find_place()
        session = str(identity.stream)
        text = await object_view.read_text(archive, session, object_id, Fidelity.FULL)
        problem: str | None = None
        try:
            await pins.restore(
                archive, object_id, session=session, branch=branch, reason=reason, at=now(), correlation_id=new_id()
            )
        except BadEntry as error:
            problem = str(error)
        return Restored(text or "", problem)

    def fork(self, name: str | None = None) -> "AgentSession":
        """Another conversation with the same history so far, open for as long as this one. Raises BadTurn while a reply
        is awaited.
        """
        self._check_idle()
        other = AgentSession(name or f"{self.name}-{new_id()}")
        other._conversation, other._opened = self._conversation.copy(), self._runtime
        return other

    # How a turn goes

    @property
    def _runtime(self) -> Runtime:
        if self._opened is None:
            raise BadTurn(f"Session {self.name!r} is not open: use it inside `async with`.")
        return self._opened

    def _check_idle(self) -> None:
        if self._handed is not None:
            raise BadTurn("A request is out: give its reply with assistant_says, or its error with provider_fails.")

    def _request(self, body: bytes) -> UpstreamRequest:
        headers = (
            (b"content-type", b"application/json"),
            (b"user-agent", f"mnemosyne-library/{mnemosyne.__version__}".encode()),
            (SESSION_HEADER.encode(), self.name.encode()),
        )
        return UpstreamRequest("POST", b"/v1/messages", headers, body)

    def _open_turn(self, request: UpstreamRequest) -> Turn:
        headers = text_headers(request.headers)
        return self._runtime.opener.open_turn(headers, request.body, MESSAGES, default=Mode.MANAGE)

    async def _check_fixed(self, body: bytes, budget: int) -> None:
        fixed = await _count(body)
        if fixed > budget:
            raise BudgetTooSmall(
                f"Session {self.name!r}: the budget is {budget} tokens, and system prompt, tools and what was said "
                f"since the user last spoke have about {fixed}. Raise the budget above that, or shorten one of them."
            )

    async def _check_planned(self, body: bytes, budget: int) -> None:
        planned = await self._open_turn(self._request(body)).preview()
        tokens = await _count(planned or body)
        if tokens > budget:
            raise BudgetTooSmall(
                f"Session {self.name!r}: the budget is {budget} tokens, and what has to stay in view now has about "
                f"{tokens}. Raise the budget above that; older parts leave once a reply came behind them."
            )

    async def _hand_in(self, status: int, message: object) -> Context | None:
        handed = self._handed
        if handed is None:
            raise BadTurn("No request is out: ask for one with context_for first.")
        return await self._go_on(await handed.hand_in(status, json.dumps(message).encode()))

    async def _go_on(self, step: ToSend | Ended) -> Context | None:
        handed = self._handed
        assert handed is not None
        self._address = handed.turn.address or self._address
        self._identity = await handed.turn.identity()
        if isinstance(step, ToSend):
            return Context(step.body, await _count(step.body))
        self._handed = None
        if step.failure is not None:
            raise step.failure
        if step.status == 200:
            self._conversation.add_assistant(json.loads(step.body)["content"])
        return None

    async def _give_up(self) -> None:
        handed, self._handed = self._handed, None
        if handed is not None:
            await handed.abandon()

    async def _find_place(self) -> tuple[Identity, str]:
        """Session and branch in the log, once what was said last is in objects."""
        identity, address = self._identity, self._address
        if identity is None or address is None:
            raise BadTurn("Nothing was sent yet, so nothing is remembered: context_for comes first.")
        with suppress(ActorStopped, VersionConflict):  # then another process went on with the session
            await LoadedSessions(self._runtime.registry).flush(identity)
        return identity, address.branch


async def _count(body: bytes) -> int:
    return rounds.count_tokens((await read_in_thread(body)).transcript)
