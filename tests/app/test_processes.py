"""Several server processes on one address: real processes, and a supervisor in the test's own loop."""

import json
import os
import signal
import socket
import sys
import tempfile
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import attrs
import pytest
import trio

from mnemosyne.actors.helper_work import HelperRequest
from mnemosyne.app import processes
from mnemosyne.app.process_link import ProcessPlace
from mnemosyne.app.processes import HelpedSessions, Owners, Processes, _Running, run_processes
from mnemosyne.app.storage import open_storage
from mnemosyne.app.supervising import SILENT_SECONDS
from mnemosyne.app.worker_link import Beat, WorkerStatus
from mnemosyne.config import load
from mnemosyne.data_dir import local_token
from mnemosyne.domain.session.events import TurnFinished
from mnemosyne.errors import BadConfiguration, LogUnavailable, ServerDidNotStart
from mnemosyne.http.serving import bind
from mnemosyne.http.sharing import UNNAMED, History
from tests.app.home import Home, at_home
from tests.app.test_worker import converse
from tests.app.test_worker_link import ANSWER, KEY, QUESTION, REQUEST, WHO
from tests.app.test_worker_link import DONE as WORK
from tests.cli.support import mnemosyne
from tests.fixtures import LentDatabases
from tests.http.managing import Client, Json, results, text
from tests.http.raw_client import RawConnection, connect, exchange
from tests.waiting import DEADLINE, PATIENT, until


def test_a_session_stays_in_its_process_and_new_ones_go_to_the_process_with_the_fewest() -> None:
    owners = Owners()
    assert [owners.find(each, each, {0, 1}) for each in "abcd"] == [0, 1, 0, 1]
    assert owners.find("e", "agent", {0, 1}, asking=1) == 1, "the process that asks has no more than the other"
    assert owners.find("agent", "agent", {0, 1}) == 1, "an agent's own agents name it as their session"
    assert [owners.find(each, each, {0, 1}) for each in "abcde"] == [0, 1, 0, 1, 1]


def test_sessions_of_a_process_that_ended_go_to_the_others_and_stay_there() -> None:
    owners = Owners()
    assert [owners.find(each, each, {0, 1}) for each in "abcd"] == [0, 1, 0, 1]
    assert [owners.find(each, each, {1}) for each in "ac"] == [1, 1]
    assert owners.find("a", "a", {0, 1}) == 1


@attrs.define(eq=False)
class Process:
    """The line to a process whose sessions have these orders and questions for a helper model."""

    orders: list[HelperRequest] = attrs.field(factory=list)
    questions: list[Any] = attrs.field(factory=list)
    told: list[object] = attrs.field(factory=list)

    async def wait_for_order(self) -> HelperRequest:
        return self.orders.pop() if self.orders else await trio.sleep_forever()

    async def wait_for_question(self) -> Any:
        return self.questions.pop() if self.questions else await trio.sleep_forever()

    async def drop_lost_orders(self) -> None:
        self.told.append("dropped")

    async def tell(self, *what: object) -> bool:
        self.told.append(what)
        return True

    async def deliver_answer(self, *what: object) -> bool:
        self.told.append(what)
        return True


async def test_one_worker_serves_all_processes_and_each_gets_its_own_results() -> None:
    helped, ours, others = HelpedSessions(), Process([REQUEST], [(7, QUESTION, KEY)]), Process()
    async with trio.open_nursery() as nursery:
        for each in (ours, others):
            nursery.start_soon(helped.take_from, each)
        with pytest.raises(LogUnavailable, match="ordered"):
            await helped.tell(WHO, WORK)
        assert await helped.wait_for_order() == REQUEST
        number, question, key = await helped.wait_for_question()
        assert (question, key) == (QUESTION, KEY)
        assert await helped.tell(WHO, WORK)
        assert await helped.deliver_answer(number, ANSWER)
        assert not await helped.deliver_answer(number, ANSWER)
        await helped.drop_lost_orders()
        nursery.cancel_scope.cancel()
    assert (ours.told, others.told) == ([(WHO, WORK), (7, ANSWER), "dropped"], [])


@pytest.mark.parametrize(
    ("number", "reason"), [("0", "from 1 to 64"), ("1000", "from 1 to 64"), ("x", "a whole number"), ("9", "8 at most")]
)
def test_a_number_of_processes_that_cannot_work_is_refused(number: str, reason: str) -> None:
    with pytest.raises(BadConfiguration, match=reason):
        load({"processes": number}, {})
    assert load({"processes": "64", "dsn": "postgresql:///x"}, {}).processes == 64


