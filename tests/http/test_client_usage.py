"""The ``usage`` of a reply with hidden rounds: a client that reads both gets the bill and the window, any other the
window. The proxy's own accounts are the same for either.
"""

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

import pytest

from mnemosyne.adapters.postgres.projection_store import PostgresProjections
from mnemosyne.app.storage import event_codec
from mnemosyne.domain.cost.prices import Tokens, tokens_of
from mnemosyne.domain.objects.events import TurnAssessed
from mnemosyne.domain.ports import Append, Envelope
from mnemosyne.domain.session.budget import SpendingBill
from mnemosyne.domain.session.events import Event, TurnInterrupted
from mnemosyne.domain.session.ledger_events import TurnAccounted
from mnemosyne.domain.session.round_events import RoundFinished
from mnemosyne.http.client_reply import HiddenUsage
from mnemosyne.projections.savings import SAVED, SAVINGS
from mnemosyne.projections.timeline import TIMELINE
from mnemosyne.projections.usage import BILLED, USAGE, USED
from mnemosyne.services.budgets import bill_of
from mnemosyne.services.savings import Balance, balance_of
from mnemosyne.services.usage import Consumption, consumption_of
from tests.http.managing import Json, Stage, look, model_says, open_stage, recall, text, think
from tests.projections.support import POSTGRES, open_world

CLAUDE: dict[str, str] = {}
"""Claude Code is what the client is anyway."""
OPENCODE = {"user-agent": "opencode/1.18.33 ai-sdk/provider-utils/4.0.46 runtime/bun/1.3.14"}
STREAMED = pytest.mark.parametrize("streamed", [True, False], ids=["streamed", "whole"])

HIDDEN = {"replies": [model_says(think(), recall()), model_says(recall("and?")), model_says(text("It is there."))]}
LONG = "Where is it? " + "Words to fill the cache with. " * 300


def billed(events: Sequence[Event]) -> list[Tokens]:
    """The provider's usage for each round."""
    used = [tokens_of(event.usage) for event in events if isinstance(event, RoundFinished)]
    return [each for each in used if each is not None]


def counts(usage: Mapping[str, Any]) -> Tokens:
    found = tokens_of(usage)
    assert found is not None
    return found


async def ask(stage: Stage, headers: dict[str, str], streamed: bool = True) -> tuple[Json, list[Event]]:
    """The client's usage of a turn with two hidden rounds, and its recorded events."""
    client = stage.client(stream=streamed, headers=headers)
    message = await client.turn(text(LONG))
    await stage.events_until(TurnAccounted)
    return message["usage"], await stage.events()


@STREAMED
async def test_claude_code_gets_the_bill_and_its_window_as_the_last_iteration(streamed: bool) -> None:
    async with open_stage(HIDDEN) as stage:
        usage, events = await ask(stage, CLAUDE, streamed)
        rounds = billed(events)
        assert len(rounds) == 3
        assert counts(usage) == sum(rounds, Tokens())
        assert [counts(each) for each in usage["iterations"]] == rounds
        assert {each["type"] for each in usage["iterations"]} == {"message"}
        assert stage.proxy.progress.untold == HiddenUsage()


@STREAMED
async def test_client_without_iterations_gets_its_window_and_the_rest_is_counted(
    streamed: bool,
) -> None:
    async with open_stage(HIDDEN) as stage:
        usage, events = await ask(stage, OPENCODE, streamed)
        first, second, last = billed(events)
        assert counts(usage).prompt == last.prompt
        assert counts(usage).output == sum(each.output for each in (first, second, last))
        assert "iterations" not in usage
        lacking = [Tokens(0, 0, each.read, each.write_5m) + Tokens(each.input) for each in (first, second)]
        assert stage.proxy.progress.untold == HiddenUsage(rounds=2, tokens=sum(each.prompt for each in lacking))


CUT = model_says(text("It is"), look(), faults=[{"kind": "cut", "at": "content_block_stop"}])


async def accounts(headers: dict[str, str], *replies: Json) -> list[Event]:
    """The proxy's accounts of a turn of these rounds that broke off, or of two complete turns."""
    async with open_stage({"replies": list(replies)}) as stage:
        client = stage.client(headers=headers)
        await client.turn(text(LONG))
        if is_cut := "faults" in replies[-1]:
            await stage.events_until(TurnInterrupted)
        else:
            await client.turn(text("And the other? " * 50))
        await stage.events_until(TurnAccounted, 1 if is_cut else 2)
        return await stage.events()


@pytest.mark.parametrize(
    "replies", [HIDDEN["replies"], [model_says(text("Let me see."), recall()), CUT]], ids=["whole", "cut"]
)
async def test_recorded_accounts_do_not_depend_on_the_clients_usage_format(replies: list[Json]) -> None:
    of_claude, of_opencode = await accounts(CLAUDE, *replies), await accounts(OPENCODE, *replies)
    assert [event.tokens for event in of_claude if isinstance(event, TurnAssessed)] == [
        event.tokens for event in of_opencode if isinstance(event, TurnAssessed)
    ]
    used = [
        [(event.rounds, event.actual, event.counted) for event in of if isinstance(event, TurnAccounted)]
        for of in (of_claude, of_opencode)
    ]
    assert used[0] == used[1] != []


CUTS: list[list[Json]] = [
    [CUT],
    [model_says(text("Let me see."), recall()), CUT],
    [model_says(text("Let me see."), recall()), model_says(think(), recall("and?")), CUT],
]


@pytest.mark.parametrize("headers", [CLAUDE, OPENCODE], ids=["itemized", "not"])
@pytest.mark.parametrize("replies", CUTS, ids=["first", "second", "third"])
async def test_an_interrupted_managed_turn_costs_the_same_in_usage_savings_and_budgets(
    dsn: str, headers: dict[str, str], replies: list[Json]
) -> None:
    events = await accounts(headers, *replies)
    one = UUID(int=1)
    async with open_world(POSTGRES, dsn, event_codec()) as world:
        await world.journal.append(Append(one, 0, tuple(Envelope(event, "c") for event in events)))
        assert isinstance(world.store, PostgresProjections)
        for projection in (USAGE, SAVINGS, TIMELINE):
            await world.projector(projection).catch_up()
        about = {"stream": one, "since": 0, "tenant": "local"}
        used, billed_, saved = await world.store.select(
            (USAGE, SAVINGS, TIMELINE), [(USED, {}), (BILLED, about), (SAVED, {"since": 0, "streams": None})]
        )
    spent = sum((consumption_of(row) for row in used), Consumption())
    balance = sum(map(balance_of, saved), Balance())
    assert not balance.assumed
    assert (spent.nanodollars, spent.tokens) == (balance.nanodollars, balance.actual)
    assert bill_of(billed_, []) == SpendingBill(session=spent.nanodollars, day=spent.nanodollars)
    assert spent.tokens.prompt
