"""Several servers share one database behind a stateless balancer: each continues the sessions of the others, even if
servers are killed or suspended, and if the database is restarted.
"""

import os
import random
import signal
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

import attrs
import psycopg
import pytest
import trio

from campaigns.soak.test_deaths import finished_bodies, result_of
from mnemosyne.app.clients import BASE_URL, FIRST_PARTY
from mnemosyne.app.storage import open_storage
from mnemosyne.domain.session.events import TurnFinished
from mnemosyne.domain.session.round_events import BranchModeSet, EpochBegan
from mnemosyne.services.verifying import verify_sessions
from mnemosyne_lab.provider import from_data
from tests.app.home import Home, Served, at_home
from tests.clients.agents import CLAUDE_CODE
from tests.clients.installing import installed
from tests.clients.workspace import bare_environment
from tests.http.managing import Client, Json, look, model_says, recall, text, think
from tests.waiting import IMPATIENT, until

WINDOW = 16_000
SESSIONS, SERVERS = 64, 4

PATIENCE = 30.0
"""Seconds after which a client gives a server up and asks another. A busy machine takes long for a turn; real clients
wait minutes.
"""

PAUSE = 30.0
"""Seconds between the turns of a client, on average: models and tools take their time."""

KILLED, PAUSED, RESTARTED = "killed", "paused", "restarted"
"""The faults: a server and all that it started is gone, or is suspended; the database is stopped and started again."""

EVERY, MINUTES = 20.0, 10
"""Seconds between one death of a server and the next, and for how long."""

READING = 5.0
"""Seconds for which the user of the real client reads an answer before the next prompt."""

STANDING, RESTART_AT = (150.0, 210.0), 330.0
"""Seconds from when to when one server is suspended, and when the database is restarted."""

READS = [model_says(think(f"I look, {number}."), look(at=number)) for number in range(3)]
SCRIPT = {
    "rules": [{"replies": [*READS, model_says(think(), recall()), model_says(think("Well."), text("It is there."))]}]
}


