"""Pages that take long: their top goes out at once, and the rest in the same answer once it was read. So they need no
script for that.

What was made of a session's events stays true until the session has another: it is kept for whoever asks again.
"""

from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Any

from quart import Response, g, jsonify, render_template, request, stream_with_context

from mnemosyne.bounded import Lru
from mnemosyne.errors import MnemosyneError
from mnemosyne.http.inspector.page_context import LongView, PageContext
from mnemosyne.services.unstructuring import as_json

REST = "<!--rest-->"
"""Where the rest stands in the template of the top."""

KEPT_CHARACTERS = 16 * 1024 * 1024


class LongPages:
    """Those of one log."""

    def __init__(self) -> None:
        self._kept: Lru[tuple[str, str, str, str | None], tuple[int, str]] = Lru(
            KEPT_CHARACTERS, lambda kept: len(kept[1])
        )

    def show(self, view: LongView) -> Callable[..., Awaitable[Response]]:
        """What answers with such a page."""

        async def answer(page_context: PageContext, **about: Any) -> Response:
            page = await view(page_context, **about)
            if request.path.endswith(".json"):
                return jsonify(as_json({**page.told, **await page.read()}))
            told = {**page.told, "visitor": g.visitor, "here": request.path}
            head, foot = (await render_template(page.template, **told)).split(REST)
            version = await page_context.version_of(page.stream)
            key = (request.full_path, page.rest, g.visitor.role.value, g.visitor.word)
            held, rest = self._kept.get(key) or (0, "")
            if held == version:
                return _as_html(head + rest + foot)

            async def send() -> AsyncGenerator[str, None]:
                yield head
                try:
                    made = await render_template(page.rest, **{**told, **await page.read()})
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
