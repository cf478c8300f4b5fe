"""A handmade session: files are read and changed one after the other, with occasional breaks."""

from datetime import UTC, datetime, timedelta
from typing import Any

Json = dict[str, Any]

FILES = 16
LINES = 140
BREAKS = {6: 400, 11: 4_000}
"""Seconds before the user asks for a file: after one break entries of five minutes have expired, after the other those
of an hour."""


def long_work() -> Json:
    """The session, in the form of a recorded one."""
    messages: list[Json] = []
    turns: list[Json] = []
    now = datetime(2026, 11, 1, tzinfo=UTC)
    for number in range(FILES):
        path = f"/home/u/app/part{number}.py"
        now += timedelta(seconds=BREAKS.get(number, 40))
        said: list[Json] = [{"type": "text", "text": f"Please look after part {number}, as before."}]
        for call in (("Read", {"file_path": path}), ("Edit", _edit_of(path, number)), None):
            messages.append({"role": "user", "content": said})
            turns.append({"msg": len(messages), "ts": now.isoformat()})
            now += timedelta(seconds=15)
            if call is None:
                messages.append({"role": "assistant", "content": [{"type": "text", "text": f"Part {number} is done."}]})
                continue
            key = f"toolu_{number}_{call[0]}"
            use = {"type": "tool_use", "id": key, "name": call[0], "input": call[1]}
            messages.append({"role": "assistant", "content": [{"type": "thinking", "thinking": "Hm."}, use]})
            said = [{"type": "tool_result", "tool_use_id": key, "content": _answer_to(call[0], number)}]
    return {"name": "made", "model": "claude-opus-4-5", "messages": messages, "turns": turns}


def _line(number: int, line: int) -> str:
    return f"    value_{line} = compute(part={number}, step={line * number})\n"


def _edit_of(path: str, number: int) -> Json:
    return {"file_path": path, "old_string": _line(number, 7), "new_string": _line(number, 7).replace("compute", "run")}


def _answer_to(tool: str, number: int) -> str:
    if tool == "Edit":
        return "The file has been updated."
    return "".join(f"{line + 1:6}\t{_line(number, line)}" for line in range(LINES))
