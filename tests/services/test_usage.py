"""Usage by group; replies without a price are counted and named."""

from datetime import UTC, timedelta, timezone
from typing import Any
from uuid import UUID

import pytest

from mnemosyne.services.agents import read_agents
from mnemosyne.services.usage import Consumption, Grouping, describe_help, read_usage
from tests.services.answers import Answers

ONE, OTHER = UUID(int=1), UUID(int=2)
QUARTER = 900 * 10**6


def row(stream: UUID, model: str | None, quarter: int, tokens: int) -> dict[str, Any]:
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
    return {"stream": stream, "branch": "main", "quarter": quarter * QUARTER, "replies": 1, **counted, **priced}


MODELS = Answers(
    {
        ("usage", "used"): [
            row(ONE, "claude-opus-5-5", 94, 10),
            row(ONE, "nobody's", 95, 5),
            row(OTHER, "claude-opus-5-5", 96, 1),
            row(OTHER, None, 96, 2),
        ],
        ("timeline", "sessions"): [
            {"stream": ONE, "external_id": "mine", "client": "codex"},
            {"stream": OTHER, "external_id": None, "client": "opencode"},
        ],
        ("timeline", "listed_branches"): [
            {"stream": ONE, "branch": "main", "kind": "successor", "agent_id": None},
            {"stream": OTHER, "branch": "main", "kind": "agent", "agent_id": "a1", "parent": None, "inherits": False},
        ],
    }
)


@pytest.mark.parametrize(
    ("by", "groups"),
    [
        ("session", {ONE: 15, OTHER: 3}),
        ("model", {"claude-opus-5-5": 11, "nobody's": 5, None: 2}),
        ("day", {"1970-01-01": 15, "1970-01-02": 3}),
        ("client", {"codex": 15, "opencode": 3}),
        ("agent", {"main agent": 15, "sub-agent": 3}),
        ("project", {"/work": 15, None: 3}),
    ],
)
async def test_every_reply_is_in_one_group(by: Grouping, groups: dict[object, int]) -> None:
    agents = {key: str(agent) for key, agent in (await read_agents(MODELS, None)).items()}
    found = await read_usage(MODELS, by, UTC, projects={ONE: "/work"}, agents=agents)
    assert {group: use.tokens.input for group, use in found.groups.items()} == groups
    assert found.names == {ONE: "mine"}
    assert found.total == Consumption(
        replies=4,
        tokens=found.total.tokens,
        nanodollars=11 * 4_000,
        unpriced=2,
        unknown=frozenset({"nobody's", "(none named)"}),
    )


async def test_days_are_the_zone_s_and_a_group_without_a_price_has_no_cost() -> None:
    days = (await read_usage(MODELS, "day", timezone(timedelta(minutes=15)))).groups
    assert {day: use.replies for day, use in days.items()} == {"1970-01-01": 1, "1970-01-02": 3}
    groups = (await read_usage(MODELS, "model", UTC)).groups
    prices = {group: use.price for group, use in groups.items()}
    assert prices == {"claude-opus-5-5": 44_000, "nobody's": None, None: None}


def work(task: str, times: int, reason: str | None = None) -> dict[str, Any]:
    return {
        "task": task,
        "times": times,
        "accepted": reason is None,
        "reason": reason,
        "nanodollars": 1_000_000 * times,
    }


def test_the_work_of_helpers_is_one_sentence() -> None:
    done = [work("session_summary", 12), work("answer", 3), work("answer", 2, "empty")]
    found = describe_help(done, [{"placed": 4, "used": 3}])
    assert found == (
        "Helper: 12 session summaries, 3 answers, $0.017, 2 rejected because empty (2), 3 of 4 predicted objects used."
    )
    late = [work("goal", 1, "late"), work("goal", 1, "empty; late")]
    assert describe_help(late, [{"placed": 0, "used": 0}]) == (
        "Helper: no accepted work, $0.0020, 2 rejected because late (2); empty (1)."
    )
    assert describe_help([], []) is None
