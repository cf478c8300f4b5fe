"""``python -m campaigns.soak.dying POINT PASSES VICTIM serve …``: a server that dies, by ``kill -9``, when it has
passed a named point of its code PASSES times; or its database dies then, and the server continues.

``python -m campaigns.soak.dying commands``: run commands, each of which dies before one of its steps, a call that
reaches the database or a disk. Each input line is a JSON array of the step and the command's words; each output line is
the exit code. Each command runs in a fork of this process, which has imported all modules.
"""

import inspect
import json
import os
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from importlib import import_module
from pathlib import Path
from typing import Any

import attrs
import psycopg

from mnemosyne.cli import main

PLACES: Mapping[str, str] = {
    "a request is read": "mnemosyne.http.gateway:Gateway._read",
    "a turn is opened": "mnemosyne.http.gateway:Gateway._open",
    "a turn is prepared": "mnemosyne.actors.turn:Turn._prepare",
    "a session is found": "mnemosyne.actors.session_finder:SessionFinder.identity_of",
    "a session is loaded": "mnemosyne.actors.session:SessionActor._load",
    "what a decision needs is gathered": "mnemosyne.actors.session:SessionActor._gather",
    "a turn is planned": "mnemosyne.actors.session:SessionActor._prepare",
    "an epoch begins": "mnemosyne.actors.epochs:Epochs.begin_epoch",
    "a turn begins": "mnemosyne.actors.session:SessionActor._begin",
    "events are appended": "mnemosyne.actors.session:SessionActor._append_all",
    "a batch is committed": "mnemosyne.adapters.postgres.event_log:PostgresEventLog.commit",
    "a batch is settled": "mnemosyne.adapters.postgres.journal:GroupJournal._settle",
    "a round is sent": "mnemosyne.http.reply_rounds:SplicedRounds._send_round",
    "a request leaves": "mnemosyne.adapters.upstream:HttpUpstream._send",
    "a reply is read": "mnemosyne.http.reply_rounds:SplicedRounds._read",
    "a part is passed on": "mnemosyne.http.reply_rounds:SplicedRounds._pass_on",
    "a part is handed to the client": "mnemosyne.http.client_reply:ClientReply.hand_over",
    "hidden calls are answered": "mnemosyne.actors.tools:MemoryToolExecutor.answer",
    "a round is over": "mnemosyne.actors.session:SessionActor._round_over",
    "the next round is recorded": "mnemosyne.actors.session:SessionActor._next_round",
    "a turn ends": "mnemosyne.actors.session:SessionActor._finish",
    "a turn is accounted": "mnemosyne.actors.deferred_work:DeferredWork._account",
    "a turn is remembered": "mnemosyne.actors.deferred_work:DeferredWork._remember",
    "helper work is recorded": "mnemosyne.actors.session:SessionActor._record_help",
}
"""What happens in a server, and where."""

POINTS = [f"{when} {place}" for place in PLACES for when in ("before", "after")]

SERVER, DATABASE = "server", "database"
"""Who may die."""


def died_file(environ: Mapping[str, str]) -> Path:
    """A file that exists once the victim has died."""
    return Path(environ["MNEMOSYNE_DATA_DIR"]).parent / "somebody-died"


def method_at(place: str) -> tuple[type, str]:
    """The class and the method name of a point. Raises AttributeError if there is no such method."""
    module, _, path = PLACES[place].partition(":")
    owner, _, name = path.partition(".")
    cls: type = getattr(import_module(module), owner)
    getattr(cls, name)
    return cls, name


def die_at(point: str, passes: int, victim: str) -> None:
    """Kill the victim when the point has been passed ``passes`` times."""
    when, place = point.split(" ", 1)
    owner, name = method_at(place)
    countdown = Countdown(passes, lambda: _kill(victim))
    watch(owner, name, **{when: countdown.passed})


@attrs.define
class Countdown:
    """Kills when a point has been passed ``left`` times."""

    left: int
    kill: Callable[[], None]

    def passed(self) -> None:
        self.left -= 1
        if self.left == 0:
            self.kill()


def watch(
    owner: Any, name: str, *, before: Callable[[], None] = lambda: None, after: Callable[[], None] = lambda: None
) -> None:
    """Have a method call these before and after its own code."""
    done = getattr(owner, name)

    @wraps(done)
    async def wait(*given: Any, **named: Any) -> Any:
        before()
        found = await done(*given, **named)
        after()
        return found

    @wraps(done)
    def do(*given: Any, **named: Any) -> Any:
        before()
        found = done(*given, **named)
        after()
        return found

    setattr(owner, name, wait if inspect.iscoroutinefunction(done) else do)


def _kill(victim: str) -> None:
    died_file(os.environ).touch()
    if victim == SERVER:
        os.kill(os.getpid(), signal.SIGKILL)
    for file in Path(os.environ["MNEMOSYNE_DATA_DIR"]).rglob("postmaster.pid"):
        os.kill(int(file.read_text().split()[0]), signal.SIGKILL)


# Commands

STEPS: tuple[tuple[Any, str], ...] = (
    (psycopg.Connection, "wait"),
    (os, "fsync"),
    (os, "replace"),
    (os, "rename"),
    (os, "unlink"),
    (Path, "unlink"),
)
"""The functions whose calls are steps: a statement, a commit, a part of a copy; a file that is made durable, renamed or
deleted.
"""


def run_until(step: int, words: Sequence[str]) -> int:
    """The exit code of a command that dies before this step (never, for 0); negative if a signal ended it."""
    child = os.fork()
    if child == 0:
        countdown = Countdown(step, lambda: os.kill(os.getpid(), signal.SIGKILL))
        for owner, name in STEPS:
            watch(owner, name, before=countdown.passed)
        with open(os.devnull, "w") as nothing:
            os.dup2(nothing.fileno(), 1)
            os.dup2(nothing.fileno(), 2)
        try:
            main(list(words), prog_name="mnemosyne")
        except SystemExit as ended:
            os._exit(int(ended.code or 0))
        os._exit(3)
    _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status)


def run_commands() -> None:
    for name in list(main.places()):
        main.get_command(None, name)
    for line in sys.stdin:
        step, *command = json.loads(line)
        sys.stdout.write(f"{run_until(step, command)}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    if sys.argv[1:] == ["commands"]:
        run_commands()
    else:
        point, passes, victim, *arguments = sys.argv[1:]
        die_at(point, int(passes), victim)
        main(arguments, prog_name="mnemosyne")
