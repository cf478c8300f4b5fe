"""A provider that answers from the record: the same client can repeat a session without a network."""

import json
import os
import re
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import asynccontextmanager

import attrs
import trio

from mnemosyne.domain.session.round_events import Mode
from mnemosyne.domain.wire.dialect import Dialect
from mnemosyne.domain.wire.exchange import ReplyHead, Upstream, UpstreamReply, UpstreamRequest
from mnemosyne.domain.wire.identity import read_client_headers
from mnemosyne.domain.wire.reply import json_object
from mnemosyne.domain.wire.reply_stream import stream_reply
from mnemosyne.errors import ReplyCut, UpstreamFailed
from mnemosyne.http.app import answer_lifespan, refusal_of
from mnemosyne.http.errors import error_body
from mnemosyne.http.gateway import Gateway, Receive, Scope, Send, refuse, target_of
from mnemosyne.http.headers import TextHeaders, text_headers
from mnemosyne.http.messages_route import error_dialect, readable_body, turn_dialect
from mnemosyne.http.turn_log import TurnLog, Unrecorded
from mnemosyne.services.recorded_replies import RecordedReply, Replay

_JSON = ((b"content-type", b"application/json"),)
_STREAM = ((b"content-type", b"text/event-stream; charset=utf-8"),)

_RETRY = ((b"retry-after", b"0"), (b"x-should-retry", b"true"))  # at once
_NO_RETRY = ((b"x-should-retry", b"false"),)

STOPPED = "Mnemosyne: in the recording, the client stopped waiting for this reply, so the replay ends it here."
NOT_RECORDED = (
    "Mnemosyne: the recorded session has no such request, so it cannot be answered. `mnemosyne replay` shows the "
    "first difference at its end."
)


@attrs.frozen
class _Reply:
    """A reply of ``pieces`` that is cut off at its end unless it is ``complete``. It takes ``took`` µs, its first byte
    ``waited`` of them.
    """

    head: ReplyHead
    pieces: tuple[bytes, ...]
    complete: bool = True
    waited: int = 0
    took: int = 0

    async def chunks(self) -> AsyncGenerator[bytes, None]:
        pause = max(0, self.took - self.waited) / 1e6 / max(1, len(self.pieces))
        for piece in self.pieces:
            yield piece
            await trio.sleep(pause)  # spreads the pieces over the recorded time
        if not self.complete:
            raise ReplyCut("the recorded reply broke off here.")


@attrs.frozen
class FolderCopy:
    """A copy of the ``recorded`` folder at ``here``: a client that works in it gets and sends its paths. A path below
    the user's ``home`` may also begin with ``~`` or ``$HOME``.
    """

    recorded: str = ""
    here: str = ""
    home: str = ""

    def rename_for_record(self, text: bytes) -> bytes:
        """The JSON of a request, of this run or recorded, with the recorded folder in place of its other names."""
        return _rename(self._resolve_home(text), self.here, self.recorded)

    def rename_for_client(self, text: bytes) -> bytes:
        """The JSON of a recorded reply with the copy in place of the folder."""
        return _rename(self._resolve_home(text), self.recorded, self.here)

    def _resolve_home(self, text: bytes) -> bytes:
        within = self.recorded[len(self.home) :] if self.home and self.recorded.startswith(f"{self.home}/") else ""
        for home in _HOMES if within else ():
            for before, after in zip(_spell(within), _spell(self.recorded), strict=True):
                text = _replace(text, _PATH, home + before, after)
        return text


_HOMES = (b"~", b"$HOME", b"${HOME}", rb"\"$HOME\"", rb"\"${HOME}\"")


def _rename(text: bytes, old: str, new: str) -> bytes:
    """Replace a folder by another, also in the form in which Claude Code names a folder of its own for each project."""
    for before, after in zip(_spell(old), _spell(new), strict=True) if old else ():
        text = _replace(text, _PATH, before, after)
    slugs = (os.fsencode(re.sub("[^A-Za-z0-9]", "-", path)) for path in (old, new))
    return _replace(text, rb"(?<=/)", *slugs) if old else text


def _spell(path: str) -> list[bytes]:
    """The spellings of a path in JSON: plain and shell-escaped, each with non-ASCII letters as such and as escapes."""
    escaped = re.sub(r"([^\w/.@%+=:,~-])", r"\\\1", path)
    return [
        os.fsencode(json.dumps(each, ensure_ascii=only_ascii)[1:-1])
        for each in (path, escaped)
        for only_ascii in (False, True)
    ]


