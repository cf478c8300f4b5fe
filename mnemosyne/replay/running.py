"""One run of ``mnemosyne replay FILE…``: play tapes into a log in memory, and report the results."""

from collections.abc import Iterable, Sequence
from typing import IO

import attrs
import trio

from mnemosyne.adapters.plain.directory import PlainDirectory
from mnemosyne.adapters.plain.log import PlainLog
from mnemosyne.app.storage import event_codec
from mnemosyne.domain.ports import ContentStore, EventLog, Journal
from mnemosyne.domain.session.directory import Directory
from mnemosyne.domain.session.events import Event
from mnemosyne.domain.session.round_events import Mode
from mnemosyne.replay.canonical_log import LogSummary, summaries
from mnemosyne.replay.formats import Found
from mnemosyne.replay.playing import Played, RecordedClock, play
from mnemosyne.replay.tapes import NotATape


@attrs.frozen
class MemoryArchive:
    """A log in memory as an archive."""

    log: PlainLog

    @property
    def events(self) -> EventLog[Event]:
        return self.log

    @property
    def contents(self) -> ContentStore:
        return self.log

    @property
    def journal(self) -> Journal:
        return self.log

    @property
    def directory(self) -> Directory:
        return PlainDirectory(self.log)


@attrs.frozen
class RunOutcome:
    """The result of a run: its sessions, its tapes, and the inputs that could not be played."""

    sessions: Sequence[LogSummary]
    played: Sequence[Played]
    refused: Sequence[NotATape]

    @property
    def problems(self) -> list[str]:
        """All problems, as sentences."""
        unlike = [
            f"{played.tape}: {played.unlike} of {played.turns} requests are not in the log as they were sent."
            for played in self.played
            if played.unlike
        ]
        rebuilt = [f"{each.external_id}: {problem}." for each in self.sessions for problem in each.problems]
        return [*(refused.sentence for refused in self.refused), *unlike, *rebuilt]

    @property
    def notes(self) -> list[str]:
        """Harmless findings, as sentences."""
        return [f"{played.tape}: it holds no request for a message." for played in self.played if not played.turns]

    @property
    def good(self) -> bool:
        """Whether every input was played and every turn rebuilds to the sent bytes."""
        return not self.problems


def run(found: Iterable[Found], log_file: IO[bytes] | None, mode: Mode = Mode.OBSERVE) -> RunOutcome:
    """Play all tapes into one log, on one clock, as a server in this mode would record them, and write the log."""
    clock = RecordedClock()
    return trio.run(_run, found, log_file, clock, mode, clock=clock)


async def _run(found: Iterable[Found], log_file: IO[bytes] | None, clock: RecordedClock, mode: Mode) -> RunOutcome:
    codec = event_codec()
    log = PlainLog(codec)
    played: list[Played] = []
    refused: list[NotATape] = []
    for each in found:
        if isinstance(each, NotATape):
            refused.append(each)
        else:
            played.append(await play(log, each, clock, mode))
    sessions: list[LogSummary] = []
    async for summary, lines in summaries(MemoryArchive(log), codec):
        sessions.append(summary)
        if log_file is not None:
            log_file.writelines(lines)
    return RunOutcome(sessions, played, refused)
