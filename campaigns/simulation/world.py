"""Everything together: servers, their database, the provider and clients, in one run that a seed draws."""

import itertools
import logging
import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from hashlib import sha256
from uuid import UUID
from zlib import crc32

import attrs
import pytest
import trio

from campaigns.scenarios.judge import Judge, Record
from campaigns.scenarios.scene import WINDOW, Clock, turn_off
from campaigns.simulation.clients import OBSERVED, FickleCasting, SimulatedAgent, SimulatedScene, StepDrawer
from campaigns.simulation.database import BAD, FAIR_SECONDS, LogConnection, SharedLog, Weather
from campaigns.simulation.network import MemoryProvider, MemoryUpstream
from campaigns.simulation.schedule import SeededRun, make_run
from campaigns.simulation.server import SERVER, Equipment, SimulatedServer, run_in_weathers
from campaigns.walks import walks
from mnemosyne.actors.patience import USUAL
from mnemosyne.actors.registry import IDLE_SECONDS, SWEEP_SECONDS
from mnemosyne.actors.session import SessionActor
from mnemosyne.adapters.postgres.journal import JournalLimits
from mnemosyne.domain.session.directory import stream_of
from mnemosyne.domain.session.events import GapRecorded, TurnFinished
from mnemosyne.domain.session.round_events import Mode
from mnemosyne.projections import catalog
from mnemosyne.projections.maintenance import Keeping
from tests.actors.support import CODEC, PATIENT, SOON
from tests.plain.archive import MemoryArchive
from tests.projections.plain import PlainProjections
from tests.projections.support import dump_of, rebuilt_dump

EPOCH = 1_700_000_000_000_000
"""µs of UTC at which a run begins."""

WINDOWS = (5_000, WINDOW)
"""Tokens of the largest prompt that is sent: two files, or a few, and it is full."""

REST_SECONDS = 900.0
"""After the last reply all comes to rest within this time."""


class Fault(AssertionError):
    """A violated invariant."""


@attrs.frozen(kw_only=True)
class Plan:
    """The parameters that a seed draws for a whole run."""

    servers: int
    clients: int
    observed: int
    """So many of the clients are only observed."""
    steps: int
    deaths: int
    life: tuple[int, int]
    """Steps from one death to the next."""
    weathers: tuple[Weather, ...]
    fair: float
    foul: float
    troubled: float
    refused: float
    refuses: float
    skew: float
    equipment: Equipment
    seconds: Sequence[float] = FAIR_SECONDS
    """How long each access to the database may take."""


def draw_plan(chance: random.Random) -> Plan:
    """A plan: some runs have much trouble of one kind, some a little of each."""
    clients = chance.randint(1, 4)
    equipment = Equipment(
        patience=chance.choice([USUAL, USUAL, PATIENT]),
        window=chance.choice(WINDOWS),
        limits=chance.choice([JournalLimits(), SOON]),
    )
    return Plan(
        servers=chance.choice([1, 1, 2]),
        clients=clients,
        observed=chance.choice([0, 0, 1]) if clients > 1 else chance.choice([0, 0, 0, 1]),
        steps=chance.randint(2, 8),
        deaths=chance.choice([0, 0, 1, 3]),
        life=chance.choice([(50, 400), (200, 2_000)]),
        weathers=chance.choice([(), (), BAD, (chance.choice(BAD),)]),
        fair=chance.choice([5.0, 60.0]),
        foul=chance.choice([2.0, 20.0]),
        troubled=chance.choice([0.0, 0.05, 0.2]),
        refused=chance.choice([0.0, 0.0, 0.05]),
        refuses=chance.choice([0.0, 0.0, 0.2]),
        skew=chance.choice([0.0, 0.0, 3600.0]),
        equipment=equipment,
    )