def _replace(text: bytes, start: bytes, before: bytes, after: bytes) -> bytes:
    return after.join(re.split(start + re.escape(before) + rb"(?![\w.-])", text)) if before in text else text


_PATH = rb"(?:(?<![\w.~-])(?<!:/)|(?<=\\[nrt])|(?<=[\s\"']-[A-Za-z]))"
"""Where an absolute path begins, and not the rest of another one: also behind an escape in JSON, or an option."""


@attrs.frozen
class RecordedUpstream:
    """An ``exchange.Upstream``. A request without a record goes to the ``live`` provider, or gets an error if there is
    none. With ``at_speed``, a reply takes as long as it did.
    """

    replay: Replay
    live: Upstream | None = None
    at_speed: bool = False
    copy: FolderCopy = FolderCopy()

    @asynccontextmanager
    async def exchange(self, request: UpstreamRequest, sent: Callable[[], None]) -> AsyncIterator[UpstreamReply]:
        dialect = turn_dialect(request)
        if dialect is not None:
            client = read_client_headers(text_headers(request.headers))
            self.replay.programs.add(" ".join(filter(None, (client.client, client.version))))
            body = readable_body(request.headers, request.body) or request.body
            recorded = await self.replay.find(body, dialect)
            if recorded is not None:
                reply = self._reply(recorded, dialect)
                await trio.sleep(reply.waited / 1e6)  # the recorded time to the first byte
                yield reply
                return
        if self.live is not None:
            async with self.live.exchange(request, sent) as live:
                yield live
            return
        status, kind = (404, "not_found_error") if dialect is None else dialect.over_budget
        yield _refuse(status, kind, NOT_RECORDED, error_dialect(request.target))

    def _reply(self, recorded: RecordedReply, dialect: Dialect) -> _Reply:
        if recorded.is_stopped:
            return _refuse(*dialect.over_budget, STOPPED, dialect)
        if recorded.status is None or recorded.body is None:
            raise UpstreamFailed("the recorded provider gave no answer.")
        body = self.copy.rename_for_client(recorded.body)
        message = json_object(body)
        streams = recorded.streamed and recorded.status == 200 and bool(message)
        pieces = tuple(stream_reply(message, dialect, complete=recorded.complete)) if streams else (body,)
        times = (recorded.waited, recorded.took) if self.at_speed else (0, 0)
        retry = () if recorded.status < 400 else _RETRY if recorded.is_repeated else _NO_RETRY
        head = ReplyHead(recorded.status, (_STREAM if streams else _JSON) + retry)
        return _Reply(head, pieces, recorded.complete, *times)


def _refuse(status: int, kind: str, message: str, dialect: Dialect) -> _Reply:
    """An error that no client retries, with a status and kind as in ``Dialect.over_budget``."""
    error = error_body(status, kind, message, dialect)
    return _Reply(ReplyHead(error.status, _JSON + _NO_RETRY), (error.body,))


class NoTurns:
    """A ``TurnLogs`` that records nothing."""

    def open_turn(self, *_args: object, **_named: object) -> TurnLog:
        return Unrecorded()

    async def read_history(self, headers: TextHeaders, body: bytes, dialect: Dialect) -> tuple[str, list[bytes]]:
        return "", []

    async def may_be_managed(self, headers: TextHeaders, dialect: Dialect, wanted: Mode | None, default: Mode) -> bool:
        return False


@attrs.frozen
class ReplayServer:
    """The ASGI application for the client of a replay. It is also the client's HTTP proxy, which refuses every
    connection; ``refused`` counts them by host.
    """

    gateway: Gateway
    refused: Counter[str] = attrs.field(factory=Counter)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await answer_lifespan(receive, send)
            return
        target = target_of(scope)
        error = refusal_of(scope["method"], target, tuple(scope["headers"]))
        if error is None:
            await self.gateway.answer(scope, receive, send)
            return
        if scope["method"] == "CONNECT" or b"://" in target:
            host = target.partition(b"://")[2] or target
            self.refused[host.partition(b"/")[0].decode(errors="replace")] += 1
        await refuse(send, error)