async def test_a_port_that_is_taken_is_reported_before_any_process_starts(tmp_path: Path) -> None:
    with bind("127.0.0.1", 0) as taken:
        settings = {"data_dir": str(tmp_path), "port": taken.getsockname()[1], "processes": 2}
        with pytest.raises(BadConfiguration, match="Cannot listen"):
            await run_processes(load(settings, {}), lambda _: None)


async def test_a_folder_whose_path_is_too_long_for_sockets_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    long = tmp_path / ("x" * 80)
    long.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(long))
    with pytest.raises(BadConfiguration, match="choose another TMPDIR"):
        await run_processes(load({"data_dir": str(tmp_path), "port": 0, "processes": 2}, {}), lambda _: None)


async def test_processes_that_end_at_once_end_the_server_with_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(processes, "FIRST_PAUSE", 0.001)
    of_dying = (sys.executable, "-I", "-c", "import sys; sys.exit(3)")
    monkeypatch.setattr(processes, "Processes", partial(processes.Processes, command=of_dying))
    settings = {"data_dir": str(tmp_path), "port": 0, "processes": 2}
    with pytest.raises(ServerDidNotStart, match=r"ended 3 times .*exit code 3"):
        await run_processes(load(settings, {}), lambda _: None)


@attrs.frozen
class Serving:
    """A server with several processes."""

    url: str
    home: Home

    async def ask(self, path: str) -> bytes:
        token = local_token(self.home.config.data_dir).encode()
        return (await exchange(self.url, path, method="GET", headers=[(b"authorization", b"Bearer " + token)])).body

    async def processes(self) -> list[dict[str, Any]]:
        listed: list[dict[str, Any]] = json.loads(await self.ask("/-/ready"))["processes"]
        return listed

    async def until_running(self, restarts: Sequence[int]) -> None:
        with trio.fail_after(DEADLINE):
            wanted = [("running", number) for number in restarts]
            while [(each["state"], each["restarts"]) for each in await self.processes()] != wanted:  # noqa: ASYNC110 - other processes
                await trio.sleep(0.05)

    async def sessions(self) -> list[int]:
        """The number of loaded sessions by process."""
        lines = (await self.ask("/-/metrics")).decode().splitlines()
        rows = [line.partition(" ") for line in lines if line.startswith("mnemosyne_sessions_awake{")]
        return [int(float(value)) for _, _, value in sorted(rows)]


@asynccontextmanager
async def serving(tmp_path: Path, dsn: str, *shards: str) -> AsyncIterator[Serving]:
    """A managing server with two processes, or with one for each of several databases."""
    async with at_home(tmp_path, dsn) as home, trio.open_nursery() as nursery:
        urls, ready = list[str](), trio.Event()

        def announce(url: str) -> None:
            urls.append(url)
            ready.set()

        given = {"upstream": home.standin.url, "port": 0, "processes": 1 if shards else 2, "mode": "manage"}
        variables = {**home.environ, "MNEMOSYNE_SHARDS": ";".join(shards)}
        config = load(given, {**variables, **PATIENT})
        with pytest.MonkeyPatch.context() as patch:
            for name, value in variables.items():
                patch.setenv(name, value)
            nursery.start_soon(run_processes, config, announce)
            with trio.fail_after(DEADLINE):
                await ready.wait()
            yield Serving(urls[0], home)
            os.kill(os.getpid(), signal.SIGTERM)


async def say(connection: RawConnection, client: Client, words: str) -> None:
    """A turn on a connection that other turns use, too."""
    client.history.append({"role": "user", "content": [text(words)]})
    await connection.send("POST", "/v1/messages", client.body(), client.raw_headers())
    reply = await connection.receive()
    assert (reply.status, reply.cut) == (200, False)
    client.history.pop()


async def test_a_session_continues_on_any_connection_and_after_its_process_is_killed(tmp_path: Path, dsn: str) -> None:
    """One server, because each start is slow."""
    async with serving(tmp_path, dsn) as server:
        client = Client(server.url, session="s")
        await converse(client)
        assert sorted(await server.sessions()) == [0, 1], "each turn came on a connection of its own"
        async with connect(server.url) as connection:
            await say(connection, Client(server.url, session="t"), "Where is it?")
            assert await server.sessions() == [1, 1]
            (owner, *_) = [each for each in await server.processes() if each["state"] == "running"]
            for _ in range(2):
                await say(connection, attrs.evolve(client), "Where is it now, the 9th?")
            await connection.send("POST", "/-/owner", b"{}", client.raw_headers())
            assert (await connection.receive()).status == 401, "the owner refuses it without the token"
        assert await server.sessions() == [1, 1], "a request on another session's connection was passed on"
        os.kill(owner["pid"], signal.SIGKILL)
        await converse(client)
        await converse(Client(server.url, session="t", history=[]))
        await server.until_running([int(each["number"] == owner["number"]) for each in await server.processes()])
        await server.home.events("s")
        await server.home.events("t")
        server.home.assert_lawful()


