"""Savings and losses from managing: recorded tokens, list prices, and no savings where nothing was changed."""

from fractions import Fraction
from itertools import product
from typing import Any

import pytest

from mnemosyne.app.storage import event_codec
from mnemosyne.domain.ports import Append, Envelope
from mnemosyne.domain.session.events import TurnFinished
from mnemosyne.domain.session.round_events import Mode
from mnemosyne.projections.projection import Query
from mnemosyne.projections.savings import SAVED, SAVED_BY_TURN, SAVED_UNACCOUNTED, SAVINGS
from mnemosyne.projections.usage import USAGE, USED, USED_BY_TURN
from mnemosyne.services import usage
from mnemosyne.services.savings import Balance, add_up, balance_of, find_rewrites
from tests.adapters.log_support import stream
from tests.domain.session_events import accounted, began, billed, epoch, finished, round_began, round_finished
from tests.projections.support import POSTGRES, open_world

STREAM = stream(1)


async def rows_of(
    dsn: str, *events: object, since: int = 0, by: Query = SAVED_BY_TURN
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return the rows of all sessions, and those of one by turn or of another query."""
    async with open_world(POSTGRES, dsn, event_codec()) as world:
        await world.journal.append(Append(STREAM, 0, tuple(Envelope(event, "c") for event in events)))
        for projection in (SAVINGS, USAGE):
            await world.projector(projection).catch_up()
        both = (SAVED, {"since": since, "streams": None}), (by, {"stream": STREAM})
        one, other = await world.tables.select((SAVINGS, USAGE), both)
        return one, other


async def test_savings_are_the_shadows_price_minus_the_actual_price(dsn: str) -> None:
    rows, turns = await rows_of(dsn, *billed(1, 1_000, 3_000), *billed(2, 2_000, 1_500))
    balance = add_up(rows)[STREAM]
    assert balance == sum(map(balance_of, turns), Balance())
    assert (balance.turns, balance.managed, balance.actual.prompt, balance.shadow.prompt) == (2, 2, 3_000, 4_500)
    assert balance.nanodollars == 3_000 * 6_250 + 2 * 25_000
    assert balance.nanodollars_saved == 1_500 * 6_250
    assert balance.unmanaged - balance.billed == Fraction(1_500 * 5, 4)


async def test_an_unchanged_turn_saves_nothing_whatever_the_simulation_says(dsn: str) -> None:
    rows, _ = await rows_of(dsn, *billed(1, 1_000, 3_000, Mode.OBSERVE))
    balance = add_up(rows)[STREAM]
    assert (balance.managed, balance.nanodollars_saved) == (0, 0)
    assert balance.unmanaged == balance.billed
    assert balance.turns == 1


TERMS: dict[str, tuple[dict[str, Any], int | None]] = {
    "plain": ({}, 1_000 * 6_250 + 25_000),
    "in the us": ({"inference_geo": "us"}, (1_000 * 6_250 + 25_000) * 11 // 10),
    "batch": ({"service_tier": "batch"}, (1_000 * 6_250 + 25_000) // 2),
    "two searches": ({"server_tool_use": {"web_search_requests": 2}}, 1_000 * 6_250 + 25_000 + 20_000_000),
    "fast, which this model has no price for": ({"speed": "fast"}, None),
    "a tier without a known price": ({"service_tier": "priority"}, None),
    "another model replied": ({"model": "claude-haiku-4-5"}, 1_000 * 1_250 + 5_000),
    "a model without a known price replied": ({"model": "somebody-s"}, 1_000 * 6_250 + 25_000),
}


def reply(turn: int, tokens: int, terms: dict[str, Any]) -> TurnFinished:
    usage = {"input_tokens": 0, "output_tokens": 1, "cache_creation_input_tokens": tokens, **terms}
    return finished(turn, usage.pop("model", "claude-opus-4-5"), usage, at=turn * 10 + 1)


async def test_savings_and_usage_price_a_turn_alike_by_its_terms_and_the_model_that_replied(dsn: str) -> None:
    async with open_world(POSTGRES, dsn, event_codec()) as world:
        cases = {stream(n): (mode, name) for n, (mode, name) in enumerate(product((Mode.OBSERVE, Mode.MANAGE), TERMS))}
        for number, (mode, name) in cases.items():
            ended = reply(1, 1_000, TERMS[name][0])
            events = began(1, "claude-opus-4-5"), ended, accounted(1, 1_000, 3_000, mode)
            await world.journal.append(Append(number, 0, tuple(Envelope(event, "c") for event in events)))
        for projection in (SAVINGS, USAGE):
            await world.projector(projection).catch_up()
        for number, (_, name) in cases.items():
            about, price = {"stream": number}, TERMS[name][1]
            asked = [(SAVED, {"since": 0, "streams": streams}) for streams in (None, [number])]
            rows = await world.tables.select(
                (SAVINGS, USAGE), (*asked, (SAVED_BY_TURN, about), (USED, {}), (USED_BY_TURN, about))
            )
            own = [[row for row in group if row.get("stream", number) == number] for group in rows]
            balances = [sum(map(balance_of, group), Balance()) for group in own[:3]]
            used = [usage.add_up(group, lambda _: 0)[0] for group in own[3:]]
            assert balances[0] == balances[1] == balances[2], name
            expected = (price or 0, price is None, balances[0].unknown)
            assert (balances[0].nanodollars, balances[0].unpriced, balances[0].unknown) == expected, name
            assert {(result.nanodollars, result.unpriced, result.unknown) for result in used} == {expected}, name


async def test_savings_are_priced_on_the_turns_terms_and_searches_count_on_both_sides(dsn: str) -> None:
    terms = {"inference_geo": "us", "server_tool_use": {"web_search_requests": 3}}
    rows, _ = await rows_of(dsn, reply(1, 1_000, terms), accounted(1, 1_000, 3_000))
    assert add_up(rows)[STREAM].nanodollars_saved == 2_000 * 6_250 * 11 // 10


async def test_the_long_prompt_price_depends_on_the_providers_count(dsn: str) -> None:
    rows, turns = await rows_of(dsn, *billed(1, 272_000, 1, model="gpt-5.5", estimated=280_000))
    assert [row["size"] for row in (*rows, *turns)] == [100_001, 100_001]


async def test_only_turns_since_the_given_time_are_counted(dsn: str) -> None:
    rows, _ = await rows_of(dsn, *billed(1, 1_000, 3_000), *billed(2, 2_000, 1_500), since=20)
    assert add_up(rows)[STREAM].turns == 1


async def test_an_unaccounted_managed_attempt_has_the_time_of_its_request(dsn: str) -> None:
    """All of its rounds do, whenever they ended."""
    usage = {"input_tokens": 10, "output_tokens": 1}
    rounds = [each for n in (1, 2) for each in (round_began(n), round_finished(n, usage, at=500 * n))]
    found = await rows_of(dsn, began(1, "claude-opus-5-5", at=100), *rounds, since=101, by=SAVED_UNACCOUNTED)
    assert ([row["replies"] for row in found[0]], [row["asked_at"] for row in found[1]]) == ([], [100])


async def test_assumed_unpriced_and_deviating_turns_are_reported(dsn: str) -> None:
    strange = billed(2, 10, 20, model="a-new-model", assumed=True, deviates=True, compacted=True)
    rows, _ = await rows_of(dsn, *billed(1, 1_000, 3_000), *strange)
    balance = add_up(rows)[STREAM]
    assert (balance.assumed, balance.unpriced, balance.compacted, balance.deviates) == (1, 1, 1, True)
    assert balance.nanodollars_saved == 2_000 * 6_250
    assert balance.actual.prompt == 1_010


@pytest.mark.parametrize(("gains", "paid"), [([400, 400, 400], 3), ([400, 400], None), ([5_000], 1)])
async def test_a_compaction_has_paid_off_once_the_balance_is_restored(
    dsn: str, gains: list[int], paid: int | None
) -> None:
    later = [each for number, gain in enumerate(gains) for each in billed(3 + number, 1_000, 1_000 + gain)]
    events = [*billed(1, 1_000, 2_000), epoch(2, 1), *billed(2, 2_000, 1_000), *later]
    _, turns = await rows_of(dsn, *events)
    (rewrite,) = find_rewrites(turns)
    assert (rewrite.branch, rewrite.turn, rewrite.price, rewrite.paid_back) == ("main", 2, Fraction(1_250), paid)


async def test_a_branchs_first_epoch_is_not_a_compaction_unless_the_log_says_so(dsn: str) -> None:
    later = [epoch(2, 1), *billed(2, 1_000, 2_000), epoch(3, 2), *billed(3, 2_000, 1_000)]
    _, turns = await rows_of(dsn, epoch(1, 1), *billed(1, 1_000, 2_000), *later)
    assert [rewrite.turn for rewrite in find_rewrites(turns)] == [3]
    went_back = {"branch": "main", "epoch": 1, "reason": "went back", "payback": None}
    assert [(rewrite.turn, rewrite.reason) for rewrite in find_rewrites(turns, [went_back])] == [
        (1, "went back"),
        (3, None),
    ]
