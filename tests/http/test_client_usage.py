"""The ``usage`` of a reply with hidden rounds: a client that reads both gets the bill and the window, any other the
window. The proxy's own accounts are the same for either.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from mnemosyne.domain.cost.catalogue import cost
from mnemosyne.domain.cost.prices import Tokens, tokens_of
from mnemosyne.domain.objects.events import TurnAssessed
from mnemosyne.domain.ports import Envelope, Recorded
from mnemosyne.domain.session.events import Event, TurnFinished
from mnemosyne.domain.session.ledger_events import TurnAccounted
from mnemosyne.domain.session.round_events import Mode, RoundFinished
from mnemosyne.http.client_reply import HiddenUsage
from mnemosyne.projections.budget import BUDGET
from mnemosyne.projections.projection import fold
from mnemosyne.projections.timeline import TIMELINE
from mnemosyne.projections.working_set import WORKING_SETS
from tests.adapters.log_support import stream
from tests.http.managing import Client, Json, Stage, interrupted, look, model_says, open_stage, recall, text, think

CLAUDE: dict[str, str] = {}
"""Claude Code is what the client is anyway."""
OPENCODE = {"user-agent": "opencode/1.18.33 ai-sdk/provider-utils/4.0.46 runtime/bun/1.3.14"}
CLIENTS = pytest.mark.parametrize("headers", [CLAUDE, OPENCODE], ids=["claude", "opencode"])
STREAMED = pytest.mark.parametrize("streamed", [True, False], ids=["streamed", "whole"])

HIDDEN = {"replies": [model_says(think(), recall()), model_says(recall("and?")), model_says(text("It is there."))]}
LONG = "Where is it? " + "Words to fill the cache with. " * 300


def billed(events: Sequence[Event]) -> list[Tokens]:
    """The provider's usage for each round."""
    used = [tokens_of(event.usage) for event in events if isinstance(event, RoundFinished)]
    return [each for each in used if each is not None]


def finished(events: Sequence[Event]) -> TurnFinished:
    (found,) = [event for event in events if isinstance(event, TurnFinished)]
    return found


def counts(usage: Mapping[str, Any]) -> Tokens:
    found = tokens_of(usage)
    assert found is not None
    return found


async def ask(stage: Stage, headers: dict[str, str], streamed: bool = True) -> tuple[Json, list[Event]]:
    """The client's usage of a turn with two hidden rounds, and its recorded events."""
    client = Client(stage.url, stream=streamed, headers=headers)
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


@CLIENTS
async def test_recorded_window_of_a_turn_is_its_last_round(headers: dict[str, str]) -> None:
    async with open_stage(HIDDEN) as stage:
        _, events = await ask(stage, headers)
    rounds = billed(events)
    recorded = [Recorded(stream(1), at, at, Envelope(event, "c")) for at, event in enumerate(events, 1)]
    ((_, window),) = fold(WORKING_SETS, recorded).rows["windows"].items()
    assert window["counted"] == rounds[-1].prompt
    ((_, turn),) = fold(TIMELINE, recorded).rows["turns"].items()
    last = rounds[-1]
    told = [turn[f"{each}_tokens"] for each in ("input", "cache_read", "cache_write_5m", "output")]
    assert told == [last.input, last.read, last.write_5m, sum(each.output for each in rounds)]
    (entered,) = [event for event in events if isinstance(event, TurnAccounted)]
    assert (entered.rounds, entered.actual) == (3, sum(rounds, Tokens()))
    assert entered.counted == rounds[-1].prompt


async def test_budget_prices_a_sum_by_the_size_of_its_window() -> None:
    """A model's price may depend on the size of a prompt, and no prompt was as large as the sum."""
    usage = {"input_tokens": 120_000, "output_tokens": 0}
    entry = {"type": "message", "input_tokens": 60_000, "output_tokens": 0}
    event = TurnFinished(
        at=1,
        branch="main",
        turn=1,
        attempt=1,
        status=200,
        reply=b"",
        message_id="msg",
        model="claude-haiku-5-5",
        stop_reason="end_turn",
        error_type=None,
        usage={**usage, "iterations": [entry, entry]},
    )
    spent = fold(BUDGET, [Recorded(stream(1), 1, 1, Envelope(event, "c"))]).rows["spent"]
    assert [row["turns"] for row in spent.values()] == [2 * (cost(Tokens(60_000), "claude-haiku-5-5") or 0)]


CUT = model_says(text("It is"), look(), faults=[{"kind": "cut", "at": "content_block_stop"}])


async def accounts(headers: dict[str, str], *replies: Json) -> list[Event]:
    """The proxy's accounts of a turn of these rounds that broke off, or of two complete turns."""
    async with open_stage({"replies": list(replies)}) as stage:
        client = Client(stage.url, headers=headers)
        await client.turn(text(LONG))
        if CUT in replies:
            await interrupted(stage)
        else:
            await client.turn(text("And the other? " * 50))
        await stage.events_until(TurnAccounted, 1 if CUT in replies else 2)
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


@CLIENTS
@STREAMED
@pytest.mark.parametrize("mode", [Mode.MANAGE, Mode.OBSERVE])
async def test_usage_of_a_turn_without_hidden_rounds_is_the_providers(
    headers: dict[str, str], streamed: bool, mode: Mode
) -> None:
    odd = {"input_tokens": 3, "output_tokens": 1, "cache_read_input_tokens": None, "new": {"a": [1]}}
    async with open_stage({"reply": model_says(text("Yes."), usage=odd)}, mode=mode) as stage:
        client = Client(stage.url, stream=streamed, headers=headers)
        message = await client.turn(text("Is it?"))
        assert {key: message["usage"][key] for key in odd} == odd
        assert "iterations" not in message["usage"]
