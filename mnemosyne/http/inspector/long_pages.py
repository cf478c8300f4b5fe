"""Slow pages: the response starts with the top of the page and continues with the rest once it is read. This needs no
script.

The rendered rest is cached until the session has a new event.
"""

from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Any

from quart import Response, g, jsonify, render_template, request, stream_with_context

from mnemosyne.bounded import Lru
from mnemosyne.errors import MnemosyneError
from mnemosyne.http.inspector.page_context import LongView, PageContext
from mnemosyne.services.unstructuring import as_json

REST = "<!--rest-->"
"""Marks the place of the rest in the top's template."""

KEPT_CHARACTERS = 16 * 1024 * 1024


class LongPages:
    """Renders the slow pages of one log and caches them."""

    def __init__(self) -> None:
        self._kept: Lru[tuple[str, str, str, str | None], tuple[int, str]] = Lru(
            KEPT_CHARACTERS, lambda kept: len(kept[1])
        )

    def show(self, view: LongView) -> Callable[..., Awaitable[Response]]:
        """Return the request handler of a slow page."""

        async def answer(page_context: PageContext, **about: Any) -> Response:
            page = await view(page_context, **about)
            if request.path.endswith(".json"):
                return jsonify(as_json({**page.values, **await page.read()}))
            shown = {**page.values, "visitor": g.visitor, "here": request.path}
            head, foot = (await render_template(page.template, **shown)).split(REST)
            version = await page_context.version_of(page.stream)
            key = (request.full_path, page.rest, g.visitor.role.value, g.visitor.word)
            held, rest = self._kept.get(key) or (0, "")
            if held == version:
                return _as_html(head + rest + foot)

            async def send() -> AsyncGenerator[str, None]:
                yield head
                try:
                    made = await render_template(page.rest, **{**shown, **await page.read()})
                except MnemosyneError as error:
                    yield await render_template("late.html", sentence=str(error))
                else:
                    self._kept.put(key, (version, made))
                    yield made
                yield foot

            return _as_html(stream_with_context(send)())

        return answer


def _as_html(body: Any) -> Response:
    response = Response(body, content_type="text/html; charset=utf-8")
    response.timeout = None
    return response
