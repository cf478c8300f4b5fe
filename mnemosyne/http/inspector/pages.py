"""The web application of the pages under ``/-/``. Each page shows one service's result, as HTML or (``.json``) as JSON.

Pages load nothing from other hosts, have no inline scripts, and escape all session content.
"""

import gzip
import zlib
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from typing import Any
from urllib.parse import urlencode

import trio
from quart import Response, g, jsonify, redirect, render_template, request
from quart.wrappers.response import IterableBody
from quart_trio import QuartTrio
from werkzeug.exceptions import HTTPException

from mnemosyne import __version__
from mnemosyne.errors import (
    BadConfiguration,
    BadEntry,
    ContentForgotten,
    LogFailed,
    LogUnavailable,
    MnemosyneError,
    NotFound,
)
from mnemosyne.http.inspector import known_pages, live, log_pages, object_pages, session_pages
from mnemosyne.http.inspector.access import COOKIE, VALID_SECONDS, Access, Visitor, may_decide
from mnemosyne.http.inspector.api import NEEDS_TOKEN, add_api, is_of_api
from mnemosyne.http.inspector.formatting import FILTERS
from mnemosyne.http.inspector.long_pages import LongPages
from mnemosyne.http.inspector.page_context import Decide, PageContext, View
from mnemosyne.page_links import PARAMETER
from mnemosyne.services import read_models
from mnemosyne.services.map_chart import KEY
from mnemosyne.services.unstructuring import as_json

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self';"
    " form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
"""The Content Security Policy of all pages."""

STATIC = "/-/static/"

WORTH_COMPRESSING = 1024
"""Minimum body size in bytes for compression."""

_HEADERS = {
    "Content-Security-Policy": POLICY,
    "Referrer-Policy": "same-origin",  # without a referrer a form's Origin would be null
    "X-Content-Type-Options": "nosniff",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}

_STATUS: tuple[tuple[type[MnemosyneError], int], ...] = (
    (NotFound, 404),
    (ContentForgotten, 410),
    (LogUnavailable, 503),
    (LogFailed, 500),
    (BadConfiguration, 400),
    (BadEntry, 400),
)


def create_pages(page_context: PageContext, access: Access, log_options: str = "") -> QuartTrio:
    """Create the application that shows a log. Commands on the pages name the log by ``log_options``."""
    app = QuartTrio(__name__, static_folder="static", static_url_path="/-/static", template_folder="templates")
    app.jinja_env.filters.update(FILTERS)
    app.jinja_env.trim_blocks = app.jinja_env.lstrip_blocks = True
    app.jinja_env.globals.update(version=__version__, map_key=KEY, log_options=log_options)
    app.url_map.strict_slashes = False

    @app.before_request
    async def admit() -> Response | None:
        await request.get_data()  # a response before the end of the body can block the connection
        refused = await _admit(access)
        if refused is None and not request.path.startswith(STATIC):
            await page_context.wait_until_tried()
        return refused

    @app.after_request
    async def protect(response: Response) -> Response:
        response.headers.update(_HEADERS)
        is_static = request.path.startswith(STATIC)
        response.headers["Cache-Control"] = "max-age=86400" if is_static else "no-store"
        return await _compress(response)

    @app.errorhandler(MnemosyneError)
    async def report(error: MnemosyneError) -> tuple[Response, int]:
        status = next((status for kind, status in _STATUS if isinstance(error, kind)), 500)
        return await _refuse(status, str(error))

    @app.errorhandler(HTTPException)
    async def refuse(error: HTTPException) -> tuple[Response, int]:
        return await _refuse(error.code or 500, _SENTENCES.get(error.code or 500, error.description or "Not found."))

    def show(rule: str, view: View) -> None:
        async def answer(page_context: PageContext, **about: Any) -> Response | str:
            return await _render(*await view(page_context, **about))

        for address in (rule, "/-/sessions.json" if rule == "/-/" else f"{rule}.json"):
            app.add_url_rule(address, address, _with(page_context, answer))

    for page in (session_pages, log_pages, known_pages):
        for rule, view in page.VIEWS.items():
            show(rule, view)
    long_pages = LongPages()
    for rule, long_view in {**session_pages.LONG_VIEWS, **object_pages.LONG_VIEWS}.items():
        for each in (rule, f"{rule}.json"):
            app.add_url_rule(each, each, _with(page_context, long_pages.show(long_view)))
    downloads: dict[str, Callable[..., Awaitable[Any]]] = {**session_pages.DOWNLOADS, **object_pages.DOWNLOADS}
    for rule, give in downloads.items():
        app.add_url_rule(rule, rule, _with(page_context, give))
    for forms in (session_pages, object_pages, known_pages, log_pages):
        for rule, decide in forms.DECISIONS.items():
            app.add_url_rule(rule, f"POST {rule}", _with(page_context, _deciding(decide)), methods=["POST"])
    add_api(app, page_context)
    app.add_url_rule("/-/events", "events", _with(page_context, live.follow))
    return app


