"""Page requests are forwarded whole to the page process, and its responses are streamed back."""

from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import asynccontextmanager

import attrs
import trio
import trio.testing

from mnemosyne.domain.wire.exchange import Headers, ReplyHead, UpstreamRequest
from mnemosyne.errors import ReplyCut, UpstreamFailed
from mnemosyne.http.gateway import Message, Scope
from mnemosyne.http.inspector.passing import HEAD_SECONDS, LARGEST_FORM, LARGEST_IMPORT, PagePasser


@attrs.define
class Maker:
    """A page process that replies with these chunks; with ``fails`` it raises, with ``silent`` it never replies."""

    chunks: tuple[bytes, ...] = (b"<p>", b"page</p>")
    cut: bool = False
    fails: bool = False
    silent: bool = False
    endless: bool = False
    asked: list[UpstreamRequest] = attrs.field(factory=list)

    @asynccontextmanager
    async def exchange(self, request: UpstreamRequest, sent: Callable[[], None]) -> AsyncIterator["Made"]:
        self.asked.append(request)
        if self.fails:
            raise UpstreamFailed("connection refused.")
        if self.silent:
            await trio.sleep_forever()
        yield Made(self)


HEAD = ReplyHead(200, ((b"content-type", b"text/html"), (b"connection", b"close")))


@attrs.frozen
class Made:
    maker: Maker
    head: ReplyHead = HEAD

    async def chunks(self) -> AsyncGenerator[bytes, None]:
        for chunk in self.maker.chunks:
            yield chunk
        if self.maker.cut:
            raise ReplyCut("it broke off.")
        if self.maker.endless:
            await trio.sleep_forever()


@attrs.define
class Asked:
    """One client's request and the response it gets."""

    body: bytes = b""
    leaves: trio.Event = attrs.field(factory=trio.Event)
    got: list[Message] = attrs.field(factory=list)
    read: bool = False

    async def receive(self) -> Message:
        if self.read:
            await self.leaves.wait()
            return {"type": "http.disconnect"}
        self.read = True
        return {"type": "http.request", "body": self.body}

    async def send(self, message: Message) -> None:
        self.got.append(message)

    @property
    def status(self) -> int:
        return int(self.got[0]["status"])

    @property
    def text(self) -> bytes:
        return b"".join(each.get("body", b"") for each in self.got)


HEADERS: Headers = ((b"host", b"127.0.0.1:8787"), (b"cookie", b"mnemosyne=a"))
SCOPE: Scope = {"method": "POST", "raw_path": b"/-/a%20b", "query_string": b"q=1", "headers": HEADERS}


async def ask(maker: Maker, asked: Asked, *more: tuple[bytes, bytes]) -> PagePasser:
    passer = PagePasser(maker, "the-token")
    await passer.answer({**SCOPE, "headers": (*HEADERS, *more)}, asked.receive, asked.send)
    return passer


async def test_a_request_is_forwarded_whole_and_the_page_streamed() -> None:
    maker, asked = Maker(), Asked(b"word=x")
    await ask(maker, asked)
    (request,) = maker.asked
    assert (request.method, request.target, request.body) == ("POST", b"/-/a%20b?q=1", b"word=x")
    assert dict(request.headers) == {b"cookie": b"mnemosyne=a"}
    assert (asked.status, asked.text) == (200, b"<p>page</p>")
    assert [each.get("body") for each in asked.got[1:]] == [b"<p>", b"page</p>", b""]
    assert (b"connection", b"close") not in asked.got[0]["headers"]


async def test_without_a_page_process_the_error_is_one_sentence() -> None:
    asked = Asked()
    await ask(Maker(fails=True), asked)
    assert asked.status == 503
    assert b"see the server's log" in asked.text


async def test_a_page_without_a_first_byte_times_out(autojump_clock: trio.testing.MockClock) -> None:
    asked = Asked()
    await ask(Maker(silent=True), asked)
    assert (asked.status, trio.current_time()) == (503, HEAD_SECONDS)


async def test_a_page_that_is_cut_off_ends_there() -> None:
    asked = Asked()
    await ask(Maker(cut=True), asked)
    assert (asked.status, asked.text) == (200, b"<p>page</p>")


async def test_a_form_that_is_too_large_is_not_forwarded() -> None:
    maker, asked = Maker(), Asked(b"x" * (LARGEST_FORM + 1))
    await ask(maker, asked)
    assert (asked.status, maker.asked) == (413, [])


async def test_the_token_raises_the_body_limit() -> None:
    bearer = (b"authorization", b"Bearer the-token")
    for size, status in ((LARGEST_FORM + 1, 200), (LARGEST_IMPORT + 1, 413)):
        asked = Asked(b"x" * size)
        await ask(Maker(), asked, bearer)
        assert asked.status == status
    stranger = Asked(b"x" * (LARGEST_FORM + 1))
    await ask(Maker(), stranger, (b"authorization", b"Bearer another"))
    assert stranger.status == 413


async def test_a_page_that_follows_the_log_ends_when_its_client_disconnects() -> None:
    asked = Asked()
    asked.leaves.set()
    passer = await ask(Maker(endless=True), asked)
    assert passer.open == set()


async def test_pages_that_follow_the_log_end_when_the_server_closes_them() -> None:
    maker, asked = Maker(endless=True), Asked()
    passer = PagePasser(maker, "the-token")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(passer.answer, SCOPE, asked.receive, asked.send)
        await trio.testing.wait_all_tasks_blocked()
        assert asked.text == b"<p>page</p>"
        passer.close()
