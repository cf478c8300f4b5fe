"""How a story is told: the table of them, and what happens in many."""

from collections.abc import Callable

import attrs

from tests.scenarios.agent import (
    Agent,
    call,
    read,
    text,
    think,
)
from tests.scenarios.messages import ReadReply
from tests.scenarios.scene import WINDOW, Story

DROPPING = ",thinking-binding-controls-2026-08-01"

STORIES: dict[str, "Told"] = {}


@attrs.frozen(kw_only=True)
class Told:
    """A story. Where it ``costs`` it is long enough to be no dearer than without us, in a window that forces little.
    ``rewrites`` says that something leaves the window in it, if planning has its time. A ``long`` one is for campaigns:
    it takes long for what it shows beside a shorter one.
    """

    play: Story
    costs: bool = False
    rewrites: bool = False
    long: bool = False

    @property
    def window(self) -> int:
        """Tokens of the largest prompt."""
        return WINDOW * 2 if self.costs else WINDOW


def story(*, costs: bool = False, rewrites: bool = False, long: bool = False) -> Callable[[Story], Story]:
    """Puts a story into the table."""

    def told(play: Story) -> Story:
        STORIES[play.__name__.replace("_", "-")] = Told(play=play, costs=costs, rewrites=rewrites, long=long)
        return play

    return told


def saying(reply: ReadReply) -> str:
    """The last words of a reply that ended as the provider meant."""
    assert reply.ended, reply
    return str(reply.content[-1].get("text"))


async def reads(agent: Agent, files: int, first: int = 0, words: str = "Go through the files.") -> ReadReply:
    """The agent reads one file after the other, and is done."""
    agent.hears(*([think(f"File {number}."), read(f"/src/part_{number}.py")] for number in range(first, first + files)))
    reply = await agent.work(words)
    assert saying(reply) == "Done."
    return reply


async def writes(agent: Agent, files: int, first: int = 0) -> ReadReply:
    """Reads, and now and then writes what was read: what was gathered has been used then."""
    for number in range(first, first + files):
        agent.hears(
            [think(f"File {number}."), text("I read it."), read(f"/src/part_{number}.py")],
            [think(), call("Write", file_path=f"/src/out_{number}.py", content="x = 1\n" * 30)],
        )
    reply = await agent.work(f"Bring the files {first} to {first + files - 1} up to date.")
    assert saying(reply) == "Done."
    return reply
