"""Codex's files of conversations, written so that Codex can continue them."""

import json
import os
import re
import secrets
from collections.abc import Iterable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import UUID

from mnemosyne.domain.wire.responses import RESPONSES
from mnemosyne.errors import BadOption
from mnemosyne.regular_files import open_regular
from mnemosyne.services.forks import ForkPoint

BASE_INSTRUCTIONS = "model.base_instructions"
"""The mark of the base instructions in Codex 0.169.0, which it stores separately."""

Item = Mapping[str, Any]


def find_folder(environ: Mapping[str, str]) -> Path:
    home = environ.get("CODEX_HOME")
    return Path(home) if home else Path(environ.get("HOME", "~")).expanduser() / ".codex"


def write_rollout(folder: Path, point: ForkPoint, project: Path, at: int) -> str:
    """Write a conversation that ends there, started in ``project`` at ``at`` (µs of UTC); return its id.

    Raises BadOption if it is not of the Responses API, or the file cannot be written.
    """
    if point.dialect is not RESPONSES:
        raise BadOption("Codex can only continue its own sessions, which use the Responses API.")
    moment = datetime.fromtimestamp(at / 1_000_000, UTC)
    name = str(_make_id(at // 1000))
    items = [*point.request.get("input", ()), *point.reply.get("output", ()), *point.results]
    base, items = _without_base(items, point.request)
    stamp = moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    meta = {
        "id": name,
        "timestamp": stamp,
        "cwd": str(project),
        "originator": "mnemosyne",
        "cli_version": "0.0.0",
        "source": "cli",
        "model_provider": _find_provider(folder, point.session),
        "base_instructions": {"text": base} if base else None,
    }
    lines = [("session_meta", meta), *(line for item in items for line in _lines_of(item))]
    file = folder / "sessions" / f"{moment:%Y/%m/%d}" / f"rollout-{moment:%Y-%m-%dT%H-%M-%S}-{name}.jsonl"
    text = "".join(json.dumps({"timestamp": stamp, "type": kind, "payload": payload}) + "\n" for kind, payload in lines)
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        with open(file, "x", encoding="utf-8", opener=lambda path, flags: os.open(path, flags, 0o600)) as opened:
            opened.write(text)
    except OSError as error:
        raise BadOption(f"Codex's file {file} cannot be written: {error.strerror or error}.") from None
    return name


def _find_provider(folder: Path, session: str) -> str:
    """The name of a conversation's provider; without it, Codex 0.171.0 continues no conversation in a terminal."""
    files = (folder / "sessions").glob(f"*/*/*/rollout-*-{session}.jsonl") if re.fullmatch(r"[\w-]+", session) else ()
    for file in files:
        with suppress(OSError, ValueError, KeyError, TypeError), open_regular(file) as opened:
            return str(json.loads(opened.readline())["payload"]["model_provider"] or "openai")
    return "openai"


def _make_id(milliseconds: int) -> UUID:
    random = secrets.randbits(74)
    return UUID(int=milliseconds << 80 | 0x7 << 76 | random >> 62 << 64 | 0b10 << 62 | random & (1 << 62) - 1)


def _without_base(items: Iterable[Item], request: Item) -> tuple[str, list[Item]]:
    """The base instructions, and the other items."""
    own = [item for item in items if BASE_INSTRUCTIONS not in _kinds_of(item)]
    marked = [_words_of(item) for item in items if BASE_INSTRUCTIONS in _kinds_of(item)]
    return (marked[0] if marked else str(request.get("instructions") or "")), own


def _kinds_of(item: Item) -> Iterable[object]:
    metadata = item.get("internal_chat_message_metadata_passthrough")
    kinds = metadata.get("content_item_kinds") if isinstance(metadata, dict) else ()
    return kinds if isinstance(kinds, list) else ()


def _lines_of(item: Item) -> list[tuple[str, Item]]:
    """An item, and the event that makes Codex display it."""
    lines: list[tuple[str, Item]] = [("response_item", item)]
    if (
        item.get("type") == "message"
        and item.get("role") == "user"
        and "user.text" in (_kinds_of(item) or ["user.text"])
    ):
        lines.append(("event_msg", {"type": "user_message", "message": _words_of(item)}))
    elif item.get("type") == "message" and item.get("role") == "assistant":
        lines.append(("event_msg", {"type": "agent_message", "message": _words_of(item)}))
    return lines


def _words_of(item: Item) -> str:
    parts = item.get("content")
    if isinstance(parts, str):
        return parts
    return "".join(str(part.get("text", "")) for part in parts or () if isinstance(part, dict))
