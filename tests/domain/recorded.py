"""Recorded sessions and captured requests, where this machine has them; nothing of them is in the repository."""

import json
from collections.abc import Iterator
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from tests.replay.message_streams import dumps
from tests.replay.session_tapes import MARKER, requests

__all__ = ["DATA", "MARKER", "captures", "dumps", "folder", "reply", "requests", "sessions"]

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


def reply(name: str) -> list[dict[str, Any]]:
    """The blocks of the captured reply to a request."""
    run, number = name.split("/")
    text = next((folder("captures") / run).glob(f"{number}-*.reply.txt")).read_text()
    events = [json.loads(line[6:]) for line in text.splitlines() if line.startswith("data: {")]
    blocks: list[dict[str, Any]] = []
    for event in events:
        if event["type"] == "content_block_start":
            blocks.append({**event["content_block"], "json": ""})
        elif event["type"] == "content_block_delta":
            for kind, piece in event["delta"].items():
                if kind == "partial_json":
                    blocks[-1]["json"] += piece
                elif kind != "type":
                    blocks[-1][kind] = blocks[-1].get(kind, "") + piece
    return [_with_input(block) for block in blocks]


def _with_input(block: dict[str, Any]) -> dict[str, Any]:
    text = block.pop("json")
    return {**block, "input": json.loads(text)} if text else block


def sessions(every: int = 1) -> Iterator[dict[str, Any]]:
    """The recorded sessions: all of them, or ``every`` so many-th."""
    for line in islice(_lines(), 0, None, every):
        yield json.loads(line)


@cache
def _lines() -> tuple[bytes, ...]:
    """A line for each session; read once, because many tests look at a few of them."""
    return tuple(line for path in sorted(folder("sessions").glob("*.jsonl")) for line in path.read_bytes().splitlines())
