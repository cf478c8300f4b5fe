"""Clients on the fake network, and their random behaviour."""

import itertools
import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import aclosing
from typing import Any

import attrs
import trio

from campaigns.scenarios.agent import Agent, fails, model_replies, text, think
from campaigns.scenarios.judge import OUR_ERRORS
from campaigns.scenarios.scene import Casting, Scene
from campaigns.scenarios.spoken import MEMORY_TOOLS, THINKING, Json, ReadReply, is_hidden, messages_of
from campaigns.simulation.network import ClientWire
from campaigns.simulation.server import SimulatedServer
from campaigns.walks import walks
from mnemosyne_lab.provider.delivery import Framing
from mnemosyne_lab.provider.script import ScriptedReply
from tests.http.raw_client import RawReply

PATIENCE_SECONDS = 3_600.0
"""A reply that takes longer never comes."""

ATTEMPT = "x-attempt"
"""A header whose value differs in each request."""

OBSERVED = {"x-mnemosyne-mode": "observe"}

STATUSES: tuple[Json | int, ...] = (429, 500, 529)

FRAMINGS: tuple[Framing, ...] = ("frame", "frame", "whole", [7, 50, 300], [1_000])

REFUSED = fails(400, "messages.1.content.0: Invalid `signature` in `thinking` block: bound to a different conversation")


@attrs.frozen
class WholeReply:
    """A reply that its client received completely."""

    session: str
    message: str


@attrs.define(kw_only=True)
class SimulatedScene(Scene):
    chance: random.Random
    find_servers: Callable[[str], Sequence[SimulatedServer]]
    """Those that a client of this name may talk to now."""
    all_servers: Sequence[SimulatedServer]
    may_be_refused: Callable[[], bool]
    """Whether the provider may refuse signed thinking once, behind a forgotten round."""
    seen_whole: list[WholeReply] = attrs.field(factory=list)
    replies_heard: int = 0
    attempts: Iterator[int] = attrs.field(factory=lambda: itertools.count(1))


@attrs.define(kw_only=True)
class SimulatedAgent(Agent):
    """A client whose requests go to any available server."""

    @property
    def place(self) -> SimulatedScene:
        assert isinstance(self.scene, SimulatedScene)
        return self.scene

    async def send(self) -> ReadReply:
        body, naming = self.body(), self._name()
        wire = await self._connect(body, naming)
        await self._read(wire, b"", 0, naming)
        self.last = self.spoken.read(wire.reply.status, _fields(wire.reply), wire.reply.body, cut=wire.reply.cut)
        is_ours = wire.by_death or self._is_refused(naming)
        self._judge(body, None if is_ours and not self.last.ended else self.last, wire, naming)
        return self.last

    async def disconnect(self, *, shown: bytes = b"", rounds: int = 0) -> RawReply:
        body, naming = self.body(), self._name()
        wire = await self._connect(body, naming)
        await self._read(wire, shown, rounds, naming)
        wire.disconnect()
        self._judge(body, None, wire, naming)
        return wire.reply

    def _name(self) -> Json:
        return {**self.naming(), ATTEMPT: f"{next(self.place.attempts)}"}

    async def _connect(self, body: bytes, naming: Json) -> ClientWire:
        chance = self.place.chance
        headers = [*self.raw_headers(), (ATTEMPT.encode(), naming[ATTEMPT].encode())]
        with trio.move_on_after(PATIENCE_SECONDS):
            while True:
                server = chance.choice(self.place.find_servers(self.name) or [None])
                wire = server and server.connect("POST", self.target, headers, body)
                if wire:
                    return wire
                await trio.sleep(chance.uniform(0.05, 1))
        raise AssertionError("no server takes a request")

    async def _read(self, wire: ClientWire, shown: bytes, rounds: int, naming: Json) -> None:
        with trio.move_on_after(PATIENCE_SECONDS) as scope:
            if rounds:
                while len(self._rounds(naming)) < rounds and not wire.has_ended:  # noqa: ASYNC110 - no event tells of rounds
                    await trio.sleep(self.place.chance.uniform(0, 0.1))
                return
            async with aclosing(wire.pieces()) as pieces:
                async for _ in pieces:
                    if shown and shown in wire.reply.body:
                        return
        assert not scope.cancelled_caught, f"{self.name} waits for a reply for ever"

    def _is_refused(self, naming: Json) -> bool:
        """Whether the provider could not be reached for one of its rounds."""
        name = (ATTEMPT.encode(), naming[ATTEMPT].encode())
        return any(name in each.headers for server in self.place.all_servers for each in server.upstream.refusals)

    def _rounds(self, naming: Json) -> list[Any]:
        return [each for each in self.place.standin.exchanges if each.header(ATTEMPT) == naming[ATTEMPT]]

    def _judge(self, body: bytes, reply: ReadReply | None, wire: ClientWire, naming: Json) -> None:
        place, raw = self.place, wire.reply
        place.replies_heard += 1
        if raw.status == 400:
            place.judge.faults.append(f"{self.name} got a 400: {raw.body[:300]!r}")
        if self._rounds(naming):
            said = b"" if raw.status in OUR_ERRORS else raw.body
            place.judge.observe(self.spoken, body, reply, said, raw.headers, naming)
        if place.may_be_refused():
            place.judge.faults = [each for each in place.judge.faults if ": signature " not in each]
        place.check()
        if reply is not None and reply.ended:
            place.seen_whole.append(WholeReply(self.session, reply.message["id"]))


