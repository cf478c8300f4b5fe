"""The transcripts that Claude Code keeps: which of its entries is a message of the provider's, and one up to there."""

import glob
import os
import secrets
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path, PurePath
from typing import Any
from uuid import UUID

from mnemosyne.domain.wire import json_values
from mnemosyne.domain.wire.blocks import is_call
from mnemosyne.domain.wire.reply import as_json
from mnemosyne.errors import BadOption, NotFound
from mnemosyne.regular_files import open_regular


def list_folders(environ: Mapping[str, str]) -> tuple[Path, ...]:
    """Where Claude Code keeps them, with these variables."""
    home = environ.get("CLAUDE_CONFIG_DIR")
    return ((Path(home) if home else Path(environ.get("HOME", "~")).expanduser() / ".claude") / "projects",)


def write_fork(folders: Iterable[Path], session: str, message_id: str) -> str:
    """Write a transcript beside a session's that ends with a message of it; the id by which the client knows it.

    Raises NotFound where there is no such transcript, or no such message in it, BadOption where none can be written.
    """
    name = str(UUID(bytes=secrets.token_bytes(16), version=4))
    file, lines = _read_up_to(folders, session, message_id)
    data = b"".join(_rename(line, name) + b"\n" for line in lines)
    fork = file.with_name(f"{name}.jsonl")
    try:
        with open(fork, "xb", opener=lambda path, flags: os.open(path, flags, 0o600)) as opened:
            opened.write(data)
    except OSError as error:
        if not isinstance(error, FileExistsError):
            fork.unlink(missing_ok=True)
        raise BadOption(f"The transcript {fork} cannot be written: {error.strerror or error}.") from None
    return name


def _read_up_to(folders: Iterable[Path], session: str, message_id: str) -> tuple[Path, Sequence[bytes]]:
    """A session's transcript up to the last entry of a message."""
    files = _find_transcripts(folders, session)
    if not files:
        raise NotFound(
            f"Claude Code has no transcript of session {session} here; it goes on only where it wrote one itself."
        )
    for file in files:
        lines = _read_lines(file)
        found = [number for number, line in enumerate(lines, 1) if _is_entry_of(line, message_id)]
        if found:
            return file, lines[: found[-1]]
    raise NotFound(f"The transcript of session {session} does not hold that reply (any more).")


def _find_transcripts(folders: Iterable[Path], session: str) -> list[Path]:
    """The transcripts of a session; one whose name is no single part of a path has none."""
    if "\0" in session or PurePath(session).name != session:
        return []
    return [file for folder in folders for file in sorted(folder.glob(f"*/{glob.escape(session)}.jsonl"))]


def _rename(line: bytes, name: str) -> bytes:
    """An entry as one of another session; a line that is none stays as it is."""
    entry = _read_entry(line)
    return as_json(entry | {"sessionId": name}) if "sessionId" in entry else line


def list_calls(folders: Iterable[Path], session: str, message_id: str) -> tuple[str, ...]:
    """The ids of the calls in a message and behind it, in the order in which a session's transcript has them."""
    for file in _find_transcripts(folders, session):
        lines = _read_lines(file)
        begins = next((number for number, line in enumerate(lines) if _is_entry_of(line, message_id)), None)
        if begins is not None:
            return tuple(call for line in lines[begins:] for call in _calls_of(line))
    return ()


def _calls_of(line: bytes) -> list[str]:
    try:
        entry = _read_entry(line)
        blocks = entry["message"]["content"] if entry["type"] == "assistant" else ()
        return [str(each["id"]) for each in blocks if is_call(each)]
    except (TypeError, KeyError, AttributeError):
        return []  # an entry of another kind


def _read_lines(file: Path) -> list[bytes]:
    """Each record of a transcript by itself. Only LF ends a line: JSON may hold every other character that Unicode
    calls a line's end. A record that was cut takes none along that stands behind it on its line.
    """
    try:
        with open_regular(file) as opened:
            data = opened.read()
    except OSError as error:
        raise NotFound(f"The transcript {file} cannot be read: {error.strerror}.") from None
    return [record for line in data.split(b"\n") for record in split_records(line)]


_AROUND = "\0 \t\r\n"
"""What stands around records: a file that was not written to its end is filled up with NUL."""


def split_records(line: bytes) -> list[bytes]:
    """The entries in a line that ends at a line feed, and what stands between them; nothing for an empty line."""
    line = line.strip(_AROUND.encode())
    if not line:
        return []
    if _read_entry(line):
        return [line]
    text = line.decode("utf-8", "surrogateescape")
    found, done, at = [], 0, 0
    for _ in range(_MOST_TRIED):
        at = text.find('{"', at)
        if at < 0:
            break
        try:
            entry, end = json_values.read_first(text, at)
        except (ValueError, RecursionError):
            at += 1
            continue
        between = text[done:at].strip(_AROUND)
        if not between or ("type" in entry and "sessionId" in entry):  # else an object within an entry that was cut
            found += [between, text[at:end]]
            done = end
        at = end
    return [piece.encode("utf-8", "surrogateescape") for piece in (*found, text[done:].strip(_AROUND)) if piece]


_MOST_TRIED = 1000
"""Places in a line at which an entry is looked for."""


def _read_entry(line: bytes) -> dict[str, Any]:
    """The entry that a line is; empty where it is none."""
    try:
        entry = json_values.read(line)
    except (ValueError, RecursionError):
        return {}
    return entry if isinstance(entry, dict) else {}


def _is_entry_of(line: bytes, message_id: str) -> bool:
    if message_id.encode() not in line:
        return False
    try:
        entry = _read_entry(line)
        return bool(entry["type"] == "assistant" and entry["message"]["id"] == message_id and entry["uuid"])
    except (TypeError, KeyError):
        return False  # an entry of another kind
