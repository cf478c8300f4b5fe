"""The demo: the stand-in, the real server, database and agent at work, then both bills and the session's page.

Every process that it starts ends and every file that it makes is removed, also after Ctrl-C, except a data directory to
keep.
"""

import os
import signal
import sys
import tempfile
import tomllib
import webbrowser
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager, contextmanager, suppress
from importlib import resources
from pathlib import Path
from typing import Any

import attrs
import trio
from rich.console import Console

from mnemosyne.adapters.upstream import HttpUpstream
from mnemosyne.app.launch import start_server
from mnemosyne.app.process import now
from mnemosyne.app.storage import open_storage
from mnemosyne.config import Config, load
from mnemosyne.errors import BadConfiguration, alone
from mnemosyne.figures import dollars_text
from mnemosyne.page_links import PageLinks, PageRole, link_to
from mnemosyne_lab.demo.agent import SESSION, Agent, Block, Workshop
from mnemosyne_lab.demo.stage import Stage
from mnemosyne_lab.demo.witness import Witness
from mnemosyne_lab.provider import Script, Standin, from_data, open_standin

# The screenplay: `story.toml`, read

COUNTRIES = tuple(
    "AT BE BG CH CZ DE DK EE ES FI FR GB GR HR HU IE IS IT LT LU LV NL NO PL PT RO SE SI SK TR".split()  # noqa: SIM905
)
ORDERS = 4_500
CITIES = ("harbour", "old town", "airport", "station", "north", "south", "university")


@attrs.frozen(kw_only=True)
class Scene:
    """A prompt, under a ``title``. ``shows`` are sentences about the log afterwards, with the names of its facts."""

    title: str
    prompt: str
    shows: Sequence[str] = ()


@attrs.frozen(kw_only=True)
class Story:
    """A project with a bug, and what its user and the model do about it."""

    model: str
    system: str
    files: Mapping[str, str]
    scenes: tuple[Scene, ...]
    rules: str

    def script(self, facts: Mapping[str, object]) -> Script:
        """The model's replies. The id of an object is known only once the log has it."""
        return from_data(tomllib.loads(self.rules.replace("OBJECT_ID", str(facts.get("printed", "")))))


def load_story() -> Story:
    text = (resources.files(__package__) / "story.toml").read_text(encoding="utf-8")
    head, rules = text.split("# The model's replies", 1)
    data: dict[str, Any] = tomllib.loads(head)
    return Story(
        model=data["model"],
        system=data["system"],
        files={**data["files"], "orders.csv": list_orders(), "tariffs.csv": list_tariffs()},
        scenes=tuple(Scene(**scene) for scene in data["scenes"]),
        rules=rules.partition("\n")[2],
    )


def list_tariffs() -> str:
    """A table of prices by country and weight."""
    rows = [
        f"{country},{weight},{4 + 0.7 * weight + 0.45 * number:.2f},EUR,zone {1 + number % 5}"
        for number, country in enumerate(COUNTRIES)
        for weight in (1, 2, 3, 4, 5, 6, 8, 10, 12, 15, 18, 20, 22, 25, 28, 31)
    ]
    return "\n".join(["country,up_to_kg,price,currency,zone", *rows, ""])


def list_orders() -> str:
    rows = [
        f"{10_000 + 7 * number},{COUNTRIES[number * 11 % 30]},{1 + number * 37 % 30}.{number % 10},"
        f"{12 + number * 53 % 240}.90,{CITIES[number % 7]} {number * 17 % 90}"
        for number in range(ORDERS)
    ]
    return "\n".join(["order,country,kg,value,address", *rows, ""])


# The play

PREFIX = "mnemosyne-demo-"
SIGNALLED = 128
"""A shell adds it to a signal's number to make an exit code."""
ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

TURN_SECONDS, READING_SECONDS = 0.25, 1.8
"""Pauses after a turn, and after a sentence."""


@attrs.frozen
class Options:
    """How the demo is shown. ``keep`` is a directory that outlives it; ``opens`` its page in a browser."""

    console: Console
    paced: bool
    keep: Path | None
    opens: bool

    async def pause(self, seconds: float) -> None:
        """Wait, if the demo is paced."""
        await trio.sleep(seconds if self.paced else 0)


