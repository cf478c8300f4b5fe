"""The server's status endpoints under ``/-/``: health, readiness, status and metrics.

They work without the database and the page process. One more endpoint receives the reports of a client's hook.
"""

import hmac
import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Protocol

import attrs

from mnemosyne import __version__
from mnemosyne.domain.wire.exchange import Headers, Reachability
from mnemosyne.domain.wire.identity import SESSION_HEADER
from mnemosyne.domain.wire.messages import MESSAGES
from mnemosyne.domain.wire.submitted import ENDED_HEADER, INTERACTIVE_HEADER, PROMPT_HEADER
from mnemosyne.http.client_reply import RelayProgress
from mnemosyne.http.errors import error_body
from mnemosyne.http.gateway import Send, send_error
from mnemosyne.http.unfinished import Unfinished
from mnemosyne.upstreams import DIALECTS

PROBES = {f"/-/upstream/{dialect}".encode(): dialect for dialect in DIALECTS}
"""Endpoints that report whether the providers of a dialect are reachable."""

OWNER_PATH = b"/-/owner"
"""A client's hook posts here to mark the session in ``SESSION_HEADER`` as the owner's, and to vouch for the prompt in
``PROMPT_HEADER`` (``actors.owners``); or, with ``ENDED_HEADER``, to close that session.
"""

METRICS_TYPE = b"text/plain; version=0.0.4; charset=utf-8"
PATHS = (b"/-/health", b"/-/ready", b"/-/status", b"/-/metrics", OWNER_PATH, *PROBES)

OffSince = Callable[[], Awaitable[int | None]]
"""Returns the time since which managing is switched off, in µs of UTC; None if it is on."""


class Present(Protocol):
    """``actors.owners.MemoryOwners.present``."""

    def __call__(self, session: str, prompt: str | None = None, *, interactive: bool = False) -> None: ...


DescribeWorker = Callable[[], Awaitable[Mapping[str, object]]]
"""Returns the worker's state (``app.supervising.Supervisor.describe``)."""


@attrs.frozen(kw_only=True)
class ServerParts:
    """Callbacks to the server's other parts. ``database`` returns the recording state, ``metrics`` the page for a
    monitor; ``present`` marks a session as the owner's and vouches for a prompt; ``end`` begins to close a session that
    its client has ended.
    """

    off_since: OffSince
    worker: DescribeWorker
    database: Callable[[], Mapping[str, object]]
    metrics: Callable[[], Awaitable[str]]
    present: Present
    end: Callable[[str], None]
    probe: Callable[[str], Awaitable[list[Reachability]]]
    """Checks whether the providers of a dialect are reachable."""
    gather: Callable[[Mapping[str, Any]], Awaitable[dict[str, Any]]] | None = None
    """Merges the state of the server's other processes into that of this one; None if there are no others."""
    ignored: tuple[str, ...] = ()
    """A message for each unusable environment variable (``adapters.outbound``)."""


_WITHOUT_TOKEN = error_body(
    401, "authentication_error", "Send `Authorization: Bearer TOKEN`; the token is in the data directory.", MESSAGES
)
_WITHOUT_SESSION = error_body(
    400, "invalid_request_error", f"Send the session in the header {SESSION_HEADER}.", MESSAGES
)
_NOT_A_QUESTION = error_body(405, "invalid_request_error", "Only GET and HEAD are allowed here.", MESSAGES)


@attrs.frozen(kw_only=True)
class StatusPages:
    """Serves ``PATHS``. All but the first two need ``token``; for ``unrecorded`` see ``app.discovery.FoundServer``."""

    token: str
    settings: dict[str, str]
    progress: RelayProgress
    unfinished: Unfinished
    unrecorded: Mapping[str, int]
    parts: ServerParts

    async def answer(self, method: str, path: bytes, headers: Headers, send: Send) -> None:
        """Answer a request for one of the endpoints."""
        if path == OWNER_PATH and method == "POST":
            await self._present(headers, send)
        elif method not in ("GET", "HEAD") or path == OWNER_PATH:
            await send_error(send, _NOT_A_QUESTION)
        elif path == b"/-/health":
            await _send(send, {"status": "ok"})
        elif path == b"/-/ready":
            await self._say_whether_ready(send)
        elif not bears(headers, self.token):
            await send_error(send, _WITHOUT_TOKEN)
        elif path == b"/-/metrics":
            await _send_bytes(send, 200, METRICS_TYPE, (await self.parts.metrics()).encode())
        elif path in PROBES:
            reached = await self.parts.probe(PROBES[path])
            await _send(send, {"upstreams": [attrs.asdict(each) for each in reached]})
        else:
            await _send(send, await self._status())

    async def _present(self, headers: Headers, send: Send) -> None:
        given = {name.lower().decode("latin-1"): value.decode("latin-1").strip() for name, value in headers}
        session = given.get(SESSION_HEADER)
        if not bears(headers, self.token):
            await send_error(send, _WITHOUT_TOKEN)
        elif not session:
            await send_error(send, _WITHOUT_SESSION)
        elif ENDED_HEADER in given:
            self.parts.end(session)
            await _send(send, {"session": "ended"})
        else:
            interactive = given.get(INTERACTIVE_HEADER) == "1"
            self.parts.present(session, given.get(PROMPT_HEADER) or None, interactive=interactive)
            await _send(send, {"session": "the owner's"})

    async def _say_whether_ready(self, send: Send) -> None:
        # Independent of the worker and the database: the proxy forwards turns without them.
        status, word = (503, "full") if self.unfinished.is_full else (200, "ready")
        described = await self._describe_all()
        shown: dict[str, object] = {name: described[name] for name in ("database", "processes") if name in described}
        await _send(send, {"status": word, **shown, "worker": dict(await self.parts.worker())}, status)

    async def _status(self) -> dict[str, Any]:
        return {
            "version": __version__,
            "upstream": self.settings["upstream"],
            "tenant": self.settings["tenant"],
            "settings": dict(self.settings),
            "off_since": await self.parts.off_since(),
            "ignored_variables": list(self.parts.ignored),
            **await self._describe_all(),
            "worker": dict(await self.parts.worker()),
        }

    def describe(self) -> dict[str, Any]:
        """Describe this process alone, without the server's others."""
        fields = attrs.fields(RelayProgress)
        relays = attrs.asdict(self.progress, filter=attrs.filters.exclude(fields.untold, fields.passed_on))
        relays["running"] -= self.progress.passed_on
        return {
            "unrecorded": dict(self.unrecorded),
            "untold": attrs.asdict(self.progress.untold),
            "relays": relays,
            "database": dict(self.parts.database()),
        }

    async def _describe_all(self) -> dict[str, Any]:
        own = self.describe()
        return own if self.parts.gather is None else await self.parts.gather(own)


def bears(headers: Headers, token: str) -> bool:
    """Whether a request has the bearer token (RFC 6750, 2.1)."""
    given = next((value for name, value in headers if name.lower() == b"authorization"), b"")
    scheme, _, shown = given.partition(b" ")
    return scheme.lower() == b"bearer" and hmac.compare_digest(shown.strip(), token.encode())


async def _send(send: Send, value: object, status: int = 200) -> None:
    await _send_bytes(send, status, b"application/json", json.dumps(value).encode())


async def _send_bytes(send: Send, status: int, kind: bytes, body: bytes) -> None:
    headers = [(b"content-type", kind), (b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body, "more_body": False})
