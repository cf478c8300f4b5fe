"""Logging: lines of text or JSON, on stderr or in a file that may be rotated.

Names of sessions and models come from outside, and errors may quote anything, so credentials are masked and terminal
control sequences removed. The code logs no content, and no headers except those on the allow-list.
"""

import json
import logging
import os
import sys
from datetime import UTC, datetime
from io import TextIOWrapper
from logging.handlers import WatchedFileHandler
from pathlib import Path
from typing import Any
from uuid import UUID

from mnemosyne import credentials
from mnemosyne.domain.objects.events import ObjectFaulted
from mnemosyne.domain.ports import Append
from mnemosyne.domain.session.events import TurnInterrupted
from mnemosyne.domain.session.input_events import HelperWorked
from mnemosyne.domain.session.ledger_events import TurnAccounted
from mnemosyne.domain.session.round_events import EpochBegan, FallbackSent
from mnemosyne.errors import BadConfiguration, LogFailed
from mnemosyne.figures import plural
from mnemosyne.terminal import harmless

log = logging.getLogger(__name__)

_Step = FallbackSent | EpochBegan | ObjectFaulted | HelperWorked


class TextLines(logging.Formatter):
    """Formats entries as text."""

    def __init__(self, process: int | None = None) -> None:
        of_process = "" if process is None else f"process {process} "
        super().__init__(f"%(asctime)s %(levelname)s {of_process}%(name)s: %(message)s")

    def format(self, record: logging.LogRecord) -> str:
        return harmless(credentials.mask(super().format(record)))


class JsonLines(logging.Formatter):
    """Formats entries as JSON, one object per line. ``session`` is the entry's session; further members describe its
    turn.
    """

    def __init__(self, process: int | None = None) -> None:
        super().__init__()
        self._process = {} if process is None else {"process": process}

    def format(self, record: logging.LogRecord) -> str:
        entry: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": credentials.mask(record.getMessage()),
            **self._process,
            **_session(record),
            **getattr(record, "about", {}),
        }
        if record.exc_info:
            entry["traceback"] = credentials.mask(self.formatException(record.exc_info))
        return json.dumps(entry)


def _session(record: logging.LogRecord) -> dict[str, str]:
    """Return the session of an entry: the first UUID among its arguments, since only sessions have UUIDs."""
    args = record.args if isinstance(record.args, tuple) else ()
    session = next((arg for arg in args if isinstance(arg, UUID)), None)
    return {} if session is None else {"session": str(session)}


class _RotatedFile(WatchedFileHandler):
    """A log file readable by its owner only. If it was moved away, the next entry starts a new one; write errors are
    reported on stderr and break nothing.
    """

    def _open(self) -> TextIOWrapper:
        handle = os.open(self.baseFilename, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        return TextIOWrapper(os.fdopen(handle, "ab", buffering=0), encoding="utf-8", write_through=True)

    def emit(self, record: logging.LogRecord) -> None:
        try:
            super().emit(record)
        except OSError:
            self.handleError(record)


def start_logging(level: str, form: str = "text", file: Path | None = None, process: int | None = None) -> None:
    """Start logging; ``form`` is the value of ``log_format``, ``process`` the number of a server's process. Raises
    BadConfiguration for a file that cannot be written.
    """
    try:
        handler = logging.StreamHandler(sys.stderr) if file is None else _RotatedFile(file)
    except OSError as error:
        raise BadConfiguration(f"log_file = {file} cannot be written: {error.strerror or error}.") from None
    handler.setFormatter(JsonLines(process) if form == "json" else TextLines(process))
    logging.basicConfig(handlers=[handler], level=logging.WARNING)
    set_level(level)


def set_level(level: str) -> None:
    """Set the log level of Mnemosyne's loggers."""
    logging.getLogger("mnemosyne").setLevel(level.upper())


def log_turns(append: Append, error: LogFailed | None) -> None:
    """Log a line for each step that a durable append records: a turn that ends or falls back, a compaction, an evicted
    object that was needed, and a helper's work. Texts that may quote content are left out.
    """
    if error is not None or not log.isEnabledFor(logging.INFO):
        return
    for envelope in append.envelopes:
        match envelope.event:
            case TurnAccounted() as event:
                _log_account(append.stream, event)
            case TurnInterrupted() as event:
                about = _name_turn(event)
                log.info("session %s: turn %d was interrupted", append.stream, event.turn, extra={"about": about})
            case FallbackSent() as event:
                _log_step(append.stream, event, "turn %d is sent as the client wrote it", event.turn)
            case EpochBegan() as event:
                step = "turn %d begins compaction %d, which frees %d tokens: %s"
                _log_step(append.stream, event, step, event.turn, event.epoch, event.freed, event.reason)
            case ObjectFaulted() as event:
                step = "turn %d needs object %s again (%s), %d tokens"
                _log_step(append.stream, event, step, event.turn, event.object, event.kind.value, event.tokens)
            case HelperWorked() as event:
                how = f"skipped for {plural(len(event.rejected), 'reason')}" if event.rejected else "done"
                filtered = f", {len(event.dropped)} filtered" if event.dropped else ""
                _log_step(append.stream, event, "%s by %s: %s%s", event.task, event.helper, how, filtered)
            case _:
                pass


def _log_step(stream: UUID, event: _Step, text: str, *values: object) -> None:
    about = {name: getattr(event, name) for name in ("branch", "turn")}
    log.info(f"session %s: {text}", stream, *values, extra={"about": {"step": type(event).__name__, **about}})


def _log_account(stream: UUID, event: TurnAccounted) -> None:
    used = event.actual
    about = {
        **_name_turn(event),
        "mode": event.mode.value,
        "model": event.model,
        "rounds": event.rounds,
        "input_tokens": used.input,
        "output_tokens": used.output,
        "cache_read_tokens": used.read,
        "cache_write_tokens": used.write_5m + used.write_1h,
    }
    log.info(
        "session %s: turn %d took %d tokens in, %d out",
        stream,
        event.turn,
        used.prompt,
        used.output,
        extra={"about": about},
    )


def _name_turn(event: TurnAccounted | TurnInterrupted) -> dict[str, object]:
    return {"branch": event.branch, "turn": event.turn, "attempt": event.attempt}