def may_open(console: Console) -> bool:
    """Whether a person is at a display."""
    shown = sys.platform == "darwin" or any(map(os.environ.get, ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER")))
    return console.is_terminal and shown


def run_demo(options: Options) -> int:
    """Play the whole demo. Returns the exit code: 0, or a shell's for a signal.

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
        raise BadConfiguration(f"--keep {folder} is not empty; name an empty or a new directory.")


async def _until_signal(work: Callable[[], Awaitable[None]], say: Callable[[str], None]) -> int:
    """Do the work; on a signal leave it in good order. Further signals change nothing: the end is under way."""
    problem: Exception | None = None
    received: list[int] = []
    scope = trio.CancelScope()

    async def listen() -> None:
        async for number in signals:
            if not received:
                say("\n\nStopping …")
            received.append(number)
            scope.cancel()

    with trio.open_signal_receiver(*ENDING) as signals:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(listen)
            with scope:
                try:
                    await work()
                except Exception as raised:  # raised again outside the nursery, which would wrap it in a group
                    problem = raised
            nursery.cancel_scope.cancel()
    if problem is not None:
        raise alone(problem)
    return SIGNALLED + received[0] if received else 0


async def _demo(options: Options) -> None:
    story, stage = load_story(), Stage(options.console)
    stage.tell("Mnemosyne demo", "bold magenta")
    stage.tell(
        "A small coding agent works on a shop through the real proxy and database, with default settings. Only the"
        " model is a script on this machine: no key, no network, none of your files."
    )
    await options.pause(READING_SECONDS)
    with _folder(options.keep) as data_dir, _folder(None) as project:
        async with _running(options.console, data_dir) as (config, provider, url):
            workshop = Workshop.with_files(project, story.files)
            async with open_storage(config) as storage, HttpUpstream(url) as server:
                witness = Witness(storage.events)
                agent = Agent(
                    server=server,
                    workshop=workshop,
                    model=story.model,
                    system=story.system,
                    watch=watch_replies(options, stage, witness),
                )
                await play(options, stage, story, agent, witness, provider)
            await _farewell(options, stage, config, url)


@contextmanager
def _folder(keep: Path | None) -> Iterator[Path]:
    if keep is not None:
        yield keep.absolute()
        return
    # A process that was killed may still be closing its files.
    with tempfile.TemporaryDirectory(prefix=PREFIX, ignore_cleanup_errors=True) as name:
        yield Path(name)


@asynccontextmanager
async def _running(console: Console, data_dir: Path) -> AsyncIterator[tuple[Config, Standin, str]]:
    """The stand-in and, between it and us, the server."""
    async with open_standin() as provider:
        given = {"data_dir": data_dir, "upstream": provider.url, "port": 0, "mode": "manage"}
        config = load(given, os.environ)
        # In a thread, because starting and stopping takes long and must not block the stand-in and signals.
        servers = ExitStack()
        try:
            with console.status("Starting PostgreSQL and the proxy …"):
                starting = start_server(config, os.environ)
                server = await trio.to_thread.run_sync(servers.enter_context, starting)
            yield config, provider, server.url
        finally:
            with trio.CancelScope(shield=True):
                await trio.to_thread.run_sync(servers.close)


def watch_replies(options: Options, stage: Stage, witness: Witness) -> Callable[[list[Block]], Awaitable[None]]:
    """Show each reply once the log has the end of its turn."""

    async def watch(reply: list[Block]) -> None:
        await witness.follow()
        stage.reply(reply, witness)
        await options.pause(TURN_SECONDS)

    return watch


async def play(options: Options, stage: Stage, story: Story, agent: Agent, witness: Witness, provider: Standin) -> None:
    """Play the scenes through the server while its log is read, then show both bills."""
    for number, scene in enumerate(story.scenes, 1):
        provider.script = story.script(witness.facts)
        stage.begin(number, len(story.scenes), scene.title, scene.prompt)
        await options.pause(READING_SECONDS / 2)
        await agent.ask(scene.prompt)
        for sentence in scene.shows:
            try:
                stage.tell(sentence.format(**witness.render_facts()), "yellow", indent="  ")
            except KeyError:
                stage.tell("The log has no such event: this step did not happen.", "red", indent="  ")
            await options.pause(READING_SECONDS)
    await witness.settle()
    balance = witness.balance
    saved = balance.nanodollars_saved
    stage.bills("Both bills at list prices", balance)
    stage.tell(
        f"{dollars_text(abs(saved))} {'saved' if saved >= 0 else 'lost'}, including the cost of the memory tools, of"
        " the compaction and of everything restored. `mnemosyne savings` shows the same bills. Window, prices and"
        " planner are the defaults: nothing is scaled."
    )


async def _farewell(options: Options, stage: Stage, config: Config, url: str) -> None:
    if options.opens:
        page = f"/-/session/{SESSION}"
        secret = PageLinks(config.data_dir).make(PageRole.READER, now())
        if await trio.to_thread.run_sync(webbrowser.open, link_to(url, page, secret)):
            stage.tell("The session's page is open in your browser, until Ctrl-C.", "bold")
            await trio.sleep_forever()
    if options.keep is not None:
        stage.tell(f"The log stays in {config.data_dir}. To see it:")
        stage.command("mnemosyne", "open", SESSION, "--data-dir", str(config.data_dir.resolve()))
    else:
        stage.tell("The demo's log is deleted; --keep DIR keeps it.", "dim")
    stage.tell("Now try it with your own agent: mnemosyne run --manage -- claude")
