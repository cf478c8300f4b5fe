"""The demo: the stand-in, the real server, database and agent at work, then a tour of the record.

Every process that it starts ends and every file that it makes is removed, also after Ctrl-C, except a data directory to
keep.
"""

import os
import signal
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager, suppress
from pathlib import Path

import attrs
import trio
from rich.console import Console

from mnemosyne.adapters.upstream import HttpUpstream
from mnemosyne.app.launch import start_server
from mnemosyne.app.storage import open_storage
from mnemosyne.config import Config, load
from mnemosyne.errors import BadConfiguration, alone
from mnemosyne_lab.demo.agent import Agent
from mnemosyne_lab.demo.performance import Performance
from mnemosyne_lab.demo.stage import Stage
from mnemosyne_lab.demo.story import Story, load_story
from mnemosyne_lab.demo.tools import Workshop
from mnemosyne_lab.demo.tour import Guide, RunCommand
from mnemosyne_lab.demo.witness import Witness
from mnemosyne_lab.provider import open_standin
from mnemosyne_lab.provider.script import Pace

PREFIX = "mnemosyne-demo-"
SIGNALLED = 128
"""A shell adds it to a signal's number to make an exit code."""
ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

LIVE = Pace(first=0.25, between=0.022, characters=9)
"""About as fast as one reads."""


@attrs.frozen(kw_only=True)
class Options:
    """How the demo is shown. ``keep`` is a directory that outlives it."""

    console: Console
    paced: bool
    keep: Path | None
    run: RunCommand


def run_demo(options: Options) -> int:
    """Play the whole demo. Returns the exit code: 0, a failed command's, or a shell's for a signal.

    Raises BadConfiguration if the directory to keep is in use.
    """
    if options.keep is not None:
        _refuse_used(options.keep)

    def say(text: str) -> None:
        with suppress(OSError):  # a signal may say that the terminal is gone
            options.console.print(text)

    code = trio.run(_until_signal, lambda: _demo(options), say)
    if code > SIGNALLED:
        say("Nothing is left behind." if options.keep is None else f"What was recorded so far is in {options.keep}.")
    return code


def _refuse_used(folder: Path) -> None:
    try:
        used = folder.exists() and any(folder.iterdir())
    except OSError as error:
        raise BadConfiguration(f"--keep {folder} cannot be used: {error.strerror or error}.") from None
    if used:
        raise BadConfiguration(f"--keep {folder} is not empty; name a directory that is, or that does not exist yet.")


async def _until_signal(work: Callable[[], Awaitable[int]], say: Callable[[str], None]) -> int:
    """Do the work; on a signal leave it in good order. Further signals change nothing: the end is under way."""
    problem: Exception | None = None
    code = 0
    told: list[int] = []
    async with trio.open_nursery() as nursery:
        scope = trio.CancelScope()
        await nursery.start(_listen, scope, told, say)
        with scope:
            try:
                code = await work()
            except Exception as raised:  # raised again outside the nursery, which would wrap it in a group
                problem = raised
        nursery.cancel_scope.cancel()
    if problem is not None:
        raise alone(problem)
    return SIGNALLED + told[0] if told else code


async def _listen(
    scope: trio.CancelScope,
    told: list[int],
    say: Callable[[str], None],
    *,
    task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
) -> None:
    with trio.open_signal_receiver(*ENDING) as signals:
        task_status.started()
        async for number in signals:
            if not told:
                say("\n\nStopping …")
            told.append(number)
            scope.cancel()


async def _demo(options: Options) -> int:
    story = load_story(pace=LIVE if options.paced else Pace(characters=LIVE.characters))
    guide = Guide(options.console, paced=options.paced, keep=options.keep, run=options.run)
    await guide.welcome()
    with _folder(options.keep) as data_dir, _folder(None) as project:
        async with _running(options.console, data_dir, story) as (config, url):
            witness = await _record(options, config, url, Workshop.with_files(project, story.files), story)
            return await guide.tour(config.data_dir, witness)


@contextmanager
def _folder(keep: Path | None) -> Iterator[Path]:
    if keep is not None:
        yield keep.absolute()
        return
    # A process that was killed may still be closing its files.
    with tempfile.TemporaryDirectory(prefix=PREFIX, ignore_cleanup_errors=True) as name:
        yield Path(name)


@asynccontextmanager
async def _running(console: Console, data_dir: Path, story: Story) -> AsyncIterator[tuple[Config, str]]:
    """The stand-in and, between it and us, the server."""
    async with open_standin(story.script) as provider:
        config = load({"data_dir": data_dir, "upstream": provider.url, "port": 0}, os.environ)
        # In a thread, because starting and stopping takes long and must not block the stand-in and signals.
        servers = ExitStack()
        try:
            with console.status("Starting PostgreSQL and the proxy …"):
                starting = start_server(config, os.environ)
                server = await trio.to_thread.run_sync(servers.enter_context, starting)
            yield config, server.url
        finally:
            with trio.CancelScope(shield=True):
                await trio.to_thread.run_sync(servers.close)


async def _record(options: Options, config: Config, url: str, workshop: Workshop, story: Story) -> Witness:
    """The story, played through the server while its log is read."""
    stage = Stage(options.console)
    async with open_storage(config) as storage, HttpUpstream(url) as server:
        witness = Witness(storage.events)
        performance = Performance(stage=stage, witness=witness, paced=options.paced)
        performance.header()
        agent = Agent(
            server=server,
            workshop=workshop,
            audience=performance,
            model=story.model,
            system=story.system,
            reviewer=story.reviewer,
        )
        place = 0
        for scene in story.scenes:
            if scene.remember:
                place = len(agent.messages)
            if scene.back_to:
                del agent.messages[place:]
            await performance.type_prompt(scene.prompt, went_back=scene.back_to)
            await agent.ask(scene.prompt)
            performance.catch_up()
        return witness
