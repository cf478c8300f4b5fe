"""The transcripts that Claude Code keeps: which of its entries is a message of the provider's, and one up to there."""

import glob
import json
import os
import secrets
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path, PurePath
from uuid import UUID

from mnemosyne.domain.wire.blocks import is_call
from mnemosyne.errors import BadOption, NotFound


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
    text = "".join(f"{_rename(line, name)}\n" for line in lines)
    fork = file.with_name(f"{name}.jsonl")
    try:
        with open(fork, "x", encoding="utf-8", opener=lambda path, flags: os.open(path, flags, 0o600)) as opened:
            opened.write(text)
    except OSError as error:
        raise BadOption(f"The transcript {fork} cannot be written: {error.strerror or error}.") from None
    return name


def _read_up_to(folders: Iterable[Path], session: str, message_id: str) -> tuple[Path, Sequence[str]]:
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


def _rename(line: str, name: str) -> str:
    """An entry as one of another session; a line that is none stays as it is."""
    try:
        entry = json.loads(line)
    except ValueError:
        return line
    if not isinstance(entry, dict) or "sessionId" not in entry:
        return line
    return json.dumps(entry | {"sessionId": name}, ensure_ascii=False)


def list_calls(folders: Iterable[Path], session: str, message_id: str) -> tuple[str, ...]:
    """The ids of the calls in a message and behind it, in the order in which a session's transcript has them."""
    for file in _find_transcripts(folders, session):
        lines = _read_lines(file)
        begins = next((number for number, line in enumerate(lines) if _is_entry_of(line, message_id)), None)
        if begins is not None:
            return tuple(call for line in lines[begins:] for call in _calls_of(line))
    return ()


def _calls_of(line: str) -> list[str]:
    try:
        entry = json.loads(line)
        blocks = entry["message"]["content"] if entry["type"] == "assistant" else ()
        return [str(each["id"]) for each in blocks if is_call(each)]
    except (ValueError, TypeError, KeyError, AttributeError):
        return []  # a line that was cut, or of another kind


def _read_lines(file: Path) -> list[str]:
    try:
        return file.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError as error:
        raise NotFound(f"The transcript {file} cannot be read: {error.strerror}.") from None


def _is_entry_of(line: str, message_id: str) -> bool:
    if message_id not in line:
        return False
    try:
        entry = json.loads(line)
        return bool(entry["type"] == "assistant" and entry["message"]["id"] == message_id and entry["uuid"])
    except (ValueError, TypeError, KeyError):
        return False  # a line that was cut, or of another kind
