"""Route each request to the server process that owns its session, where several processes serve one address.

A session's turns go to one process, its owner, because reading a session from the log takes longer than anything else
(ADR 103). A connection is handed over to the owner of its first request, unread. A request of another session on
the same connection is passed on to its own owner.
"""

import logging
import socket
from array import array
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from pathlib import Path

import attrs
import trio

from mnemosyne import credentials
from mnemosyne.bounded import Lru
from mnemosyne.domain.wire.exchange import Headers, Upstream, UpstreamRequest
from mnemosyne.domain.wire.identity import read_client_headers
from mnemosyne.errors import MnemosyneError, UpstreamFailed, UpstreamUnreachable
from mnemosyne.http.client_reply import RelayProgress
from mnemosyne.http.headers import for_client, text_headers

log = logging.getLogger(__name__)

OWNERS_HELD = 4096
"""Number of sessions whose owner a process remembers."""

HANDED = "handed"
"""The prefix of the names of sockets on which connections are handed over."""

LARGEST_PEEK = 64 * 1024
"""Maximum size of the head of a connection's first request, in bytes; of a larger one, only this much is read."""

PEEK_SECONDS, AGAIN_SECONDS = 1.0, 0.005
"""Maximum wait for the rest of a head, and the interval between checks."""

HANG_SECONDS = 1.0
"""Maximum wait for a process to become ready to take over a connection."""

UNNAMED = "\0"
"""The prefix of the name that ``names_of`` returns for a session without one."""

_SIGN = b"."
"""The byte of each message: ready, here is the connection, taken over."""

Send = Callable[[dict[str, object]], Awaitable[None]]
History = tuple[str, list[bytes]]
"""The tenant of a request, and the hashes of the history that it shows (``domain.session.decide.CHAIN_BYTES``)."""

FindOwner = Callable[[str, str, History | None], Awaitable[tuple[int, bool]]]
"""Returns the number of the process that owns a session, and whether that is final; for a new session it is only final
with the request's history. Later requests may use the second name instead.
"""


def names_of(headers: Headers) -> tuple[str, str]:
    """Return the name by which the owner of a request's session is found, and the name of its agent, or the same name
    again. Sessions without a name share the owner of their credential.
    """
    given = text_headers(headers)
    client = read_client_headers(given)
    named = client.external_id or UNNAMED + credentials.digest("\0".join(sorted(credentials.in_headers(given))))
    return named, client.agent_id or named


async def peek(connection: trio.socket.SocketType) -> UpstreamRequest | None:
    """Return the head of a connection's first request, which stays unread; None if the client has closed it. If
    the head is too large, late or not HTTP, return what has arrived.
    """
    data = await connection.recv(LARGEST_PEEK, socket.MSG_PEEK)
    with trio.move_on_after(PEEK_SECONDS):
        while data and b"\r\n\r\n" not in data and len(data) < LARGEST_PEEK:
            await trio.sleep(AGAIN_SECONDS)  # the socket stays readable, since nothing is taken from it
            data = await connection.recv(LARGEST_PEEK, socket.MSG_PEEK)
    if not data:
        return None
    first, *lines = data.partition(b"\r\n\r\n")[0].split(b"\r\n")
    method, _, rest = first.partition(b" ")
    pairs = (line.partition(b":") for line in lines)
    headers = tuple((name, value.strip()) for name, _, value in pairs)
    return UpstreamRequest(method.decode("latin-1"), rest.partition(b" ")[0], headers, b"")


async def hand_over(connection: trio.socket.SocketType, path: Path) -> None:
    """Give a connection to the process that listens at ``path``. Raises OSError if the process has ended or hangs;
    it has then read nothing, and the connection can be given to another.
    """
    async with await trio.open_unix_socket(str(path)) as stream:
        process = stream.socket
        with trio.move_on_after(HANG_SECONDS):
            if await process.recv(1):
                rights = (socket.SOL_SOCKET, socket.SCM_RIGHTS, array("i", [connection.fileno()]))
                await process.sendmsg([_SIGN], [rights])
                with trio.CancelScope(shield=True):
                    if await process.recv(1):
                        return
    raise OSError("the process took over no connection")


