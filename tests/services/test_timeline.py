"""A timeline has each turn's usage in all its rounds, and the size of its last prompt."""

from typing import Any
from uuid import UUID

import pytest

from mnemosyne.errors import NotFound
from mnemosyne.services.timeline import PROMPT, TOKENS, Timeline, read_timeline
from tests.services.answers import Answers

STREAM = UUID(int=1)


def turn(number: int, attempt: int = 1, branch: str = "main", **more: Any) -> dict[str, Any]:
    return {"branch": branch, "turn": number, "attempt": attempt, **dict.fromkeys(TOKENS), **more}


def used(number: int, tokens: int, model: str = "claude-opus-4-5") -> dict[str, Any]:
    counted = {"input": tokens, "output": 0, "read": 0, "write_5m": 0, "write_1h": 0}
    priced = {
        "model": model,
        "replied": None,
        "size": 0,
        "service_tier": None,
        "inference_geo": None,
        "speed": None,
        "web_searches": 0,
    }
    return {"branch": "main", "turn": number, "attempt": 1, "replies": 1, **counted, **priced}


MODELS = Answers(
    {
        ("timeline", "find"): [{"stream": STREAM, "external_id": "s", "exact": True}],
        ("timeline", "session"): [{"stream": STREAM, "external_id": "s"}],
        ("timeline", "branches"): [{"branch": each, "inherits": False} for each in ("main", "agent-1")],
        ("timeline", "turns"): [
            turn(1) | dict(zip(PROMPT, (1, 20, 300, None), strict=True)),
            turn(2, input_tokens=9),
            turn(2, attempt=2, input_tokens=8),
            turn(3),
            turn(1, branch="agent-1", input_tokens=5),
        ],
        ("timeline", "gaps"): [{"turns": 1}],
        ("timeline", "modes"): [{"branch": "main", "version": 3, "mode": "manage"}],
        ("usage", "used_by_turn"): [used(1, 100), used(1, 40), used(2, 7, model="nobody's")],
    }
)


async def test_a_turn_has_the_usage_of_its_rounds_and_the_size_of_its_last_prompt() -> None:
    timeline = await read_timeline(MODELS, "s")
    first, second, again, open_turn, _ = timeline.turns
    assert (first["context_tokens"], first["input_tokens"], first["nanodollars"]) == (321, 140, 140 * 5_000)
    assert (second["context_tokens"], second["input_tokens"], second["nanodollars"]) == (9, 7, None)
    assert (again["context_tokens"], again["nanodollars"]) == (8, None)
    assert (open_turn["context_tokens"], open_turn["nanodollars"]) == (None, None)
    assert timeline.nanodollars == 140 * 5_000


async def test_unpriced_usage_is_unknown_and_not_free() -> None:
    unpriced = {"context_tokens": 9, "nanodollars": None}
    assert Timeline({}, [], [unpriced], [], []).nanodollars is None
    assert Timeline({}, [], [], [], []).nanodollars == 0


async def test_one_branch_is_shown_alone_and_a_missing_one_is_refused() -> None:
    found = await read_timeline(MODELS, "s", "agent-1")
    assert ([row["branch"] for row in found.turns], len(found.branches), len(found.gaps)) == (["agent-1"], 1, 1)
    assert found.modes == []
    assert [row["mode"] for row in (await read_timeline(MODELS, "s", "main")).modes] == ["manage"]
    with pytest.raises(NotFound, match="no branch 'x'; its branches: main, agent-1"):
        await read_timeline(MODELS, "s", "x")
