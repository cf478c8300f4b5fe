"""A blocking session for threads without trio; a dedicated thread runs it."""

import warnings
import weakref
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager
from functools import partial, wraps
from pathlib import Path
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

import trio

from mnemosyne.app.threads import in_a_thread
from mnemosyne.errors import BadTurn
from mnemosyne.sdk.conversation import Content
from mnemosyne.sdk.session import AgentSession, Pressure

Answer = TypeVar("Answer")
Arguments = ParamSpec("Arguments")


class SessionThread:
    """The thread in which a session is open."""

    def __init__(self, session: AgentSession) -> None:
        self._name = session.name
        self._opened = ExitStack()
        opening = in_a_thread(partial(_open, session), f"mnemosyne {session.name}")
        self._token: trio.lowlevel.TrioToken | None = self._opened.enter_context(opening)

    def call(self, ask: Callable[[], Awaitable[Answer]]) -> Answer:
        """Call ``ask`` in the session's thread and wait for its result. Raises BadTurn once the session is closed."""
        if self._token is None:
            raise BadTurn(f"Session {self._name!r} is closed.")
        return trio.from_thread.run(ask, trio_token=self._token)

    def end(self) -> None:
        """Close the session and wait until it is closed."""
        self._token = None
        self._opened.close()


@asynccontextmanager
async def _open(session: AgentSession) -> AsyncIterator[trio.lowlevel.TrioToken]:
    async with session:
        yield trio.lowlevel.current_trio_token()


def _warn_and_end(thread: SessionThread, name: str) -> None:
    warnings.warn(f"{name}: a session was not closed; call close()", ResourceWarning, stacklevel=2)
    thread.end()


def _in_thread(
    method: Callable[Concatenate[AgentSession, Arguments], Awaitable[Answer]],
) -> Callable[Concatenate["SyncSession", Arguments], Answer]:
    """A method of ``SyncSession`` that calls a method of ``Session`` in its thread, and waits."""

    @wraps(method)
    def call(self: "SyncSession", /, *args: Arguments.args, **settings: Arguments.kwargs) -> Answer:
        return self._thread.call(lambda: method(self._session, *args, **settings))

    return call


def _here(
    method: Callable[Concatenate[AgentSession, Arguments], Answer],
) -> Callable[Concatenate["SyncSession", Arguments], Answer]:
    """The same for a method that waits for nothing: it is called in the caller's thread."""

    @wraps(method)
    def call(self: "SyncSession", /, *args: Arguments.args, **settings: Arguments.kwargs) -> Answer:
        return method(self._session, *args, **settings)

    return call


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

    user_says = _here(AgentSession.user_says)
    tool_result = _here(AgentSession.tool_result)
    tool = _here(AgentSession.tool)
    context_for = _in_thread(AgentSession.context_for)
    assistant_says = _in_thread(AgentSession.assistant_says)
    provider_fails = _in_thread(AgentSession.provider_fails)
    query = _in_thread(AgentSession.query)
    pressure = _in_thread(AgentSession.pressure)
    restore = _in_thread(AgentSession.restore)
    prepare = _in_thread(AgentSession.prepare)
    manifest = _in_thread(AgentSession.manifest)
    citations = _in_thread(AgentSession.citations)
    create_object = _in_thread(AgentSession.create_object)
    annotate = _in_thread(AgentSession.annotate)
    link = _in_thread(AgentSession.link)

    def fork(self, name: str | None = None) -> "SyncSession":
        """See ``Session.fork``."""
        other = SyncSession.__new__(SyncSession)
        other._session, other._thread, other._parent = self._session.fork(name), self._thread, self
        return other
