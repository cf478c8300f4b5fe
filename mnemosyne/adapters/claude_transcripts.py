"""Claude Code's transcripts: finding a message of the provider, and forking a session there."""

import glob
import os
import secrets
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path, PurePath
from typing import Any
from uuid import UUID

from mnemosyne.domain.wire import json_values
from mnemosyne.domain.wire.blocks import call_id_of, is_result
from mnemosyne.domain.wire.normal_form import content_blocks
from mnemosyne.domain.wire.reply import as_json
from mnemosyne.errors import BadOption, NotFound
from mnemosyne.regular_files import open_regular


def list_folders(environ: Mapping[str, str]) -> tuple[Path, ...]:
    home = environ.get("CLAUDE_CONFIG_DIR")
    return ((Path(home) if home else Path(environ.get("HOME", "~")).expanduser() / ".claude") / "projects",)


def write_fork(folders: Iterable[Path], session: str, message_id: str, calls: Collection[str] = ()) -> str:
    """Write a transcript that ends with a message of a session and the results of its ``calls``; return the new session
    id.

    Raises NotFound if the transcript, the message or a result is missing, BadOption if the file cannot be written.
    """
    name = str(UUID(bytes=secrets.token_bytes(16), version=4))
    file, lines = _read_up_to(folders, session, message_id, calls)
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


def _read_up_to(
    folders: Iterable[Path], session: str, message_id: str, calls: Collection[str]
) -> tuple[Path, Sequence[bytes]]:
    """The transcript of a session up to the last entry of a message and of the results of its calls."""
    files = _find_transcripts(folders, session)
    if not files:
        raise NotFound(f"Claude Code has no transcript of session {session} here, so it cannot continue it.")
    for file in files:
        lines = _read_lines(file)
        found = [number for number, line in enumerate(lines, 1) if _is_entry_of(line, message_id)]
        answers = {call: number for number, line in enumerate(lines, 1) for call in _answers_in(line) if call in calls}
        if found and len(answers) == len(calls):
            return file, lines[: max(found[-1], *answers.values(), 0)]
    raise NotFound(
        f"The transcript of session {session} does not contain that reply and the results of its calls; it may have"
        " been deleted."
    )


def _find_transcripts(folders: Iterable[Path], session: str) -> list[Path]:
    """The transcripts of a session; none for a name that is not a single part of a path."""
    if "\0" in session or PurePath(session).name != session:
        return []
    return [file for folder in folders for file in sorted(folder.glob(f"*/{glob.escape(session)}.jsonl"))]


def _rename(line: bytes, name: str) -> bytes:
    """Change the session id of an entry; other lines stay unchanged."""
    entry = _read_entry(line)
    return as_json(entry | {"sessionId": name}) if "sessionId" in entry else line


def was_typed(folders: Iterable[Path], session: str, text: str) -> bool:
    """Whether a transcript says that a person typed this prompt: Claude Code 2.1.332 distinguishes it from prompts of a
    schedule, of the model or of other sessions, for which it calls the same hooks.
    """
    wanted = text.strip()
    try:
        return any(
            _is_typed(line, wanted)
            for file in _find_transcripts(folders, session)
            for line in _read_lines(file, _TAIL)
            if b'"promptSource"' in line
        )
    except NotFound:
        return False


_TAIL = 4 * 1024 * 1024
"""Bytes at the end of a transcript in which a new prompt is looked for."""

_NOT_TYPED = ("textNotTyped", "promptRewritten", "verifiedSlackHumanTurn", "fromConnector")


def _is_typed(line: bytes, wanted: str) -> bool:
    entry = _read_entry(line)
    is_human = entry.get("turnOrigin") == "human" and entry.get("promptSource") in ("typed", "queued")
    if not is_human or any(map(entry.get, _NOT_TYPED)):
        return False
    message = entry.get("message")
    content = message.get("content") if isinstance(message, dict) else None
    blocks = content if isinstance(content, list) else [{"text": content}]
    texts = [each.get("text") for each in blocks if isinstance(each, dict)]
    return wanted in [each.strip() for each in texts if isinstance(each, str)]


def _answers_in(line: bytes) -> list[str]:
    """The ids of the calls that an entry answers."""
    try:
        entry = _read_entry(line)
        blocks = content_blocks(entry["message"]["content"]) if entry["type"] == "user" else []
    except (TypeError, KeyError):
        return []  # an entry of another kind
    return [str(call_id_of(each)) for each in blocks if is_result(each)]


def _read_lines(file: Path, most: int | None = None) -> list[bytes]:
    """The records of a transcript, or of its last ``most`` bytes. Only LF ends a line, because JSON may contain other
    line separators of Unicode.
    """
    try:
        with open_regular(file) as opened:
            if most is not None:
                opened.seek(max(0, file.stat().st_size - most))
            data = opened.read()
    except OSError as error:
        raise NotFound(f"The transcript {file} cannot be read: {error.strerror}.") from None
    return [record for line in data.split(b"\n") for record in split_records(line)]


_AROUND = "\0 \t\r\n"
"""Characters between records; an incomplete file may be filled with NUL."""


def split_records(line: bytes) -> list[bytes]:
    """The entries in a line, and the truncated parts between them."""
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
        if not between or ("type" in entry and "sessionId" in entry):  # otherwise an object within a truncated entry
            found += [between, text[at:end]]
            done = end
        at = end
    return [piece.encode("utf-8", "surrogateescape") for piece in (*found, text[done:].strip(_AROUND)) if piece]


_MOST_TRIED = 1000
"""The limit of attempts to find an entry in a line."""


def _read_entry(line: bytes) -> dict[str, Any]:
    """The entry in a line; empty if it is not an entry."""
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