def _fields(raw: RawReply) -> dict[str, str]:
    return {name.decode().lower(): value.decode("latin-1") for name, value in raw.headers}


@attrs.define
class FickleCasting(Casting):
    """Replies in arbitrary pieces, and a provider that sometimes refuses signed thinking for no reason."""

    chance: random.Random = attrs.field(kw_only=True)
    refuses: float = attrs.field(kw_only=True)

    def model(self, body: Any) -> ScriptedReply:
        if self._is_first_round_of_ours(body) and self.chance.random() < self.refuses:
            return REFUSED
        reply = super().model(body)
        framing = self.chance.choice(FRAMINGS)
        pace = attrs.evolve(reply.pace, first=self.chance.choice([0.0, 0.0, 0.2, 3.0, 20.0]))
        return attrs.evolve(reply, pace=pace, transport=attrs.evolve(reply.transport, framing=framing))

    def _is_first_round_of_ours(self, body: Any) -> bool:
        """Whether a managed request with signed thinking answers no hidden call."""
        offered = {tool.get("name") for tool in body.get("tools", [])}
        if not offered & MEMORY_TOOLS or not isinstance(body["messages"][-1]["content"], list):
            return False
        said = messages_of(body)
        known = [block for message in said for block in message["content"]]
        calls = {block["id"] for block in known if is_hidden(block)}
        is_signed = any(block["type"] in THINKING for block in known)
        return is_signed and not any(block.get("tool_use_id") in calls for block in said[-1]["content"])


@attrs.frozen
class Races:
    """A client sends a request twice at once, and then a third time for the reply that it continues."""

    replies: Sequence[walks.ReplyOrFault]

    async def __call__(self, walk: walks.Walk) -> None:
        agent = walk.agent
        agent.add_prompt(text(walk.word()))
        walk.hears(agent, self.replies)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(agent.send)
            nursery.start_soon(agent.send)
        await walk.finish(agent)


@attrs.frozen
class WorksInParallel:
    """A sub-agent and its conversation work at the same time."""

    replies: Sequence[walks.ReplyOrFault]

    async def __call__(self, walk: walks.Walk) -> None:
        agent = walk.agent
        sub = agent.sub_agent(f"sub{walk.words}")
        sub.hears(*(model_replies(think(), text(f"Number {number}.")) for number in range(2)))
        walk.hears(agent, self.replies)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(walk.work, sub, walk.word())
            nursery.start_soon(walk.work, agent, walk.word())


@attrs.frozen
class Waits:
    seconds: float

    async def __call__(self, walk: walks.Walk) -> None:
        await trio.sleep(self.seconds)


PAUSES = (1, 30, 200, 1_000, 4_000)
"""Seconds; after a thousand of them the actor sleeps."""


@attrs.frozen
class StepDrawer:
    chance: random.Random
    troubled: float

    def draw_steps(self, count: int) -> list[walks.Step]:
        return [self._step() for _ in range(count)]

    def _step(self) -> walks.Step:
        chance, replies = self.chance, self._replies()
        made: list[Callable[[], walks.Step]] = [
            lambda: walks.Works(replies, chance.choice([5, 20, 120])),
            lambda: walks.Works(replies, chance.choice([20, 300])),
            lambda: walks.Works(replies, chance.choice([120, 300])),
            lambda: walks.LosesReply(replies),
            lambda: walks.Interrupts(replies),
            lambda: walks.Disconnects(replies),
            lambda: walks.Rewinds(chance.randrange(8), replies),
            lambda: Races(replies),
            lambda: WorksInParallel(replies),
            lambda: Waits(chance.choice(PAUSES)),
            lambda: walks.compact,
            lambda: walks.fork,
            lambda: walks.turn_off,
        ]
        return chance.choices(made, [4, 4, 3, 1, 1, 2, 1, 2, 1, 2, 0.7, 0.7, 0.2])[0]()

    def _replies(self) -> list[walks.ReplyOrFault]:
        return [(self._blocks(), self._fault()) for _ in range(self.chance.randint(1, 4))]

    def _blocks(self) -> list[walks.Block]:
        chance = self.chance
        thoughts = [(chance.choice(["think", "think", "redacted"]), chance.randrange(8))] * (chance.random() < 0.7)
        kinds = ["text", "read", "write", "read", "ask", "look_up", "restore", "release"]
        return [*thoughts, *((chance.choice(kinds), chance.randrange(8)) for _ in range(chance.randint(0, 3)))]

    def _fault(self) -> Json | int | None:
        if self.chance.random() >= self.troubled:
            return None
        fault: Json | int = self.chance.choice([*walks.FAULTS, *STATUSES])
        return fault
