"""The place where a scenario is played: the whole proxy in the test's own process, or a server as a user runs it."""

import json
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import attrs

from campaigns.scenarios.agent import Agent, model_replies, text, think
from campaigns.scenarios.judge import Judge, Record
from campaigns.scenarios.spoken import MEMORY_TOOLS, Json
from mnemosyne.domain.session.decide import SwitchManaging
from mnemosyne.domain.session.directory import stream_of
from mnemosyne.domain.session.round_events import Mode
from mnemosyne.services import switching
from mnemosyne_lab.provider.cache import LocalServer
from mnemosyne_lab.provider.script import Script, ScriptedReply
from mnemosyne_lab.provider.server import Standin, open_standin
from tests.actors.support import StoppableLog
from tests.http.managing import Stage, bare_stage
from tests.plain.archive import MemoryArchive
from tests.plain.log import PlainLog
from tests.waiting import until

WINDOW = 8_000
"""Tokens of the largest prompt that is sent: a few files and it is full."""

DONE = model_replies(think("That is all."), text("Done."))


@attrs.define
class Clock:
    """A clock in microseconds, which advances between requests."""

    now: int = 1_700_000_000_000_000

    def __iter__(self) -> "Clock":
        return self

    def __next__(self) -> int:
        self.now += 1_000
        return self.now

    def pause(self, seconds: float) -> None:
        self.now += int(seconds * 1e6)


@attrs.define(kw_only=True)
class Scene:
    name: str
    standin: Standin
    judge: Judge
    clock: Clock
    replies: dict[str, list[ScriptedReply]]
    url: str = ""
    restart: Callable[[Mode], Awaitable[None]]
    turn_off: Callable[[str], Awaitable[None]]
    quiet: Callable[[], Awaitable[None]]
    """Waits until no relay runs, where that can be seen."""
    log: StoppableLog | None = None
    """Where it is in memory."""

    def agent(self, name: str = "a", kind: type[Agent] = Agent, **options: Any) -> Agent:
        return kind(scene=self, name=f"{self.name}-{name}", session=f"{self.name}-{name}", **options)

    def check(self) -> None:
        assert not self.judge.faults, "\n".join([self.name, *self.judge.faults])

    async def provider_asked(self, rounds: int) -> None:
        """Wait until the provider received this many more requests than were judged."""
        await until(lambda: self.judge.waiting() >= rounds)

    @property
    def sent(self) -> list[Json]:
        return [each.json() for each in self.standin.messages]


Story = Callable[[Scene], Awaitable[None]]


@attrs.define
class Casting:
    """The replies by the name of the agent in the system prompt. A ``sober`` model calls no memory tool that was not
    offered.
    """

    replies: dict[str, list[ScriptedReply]] = attrs.field(factory=dict)
    sober: bool = False

    def model(self, body: Any) -> ScriptedReply:
        name = re.findall(r"Claude Code\. \[([\w/-]+)\]", json.dumps(body))[0]
        waiting = self.replies.get(name, [])
        reply = waiting.pop(0) if waiting else DONE
        offered = {tool.get("name") or tool["function"]["name"] for tool in body.get("tools", [])}
        return _sober(reply, offered) if self.sober else reply


def _sober(reply: ScriptedReply, offered: set[str]) -> ScriptedReply:
    content = [block for block in reply.content if block.get("name") not in MEMORY_TOOLS - offered]
    if len(content) == len(reply.content):
        return reply
    return attrs.evolve(reply, content=content or [text("Well.")])


async def turn_off(log: PlainLog, session: str, at: int) -> None:
    """Switch managing off for a session, as `mnemosyne off` does."""
    command = SwitchManaging(at=at, on=False, why="mnemosyne off")
    await switching.switch_session(MemoryArchive(log), stream_of("t", session), command, "c")


@asynccontextmanager
async def in_memory(
    name: str,
    *,
    window: int | None = WINDOW,
    mode: Mode = Mode.MANAGE,
    local: LocalServer | None = None,
    sober: bool = False,
    **options: Any,
) -> AsyncIterator[Scene]:
    """The real application on a real socket, with a log in memory that is verified at the end. ``sober``: see
    ``Casting``; ``options``: those of ``open_process``.
    """
    clock, casting, log = Clock(), Casting(sober=sober), StoppableLog()
    async with (
        open_standin(Script(), clock=lambda: clock.now / 1e6, model=casting.model, local=local) as standin,
        AsyncExitStack() as stack,
    ):
        stages: list[Stage] = []

        async def restart(mode: Mode) -> None:
            await stack.aclose()
            opening = bare_stage(standin=standin, log=log, window=window, clock=clock, mode=mode, **options)
            stages.append(await stack.enter_async_context(opening))
            scene.url = stages[-1].url

        async def quiet() -> None:
            progress = stages[-1].proxy.progress
            await until(lambda: progress.running == 0)

        scene = Scene(
            name=name,
            standin=standin,
            judge=Judge(standin),
            clock=clock,
            replies=casting.replies,
            restart=restart,
            turn_off=lambda session: turn_off(log, session, next(clock)),
            quiet=quiet,
            log=log,
        )
        await restart(mode)
        yield scene
        await stack.aclose()
        record = Record()
        await record.read(MemoryArchive(log), window=window, every=10)
        scene.judge.prove(record)
        scene.judge.faults += record.faults
        assert record.fallbacks == 0
        scene.check()
