"""A request reaches the process that owns its session: with its connection, or passed on."""

import socket
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio
import trio.testing

from mnemosyne.domain.wire.exchange import Headers, ReplyHead, UpstreamRequest
from mnemosyne.errors import LogUnavailable, ReplyCut, UpstreamFailed, UpstreamUnreachable
from mnemosyne.http.client_reply import RelayProgress
from mnemosyne.http.serving import listen_at
from mnemosyne.http.sharing import HANDED, History, Sharing, hand_over, is_handed, names_of, peek, take_over

HEAD = b"POST /v1/messages?beta=true HTTP/1.1\r\nHost: h\r\nX-Claude-Code-Session-Id: s\r\n\r\n"
NAMED: Headers = ((b"X-Claude-Code-Session-Id", b"s"),)


@pytest.mark.parametrize(
    ("headers", "names"),
    [
        ({"x-claude-code-session-id": "s", "x-api-key": "k"}, ("s", "s")),
        ({"x-claude-code-session-id": "s", "x-claude-code-agent-id": "a"}, ("s", "a")),
        ({"x-session-id": "child", "x-parent-session-id": "s"}, ("s", "child")),
        ({"x-mnemosyne-session": "s"}, ("s", "s")),
    ],
)
def test_a_session_is_found_by_its_name_and_its_agents(headers: dict[str, str], names: tuple[str, str]) -> None:
    assert names_of(tuple((name.encode(), value.encode()) for name, value in headers.items())) == names


def test_a_session_without_a_name_is_found_by_the_hash_of_its_credential() -> None:
    key = b"sk-ant-api03-of-a-client"
    one, two = names_of(((b"x-api-key", key),)), names_of(((b"x-api-key", b"sk-ant-api03-of-another"),))
    assert one == names_of(((b"X-Api-Key", key), (b"user-agent", b"anything")))
    assert one != two
    assert key.decode() not in "".join(one)