@attrs.frozen(kw_only=True)
class SimulationResult:
    seed: int
    trace: str
    steps: int
    requests: int
    whole: int
    rounds: int
    deaths: int
    conflicts: int
    gaps: int
    lost: int
    """Sessions of which a server took something along."""
    refusals: int
    """Requests that the provider refused for their thinking, planted ones aside."""


@attrs.define(eq=False)
class VirtualMicroseconds(Clock):
    """A server's own clock, which is ahead by this many seconds."""

    ahead: float = 0.0

    def __next__(self) -> int:
        return EPOCH + round((trio.current_time() + self.ahead) * 1e6)


@attrs.define(eq=False)
class World:
    seed: int
    seeded: SeededRun
    plan: Plan
    log: SharedLog = attrs.field(factory=lambda: SharedLog(CODEC))
    store: PlainProjections = attrs.field(factory=PlainProjections)
    servers: list[SimulatedServer] = attrs.field(factory=list)
    deaths: int = 0
    is_calm: bool = False
    faults: list[str] = attrs.field(factory=list)
    casting: FickleCasting = attrs.field(init=False)
    provider: MemoryProvider = attrs.field(init=False)
    scene: SimulatedScene = attrs.field(init=False)
    _ids: Iterator[int] = attrs.field(factory=itertools.count)
    _next_death: int = 0

    def __attrs_post_init__(self) -> None:
        self.casting = FickleCasting(sober=True, chance=self.chance, refuses=self.plan.refuses)
        self.provider = MemoryProvider(self.casting.model, trio.current_time)
        self._next_death = self.chance.randint(*self.plan.life)
        self.seeded.trace.check = self._check

    @property
    def chance(self) -> random.Random:
        return self.seeded.chance

    @property
    def living(self) -> list[SimulatedServer]:
        """The servers that accept requests."""
        return [each for each in self.servers if each.is_up]

    @property
    def lost(self) -> set[UUID]:
        """The sessions whose events died with a server, or that report a gap themselves."""
        gaps = {each.stream for each in self.log._events if isinstance(each.envelope.event, GapRecorded)}
        return gaps.union(*(each.lost for each in self.servers))

    # The run

    async def run(self) -> SimulationResult:
        """Run everything. Raises a Fault."""
        self.scene = self._make_scene()
        async with trio.open_nursery() as nursery:
            for number in range(self.plan.servers):
                nursery.start_soon(self._keep_serving, number, nursery)
            nursery.start_soon(self._keep_projections, nursery)
            async with trio.open_nursery() as clients:
                for number in range(self.plan.clients):
                    clients.start_soon(self._walk, number)
            await self._settle()
            nursery.cancel_scope.cancel()
        await self._prove()
        return self._sum_up()

    def _make_scene(self) -> SimulatedScene:
        async def restart(mode: Mode) -> None:
            self.chance.choice(self.living).end()

        return SimulatedScene(
            name="sim",
            standin=self.provider,
            judge=Judge(self.provider),
            clock=VirtualMicroseconds(),
            replies=self.casting.replies,
            restart=restart,
            turn_off=lambda session: turn_off(self.log, session, next(VirtualMicroseconds())),
            quiet=trio.lowlevel.checkpoint,
            chance=self.chance,
            find_servers=self._find_servers,
            all_servers=self.servers,
            may_be_refused=lambda: bool(self.plan.weathers or self.deaths),
        )

    def _find_servers(self, client: str) -> list[SimulatedServer]:
        """In bad conditions a balancer keeps each client at its server while that lives (docs/operations.md)."""
        place = crc32(client.partition("/")[0].encode()) % self.plan.servers
        kept = [each for each in self.living if each.name.startswith(f"server {place}.")]
        return kept if kept and self.plan.weathers else self.living

    async def _keep_serving(self, place: int, nursery: trio.Nursery) -> None:
        for life in itertools.count():
            server = self._make_server(f"server {place}.{life}", nursery, self.plan.skew * place)
            self.servers.append(server)
            self.seeded.trace.record(f"{server.name} starts")
            nursery.start_soon(server.run)
            plan = self.plan
            if plan.weathers:
                nursery.start_soon(run_in_weathers, server, plan.weathers, plan.fair, plan.foul)
            await server.gone.wait()
            self.seeded.trace.record(f"{server.name} is gone")
            await trio.sleep(self.chance.uniform(0, 3))

    def _make_server(self, name: str, nursery: trio.Nursery, ahead: float) -> SimulatedServer:
        connection = LogConnection(self.log, self.chance, nursery, self.seeded.trace.record, seconds=self.plan.seconds)
        return SimulatedServer(
            name=name,
            connection=connection,
            upstream=MemoryUpstream(self.provider, self.chance, self.plan.refused),
            equipment=self.plan.equipment,
            clock=VirtualMicroseconds(ahead=ahead),
            new_id=lambda: f"c{next(self._ids)}",
            chance=self.chance,
        )

    async def _keep_projections(self, nursery: trio.Nursery) -> None:
        connection = LogConnection(self.log, self.chance, nursery)
        keeping = Keeping(catalog.ALL, connection, self.store, say=lambda what: None)
        await keeping.run(self.log.committed)

    async def _walk(self, number: int) -> None:
        agent = self.scene.agent(f"{number}", SimulatedAgent)
        if number < self.plan.observed:
            agent.headers = dict(OBSERVED)
        drawer = StepDrawer(self.chance, self.plan.troubled)
        walk = walks.Walk(self.scene, [agent])
        for step in drawer.draw_steps(self.plan.steps):
            self.seeded.trace.record(f"{agent.name} {getattr(step, '__name__', step)}")
            await step(walk)

    def _check(self) -> None:
        """Check the invariants after each step; a server may also die."""
        try:
            for server in self.servers:
                server.check()
        except AssertionError as error:
            self.faults.append(str(error))
        if self.seeded.trace.steps >= self._next_death and not self.is_calm and self.deaths < self.plan.deaths:
            living = self.living
            if living:
                self._next_death += self.chance.randint(*self.plan.life)
                self.deaths += 1
                server = self.chance.choice(living)
                self.seeded.trace.record(f"{server.name} dies")
                server.die()

    async def _settle(self) -> None:
        """Without requests and faults, all work finishes and all actors are unloaded."""
        self.is_calm = True
        until = trio.current_time() + REST_SECONDS
        while unrest := self._calm_down():
            if trio.current_time() > until:
                raise Fault(f"it does not come to rest: {unrest}")
            await trio.sleep(1)
        await trio.sleep(IDLE_SECONDS + 2 * SWEEP_SECONDS)
        awake = [each.process.registry.awake for each in self.living if each.process is not None]
        if any(awake):
            raise Fault(f"{awake} sessions are awake that nobody asks")
        for server in self.living:
            server.end()
            with trio.move_on_after(REST_SECONDS) as scope:
                await server.over.wait()
            if scope.cancelled_caught:
                raise Fault(f"{server.name} does not end")

    def _calm_down(self) -> list[str]:
        for server in self.servers:
            server.connection.calm_down()
        found = [f"{each.name}: {unrest}" for each in self.living if (unrest := each.find_unrest())]
        ending = [f"{each.name} ends" for each in self.servers if not each.over.is_set() and not each.is_up]
        behind = [name for name, each in self.store.live.items() if each.mark.position < self.log.committed.position]
        return [*found, *ending, *behind]

    # Results

    async def _prove(self) -> None:
        self.scene.check()
        if self.faults:
            raise Fault(self.faults[0])
        await self._prove_record()
        await self._prove_whole_replies()
        for projection in catalog.ALL:
            if await dump_of(self.store, projection) != await rebuilt_dump(self.log, projection):
                raise Fault(f"the read model {projection.name} is not what the log tells")

    async def _prove_record(self) -> None:
        record = Record()
        await record.read(MemoryArchive(self.log), window=self.plan.equipment.window, every=10)
        if record.faults:
            raise Fault(record.faults[0])
        for each in self.provider.messages:
            session = each.header("x-claude-code-session-id") or ""
            if sha256(each.body).digest() not in record.sent and not self._may_lack(session):
                raise Fault(f"what was sent in exchange {each.number} of {session} at {each.at} is not on record")
        if not self.lost and not self.plan.weathers:  # a client that cannot be asked in time breaks a prefix
            self.scene.judge.prove(record)
            self.scene.check()

    def _may_lack(self, session: str) -> bool:
        """Whether events of a session, or of the session that it forked from, are lost."""
        root = "-".join(session.split("-")[:2])
        return not self.lost.isdisjoint({stream_of("t", session), stream_of("t", root)})

    async def _prove_whole_replies(self) -> None:
        finished: Counter[str | None] = Counter()
        for stream in await self.log.streams():
            finished.update(
                event.message_id
                for each in await self.log.read(stream)
                if isinstance(event := each.envelope.event, TurnFinished)
            )
        for reply in self.scene.seen_whole:
            if finished[reply.message] != 1 and not self._may_lack(reply.session):
                times = finished[reply.message]
                raise Fault(f"the reply {reply.message}, which its client saw whole, is {times} times on record")

    def _sum_up(self) -> SimulationResult:
        trace = self.seeded.trace
        events = self.log._events
        refused = [each for each in self.provider.violations if each.violation.rule == "signature"]
        return SimulationResult(
            seed=self.seed,
            trace=trace.digest,
            steps=trace.steps,
            requests=self.scene.replies_heard,
            whole=len(self.scene.seen_whole),
            rounds=len(self.provider.messages),
            deaths=self.deaths,
            conflicts=self.log.conflicts,
            gaps=sum(isinstance(each.envelope.event, GapRecorded) for each in events),
            lost=len(self.lost),
            refusals=len(refused),
        )


