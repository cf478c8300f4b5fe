"""The ASGI application: our own pages under ``/-/``, and everything else is the provider's. Neither is for web pages of
others.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import attrs
import trio
from quart import request
from quart_trio import QuartTrio
from quart_trio.wrappers import TrioResponse
from werkzeug.exceptions import HTTPException

from mnemosyne.config import Config, list_settings
from mnemosyne.domain.wire.exchange import Headers
from mnemosyne.domain.wire.messages import MESSAGES
from mnemosyne.http.browsers import Callers, is_preflight, preflight_reply, readable_by
from mnemosyne.http.edges import refusal_of
from mnemosyne.http.errors import ErrorBody, error_body
from mnemosyne.http.gateway import Gateway, Message, Receive, Scope, Send, refuse
from mnemosyne.http.inspector.guard import refusal
from mnemosyne.http.inspector.pages import pages
from mnemosyne.http.messages_route import error_dialect

_ERROR_NAMES = {404: "not_found_error", 405: "invalid_request_error"}


@attrs.frozen
class Application:
    """What the server calls for each request."""

    gateway: Gateway
    pages: QuartTrio
    callers: Callers

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            headers: Headers = tuple(scope["headers"])
            if refused := self._refusal(scope, headers):
                await refuse(_shield_last(send), refused)
                return
            if page := self.callers.page(headers):
                if is_preflight(scope["method"], headers):
                    await _send_empty(_shield_last(send), preflight_reply(page, headers))
                    return
                send = _readable_by(page, send)
        await self._answer(scope, receive, send)

    def _refusal(self, scope: Scope, headers: Headers) -> ErrorBody | None:
        foreign = self.callers.refusal(headers)
        if foreign is not None:
            dialect = error_dialect(scope["raw_path"])
            return error_body(403, "permission_error", f"Mnemosyne: {foreign}", dialect)
        return refusal_of(scope["method"], scope["raw_path"], headers)

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or _is_ours(scope["raw_path"]):
            pages: Any = self.pages  # the framework names the same messages by other types
            await pages(scope, receive, _shield_last(send))
        else:
            await self.gateway.answer(scope, receive, _shield_last(send))


OffSince = Callable[[], Awaitable[int | None]]


ToldOfWorker = Callable[[], Awaitable[Mapping[str, object]]]


def create_app(config: Config, gateway: Gateway, token: str, off_since: OffSince, worker: ToldOfWorker) -> Application:
    """Build the application. ``token`` opens our own pages; ``off_since`` says since when nothing is to be managed, and
    ``worker`` how the worker does.
    """
    callers = Callers(frozenset({config.host, *config.allowed_hosts}), frozenset(config.allowed_origins))
    return Application(gateway, _create_pages(config, gateway, token, off_since, worker), callers)


def _is_ours(path: bytes) -> bool:
    return path == b"/-" or path.startswith(b"/-/")


async def _send_empty(send: Send, headers: Headers) -> None:
    await send({"type": "http.response.start", "status": 204, "headers": list(headers)})
    await send({"type": "http.response.body", "body": b"", "more_body": False})


def _readable_by(page: str, send: Send) -> Send:
    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            message = {**message, "headers": [*message["headers"], *readable_by(page)]}
        await send(message)

    return sending


def _shield_last(send: Send) -> Send:
    """``send``, but nothing can cancel its last call.

    The server announces the disconnect before that call returns, and whoever is cancelled by the announcement would
    cancel it: the connection would never be told that it is idle, nor be closed at shutdown.
    """

    async def shielding(message: Message) -> None:
        if message["type"] != "http.response.body" or message.get("more_body", False):
            await send(message)
            return
        with trio.CancelScope(shield=True):
            await send(message)

    return shielding


def _create_pages(config: Config, gateway: Gateway, token: str, off_since: OffSince, worker: ToldOfWorker) -> QuartTrio:
    app = QuartTrio("mnemosyne", static_folder=None)
    app.register_blueprint(
        pages(
            settings=list_settings(config),
            progress=gateway.progress,
            unrecorded=gateway.unrecorded,
            off_since=off_since,
            worker=worker,
        )
    )

    @app.before_request
    async def guard() -> TrioResponse | None:
        return refusal(request, token=token)

    @app.errorhandler(HTTPException)
    async def unknown_page(error: HTTPException) -> TrioResponse:
        status = error.code or 500
        told = error_body(
            status, _ERROR_NAMES.get(status, "api_error"), f"{request.path}: {error.description}", MESSAGES
        )
        return TrioResponse(told.body, told.status, content_type="application/json")

    return app
