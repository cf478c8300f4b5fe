"""Two scrolling columns: the agent's terminal and the recorded events.

Lines are written from top to bottom and never changed, so the same code serves a terminal, with words as they arrive,
and a file.
"""

import errno
import os
import re
from collections import deque
from collections.abc import Iterable
from typing import NoReturn

from rich.console import Console
from rich.text import Text

RIGHT = 28
BAR = " │ "
WIDEST = 100
NARROWEST = 72
"""Least width for two columns; below it, the second column's lines follow in the first."""

_PIECES = re.compile(r"\n|[^\S\n]+|\S+")


class Terminal(Console):
    """A console whose reader may leave, as with ``| head``: an error like any other, after which all is cleared up."""

    def on_broken_pipe(self) -> NoReturn:
        raise BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE))


class Stage:
    """The two columns of a console."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self.width = min(console.width, WIDEST) - 1  # in the last column some terminals begin a new line
        self._two = self.width + 1 >= NARROWEST
        self._left = self.width - RIGHT - len(BAR) if self._two else self.width
        self._waiting: deque[Text] = deque()
        self._column = 0
        self._word = ""

    def say(self, text: str, style: str, *, indent: int = 2) -> None:
        """Write text as it arrives: words are kept whole, and begin a new line where the column is full."""
        for piece in _PIECES.findall(text):
            if piece == "\n":
                self._end_word(style, indent)
                self.end_line()
            elif piece.isspace():
                self._end_word(style, indent)
            else:
                self._word += piece

    def end_block(self, style: str, *, indent: int = 2) -> None:
        """End the current text."""
        self._end_word(style, indent)
        self.end_line()

    def line(self, text: str, style: str, *, indent: int = 2) -> None:
        """One line of its own, cut where the column ends."""
        shown = Text(" " * indent + text.expandtabs(4), style)
        shown.truncate(self._left, overflow="ellipsis")
        self._write(shown)
        self.end_line()

    def note(self, lines: Iterable[Text]) -> None:
        """Lines for the second column, one beside each line of the first from now on."""
        self._waiting.extend(lines)

    def end_line(self) -> None:
        """End what stands on the line, if anything does."""
        if self._column:
            self.empty_line()
        while self._waiting and not self._two:
            self.console.print(Text("    ") + self._waiting.popleft(), soft_wrap=True)

    def empty_line(self) -> None:
        """Go to the next line, with what waits for the second column at the end of this one."""
        if self._two:
            self._write(self._second_column())
        self.console.print()
        self._column = 0

    def flush(self) -> None:
        """Let nothing wait any more."""
        self.end_line()
        while self._waiting:
            self.empty_line()

    def _second_column(self) -> Text:
        line = Text(" " * (self._left - self._column)).append(BAR, "dim")
        if self._waiting:
            line.append_text(self._waiting.popleft())
        line.rstrip()
        return line

    def _end_word(self, style: str, indent: int) -> None:
        if not self._word:
            return
        word = Text(self._word, style)
        if self._column > indent and self._column + 1 + word.cell_len > self._left:
            self.empty_line()
        self._write(Text(" " * indent if self._column == 0 else " ") + word)
        self._word = ""

    def _write(self, text: Text) -> None:
        self.console.print(text, end="", soft_wrap=True)
        self._column += text.cell_len