def is_handed(stream: trio.SocketStream) -> bool:
    """Whether a connection is handed over on this one."""
    local = stream.socket
    return local.family == socket.AF_UNIX and Path(local.getsockname()).name.startswith(HANDED)


async def take_over(stream: trio.SocketStream) -> trio.SocketStream | None:
    """Return the connection that is handed over on this one; None if the other process gave it up."""
    async with stream:
        with suppress(OSError):
            await stream.socket.send(_SIGN)
            _, found, _, _ = await stream.socket.recvmsg(1, socket.CMSG_SPACE(array("i").itemsize))
            for number in array("i", found[0][2]) if found else ():
                taken = trio.SocketStream(trio.socket.from_stdlib_socket(socket.socket(fileno=number)))
                with suppress(OSError):
                    await stream.socket.send(_SIGN)
                return taken
    return None


@attrs.frozen
class Sharing:
    """One of several processes. ``others`` are the others by number; ``find_owner`` asks the process that started
    them.
    """

    number: int
    others: Mapping[int, Upstream]
    find_owner: FindOwner
    progress: RelayProgress
    shards: int = 1
    """The number of databases that share the sessions; process N uses the database N modulo this."""
    _owners: Lru[tuple[str, str], int] = attrs.field(factory=lambda: Lru(OWNERS_HELD), init=False)

    def forget_owners(self) -> None:
        """Forget all owners, because a process has ended, hangs or has recovered."""
        self._owners.clear()

    async def pass_on(
        self, request: UpstreamRequest, send: Send, read_history: Callable[[], Awaitable[History | None]]
    ) -> bool:
        """Let the owner of a request's session answer it. False: this process must answer it, as it is the owner, or
        the owner cannot be reached. Raises UpstreamFailed if the owner ends before it answers: it may have asked the
        provider.
        """
        names = names_of(request.headers)
        owner = self._owners.get(names)
        if owner is None:
            try:
                owner, is_final = await self.find_owner(*names, None)
                if not is_final and (history := await read_history()) is not None:
                    owner, is_final = await self.find_owner(*names, history)
                if is_final:
                    self._owners.put(names, owner)
            except MnemosyneError as error:
                if self.shards > 1:
                    raise UpstreamFailed(f"the database of a session is unknown now: {error}") from None
                log.info("the owner of a session is unknown, so this process answers: %s", error)
                return False
        if owner == self.number:
            return False
        self.progress.running += 1
        self.progress.passed_on += 1
        try:
            return await self._pass(self.others[owner], request, send)
        finally:
            self.progress.running -= 1
            self.progress.passed_on -= 1

    async def _pass(self, owner: Upstream, request: UpstreamRequest, send: Send) -> bool:
        try:
            async with owner.exchange(request, lambda: None) as reply:
                headers = list(for_client(reply.head.headers))
                await send({"type": "http.response.start", "status": reply.head.status, "headers": headers})
                async for chunk in reply.chunks():
                    await self._send(send, chunk, more=True)
        except UpstreamUnreachable as error:
            self.forget_owners()
            if self.shards > 1:
                raise  # this process may use another database
            log.warning("The owner of a session has ended; this process takes over: %s", error)
            return False
        except MnemosyneError:
            self.forget_owners()
            raise
        await self._send(send, b"", more=False)
        return True

    async def _send(self, send: Send, chunk: bytes, *, more: bool) -> None:
        self.progress.waiting_for_client += 1
        try:
            await send({"type": "http.response.body", "body": chunk, "more_body": more})
        finally:
            self.progress.waiting_for_client -= 1
        self.progress.delivered += 1