async def _render(template: str, values: Mapping[str, Any]) -> Response | str:
    if _wants_json():
        return jsonify(as_json(values))
    return await render_template(template, visitor=g.visitor, here=request.path, **values)


async def _compress(response: Response) -> Response:
    """Compress the response if the client accepts gzip; event streams stay uncompressed."""
    takes_it = "gzip" in request.headers.get("Accept-Encoding", "")
    if response.content_type.startswith("text/event-stream") or not takes_it:
        return response
    if isinstance(response.response, IterableBody):
        response.response = IterableBody(_pack(response.response))
        response.headers["Content-Encoding"] = "gzip"
        response.headers["Vary"] = "Accept-Encoding"
        return response
    body = await response.get_data(as_text=False)
    if len(body) >= WORTH_COMPRESSING:
        response.set_data(await trio.to_thread.run_sync(gzip.compress, body, 5))
        response.headers["Content-Encoding"] = "gzip"
    response.headers["Vary"] = "Accept-Encoding"
    return response


async def _pack(parts: IterableBody) -> AsyncGenerator[bytes, None]:
    """Compress a streamed body, flushing after each part so that the client can read it at once."""
    packer = zlib.compressobj(5, wbits=_GZIP)
    async with parts as body:
        async for each in body:
            data = each.encode() if isinstance(each, str) else each
            yield await trio.to_thread.run_sync(
                lambda part: packer.compress(part) + packer.flush(zlib.Z_SYNC_FLUSH), data
            )
    yield packer.flush()


_GZIP = 31
"""The ``wbits`` value that selects gzip in zlib."""


def _with(page_context: PageContext, answer: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
    """Return the handler of an address; the session in it is looked up."""

    async def answering(session: str | None = None, **about: Any) -> Any:
        if session is not None:
            about["stream"] = await read_models.find(page_context.models, session)
        return await answer(page_context, **about)

    return answering


def _deciding(decide: Decide) -> Callable[..., Awaitable[Any]]:
    """Return the handler of a form: check permission, run it, show the result or redirect to its page."""

    async def deciding(page_context: PageContext, **about: Any) -> Any:
        form = await request.form
        if not may_decide(g.visitor, form.get("word")):
            return await _refuse(403, "You may not make changes here, or the page is out of date: reload it.")
        shown = await decide(page_context, form, **about)
        if not isinstance(shown, str):
            return await _render(*shown)
        return jsonify({"ok": True}) if _wants_json() else redirect(shown, 303)

    return deciding


async def _admit(access: Access) -> Response | None:
    """Authenticate the visitor; return a response if the request must not continue."""
    if request.path.startswith(STATIC):
        return None
    if (secret := request.args.get(PARAMETER)) is not None:
        return await _open_link(access, secret)
    headers = tuple((name.encode("latin-1"), value.encode("latin-1")) for name, value in request.headers.items())
    visitor = access.visitor(headers, request.cookies.get(COOKIE))
    if visitor is None:
        response, status = await _refuse(401, NEEDS_TOKEN if is_of_api(request.path) else _HOW_TO_ENTER)
        response.status_code = status
        return response
    g.visitor = visitor
    return None


async def _open_link(access: Access, secret: str) -> Response:
    cookie = access.let_in(secret)
    if cookie is None:
        response, status = await _refuse(403, f"This link has been used or has expired. {_HOW_TO_ENTER}")
        response.status_code = status
        return response
    rest = {name: value for name, value in request.args.items() if name != PARAMETER}
    response = Response("", 303, {"Location": request.path + (f"?{urlencode(rest)}" if rest else "")})
    response.set_cookie(COOKIE, cookie, max_age=VALID_SECONDS, path="/-/", httponly=True, samesite="Strict")
    return response


_HOW_TO_ENTER = "Run `mnemosyne open` in a terminal on this machine to open this page."

_SENTENCES = {404: "Page not found.", 405: "This page does not accept that HTTP method."}


async def _refuse(status: int, sentence: str) -> tuple[Response, int]:
    if _wants_json() or "text/html" not in request.headers.get("Accept", "text/html"):
        return jsonify({"error": sentence}), status
    visitor: Visitor | None = g.get("visitor")
    page = await render_template(
        "refused.html", status=status, sentence=sentence, visitor=visitor, here=request.path, again=status == 503
    )
    return Response(page, content_type="text/html; charset=utf-8"), status


def _wants_json() -> bool:
    return request.path.endswith(".json") or is_of_api(request.path)
