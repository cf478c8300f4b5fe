"""The transcripts that Claude Code keeps: which of its entries is a message of the provider's."""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path

from mnemosyne.domain.wire.blocks import is_call
from mnemosyne.errors import NotFound


def list_folders(environ: Mapping[str, str]) -> tuple[Path, ...]:
    """Where Claude Code keeps them, with these variables."""
    home = environ.get("CLAUDE_CONFIG_DIR")
    return ((Path(home) if home else Path(environ.get("HOME", "~")).expanduser() / ".claude") / "projects",)


def find_entry(folders: Iterable[Path], session: str, message_id: str) -> str:
    """The id of the last entry of a message in a session's transcript: the client can be told to go on behind it.

    Raises NotFound where there is no such transcript, or no such message in it.
    """
    files = [file for folder in folders for file in sorted(folder.glob(f"*/{session}.jsonl"))]
    if not files:
        raise NotFound(
            f"Claude Code has no transcript of session {session} here; it goes on only where it wrote one itself."
        )
    for file in files:
        found = [entry for line in _read_lines(file) if (entry := _entry_of(line, message_id)) is not None]
        if found:
            return found[-1]
    raise NotFound(f"The transcript of session {session} does not hold that reply (any more).")


def list_calls(folders: Iterable[Path], session: str, message_id: str) -> tuple[str, ...]:
    """The ids of the calls in a message and behind it, in the order in which a session's transcript has them."""
    for file in (file for folder in folders for file in sorted(folder.glob(f"*/{session}.jsonl"))):
        lines = _read_lines(file)
        begins = next((number for number, line in enumerate(lines) if _entry_of(line, message_id) is not None), None)
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


def _entry_of(line: str, message_id: str) -> str | None:
    if message_id not in line:
        return None
    try:
        entry = json.loads(line)
        found = entry["uuid"] if entry["type"] == "assistant" and entry["message"]["id"] == message_id else None
    except (ValueError, TypeError, KeyError):
        return None  # a line that was cut, or of another kind
    return found if isinstance(found, str) else None
