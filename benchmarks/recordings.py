"""The recorded sessions, which are not in the repository; where there are none, nothing is found."""

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from mnemosyne.domain.wire.normal_form import content_blocks
from mnemosyne_lab.evaluation.reading import read
from mnemosyne_lab.evaluation.trace import Trace
from tests.domain.recorded import DATA

SESSIONS = DATA / "sessions"
FIRST, MORE, OTHERS, ALL = "claude_code.jsonl", "claude_code_more.jsonl", "others/claude_code.jsonl", "**/*.jsonl"
"""Files of sessions: the first two are of one developer, the third is of four others."""

_NAME_STANDS = 200
"""A session's name is within this many first characters of its line."""


def list_raw(*files: str | Path, names: Collection[str] | None = None) -> Iterator[dict[str, Any]]:
    """The sessions of files as they were recorded; with ``names`` only those of these names."""
    for path in _paths(files):
        with path.open(encoding="utf-8") as lines:
            for line in lines:
                if names is None or any(f'"{name}"' in line[:_NAME_STANDS] for name in names):
                    yield json.loads(line)


def list_sessions(*files: str | Path) -> list[Trace]:
    """The sessions of files, checked and put in order."""
    return [each for each in read(_paths(files), lambda _: iter(())) if not isinstance(each, str)]


def _paths(files: Sequence[str | Path]) -> list[Path]:
    """Paths, and the files of patterns below ``SESSIONS``."""
    return [path for file in files for path in ([file] if isinstance(file, Path) else sorted(SESSIONS.glob(file)))]


def result_text(block: Mapping[str, Any]) -> str:
    """The texts of a tool's result."""
    parts = content_blocks(block.get("content") or "")
    return "\n".join(str(part.get("text", "")) for part in parts if part.get("type") == "text")
