"""A session for screenshots: invoices are moved to a new date parser, file by file, with tests in between."""

import random
from datetime import UTC, datetime, timedelta
from typing import Any

Json = dict[str, Any]

PARTS = ("dates", "invoices", "ledger", "customers", "imports", "reports", "taxes", "reminders", "archive", "search")
"""The modules of the made-up application, in the order in which they are worked on, again and again."""

ROUNDS = 4
BREAK_SECONDS = 700
"""After each round over all parts the user is away: the provider's cache forgets the session."""


def moving_invoices() -> Json:
    """The session, in the form of a recorded one."""
    chance = random.Random(7)
    messages: list[Json] = []
    turns: list[Json] = []
    now = datetime(2026, 11, 16, 9, 0, tzinfo=UTC)

    def ask(said: list[Json], *answer: Json) -> None:
        nonlocal now
        messages.append({"role": "user", "content": said})
        turns.append({"msg": len(messages), "ts": now.isoformat()})
        messages.append({"role": "assistant", "content": list(answer)})
        now += timedelta(seconds=chance.randint(10, 50))

    for work in range(ROUNDS):
        for part in PARTS:
            said = _reply(
                f"Move {part}.py to the new date parser and run its tests." if work == 0 else _WISHES[work].format(part)
            )
            for tool, given, result in _steps(part, work, chance):
                key = f"toolu_{len(messages)}"
                ask(
                    said,
                    {"type": "text", "text": _WORDS[tool].format(part)},
                    {"type": "tool_use", "id": key, "name": tool, "input": given},
                )
                said = [{"type": "tool_result", "tool_use_id": key, "content": result}]
            ask(said, {"type": "text", "text": f"{part}.py uses the new parser, and its tests pass."})
        now += timedelta(seconds=BREAK_SECONDS)
    return {"name": "pictures", "model": "claude-opus-4-5", "messages": messages, "turns": turns}


_WISHES = {
    1: "The auditors want ISO dates in {} as well.",
    2: "Write down in {} why a year has four digits.",
    3: "Last look at {}: anything slow?",
}
_WORDS = {
    "Read": "I read {}.py first.",
    "Grep": "Who calls the old parser of {}?",
    "Edit": "Now the change in {}.py.",
    "Bash": "And the tests of {}.",
}


def _reply(text: str) -> list[Json]:
    return [{"type": "text", "text": text}]


def _steps(part: str, work: int, chance: random.Random) -> list[tuple[str, Json, str]]:
    path = f"/home/ada/billing/{part}.py"
    code = "\n".join(
        f"{line:6}\tdef {part}_{line}(day: str) -> Date:\n{line + 1:6}\t    return parse(day, century={1900 + line})"
        for line in range(1, chance.randint(60, 500), 2)
    )
    calls = "\n".join(
        f"/home/ada/billing/{each}.py:{chance.randint(1, 400)}: old_parse({part})" for each in PARTS for _ in range(3)
    )
    tests = "\n".join(f"test_{part}_{number} ... ok" for number in range(chance.randint(10, 60)))
    steps = [
        ("Read", {"file_path": path}, code),
        ("Edit", {"file_path": path, "old_string": "old_parse", "new_string": "parse_date"}, "The file was updated."),
    ]
    if work == 0:
        steps.insert(1, ("Grep", {"pattern": f"old_parse.*{part}", "path": "/home/ada/billing"}, calls))
    steps.append(("Bash", {"command": f"python -m pytest tests/test_{part}.py"}, f"{tests}\n\nOK"))
    return steps
