"""Made-up sessions that are played for the baseline: each leads a managed branch through another kind of rewrite."""

import random
from collections.abc import Iterator
from typing import Any

from tests.lab.evaluation.recordings import Step, session

Json = dict[str, Any]

TOOLS = [
    {"name": name, "description": f"{name}s. " * 400, "input_schema": {"type": "object"}}
    for name in ("Read", "Bash", "Edit")
]


def samples() -> list[Json]:
    """The sessions, the same each time."""
    return [
        _sample("pauses", _steps(1, turns=60, pauses=(5, 40, 400))),
        _sample("long-pauses", _steps(2, turns=60, pauses=(5, 4_000))),
        _sample("full-window", _steps(3, turns=60, pauses=(5,)), size=5),
        _sample("compacted", _steps(4, turns=40, pauses=(5, 400)), resets=[_reset(41)]),
        {**_sample("other-client", _steps(5, turns=40, pauses=(5, 400))), "agent": "SWE-agent"},
        _sample("conversation", [("say", number % 5, 400 if number % 7 == 0 else 30) for number in range(30)]),
    ]


def _sample(name: str, steps: list[Step], *, size: int = 1, resets: list[Json] | None = None) -> Json:
    """A session of these steps, the results of whose calls are ``size`` times as long."""
    made = session(steps, name, resets=resets or [])
    for message in made["messages"]:
        for block in message["content"] if isinstance(message["content"], list) else ():
            if block["type"] == "tool_result":
                block["content"] = "\n".join(_parts(block["content"], size))
    return {"agent": "claude-code 2.1.37", "system": None, "tools": TOOLS, **made}


def _parts(text: str, size: int) -> Iterator[str]:
    for part in range(size):
        yield text.replace("value_", f"value_{part}_") if part else text


def _steps(seed: int, *, turns: int, pauses: tuple[int, ...]) -> list[Step]:
    draw = random.Random(seed)
    kinds = ("read", "read", "run", "edit", "say")
    return [(draw.choice(kinds), draw.randrange(12), draw.choice(pauses)) for _ in range(turns)]


def _reset(before: int) -> Json:
    return {
        "before_msg": before,
        "kind": "compact",
        "summary": "We mended the parser's first parts; go on with part 3.",
    }
