"""The pages' cost on a large log: time to first byte, processor time, bytes, and the delay of live updates.

Wall time depends on other load; processor time is the serving process's own.
"""

import json
import re
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import attrs
import trio

from benchmarks.commands import LONG, SHORT, record_sessions
from benchmarks.harness import START_SECONDS, Group, Part, Row, Server, cpu_seconds_of, processes_below, single, spread
from benchmarks.variants import OURS, VARIANTS, data_dir
from mnemosyne.app.process import new_id, now
from mnemosyne.app.storage import Storage, open_storage
from mnemosyne.config import load
from mnemosyne.data_dir import local_token
from mnemosyne.services import checkpoints
from mnemosyne.services.knowledge import WriteStamp

TURNS, SESSIONS, SESSION_TURNS = 2_000, 200, 2
QUICK_TURNS, QUICK_SESSIONS, QUICK_SESSION_TURNS = 12, 3, 2
ROUNDS, QUICK_ROUNDS = 10, 1

FIRST_BYTE_MS, LIVE_MS, PACKED_KB = 200, 300, 100
"""At most so long until a page begins, and until it hears of a commit; so much is a page with all that it loads."""

PAGES: Sequence[tuple[str, str]] = (
    ("the sessions", "/-/"),
    ("a session", "{session}"),
    ("a turn", "{session}/turn/{turn}"),
    ("its window", "{session}/window"),
    ("what if", "{session}/what-if"),
)
"""The pages, in order of the first request."""


AGAIN_SECONDS = 1.0
"""How soon pages are asked again that say that their database is being opened."""

HEAD_END = b"\r\n\r\n"


@attrs.frozen(kw_only=True)
class Visit:
    """One answer: ms until its first byte and until its last, ms of the processor until then, and its bytes as they
    came, packed.
    """

    first: float
    last: float
    processor_first: float
    processor: float
    size: int


def shown(servers: Sequence[Server], quick: bool) -> list[Row]:
    """Each page for the first time, and again and again; and one that is open while something is committed."""
    (ours,) = servers
    return trio.run(_run, ours, quick)


async def _run(server: Server, quick: bool) -> list[Row]:
    await _fill(server, quick)
    shown = await _show(server, await _find(server, LONG), quick)
    return [*shown, *await _hear(server, await _find(server, SHORT), quick)]


async def _fill(server: Server, quick: bool) -> None:
    counts = (QUICK_TURNS, QUICK_SESSIONS, QUICK_SESSION_TURNS) if quick else (TURNS, SESSIONS, SESSION_TURNS)
    await record_sessions(data_dir(server.own), quick, *counts)


async def _show(server: Server, session: str, quick: bool) -> list[Row]:
    rows = []
    for name, pattern in PAGES:
        path = pattern.format(session=session, turn=(QUICK_TURNS if quick else TURNS) - 1)
        once = await _visit(server, path)
        again = [await _visit(server, path) for _ in range(QUICK_ROUNDS if quick else ROUNDS)]
        rows += [
            single(f"{name}, the first time: first byte", OURS, "ms", once.first, FIRST_BYTE_MS),
            single(f"{name}, the first time: processor until then", OURS, "ms", once.processor_first),
            single(f"{name}, the first time: processor in all", OURS, "ms", once.processor),
            spread(f"{name}, again: first byte", OURS, "ms", [each.first for each in again], FIRST_BYTE_MS),
            spread(f"{name}, again: last byte", OURS, "ms", [each.last for each in again]),
            spread(f"{name}, again: processor", OURS, "ms", [each.processor for each in again]),
            single(f"{name} with scripts and styles", OURS, "KB", await _weigh(server, once.size) / 1000, PACKED_KB),
        ]
    return rows


async def _find(server: Server, name: str) -> str:
    """The address of a session's page. The first caller waits for the process and its database."""
    with trio.fail_after(START_SECONDS):
        while b" 503 " in (said := await _read(server, "/-/sessions.json?all"))[:32]:  # noqa: ASYNC110 - in the server
            await trio.sleep(AGAIN_SECONDS)
    listed = json.loads(_body_of(said, "/-/sessions.json"))["sessions"]
    return f"/-/session/{next(each['stream'] for each in listed if each['name'] == name)}"


async def _weigh(server: Server, page: int) -> int:
    """The bytes of a page with its resources."""
    loaded = re.findall(rb'(?:src|href)="(/-/static/[^"]+)"', await read_page(server, "/-/known"))
    sizes = [(await _visit(server, each.decode())).size for each in loaded]
    return page + sum(sizes)


