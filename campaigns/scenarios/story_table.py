"""The table of stories and the steps that many of them share."""

from collections.abc import Callable

import attrs

from campaigns.scenarios.agent import (
    Agent,
    call,
    read,
    text,
    think,
)
from campaigns.scenarios.messages import ReadReply
from campaigns.scenarios.scene import WINDOW, Story

DROPPING = ",thinking-binding-controls-2026-08-01"

STORIES: dict[str, "StoryEntry"] = {}


@attrs.frozen(kw_only=True)
class StoryEntry:
    """A story. One that ``costs`` is long enough to be no more expensive than without the proxy, in a window that
    forces few rewrites. ``rewrites`` says that it evicts something if planning has its time. A ``long`` one is for
    campaigns, because it takes too long beside a similar short one.
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
    """Adds a story to the table."""

    def add_story(play: Story) -> Story:
        STORIES[play.__name__.replace("_", "-")] = StoryEntry(play=play, costs=costs, rewrites=rewrites, long=long)
        return play

    return add_story


def final_text(reply: ReadReply) -> str:
    """The final text of a reply that ended normally."""
    assert reply.ended, reply
    return str(reply.content[-1].get("text"))


async def reads(agent: Agent, files: int, first: int = 0, words: str = "Go through the files.") -> ReadReply:
    """The agent reads one file after the other, and finishes."""
    agent.hears(*([think(f"File {number}."), read(f"/src/part_{number}.py")] for number in range(first, first + files)))
    reply = await agent.work(words)
    assert final_text(reply) == "Done."
    return reply


async def writes(agent: Agent, files: int, first: int = 0) -> ReadReply:
    """The agent reads files and writes others, so that the gathered content has been used."""
    for number in range(first, first + files):
        agent.hears(
            [think(f"File {number}."), text("I read it."), read(f"/src/part_{number}.py")],
            [think(), call("Write", file_path=f"/src/out_{number}.py", content="x = 1\n" * 30)],
        )
    reply = await agent.work(f"Bring the files {first} to {first + files - 1} up to date.")
    assert final_text(reply) == "Done."
    return reply
