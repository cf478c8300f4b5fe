"""Prints the demo: the agent's replies, the size of its context, and how Mnemosyne managed it."""

import errno
import os
import shlex
import textwrap
from typing import NoReturn

from rich.console import Console
from rich.table import Table
from rich.text import Text

from mnemosyne.domain.wire.blocks import is_call
from mnemosyne.figures import count_text, dollars_text
from mnemosyne.services.savings import Balance
from mnemosyne_lab.demo.agent import PROJECT, Block
from mnemosyne_lab.demo.witness import Witness

WIDEST = 92
SIZES = 37
"""Columns for the turn and the size of its prompt; in a narrow terminal they are left out."""
CELL = 5_000
"""Tokens for one cell of the bar of a prompt."""


class Terminal(Console):
    """A console whose reader may leave, as with ``| head``: an error like any other, after which all is cleared up."""

    def on_broken_pipe(self) -> NoReturn:
        raise BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE))


class Stage:
    """Lines of a console, at most ``WIDEST`` columns wide."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._width = max(12, min(console.width, WIDEST) - 1)  # in the last column some terminals begin a new line

    def tell(self, text: str, style: str = "", *, indent: str = "") -> None:
        for line in textwrap.wrap(text, self._width - len(indent)):
            self._console.print(Text(f"{indent}{line}", style), soft_wrap=True)

    def command(self, *words: str) -> None:
        """Print a command on a line of its own, never wrapped: it is there to be copied."""
        self._console.print(Text(f"  {shlex.join(words)}"), soft_wrap=True)

    def begin(self, number: int, of: int, title: str, prompt: str) -> None:
        self._console.print()
        self.tell(f"{number}/{of}  {title}", "bold magenta")
        self.tell(f"> {prompt}", "bold")

    def reply(self, reply: list[Block], witness: Witness) -> None:
        """Print a reply of the model, with the tokens of its request."""
        size = f"turn {witness.turn:<3}{count_text(witness.facts['window']):>7}"
        bar = "█" * max(1, round(witness.facts["window"] / CELL))
        room = self._width - SIZES if self._width >= 2 * SIZES else self._width
        *before, last = [line for block in reply for line in _render(block, room - 2)]
        for line in before:
            self._console.print(Text(f"  {line}"), soft_wrap=True)
        shown = Text(f"  {last}")
        if room < self._width:
            shown.truncate(room, pad=True)
            shown.append(f"  {size} ", "dim").append(bar, "green")
        self._console.print(shown, soft_wrap=True)

    def bills(self, title: str, balance: Balance) -> None:
        self._console.print()
        self.tell(title, "bold magenta")
        table = Table(box=None, pad_edge=False, padding=(0, 2))
        for title in ("", "tokens sent", "cost"):
            table.add_column(title, justify="right" if title else "left")
        rows = {
            "with Mnemosyne": (balance.actual.prompt, balance.nanodollars),
            "without it": (balance.shadow.prompt, balance.nanodollars_unmanaged),
        }
        for name, (tokens, amount) in rows.items():
            table.add_row(name, count_text(tokens), dollars_text(amount))
        self._console.print(table)
        self._console.print()


def _render(block: Block, width: int) -> list[str]:
    """The lines of a block of a reply: a call's is cut, a text is wrapped."""
    if not is_call(block):
        return textwrap.wrap(str(block.get("text", "")), width)
    given = block["input"]
    about = str(given.get("command") or given.get("file_path") or "").removeprefix(PROJECT)
    return [textwrap.shorten(f"● {block['name']} {about}", width, placeholder=" …")]