@attrs.define
class Directory:
    """The line to the process of a database, which has these rows, or does not answer."""

    rows: dict[str, int] = attrs.field(factory=dict)
    is_away: bool = False
    history: tuple[bytes, ...] = ()
    """The messages of a session in the database."""

    async def call(
        self, method: str, session: str, new: dict[str, int], history: History | None
    ) -> tuple[int | None, int]:
        assert method == "find_place"
        if self.is_away:
            raise LogUnavailable("it is away")
        for name, shard in new.items():
            self.rows.setdefault(name, shard)
        return self.rows.get(session), 0 if history is None else sum(each in self.history for each in history[1])


@contextmanager
def supervising(*directories: Directory) -> Iterator[Processes]:
    """The supervisor of a process for each database."""
    count = len(directories)
    places = [ProcessPlace(number, count, Path("/nowhere"), count) for number in range(count)]
    with socket.socket() as listener:
        supervisor = Processes(places, listener, {})
        for number, remote in enumerate(directories):
            status = WorkerStatus()
            status.note(Beat(leads=False))
            supervisor._running[number] = _Running(None, status, remote, is_ready=True)  # type: ignore[arg-type]
        yield supervisor


async def test_a_silent_process_is_reported_unless_it_only_closes_its_database(
    caplog: pytest.LogCaptureFixture, autojump_clock: trio.testing.MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def ask_all(_: Processes, method: str) -> None:
        assert method == "forget_owners"

    monkeypatch.setattr(Processes, "ask_all", ask_all)
    with supervising(Directory(), Directory()) as supervisor:
        supervisor._running[0].is_leaving = True
        with trio.move_on_after(2 * SILENT_SECONDS):
            await supervisor._watch()
    assert [record.getMessage() for record in caplog.records] == [
        "Process 1 does not respond; its sessions move to the others."
    ]


async def place(supervisor: Processes, session: str, *history: bytes) -> int:
    """The database of a session that shows this history."""
    shard, is_final = await supervisor.find_shard(session, session, ("tenant", [*history]))
    assert is_final
    return shard


async def test_a_new_session_goes_to_the_database_with_the_fewest_and_every_database_knows_it() -> None:
    one, two = Directory({"old": 1}), Directory()
    with supervising(one, two) as supervisor:
        supervisor.shards[0].note_database("dsn", 2)
        assert [await place(supervisor, each) for each in ("old", "a", "b", "c")] == [1, 1, 1, 0]
        assert await supervisor.find_shard("a", "agent") == (1, True)
        assert await supervisor.find_shard(UNNAMED + "of a credential", "") == (0, True)
        await place(supervisor, "d")
    assert one.rows == {"old": 1, "a": 1, "b": 1, "c": 0, "agent": 1, "d": 0} == {**two.rows, "old": 1}
    with supervising(one, two) as another:
        assert [await place(another, each) for each in ("c", "agent", "old")] == [0, 1, 1]


async def test_a_session_that_continues_another_under_a_new_name_goes_to_its_database() -> None:
    begun, whole = Directory(history=(b"of a prompt",)), Directory(history=(b"of a prompt", b"of b"))
    with supervising(begun, whole) as supervisor:
        assert await supervisor.find_shard("fork", "fork") == (0, False), "its history is not known yet"
        assert await place(supervisor, "fork", b"of a prompt", b"of b") == 1
        assert await supervisor.find_shard("fork", "fork") == (1, True)


async def test_a_session_keeps_its_database_while_that_is_away_and_new_ones_go_to_the_others() -> None:
    one, two = Directory(), Directory()
    with supervising(one, two) as supervisor:
        assert [await place(supervisor, each) for each in "ab"] == [0, 1]
        two.is_away = True
        assert [await place(supervisor, each) for each in "bcd"] == [1, 0, 0]
        two.is_away = False
        await place(supervisor, "e")
    assert one.rows == two.rows == {"a": 0, "b": 1, "c": 0, "d": 0, "e": 1}, "the rows are added later"
    one.is_away = two.is_away = True
    with supervising(one, two) as another:
        assert await another.find_shard("b", "b", ("tenant", [])) == (0, False), "no directory says that it is new"
        two.is_away = False
        assert [await place(another, each) for each in "abcd"] == [0, 1, 0, 0]


@pytest.mark.release
async def test_each_session_is_in_one_of_two_databases_also_after_a_restart(
    tmp_path: Path, databases: LentDatabases
) -> None:
    with databases.lend() as one, databases.lend() as two:
        for clients in ("abcd", "dacb"):
            async with serving(tmp_path, one, two) as server:
                for name in clients:
                    client = Client(server.url, session=name)
                    assert (await client.work(f"Where is it, {name}?"))["content"]
                if name == "b":  # the other database has fewer names
                    await converse(attrs.evolve(client, session="fork"))
                assert await server.sessions() == [2, 2]
                homes = [server.home, attrs.evolve(server.home, dsn=two)]
        for home, names in zip(homes, ("ac", "bd"), strict=True):
            async with open_storage(home.config) as storage:
                assert {*await storage.events.streams()} == {home.stream(each) for each in names}
            for each in names:
                finished = [event for event in await home.events(each) if isinstance(event, TurnFinished)]
                assert len(finished) == (6 if each == "b" else 4), "the session went on in its database, with its fork"
        environ = {**home.environ, "MNEMOSYNE_DSN": one, "MNEMOSYNE_SHARDS": f"{two};postgresql:///none?host=/nowhere"}
        listed = await trio.to_thread.run_sync(partial(mnemosyne, "sessions", "--json", environ=environ))
        assert len(json.loads("".join(listed.stdout.splitlines()).replace("][", ","))) == 4
        assert (listed.returncode, "nowhere" in listed.stderr) == (1, True), "a missing database is reported"
        for name, code in (("b", 0), ("e", 1)):
            shown = await trio.to_thread.run_sync(partial(mnemosyne, "timeline", name, environ=environ))
            assert shown.returncode == code, shown.stderr


@attrs.define
class Talk:
    """Clients that converse until stopped, and resend requests that were cut off or got a server error."""

    server: Serving
    over: bool = False
    whole: Counter[str] = attrs.field(factory=Counter)
    """The replies that the client of each session saw to their end."""
    statuses: Counter[int] = attrs.field(factory=Counter)
    waited: list[float] = attrs.field(factory=list)
    """Seconds from the first attempt to the end of a reply that took several attempts."""

    async def run(self, session: str) -> None:
        client = Client(self.server.url, session=session)
        while not self.over:
            message = await self._persist(client, text(f"{session}, after {len(client.history)} messages: where?"))
            while message["stop_reason"] == "tool_use":
                message = await self._persist(client, *results(message))

    async def _persist(self, client: Client, *content: Json) -> Json:
        began, tries = trio.current_time(), 0
        client.history.append({"role": "user", "content": list(content)})
        while True:
            message, reply, tries = await client.send(), client.replies[-1], tries + 1
            self.statuses[0 if reply.cut else reply.status] += 1
            if reply.status == 200 and not reply.cut and b"event: message_stop\n" in reply.body:
                break
            await trio.sleep(0.1)  # as clients do
        self.whole[client.session] += 1
        client.history.append({"role": "assistant", "content": message["content"]})
        if tries > 1:
            self.waited.append(trio.current_time() - began)
        return message

    async def until_more(self) -> None:
        """Wait until each client has seen three more replies."""
        wanted = {session: count + 3 for session, count in self.whole.items()}
        await until(lambda: all(self.whole[session] >= count for session, count in wanted.items()))


@pytest.mark.release
async def test_nothing_is_lost_and_sessions_continue_when_processes_are_killed_or_stopped_under_load(
    tmp_path: Path, dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(processes, "HUNG_SECONDS", 8.0)
    names = [f"s{number}" for number in range(6)]
    async with serving(tmp_path, dsn) as server:
        talk = Talk(server)
        talk.whole.update(dict.fromkeys(names, 0))
        async with trio.open_nursery() as nursery:
            for each in names:
                nursery.start_soon(talk.run, each)
            restarts = [0, 0]
            for number, how in ((0, signal.SIGKILL), (1, signal.SIGKILL), (0, signal.SIGKILL), (1, signal.SIGSTOP)):
                await talk.until_more()
                os.kill((await server.processes())[number]["pid"], how)
                restarts[number] += 1
                await talk.until_more()
                await server.until_running(restarts)
            talk.over = True
        assert set(talk.statuses) <= {0, 200, 502, 503}
        print(f"{dict(talk.statuses)}, waited {sorted(round(each, 1) for each in talk.waited)} s")  # noqa: T201
        for each in names:
            finished = [event for event in await server.home.events(each) if isinstance(event, TurnFinished)]
            assert len(finished) >= talk.whole[each], "a reply that a client saw is not on record"
