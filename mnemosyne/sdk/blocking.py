"""A blocking session for threads without trio; a dedicated thread runs it."""

import queue
import threading
import warnings
import weakref
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

import trio

from mnemosyne.errors import BadTurn
from mnemosyne.sdk.conversation import Content, SdkMessage
from mnemosyne.sdk.session import ANSWER_TOKENS, MAX_TOKENS, AgentSession, CitedPassage, Context, Pressure, Restored

Answer = TypeVar("Answer")

ENDING_SECONDS = 30.0
"""How long closing waits for pending records to be written."""


class SessionThread:
    """The thread in which a session is open."""

    def __init__(self, session: AgentSession) -> None:
        self._session = session
        self._started: queue.Queue[BaseException | None] = queue.Queue()
        self._token: trio.lowlevel.TrioToken | None = None
        self._end = trio.Event()
        self._thread = threading.Thread(target=self._run, name=f"mnemosyne {session.name}", daemon=True)
        self._thread.start()
        if (error := self._started.get()) is not None:
            self._thread.join()
            raise error

    def call(self, ask: Callable[[], Awaitable[Answer]]) -> Answer:
        """Call ``ask`` in the session's thread and wait for its result. Raises BadTurn once the session is closed."""
        if self._token is None:
            raise BadTurn(f"Session {self._session.name!r} is closed.")
        return trio.from_thread.run(ask, trio_token=self._token)

    def end(self) -> None:
        """Close the session and wait until it is closed."""
        token, self._token = self._token, None
        if token is not None:
            token.run_sync_soon(self._end.set)
            self._thread.join(ENDING_SECONDS)

    def _run(self) -> None:
        try:
            trio.run(self._serve)
        except BaseException as error:
            self._started.put(error)

    async def _serve(self) -> None:
        async with self._session:
            self._token = trio.lowlevel.current_trio_token()
            self._started.put(None)
            await self._end.wait()


def _warn_and_end(thread: SessionThread, name: str) -> None:
    warnings.warn(f"{name}: a session was not closed; call close()", ResourceWarning, stacklevel=2)
    thread.end()


class SyncSession:
    """``Session`` for threads without trio; open from its creation until ``close``. One thread calls at a time.

    Takes the same arguments as ``Session``; each method does and raises the same. ``on_pressure`` is called in another
    thread and must not call the session. An asyncio program calls the methods
    with ``asyncio.to_thread``.
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
        self._session = AgentSession(
            name,
            system=system,
            tools=tools,
            messages=messages,
            data_dir=data_dir,
            dsn=dsn,
            on_pressure=on_pressure,
        )
        self._thread = SessionThread(self._session)
        self._parent: SyncSession | None = None
        """Set on a fork: the parent keeps the shared resources open."""
        self._unclosed = weakref.finalize(self, _warn_and_end, self._thread, self._session.name)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the session; closing twice has no effect. A fork is closed together with its parent."""
        if self._parent is None and self._unclosed.detach():
            self._thread.end()

    @property
    def name(self) -> str:
        """The session's name in the log."""
        return self._session.name

    @property
    def messages(self) -> list[dict[str, Any]]:
        """See ``Session.messages``."""
        return self._session.messages

    @property
    def open_calls(self) -> list[str]:
        """See ``Session.open_calls``."""
        return self._session.open_calls

    def user_says(self, content: Content) -> None:
        """See ``Session.user_says``."""
        self._session.user_says(content)

    def tool_result(
        self,
        call: str,
        content: Content,
        *,
        is_error: bool = False,
        reads: Sequence[str] = (),
        writes: Sequence[str] = (),
    ) -> None:
        """See ``Session.tool_result``."""
        self._session.tool_result(call, content, is_error=is_error, reads=reads, writes=writes)

    def context_for(self, model: str, budget: int, *, max_tokens: int = MAX_TOKENS, **fields: Any) -> Context:
        """See ``Session.context_for``."""
        return self._thread.call(partial(self._session.context_for, model, budget, max_tokens=max_tokens, **fields))

    def assistant_says(self, message: Mapping[str, Any] | SdkMessage) -> Context | None:
        """See ``Session.assistant_says``."""
        return self._thread.call(partial(self._session.assistant_says, message))

    def provider_fails(self, status: int, error: object) -> Context | None:
        """See ``Session.provider_fails``."""
        return self._thread.call(partial(self._session.provider_fails, status, error))

    def query(self, question: str, *, tokens: int = ANSWER_TOKENS) -> list[CitedPassage]:
        """See ``Session.query``."""
        return self._thread.call(partial(self._session.query, question, tokens=tokens))

    def pressure(self) -> Pressure | None:
        """See ``Session.pressure``."""
        return self._thread.call(self._session.pressure)

    def restore(self, object_id: str, reason: str = "the agent asked for it") -> Restored:
        """See ``Session.restore``."""
        return self._thread.call(partial(self._session.restore, object_id, reason))

    def create_object(self, name: str, text: str, *, tool: str | None = None, about: Sequence[str] = ()) -> str:
        """See ``Session.create_object``."""
        return self._thread.call(partial(self._session.create_object, name, text, tool=tool, about=about))

    def annotate(self, object_id: str, note: str) -> str:
        """See ``Session.annotate``."""
        return self._thread.call(partial(self._session.annotate, object_id, note))

    def link(self, source: str, relation: str, target: str) -> None:
        """See ``Session.link``."""
        return self._thread.call(partial(self._session.link, source, relation, target))

    def fork(self, name: str | None = None) -> "SyncSession":
        """See ``Session.fork``."""
        other = SyncSession.__new__(SyncSession)
        other._session, other._thread, other._parent = self._session.fork(name), self._thread, self
        return other
