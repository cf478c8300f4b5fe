"""Where the conversation is played: in the test's own process on a log in memory, and through a real server."""

from collections.abc import Sequence
from pathlib import Path

import attrs

from campaigns.northstar.conversation import LONG, Lengths, conversation
from campaigns.northstar.model import model
from campaigns.northstar.playing import WINDOW, Figures, Play, figures
from campaigns.scenarios.scene import Clock
from mnemosyne.app.storage import open_storage
from mnemosyne_lab.provider.script import Script
from mnemosyne_lab.provider.server import open_standin
from tests.actors.support import STREAM
from tests.app.home import Home
from tests.http.managing import Client, bare_stage


@attrs.frozen
class Outcome:
    """A finished play, its results, and the violated wire rules."""

    play: Play
    figures: Figures
    violations: Sequence[str]


async def in_memory(lengths: Lengths = LONG) -> Outcome:
    """The whole proxy on a log in memory, without an index. Every round is rebuilt byte for byte, and the provider
    refuses prompts larger than the window.
    """
    clock = Clock()
    async with (
        open_standin(Script(window=WINDOW), clock=lambda: clock.now / 1e6, model=model) as standin,
        bare_stage(standin=standin, window=WINDOW, clock=clock) as stage,
    ):
        play = Play(Client(stage.url), standin, lambda: clock.pause(20))
        await play.run(conversation(lengths))
        await stage.rounds()
        found = await figures(play, await stage.log.read(STREAM), stage.log, STREAM)
        return Outcome(play, found, [str(each.violation) for each in standin.violations])


async def served(folder: Path) -> Outcome:
    r"""A server as a user runs it, with its database, index, summaries and limits, on a real clock.

    Every round is rebuilt byte for byte. Raises AssertionError if one is not.
    """
    async with open_standin(model=model) as standin:
        home = Home(folder, standin)
        async with home.served("manage", "--manage-window", str(WINDOW)) as running:
            play = Play(Client(running.url), standin, lambda: None)
            await play.run(conversation())
        session = play.client.session
        assert await home.events(session)  # which verify
        async with open_storage(home.config) as storage:
            stream = home.stream(session)
            found = await figures(play, await storage.events.read(stream), storage.contents, stream)
        return Outcome(play, found, [str(each.violation) for each in standin.violations])
