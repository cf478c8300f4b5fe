"""Recorded sessions and captured requests, where this machine has them; nothing of them is in the repository."""

import json
from collections.abc import Iterator
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from tests.replay.message_streams import MARKER, dumps
from tests.replay.session_tapes import requests

__all__ = ["DATA", "MARKER", "captures", "dumps", "folder", "requests", "sessions"]

DATA = Path(__file__).resolve().parents[2].parent / "shared" / "data"


def folder(name: str) -> Path:
    """A folder of the recorded inputs; skips the test where there is none."""
    path = DATA / name
    if not path.is_dir():
        pytest.skip(f"recorded inputs are not here: ../shared/data/{name}")
    return path


def captures() -> list[tuple[str, dict[str, Any]]]:
    """Every captured request for a reply, in order within its run, as ``("run/0003", capture)``."""
    found = []
    for path in sorted(folder("captures").glob("*/*-POST-*.json")):
        if "count_tokens" not in path.name:
            found.append((f"{path.parent.name}/{path.name[:4]}", json.loads(path.read_text())))
    return found


def sessions(every: int = 1) -> Iterator[dict[str, Any]]:
    """The recorded sessions: all of them, or ``every`` so many-th."""
    for line in islice(_lines(), 0, None, every):
        yield json.loads(line)


@cache
def _lines() -> tuple[bytes, ...]:
    """A line for each session; read once, because many tests look at a few of them."""
    return tuple(line for path in sorted(folder("sessions").glob("*.jsonl")) for line in path.read_bytes().splitlines())