class _LogObserver(logging.Handler):
    """Reads the servers' log messages. An unreported error in a living server is a fault."""

    def __init__(self, world: World) -> None:
        super().__init__(logging.WARNING)
        self._world = world

    def emit(self, record: logging.LogRecord) -> None:
        server = SERVER.get()
        self._world.seeded.trace.record(f"{server.name if server else ''} logs: {record.getMessage()}")
        is_over = server is not None and (server.is_dead or server.is_ending)
        if record.levelno >= logging.ERROR and not is_over:
            self._world.faults.append(self.format(record))


@contextmanager
def _watched(world: World) -> Iterator[None]:
    """Count actors and observe errors during the block."""
    run = SessionActor.run

    async def count(actor: SessionActor) -> None:
        server = SERVER.get()
        assert server is not None
        running = server.actors.setdefault(actor.identity.stream, [])
        running.append(actor)
        try:
            await run(actor)
        finally:
            running.remove(actor)

    logger, ear = logging.getLogger("mnemosyne"), _LogObserver(world)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SessionActor, "run", count)
        logger.addHandler(ear)
        try:
            yield
        finally:
            logger.removeHandler(ear)


def simulate(seed: int, change: Callable[[Plan], Plan] = lambda plan: plan) -> SimulationResult:
    """The run of a seed with a changed plan. Raises a Fault that says how to repeat it, with the end of the trace."""
    seeded = make_run(seed)
    world = World(seed, seeded, change(draw_plan(seeded.chance)))
    try:
        with _watched(world):
            return seeded.run(world.run)
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt):
            raise
        error.add_note(_explain(world))
        raise


def _explain(world: World) -> str:
    tail = "\n".join(f"{at:12.6f}  {number:5}  {what}" for at, number, what in world.seeded.trace.tail)
    again = f"python -m campaigns.simulation {world.seed}"
    return f"{tail}\n{world.plan}\n{world.faults}\nseed {world.seed}, step {world.seeded.trace.steps}; again: {again}"
