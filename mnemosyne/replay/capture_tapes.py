"""Captured HTTP: one folder per run, ``NNNN-METHOD-path.json`` for each request and ``NNNN-….reply.txt`` for its reply.

Only requests for a message are played; a server does not record others, such as token counts, either.
"""

import json
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from mnemosyne.http.messages_route import PATHS
from mnemosyne.replay.messages import dumps, head_of
from mnemosyne.replay.session_tapes import SECOND
from mnemosyne.replay.tapes import Arrives, Step, Tape, TapedReply, Unplayable, tape

PATTERN = "[0-9]*-[A-Z]*-*.json"


def is_capture(value: Any) -> bool:
    """Whether a parsed file is a captured request."""
    return isinstance(value, dict) and {"method", "path", "headers"} <= value.keys()


def captures_in(folder: Path) -> list[Path]:
    """The captured requests of a run, in order."""
    return sorted(folder.glob(PATTERN))


def check(path: Path) -> None:
    """Raises Unplayable if a capture is damaged."""
    try:
        capture = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        raise Unplayable("it cannot be read as JSON") from None
    if not is_capture(capture) or not all(map(_is_header, capture["headers"])):
        raise Unplayable("it is no captured request: an object with method, path, headers and body")


def tape_of(paths: Sequence[Path]) -> Tape:
    """The tape of some requests of one run."""
    return tape(paths[0].parent.name, partial(_steps, tuple(paths)))


def _steps(paths: Sequence[Path]) -> Iterator[Step]:
    for number, path in enumerate(paths):
        capture = json.loads(path.read_bytes())
        dialect = PATHS.get(capture["path"].partition("?")[0].encode()) if capture["method"] == "POST" else None
        if dialect is None:
            continue
        at = round(capture["t"] * SECOND) if "t" in capture else number * SECOND
        headers = tuple((name, value) for name, value in capture["headers"])
        yield Arrives(path.name, at, dialect, headers, dumps(capture.get("body")))
        reply = path.with_name(path.name.removesuffix(".json") + ".reply.txt")
        if reply.exists():
            payload = reply.read_bytes()
            yield TapedReply(path.name, at, head_of(payload), payload)


def _is_header(pair: Any) -> bool:
    return isinstance(pair, list) and len(pair) == 2 and all(isinstance(part, str) for part in pair)
