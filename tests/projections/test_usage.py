"""Usage and its cost."""

from typing import Any

import pytest

from mnemosyne.app.storage import event_codec
from mnemosyne.domain.cost.prices import Tokens
from mnemosyne.domain.ports import Append, Envelope
from mnemosyne.projections.usage import USAGE, USED, USED_BY_TURN
from mnemosyne.services.usage import Consumption, add_up, consumption_of
from tests.adapters.log_support import stream
from tests.domain.session_events import began, finished, interrupted, round_began, round_finished
from tests.projections.support import POSTGRES, World, open_world

STREAM = stream(1)


async def used_of(dsn: str, *events: object) -> list[dict[str, Any]]:
    """Return the result of the query on which all costs are based."""
    async with open_world(POSTGRES, dsn, event_codec()) as world:
        await append(world, *events)
        status = await world.projector(USAGE).catch_up()
        assert status.error is None
        (rows,) = await world.tables.select((USAGE,), [(USED, {})])
        return rows


async def append(world: World, *events: object) -> None:
    await world.journal.append(Append(STREAM, 0, tuple(Envelope(event, "c") for event in events)))


def by_model(row: Any) -> str:
    model = row["replied"]
    assert isinstance(model, str)
    return model


async def test_replies_are_priced_by_the_model_that_answered(dsn: str) -> None:
    rows = await used_of(
        dsn,
        began(1, "claude-opus-5-5"),
        finished(1, "claude-sonnet-5-5", {"input_tokens": 1_000_000, "output_tokens": 100_000}),
    )
    assert add_up(rows, by_model) == {
        "claude-sonnet-5-5": Consumption(replies=1, tokens=Tokens(1_000_000, 100_000), nanodollars=3_000_000_000)
    }


async def test_an_interrupted_reply_is_priced_by_the_requested_model(dsn: str) -> None:
    (row,) = await used_of(dsn, began(1, "claude-opus-5-5"), interrupted({"input_tokens": 1_000_000}, status=200))
    assert consumption_of(row).nanodollars == 4_000_000_000


async def test_long_prompts_are_priced_individually_and_the_sum_of_short_ones_is_not_long(dsn: str) -> None:
    events = []
    for turn, tokens in enumerate((60_000, 60_000, 100_001), 1):
        events += [began(turn, "claude-haiku-5-5"), finished(turn, None, {"input_tokens": tokens})]
    rows = await used_of(dsn, *events)
    assert [(row["size"], row["input"]) for row in rows] == [(0, 120_000), (100_001, 100_001)]
    assert sum(consumption_of(row).nanodollars for row in rows) == 120_000 * 100 + 100_001 * 500


async def test_a_model_without_a_price_is_counted_and_reported(dsn: str) -> None:
    rows = await used_of(
        dsn,
        began(1, "gpt"),
        finished(1, None, {"input_tokens": 5}),
        began(2, "claude-opus-5"),
        finished(2, None, {"input_tokens": 5}),
    )
    total = sum((consumption_of(row) for row in rows), Consumption())
    assert (total.replies, total.unpriced, total.unknown) == (2, 1, frozenset({"gpt"}))
    assert total.nanodollars == 25_000


async def test_a_reply_without_token_counts_is_not_counted(dsn: str) -> None:
    assert await used_of(dsn, began(1, "m"), finished(1, "m", {})) == []


async def test_times_are_grouped_by_quarter_of_an_hour(dsn: str) -> None:
    times = enumerate((0, 899_999_999, 900_000_001), 1)
    events = [
        event for turn, at in times for event in (began(turn, "m"), finished(turn, "m", {"input_tokens": 1}, at=at))
    ]
    rows = await used_of(dsn, *events)
    assert [(row["stream"], row["quarter"], row["replies"]) for row in rows] == [
        (STREAM, 0, 2),
        (STREAM, 900_000_000, 1),
    ]


async def test_a_managed_turn_is_billed_by_its_rounds_and_not_by_the_usage_that_its_client_saw(dsn: str) -> None:
    (row,) = await used_of(
        dsn,
        began(1, "claude-opus-5-5"),
        round_began(1),
        round_finished(1, {"input_tokens": 10, "output_tokens": 1}),
        round_began(2),
        round_finished(2, {"input_tokens": 20, "output_tokens": 2}),
        finished(1, "claude-opus-5-5", {"input_tokens": 20, "output_tokens": 3}),
        began(2, "claude-opus-5-5"),
        finished(2, "claude-opus-5-5", {"input_tokens": 5, "output_tokens": 5}),
    )
    assert (row["input"], row["output"], row["replies"]) == (35, 8, 3)


ROUND = {"type": "message", "input_tokens": 10}
INTERRUPTED: dict[str, tuple[dict[str, Any], list[tuple[int, int]]]] = {
    "the last round's prompt": ({"input_tokens": 20, "output_tokens": 3}, [(10, 1), (20, 2)]),
    "the sum of the prompts": (
        {"input_tokens": 30, "output_tokens": 3, "iterations": [ROUND, {**ROUND, "input_tokens": 20}]},
        [(10, 1), (20, 2)],
    ),
    "the sum before the first output": (
        {"input_tokens": 30, "output_tokens": 1, "iterations": [ROUND, {**ROUND, "input_tokens": 20}]},
        [(10, 1), (20, 0)],
    ),
    "the last round's prompt, which the provider itemizes": (
        {"input_tokens": 20, "output_tokens": 3, "iterations": [ROUND, {**ROUND, "input_tokens": 20}]},
        [(10, 1), (20, 2)],
    ),
    "nothing of the last round": ({"input_tokens": 10, "output_tokens": 1}, [(10, 1)]),
    "nothing at all": ({}, [(10, 1)]),
}


@pytest.mark.parametrize("reported", INTERRUPTED)
async def test_an_interrupted_last_round_of_a_managed_turn_is_billed_once(dsn: str, reported: str) -> None:
    usage, expected = INTERRUPTED[reported]
    async with open_world(POSTGRES, dsn, event_codec()) as world:
        rounds = round_began(1), round_finished(1, {"input_tokens": 10, "output_tokens": 1}), round_began(2)
        await append(world, began(1, "claude-opus-5-5"), *rounds, interrupted(usage, status=200, at=9))
        await world.projector(USAGE).catch_up()
        (rows,) = await world.tables.select((USAGE,), [(USED_BY_TURN, {"stream": STREAM})])
    assert sorted((row["input"], row["output"]) for row in rows) == expected
