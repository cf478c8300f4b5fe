"""Shows the agent's actions on the stage, with the recorded events in the second column."""

from typing import Self

import attrs
import trio
from rich.text import Text

from mnemosyne_lab.demo.agent import Block
from mnemosyne_lab.demo.stage import Stage
from mnemosyne_lab.demo.witness import NEW, READ, Witness

TYPING_SECONDS = 0.02
PAUSE_SECONDS = 0.5

STYLES = {"text": "default", "thinking": "dim italic"}

TELLING = ("ValueError", "Ran", "OK", "FAILED", "Error")
"""Beginnings of output lines that are shown."""


@attrs.frozen(kw_only=True)
class Performance:
    """An ``agent.Audience`` that shows everything; a sub-agent's actions are indented."""

    stage: Stage
    witness: Witness
    paced: bool
    indent: int = 2

    def header(self) -> None:
        """Print the headings of the two columns."""
        self.stage.note([Text("what Mnemosyne records", "bold")])
        self.stage.line("what the agent's terminal shows", "bold", indent=0)
        legend = Text.assemble((READ, "green"), (" read from cache  ", "dim"), (NEW, "yellow"), (" new", "dim"))
        self.stage.note([Text("→ request, sha256  ← reply", "dim"), legend])
        self.stage.flush()

    async def type_prompt(self, prompt: str, *, went_back: bool) -> None:
        """The person at work."""
        self.stage.empty_line()
        await self._pause(PAUSE_SECONDS)
        if went_back:
            self.stage.line("↶ you go back to before the review", "bold yellow", indent=0)
            await self._pause(PAUSE_SECONDS)
        for letter in f"> {prompt}":
            self.stage.say(letter, "bold", indent=0)
            await self._pause(TYPING_SECONDS)
        self.stage.end_block("bold", indent=0)
        await self._pause(PAUSE_SECONDS / 2)

    def catch_up(self) -> None:
        """The agent has answered; whatever of the log is not shown yet is shown now."""
        self.stage.flush()

    def deeper(self) -> Self:
        return attrs.evolve(self, indent=self.indent + 2)

    async def answering(self) -> None:
        # Its request was recorded before the first byte of this reply came.
        self.stage.note(await self.witness.news())

    async def hear(self, kind: str, text: str) -> None:
        self.stage.say(text, STYLES[kind], indent=self.indent)

    async def end_block(self, block: Block) -> None:
        if block["type"] in STYLES:
            self.stage.end_block(STYLES[block["type"]], indent=self.indent)
        elif block["name"] == "Agent":
            self._show_call("Agent", block["input"]["prompt"])

    async def end_reply(self) -> None:
        self.stage.note(await self.witness.news_of_the_end())

    async def note_result(self, call: Block, result: str) -> None:
        given = call["input"]
        self._show_call(call["name"], given.get("command") or given["path"])
        for text, style in _outcome(call, result):
            self.stage.line(text, style, indent=self.indent + 2)
        await self._pause(PAUSE_SECONDS / 2)

    def _show_call(self, name: str, what: str) -> None:
        self.stage.line(f"● {name}  {what}", "cyan", indent=self.indent)

    async def _pause(self, seconds: float) -> None:
        if self.paced:
            await trio.sleep(seconds)


def _outcome(call: Block, result: str) -> list[tuple[str, str]]:
    """A tool's outcome in a few lines with their styles."""
    lines = result.splitlines()
    match call["name"]:
        case "Edit" if not result.startswith("Error"):
            removed = [(f"- {line.strip()}", "red") for line in call["input"]["old"].splitlines()]
            return removed + [(f"+ {line.strip()}", "green") for line in call["input"]["new"].splitlines()]
        case "Read" if not result.startswith("Error"):
            return [(f"{len(lines)} lines", "dim")]
    return [(line, "dim") for line in lines if line.startswith(TELLING)]
