"""Detect the format of files and folders, and read their tapes."""

import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from mnemosyne.replay import export_tapes, session_tapes
from mnemosyne.replay.tapes import NotATape, Tape, Unplayable
from mnemosyne.services.export_format import FORMAT, DamagedFile, ExportCodec, Reader

Found = Tape | NotATape


def read_tapes(paths: Sequence[Path], codec: ExportCodec) -> Iterator[Found]:
    """The tapes in files and folders, in the given order; an error for each input that is no tape."""
    for path in paths:
        for file in _files_of(path):
            yield from _of_file(file, codec)


def _files_of(path: Path) -> list[Path]:
    """Expand a folder to its files and folders."""
    if not path.is_dir():
        return [path]
    inside = [each for each in sorted(path.iterdir()) if each.is_dir() or each.suffix == ".jsonl"]
    return [file for each in inside for file in _files_of(each)] or [path]


def _of_file(path: Path, codec: ExportCodec) -> Iterator[Found]:
    try:
        with path.open("rb") as file:
            first = _parse(file.readline())
            if isinstance(first, dict) and first.get("format") == FORMAT:
                yield _export(path, codec)
                return
            file.seek(0)
            yield from _sessions(path, file)
    except OSError as error:
        yield NotATape(path, None, f"it cannot be read: {error.strerror or error}")


def _sessions(path: Path, lines: Iterator[bytes]) -> Iterator[Found]:
    empty = True
    for number, line in enumerate(lines, 1):
        if line.strip():
            empty = False
            try:
                yield session_tapes.tape_of(_parse(line))
            except Unplayable as error:
                yield NotATape(path, number, str(error))
    if empty:
        yield NotATape(path, 1, "it is empty")


def _export(path: Path, codec: ExportCodec) -> Found:
    try:
        return export_tapes.tape_of(Reader(path, codec))
    except DamagedFile as error:
        return _make_error(path, str(error))
    except Unplayable as error:
        return NotATape(path, 1, str(error))


def _make_error(path: Path, reason: str) -> NotATape:
    """Convert an error of the export reader, which already names the file and usually the line."""
    what = reason.removesuffix(" Nothing was imported.").rstrip(".").removeprefix(str(path)).strip()
    place = re.fullmatch(r", line (\d+): (.*)", what, re.DOTALL)
    return NotATape(path, int(place[1]), place[2]) if place else NotATape(path, None, f"it {what}")


def _parse(line: bytes) -> Any:
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        return None
