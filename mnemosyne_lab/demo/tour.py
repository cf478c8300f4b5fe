"""The tour: the record, shown with ordinary commands, and suggested next steps."""

import io
import shlex
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout
from pathlib import Path

import attrs
import trio
from rich.console import Console
from rich.rule import Rule
from rich.text import Text

from mnemosyne_lab.demo.agent import SESSION
from mnemosyne_lab.demo.witness import Witness

RunCommand = Callable[[list[str]], int]
"""Runs `mnemosyne` with these arguments in this process; returns its exit code."""

SECONDS_TO_READ = 0.13
"""For each line of output."""
SECONDS_AT_LEAST, SECONDS_AT_MOST = 1.2, 3.0


@attrs.frozen
class Stop:
    """One command of the tour, and why one would type it."""

    why: str
    arguments: tuple[str, ...]


STOPS = (
    Stop("What was recorded?", ("sessions",)),
    Stop("What happened, and what did it cost?", ("timeline", SESSION)),
    Stop("What exactly did the model see at turn 3?", ("context", SESSION, "--turn", "3")),
    Stop("And what came between turn 2 and turn 4?", ("diff", SESSION, "--turn", "2", "4")),
    Stop("Is all that true? Rebuild every request, and compare the hashes.", ("verify", SESSION)),
)


class Guide:
    """Leads through the demo on a console."""

    def __init__(self, console: Console, *, paced: bool, keep: Path | None, run: RunCommand) -> None:
        self._console = console
        self._paced = paced
        self._keep = keep
        self._run = run

    async def welcome(self) -> None:
        """Print the introduction."""
        self._console.print(Rule("Mnemosyne", style="magenta"))
        self._console.print(
            "A small coding agent will now work through the real proxy, which records every\n"
            "request and reply in a real PostgreSQL. Only the model is played, by a script on\n"
            "this machine: no key, no network, nothing of yours.\n",
            soft_wrap=True,
        )
        await self._pause(SECONDS_AT_LEAST)

    async def tour(self, data_dir: Path, witness: Witness) -> int:
        """Show every stop. Returns the first exit code that is not 0."""
        self._console.print()
        self._console.print(Rule("and now, what is in the log", style="magenta"))
        self._console.print(
            f"{witness.turns} turns in {len(witness.branches)} context windows made {witness.events} events.\n"
        )
        await self._pause(SECONDS_AT_LEAST)
        worst = 0
        for stop in STOPS:
            worst = worst or await self._show(stop, data_dir)
        self._farewell(data_dir)
        return worst

    async def _show(self, stop: Stop, data_dir: Path) -> int:
        self._console.print(Text(f"# {stop.why}", "dim"))
        self._console.print(
            Text.assemble(("$ ", "dim"), (self._render_command(stop, data_dir), "bold cyan")), soft_wrap=True
        )
        arguments = [stop.arguments[0], "--data-dir", str(data_dir), *stop.arguments[1:]]
        code, output = await trio.to_thread.run_sync(self._output, arguments)
        lines = output.rstrip().splitlines()
        for line in lines:
            self._print_line(Text.from_ansi(line))
        self._console.print()
        await self._pause(min(SECONDS_AT_MOST, max(SECONDS_AT_LEAST, len(lines) * SECONDS_TO_READ)))
        return code

    def _print_line(self, line: Text) -> None:
        """A terminal's lines are cut, not wrapped, so that a table stays a table. A file takes them whole."""
        if self._console.is_terminal:
            line.truncate(self._console.width, overflow="ellipsis")
        self._console.print(line, soft_wrap=True)

    def _render_command(self, stop: Stop, data_dir: Path) -> str:
        """The command line as a person would type it; with the directory, if it will still be there."""
        where = ["--data-dir", str(data_dir)] if self._keep is not None else []
        return shlex.join(["mnemosyne", *stop.arguments, *where])

    def _output(self, arguments: list[str]) -> tuple[int, str]:
        with _capture(self._console.is_terminal) as output:
            code = self._run(arguments)
            output.flush()
            return code, output.buffer.getvalue().decode(output.encoding, "replace")

    def _farewell(self, data_dir: Path) -> None:
        self._console.print(Rule(style="magenta"))
        if self._keep is None:
            kept = "Everything of this demo is being removed again; `--keep DIR` would keep its log.\n"
        else:
            kept = f"The log of this demo stays in {data_dir}.\n"
        self._console.print(Text(kept, "dim"), soft_wrap=True)
        self._console.print("Now with an agent of yours:\n")
        for command, meaning in (
            ("mnemosyne run -- claude", "or: -- opencode, or any client of the Messages API"),
            ("mnemosyne sessions", "what was recorded"),
            ("mnemosyne --help", "the rest"),
        ):
            self._console.print(Text.assemble((f"  {command:<25}", "bold cyan"), (meaning, "dim")), soft_wrap=True)

    async def _pause(self, seconds: float) -> None:
        if self._paced:
            await trio.sleep(seconds)


class _Captured(io.TextIOWrapper):
    """Captures a command's output; reports a terminal if it will be shown on one."""

    buffer: io.BytesIO

    def __init__(self, terminal: bool) -> None:
        super().__init__(io.BytesIO(), encoding=sys.stdout.encoding, errors="replace", write_through=True)
        self._terminal = terminal

    def isatty(self) -> bool:
        return self._terminal


@contextmanager
def _capture(terminal: bool) -> Iterator[_Captured]:
    output = _Captured(terminal)
    with redirect_stdout(output):
        yield output