async def test_a_connection_is_handed_over_with_all_that_its_client_sends(tmp_path: Path) -> None:
    target = trio.SocketListener(trio.socket.from_stdlib_socket(listen_at(tmp_path / f"{HANDED}0")))
    (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
    address = listener.socket.getsockname()
    async with listener, target, await trio.open_tcp_stream(*address) as client:
        async with await listener.accept() as accepted:
            await client.send_all(HEAD[:30])
            async with trio.open_nursery() as nursery:
                nursery.start_soon(client.send_all, HEAD[30:])
                head = await peek(accepted.socket)
            assert head == UpstreamRequest("POST", b"/v1/messages?beta=true", ((b"Host", b"h"), *NAMED), b"")
            async with trio.open_nursery() as nursery:
                nursery.start_soon(hand_over, accepted.socket, tmp_path / f"{HANDED}0")
                stream = await target.accept()
                assert is_handed(stream)
                assert not is_handed(client)
                taken = await take_over(stream)
        assert taken is not None
        async with taken:
            assert await taken.receive_some() == HEAD
            await taken.send_all(b"a reply")
            assert await client.receive_some() == b"a reply"


async def test_a_connection_that_its_client_closed_is_not_handed_over() -> None:
    (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
    async with listener, await trio.open_tcp_stream(*listener.socket.getsockname()):
        accepted = await listener.accept()
    async with accepted:
        assert await peek(accepted.socket) is None


async def test_a_connection_can_be_handed_to_another_process_if_the_first_ends_or_hangs(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    path = tmp_path / f"{HANDED}0"
    one, two = socket.socketpair()
    with one, two, pytest.raises(FileNotFoundError):
        await hand_over(trio.socket.from_stdlib_socket(one), path)
    target = trio.SocketListener(trio.socket.from_stdlib_socket(listen_at(path)))
    async with target:
        with socket.socket() as connection:
            given = trio.socket.from_stdlib_socket(connection)
            with pytest.raises(OSError, match="took over no"):
                await hand_over(given, path)  # it hangs: it does not even accept
            assert await take_over(await target.accept()) is None, "it was given up"
            async with trio.open_nursery() as nursery:
                nursery.start_soon(_dies_while_it_takes_over, target)
                with pytest.raises(OSError, match="took over no"):
                    await hand_over(given, path)


async def _dies_while_it_takes_over(target: trio.SocketListener) -> None:
    async with await target.accept() as stream:
        await stream.send_all(b".")
        await stream.receive_some(1)


class Owner:
    """Another process, which answers with these chunks, or fails before or after them."""

    def __init__(self, *chunks: bytes, fails: bool = False, is_there: bool = True, was_asked: bool = False) -> None:
        self.chunks_sent = chunks
        self.fails = fails
        self.is_there = is_there
        self.was_asked = was_asked
        self.head = ReplyHead(200, ((b"content-type", b"text/plain"), (b"transfer-encoding", b"chunked")))

    @asynccontextmanager
    async def exchange(self, _request: UpstreamRequest, _sent: Callable[[], None]) -> AsyncIterator["Owner"]:
        if not self.is_there:
            raise (UpstreamFailed if self.was_asked else UpstreamUnreachable)("it has ended")
        yield self

    async def chunks(self) -> AsyncIterator[bytes]:
        for each in self.chunks_sent:
            yield each
        if self.fails:
            raise ReplyCut("it has ended")


def sharing(owner: Owner, asked: list[str], number: int = 1, shards: int = 1) -> Sharing:
    async def find_owner(session: str, agent: str, history: History | None) -> tuple[int, bool]:
        asked.append(f"{session} {agent}" + (f" {history[0]}" if history else ""))
        return number, shards == 1 or history is not None

    return Sharing(0, {1: owner}, find_owner, RelayProgress(), shards)  # type: ignore[dict-item]


async def read_history() -> History:
    return "tenant", [b"of a message"]


async def passed_on(share: Sharing) -> tuple[bool, Sequence[dict[str, object]]]:
    sent: list[dict[str, object]] = []

    async def send(message: dict[str, object]) -> None:
        assert share.progress.running == share.progress.passed_on == 1
        sent.append(message)

    try:
        return await share.pass_on(UpstreamRequest("POST", b"/v1/messages", NAMED, b"{}"), send, read_history), sent
    finally:
        assert share.progress.running == share.progress.passed_on == share.progress.waiting_for_client == 0


async def test_a_request_for_another_process_gets_its_reply_and_the_owner_is_asked_for_once() -> None:
    asked: list[str] = []
    share = sharing(Owner(b"a", b"b"), asked)
    for _ in range(2):
        answered, sent = await passed_on(share)
        assert answered
        assert [each.get("body") for each in sent] == [None, b"a", b"b", b""]
        assert sent[0]["headers"] == [(b"content-type", b"text/plain")]
    assert asked == ["s s"]
    share.forget_owners()
    await passed_on(share)
    assert asked == ["s s"] * 2


async def test_this_process_answers_for_its_own_sessions_and_where_the_owner_has_ended() -> None:
    asked: list[str] = []
    assert await passed_on(sharing(Owner(), asked, number=0)) == (False, [])
    share = sharing(Owner(is_there=False), asked)
    for _ in range(2):
        assert await passed_on(share) == (False, [])
    assert asked == ["s s"] * 3, "the owner may be another one by now"


async def test_a_request_that_its_owner_may_have_sent_to_the_provider_is_not_sent_again() -> None:
    with pytest.raises(UpstreamFailed):
        await passed_on(sharing(Owner(is_there=False, was_asked=True), []))


async def test_a_reply_that_breaks_off_at_its_owner_breaks_off_for_the_client() -> None:
    with pytest.raises(ReplyCut):
        await passed_on(sharing(Owner(b"a", fails=True), []))


async def test_without_the_supervisor_a_process_answers_itself() -> None:
    async def find_owner(*_: object) -> tuple[int, bool]:
        raise LogUnavailable("it has ended")

    assert await passed_on(Sharing(0, {}, find_owner, RelayProgress())) == (False, [])
    with pytest.raises(UpstreamFailed, match="unknown now"):  # it may be in another database
        await passed_on(Sharing(0, {}, find_owner, RelayProgress(), shards=2))


async def test_database_of_a_new_session_depends_on_its_history() -> None:
    asked: list[str] = []
    share = sharing(Owner(b"a"), asked, shards=2)
    for _ in range(2):
        assert (await passed_on(share))[0]
    assert asked == ["s s", "s s tenant"]
    with pytest.raises(UpstreamUnreachable):  # this process uses another database
        await passed_on(sharing(Owner(is_there=False), [], shards=2))