async def _visit(server: Server, path: str) -> Visit:
    (process,) = [pid for pid in processes_below(server.pid) if _makes_pages(pid)]
    began, used = time.monotonic(), cpu_seconds_of(process)
    said = b""
    first: tuple[float, float] | None = None
    async for data in await ask_page(server, path, packed=True):
        said += data
        if first is None and said.partition(HEAD_END)[2]:
            first = time.monotonic() - began, cpu_seconds_of(process) - used
    last = time.monotonic() - began, cpu_seconds_of(process) - used
    begun, processor_first = first or last
    return Visit(
        first=1000 * begun,
        last=1000 * last[0],
        processor_first=1000 * processor_first,
        processor=1000 * last[1],
        size=len(_body_of(said, path)),
    )


def _makes_pages(pid: int) -> bool:
    with suppress(OSError):  # it ended meanwhile
        return b"--at-socket" in Path(f"/proc/{pid}/cmdline").read_bytes()
    return False


PAUSES_SECONDS: Sequence[float] = (2.0, 0.3)
"""Before a commit, by turns: nothing has happened for a while, and something has just now."""


async def _hear(server: Server, session: str, quick: bool) -> list[Row]:
    """The delay from another process's commit to the notice on an open page, and to its new content."""
    stream = session.rpartition("/")[2]
    told, soon, shown_again = list[float](), list[float](), list[float]()
    heard = await ask_page(server, f"/-/events?session={stream}")
    await _wait_for(heard, b"retry:")
    async with open_storage(load({"data_dir": str(data_dir(server.own))}, {})) as storage:
        for number in range(len(PAUSES_SECONDS) * (QUICK_ROUNDS if quick else ROUNDS)):
            place = number % len(PAUSES_SECONDS)
            # Not a whole number of looks apart, or every commit would be as far from the next one.
            await trio.sleep(PAUSES_SECONDS[place] + 0.023 * number)
            durable = list[float]()
            async with trio.open_nursery() as nursery:
                nursery.start_soon(_time_commit, storage, storage.journal.committed.position, durable)
                stamp = WriteStamp(now(), new_id())
                await checkpoints.name(storage, SHORT, f"heard-{number}", branch="main", turn=None, stamp=stamp)
                await _wait_for(heard, b"event: changed")
                heard_at = time.monotonic()
            (committed,) = durable
            (told, soon)[place].append(1000 * (heard_at - committed))
            await _visit(server, session)
            shown_again.append(1000 * (time.monotonic() - committed))
    return [
        spread("from a commit after a while: told of it", OURS, "ms", told, LIVE_MS),
        spread("from a commit after another: told of it", OURS, "ms", soon, LIVE_MS),
        spread("from a commit: the session shown anew", OURS, "ms", shown_again),
    ]


async def _time_commit(storage: Storage, position: int, durable: list[float]) -> None:
    """Note when something behind a position is durable."""
    await storage.journal.committed.beyond(position)
    durable.append(time.monotonic())


async def _wait_for(stream: trio.SocketStream, wanted: bytes) -> None:
    said = b""
    while wanted not in said:
        said = said[-len(wanted) :] + await stream.receive_some()


async def read_page(server: Server, path: str) -> bytes:
    """The content of an address. Raises ValueError if it is refused."""
    return _body_of(await _read(server, path), path)


async def _read(server: Server, path: str) -> bytes:
    return b"".join([data async for data in await ask_page(server, path)])


def _body_of(reply: bytes, path: str) -> bytes:
    head, _, body = reply.partition(HEAD_END)
    if not head.startswith(b"HTTP/1.1 200"):
        raise ValueError(f"{path}: {head[:32]!r} {body[:200]!r}")
    return body if b"chunked" not in head.lower() else _join_chunks(body)


def _join_chunks(body: bytes) -> bytes:
    whole = b""
    while body:
        size, _, body = body.partition(b"\r\n")
        length = int(size, 16)
        whole, body = whole + body[:length], body[length + 2 :]
    return whole


async def ask_page(server: Server, path: str, *, packed: bool = False) -> trio.SocketStream:
    """The answer to a program with the data directory's token, from its head on."""
    stream = await trio.open_tcp_stream(server.address.host, server.address.port)
    token = local_token(data_dir(server.own))
    head = f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {token}\r\nConnection: close\r\n"
    await stream.send_all(f"{head}{'Accept-Encoding: gzip' if packed else 'Accept: */*'}\r\n\r\n".encode())
    return stream


GROUP = Group(
    "pages",
    [each for each in VARIANTS if each.name == OURS],
    (Part("shown", shown),),
    by_default=False,
)
