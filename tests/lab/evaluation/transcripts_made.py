"""Handmade transcripts in the format of Claude Code."""

import json
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import attrs

Json = dict[str, Any]

BEGAN = datetime(2026, 11, 1, 9, tzinfo=UTC)
MODEL = "claude-opus-5-5"


@attrs.define
class Transcript:
    """A file that is written line by line; each request is this many seconds after the previous line."""

    lines: list[Json] = attrs.field(factory=list)
    sidechain: str = ""
    model: str = MODEL
    seconds: float = 0.0
    prompt: int = 15_000
    number: int = 0
    prefix: str = "msg"

    def put(self, **members: Any) -> str:
        """Add a line; return its id."""
        self.seconds += 5
        at = (BEGAN + timedelta(seconds=self.seconds)).strftime("%Y-%m-%dT%H:%M:%S.000Z")
        parent = next((each["uuid"] for each in reversed(self.lines) if "uuid" in each), None)
        told = {"parentUuid": parent, "uuid": f"u{len(self.lines)}", "timestamp": at, "isSidechain": False}
        if self.sidechain:
            told |= {"isSidechain": True, "agentId": self.sidechain}
        self.lines.append({**told, **members})
        return str(self.lines[-1]["uuid"])

    def user(self, content: object, **members: Any) -> str:
        """Add the user's text, or tool results."""
        return self.put(type="user", message={"role": "user", "content": content}, **members)

    def reply(self, *blocks: Json, grown: int = 1_000, output: int = 100, hour: bool = False) -> str:
        """Add a reply, with a line for each of its blocks; the prompt has grown by this much."""
        self.number += 1
        read, self.prompt = (self.prompt if self.number > 1 else 0), self.prompt + grown
        written = self.prompt - read
        split = {"ephemeral_1h_input_tokens": written * hour, "ephemeral_5m_input_tokens": written * (not hour)}
        last = ""
        for count, block in enumerate(blocks, 1):
            usage = {
                "input_tokens": 0,
                "cache_read_input_tokens": read,
                "cache_creation_input_tokens": written,
                "cache_creation": split,
                "output_tokens": output if count == len(blocks) else 1,
            }
            message = {"role": "assistant", "id": f"{self.prefix}_{self.number}", "model": self.model}
            last = self.put(type="assistant", message={**message, "content": [block], "usage": usage})
        return last

    def work(self, rounds: int, *, size: int = 3_000) -> "Transcript":
        """Add an exchange in which this many files are read."""
        self.user("Please mend the parser.")
        for number in range(rounds):
            call = f"toolu_{self.prefix}_{self.number}"
            used = {"type": "tool_use", "id": call, "name": "Read", "input": {"file_path": f"/src/{number}.py"}}
            self.reply({"type": "thinking", "thinking": "", "signature": "c2ln" * 90}, used, grown=size // 3)
            text = f"line {self.prefix} {number}: value = compute_part({number})\n" * (size // 40)
            self.user([{"type": "tool_result", "tool_use_id": call, "content": text}])
        self.reply({"type": "text", "text": "It is mended."}, grown=size // 3)
        return self

    def write(self, path: Path, extra: Sequence[str] = ()) -> Path:
        """Write it to a file, with some invalid lines."""
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(f"{line}\n" for line in [*map(json.dumps, self.lines), *extra]))
        return path

    def __iter__(self) -> Iterator[Json]:
        return iter(self.lines)