@attrs.define
class Cluster:
    """Servers that are restarted after each death, and clients that use any of them."""

    home: Home
    random: random.Random
    served: dict[int, Served] = attrs.field(factory=dict)
    standing: set[int] = attrs.field(factory=set)
    """Those that are suspended."""
    befell: Counter[str] = attrs.field(factory=Counter)
    whole: list[tuple[str, bytes]] = attrs.field(factory=list)
    """Session and request of each reply that a client saw to its end."""
    over: bool = False
    """Whether clients begin no further exchange."""
    cut: int = 0
    """How often a client had to try again."""
    waited: list[float] = attrs.field(factory=list)
    """Seconds from a client's first try to the reply that it saw whole, where it took several."""

    async def run(self, another: Callable[[], Awaitable[None]]) -> None:
        """Let clients talk, and another one, during the faults, and finish their exchanges."""
        async with trio.open_nursery() as nursery:
            for number in range(SERVERS):
                nursery.start_soon(self._keep, number)
            await until(lambda: len(self.served) == SERVERS)
            async with trio.open_nursery() as talking:
                for number in range(SESSIONS):
                    talking.start_soon(self._converse, f"session-{number}")
                talking.start_soon(another)
                await self._befall()
                await until(partial(self._has_more_than, len(self.whole) + SESSIONS))
                self.over = True
            nursery.cancel_scope.cancel()

    async def _keep(self, number: int) -> None:
        folder = self.home.folder / f"node-{number}"
        folder.mkdir()
        home = attrs.evolve(self.home, folder=folder)
        while True:
            async with home.served("manage", "--manage-window", str(WINDOW), *IMPATIENT) as served:
                self.served[number] = served
                try:
                    await served.process.wait()
                finally:
                    del self.served[number]

    async def _befall(self) -> None:
        """A server dies repeatedly, one is suspended for a minute, and the database is restarted once."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._suspend)
            nursery.start_soon(self._restart_database)
            for _ in range(int(MINUTES * 60 / EVERY)):
                await trio.sleep(EVERY)
                there = sorted(set(self.served) - self.standing)
                if there:
                    self.befell[KILLED] += 1
                    self.served[self.random.choice(there)].process.kill()

    async def _suspend(self) -> None:
        begin, end = STANDING
        await trio.sleep(begin)
        number = self.random.choice(sorted(self.served))
        self.befell[PAUSED] += 1
        self.standing.add(number)
        with _paused(self.served[number]):
            await trio.sleep(end - begin)
        self.standing.remove(number)

    async def _restart_database(self) -> None:
        await trio.sleep(RESTART_AT)
        self.befell[RESTARTED] += 1
        _signal(await trio.to_thread.run_sync(self._find_database), signal.SIGINT)  # its supervisor starts it again

    def _find_database(self) -> int:
        assert self.home.dsn is not None
        with psycopg.connect(self.home.dsn) as connection:
            backend = Path(f"/proc/{connection.info.backend_pid}/stat").read_text()
        return int(backend.rpartition(")")[2].split()[1])

    async def balance(self, client: trio.SocketStream) -> None:
        """A connection of a client that knows one address: to any server that accepts requests and is not suspended,
        until either side ends it.
        """
        async with client:
            await until(lambda: bool(set(self.served) - self.standing))
            url = urlsplit(self.served[self.random.choice(sorted(set(self.served) - self.standing))].url)
            with suppress(OSError):
                server = await trio.open_tcp_stream(url.hostname or "", url.port or 0)
                async with server, trio.open_nursery() as nursery:
                    nursery.start_soon(_pass_on, client, server, nursery.cancel_scope)
                    nursery.start_soon(_pass_on, server, client, nursery.cancel_scope)

    def _has_more_than(self, count: int) -> bool:
        return len(self.whole) > count

    async def _converse(self, session: str) -> None:
        client = Client("", session=session)
        while not self.over:
            content = [text(f"{session}, after {len(client.history)} messages: where is it?")]
            while content:
                client.history.append({"role": "user", "content": content})
                await trio.sleep(self.random.uniform(0, 2 * PAUSE))
                message = await self._persist(client)
                client.history.append({"role": "assistant", "content": message["content"]})
                content = [result_of(block) for block in message["content"] if block["type"] == "tool_use"]

    async def _persist(self, client: Client) -> Json:
        """The message from any server, once a complete one has arrived."""
        began = trio.current_time()
        outcomes: Counter[object] = Counter()
        for attempt in range(100):
            if attempt:
                self.cut += 1
                await trio.sleep(0.05)  # as clients do
            client.url = await self._choose(but=client.url if attempt else "")
            outcomes["none in time, or no connection"] += 1
            with suppress(OSError, trio.TooSlowError), trio.fail_after(PATIENCE):
                message = await client.send()
                reply = client.replies[-1]
                assert reply.status in (0, 200, 500, 502, 503, 529), reply.body
                if reply.status == 200 and not reply.cut and b"event: message_stop\n" in reply.body:
                    self.whole.append((client.session, client.bodies[-1]))
                    if attempt:
                        self.waited.append(trio.current_time() - began)
                    return message
                outcomes[reply.status] += 1
                outcomes["none in time, or no connection"] -= 1
        raise AssertionError(f"{client.session} got no reply: {outcomes}")

    async def _choose(self, but: str) -> str:
        """A server that accepts requests, as a balancer finds it: another than the one that just failed."""
        await until(lambda: any(each.url != but for each in self.served.values()))
        return self.random.choice(sorted({each.url for each in self.served.values()} - {but}))


async def _pass_on(one: trio.SocketStream, other: trio.SocketStream, both: trio.CancelScope) -> None:
    with suppress(trio.BrokenResourceError, trio.ClosedResourceError):
        async for data in one:
            await other.send_all(data)
    both.cancel()


@contextmanager
def _paused(served: Served) -> Iterator[None]:
    worker = served.worker
    pids = [served.process.pid, *([worker] if worker else [])]
    for pid in pids:
        _signal(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in pids:
            _signal(pid, signal.SIGCONT)


def _signal(pid: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, number)


async def check(cluster: Cluster) -> str:
    """Complete replies are recorded exactly once; every session verifies."""
    home = cluster.home
    modes: Counter[str] = Counter()
    epochs = 0
    for session in sorted({each for each, _ in cluster.whole}):
        events = await home.events(session)
        modes.update(f"{each.mode.value}: {each.why}" for each in events if isinstance(each, BranchModeSet))
        epochs += sum(isinstance(each, EpochBegan) for each in events)
        places = [(each.branch, each.turn, each.attempt) for each in events if isinstance(each, TurnFinished)]
        assert len(places) == len(set(places)), f"a reply of {session} is on record twice"
        ended = await finished_bodies(home, session)
        seen = Counter(body for owner, body in cluster.whole if owner == session)
        assert not seen - ended, f"a reply that {session} saw whole is not on record"
    slowest = max(cluster.waited, default=0.0)
    said = f"{len(cluster.whole)} replies, {cluster.cut} cut, {epochs} epochs, slowest {slowest:.1f} s; {dict(modes)}"
    return f"{dict(cluster.befell)}: {said}"


@attrs.define
class RealClient:
    """Claude Code behind a balancer: one conversation, prompt by prompt, for as long as the others talk."""

    cluster: Cluster
    programs: Path
    folder: Path
    said: list[str] = attrs.field(factory=list)

    async def talk(self) -> None:
        """Each prompt must reach its end. The client may retry by itself, as it does with any provider."""
        project = self.folder / "project"
        project.mkdir()
        (project / "notes.txt").write_text(
            "".join(f"line {number}: value {number * 37 % 1009}\n" for number in range(400))
        )
        async with trio.open_nursery() as nursery:
            (listener,) = await nursery.start(partial(trio.serve_tcp, self.cluster.balance, 0, host="127.0.0.1"))
            environ = bare_environment(self.folder) | dict(CLAUDE_CODE.environment)
            environ |= {"PATH": f"{self.programs}:{environ['PATH']}", "NO_PROXY": "127.0.0.1", FIRST_PARTY: "1"}
            environ[BASE_URL] = f"http://127.0.0.1:{listener.socket.getsockname()[1]}"
            while not self.cluster.over:
                command = CLAUDE_CODE.command(f"Prompt {len(self.said)} of a client", goes_on=bool(self.said))
                done = await trio.run_process(
                    command, env=environ, cwd=project, capture_stdout=True, capture_stderr=True, check=False
                )
                assert done.returncode == 0, (done.stdout, done.stderr)
                self.said.append(CLAUDE_CODE.parse_output(done.stdout.decode()).text)
                await trio.sleep(READING)
            nursery.cancel_scope.cancel()


def _script_of_client(project: Path) -> list[Json]:
    """A file of four thousand tokens, hidden questions, and an answer."""
    read = CLAUDE_CODE.read(project / "notes.txt")
    replies = [
        model_says(think("I look."), read),
        model_says(think(), recall()),
        model_says(think("Well."), text("It is there.")),
    ]
    return [{"when": {"prompt": "of a client"}, "replies": replies}]


@pytest.mark.soak
async def test_ten_minutes_of_deaths_lose_nothing_and_a_real_client_finishes(dsn: str, tmp_path: Path) -> None:
    programs = await trio.to_thread.run_sync(installed)
    async with at_home(tmp_path, dsn) as home:
        home.standin.script = from_data({"rules": [*_script_of_client(tmp_path / "client/project"), *SCRIPT["rules"]]})
        cluster = Cluster(home, random.Random(1))
        folder = tmp_path / "client"
        folder.mkdir()
        client = RealClient(cluster, programs, folder)
        await cluster.run(client.talk)
        print(await check(cluster))  # noqa: T201 - for whoever looks into a campaign
        refused = Counter(each.violation.rule for each in home.standin.violations)
        print(f"refused to a server, and sent again without what was signed: {dict(refused)}")  # noqa: T201
        assert set(refused) <= {"signature", "R10"}, "a server that died took with it what had left; no more than that"
        assert client.said == ["It is there."] * len(client.said)
        async with open_storage(home.config) as storage:
            found = await verify_sessions(storage, None, lambda label: nullcontext(lambda done, total: None))
        print(f"{len(client.said)} prompts of a real client; {sum(each.turns for each in found)} turns verified")  # noqa: T201
        assert len(found) == SESSIONS + 1
        assert not [each.differences for each in found if each.differences]
