"""A limit on cost refuses prompts with an error that the client shows and does not repeat; an agent's work goes on."""

import json
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any
from uuid import UUID

import attrs
import pytest
import trio

from mnemosyne.actors.spending_guard import SpendingGuard
from mnemosyne.domain.cost.prices import NANODOLLARS
from mnemosyne.domain.session.budget import SpendingBill, SpendingLimits
from mnemosyne.domain.session.events import TurnBegan, TurnInterrupted
from mnemosyne.domain.wire.reply import json_object
from mnemosyne.errors import BadConfiguration, LogUnavailable
from tests.actors.support import StoppableLog, events_of, open_process
from tests.domain.wire.dialects import WRITTEN, Written, bodies, replies
from tests.http.playback import open_playback
from tests.http.proxying import open_proxy
from tests.http.raw_client import RawReply, exchange
from tests.http.test_dialects import CLIENTS, PATHS

MESSAGES = WRITTEN[0]
SPENT = SpendingBill(session=3 * NANODOLLARS, day=8 * NANODOLLARS)
AGENT = (b"x-claude-code-agent-id", b"a1")
TITLE = {"model": "claude-opus-5-5", "max_tokens": 9, "messages": [{"role": "user", "content": "A title, please."}]}


@attrs.frozen
class FixedBills:
    """Bills of a fixed amount; None: the database is away."""

    bill: SpendingBill | None = SPENT

    async def bill_of(self, tenant: str, stream: UUID, day: int) -> SpendingBill:
        if self.bill is None:
            raise LogUnavailable("away")
        return self.bill


def dollars(**limits: float) -> SpendingLimits:
    amounts: dict[str, Any] = {name: round(amount * NANODOLLARS) for name, amount in limits.items()}
    return SpendingLimits(**amounts)


@attrs.frozen
class Talk:
    """A proxy with limits, and the bodies that reached the provider."""

    url: str
    written: Written
    log: StoppableLog
    sent: list[bytes]

    async def ask(self, body: bytes, *headers: tuple[bytes, bytes]) -> RawReply:
        name = self.written.dialect.name
        own = [(b"content-type", b"application/json"), *CLIENTS[name], *headers]
        return await exchange(self.url, PATHS[name], body, headers=own)


@asynccontextmanager
async def open_limited(
    limits: SpendingLimits,
    written: Written = MESSAGES,
    *,
    raised: SpendingLimits | None = None,
    reload: Callable[[], SpendingLimits] | None = None,
    bill: SpendingBill | None = SPENT,
) -> AsyncIterator[Talk]:
    log = StoppableLog()
    guard = SpendingGuard(FixedBills(bill), limits, reload or (lambda: raised or limits))
    answers = [("application/json", json.dumps(written.whole(replies()[0])).encode())] * 9
    async with open_playback(answers) as provider, open_process(log) as process:
        sent: list[bytes] = []
        async with open_proxy(provider.url, attrs.evolve(process.opener, guard=guard)) as proxy:
            yield Talk(proxy.url, written, log, sent)
            sent.extend(body for *_, body in provider.requests)


async def statuses(talk: Talk, asked: Sequence[bytes], *headers: tuple[bytes, bytes]) -> list[int]:
    return [(await talk.ask(body, *headers)).status for body in asked]


@pytest.mark.parametrize("written", WRITTEN, ids=lambda written: written.dialect.name)
@pytest.mark.parametrize("streamed", [True, False])
async def test_a_budget_refuses_prompts_and_nothing_between_two_calls_of_tools(
    written: Written, streamed: bool
) -> None:
    asked = [json.dumps({**json.loads(body), "stream": streamed}).encode() for body in bodies(written)]
    async with open_limited(dollars(session=2), written) as talk:
        got = [await talk.ask(body) for body in asked]
    refused = 402 if written.dialect.name == "messages" else 400
    assert [each.status for each in got] == [refused, 200, 200, refused]
    error = json_object(got[0].body)["error"]
    assert error["type"] == ("billing_error" if refused == 402 else "invalid_request_error")
    for part in ("$3.00", "$2.00", "mnemosyne config set session_budget_dollars 6", "mnemosyne run --budget 6"):
        assert part in error["message"]
    assert talk.sent == asked[1:3]
    (stream,) = await talk.log.streams()
    events = await events_of(talk.log, stream)
    ends = [event for event in events if isinstance(event, TurnInterrupted)]
    assert [end.reason for end in ends] == [json_object(got[at].body)["error"]["message"][11:] for at in (0, 3)]
    assert len([event for event in events if isinstance(event, TurnBegan)]) == 4


async def test_the_day_stops_prompts_too_and_a_sub_agent_or_a_title_is_no_prompt() -> None:
    async with open_limited(dollars(day=8)) as talk:
        prompt = bodies(MESSAGES)[0]
        refused = await talk.ask(prompt)
        assert b"today's sessions have cost $8.00" in refused.body
        assert await statuses(talk, [prompt], AGENT) == [200]
        assert await statuses(talk, [json.dumps(TITLE).encode()]) == [200]


async def test_a_hard_limit_stops_an_agent_between_two_calls_but_no_title() -> None:
    async with open_limited(dollars(hard=3)) as talk:
        assert await statuses(talk, bodies(MESSAGES)) == [402] * 4
        assert await statuses(talk, bodies(MESSAGES)[:1], AGENT) == [402]
        assert await statuses(talk, [json.dumps(TITLE).encode()]) == [200]


async def test_a_raised_limit_applies_to_the_prompt_that_it_allows() -> None:
    async with open_limited(dollars(session=2), raised=dollars(session=4)) as talk:
        assert await statuses(talk, bodies(MESSAGES)[:1]) == [200]


async def test_settings_that_cannot_be_read_again_refuse_no_more_than_before(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def load() -> SpendingLimits:
        raise BadConfiguration("line 3 is no setting")

    async with open_limited(dollars(session=2), reload=load) as talk:
        assert await statuses(talk, bodies(MESSAGES)) == [402, 200, 200, 402]
    assert "the limits on cost stay as they are: line 3" in caplog.text


async def test_a_request_may_choose_its_session_s_budget_but_not_pass_a_hard_limit() -> None:
    async with open_limited(dollars(session=2)) as talk:
        prompt = bodies(MESSAGES)[:1]
        assert await statuses(talk, prompt, (b"x-mnemosyne-budget", b"3.5")) == [200]
        assert await statuses(talk, prompt, (b"x-mnemosyne-budget", b"lots")) == [402]
    async with open_limited(dollars(hard=3)) as talk:
        assert await statuses(talk, prompt, (b"x-mnemosyne-budget", b"9")) == [402]
    async with open_limited(SpendingLimits()) as talk:
        assert await statuses(talk, prompt, (b"x-mnemosyne-budget", b"3")) == [402]
        assert await statuses(talk, prompt) == [200]


async def test_a_session_near_its_limit_is_warned_about_once(caplog: pytest.LogCaptureFixture) -> None:
    async with open_limited(dollars(session=3.75)) as talk:
        assert await statuses(talk, bodies(MESSAGES)) == [200] * 4
    assert caplog.text.count("cost $3.00 of session_budget_dollars = $3.75") == 1
    async with open_limited(dollars(session=3.76)) as talk:
        assert await statuses(talk, bodies(MESSAGES)) == [200] * 4
    assert "3.76" not in caplog.text


async def test_without_a_bill_nothing_is_refused(autojump_clock: trio.testing.MockClock) -> None:
    async with open_limited(dollars(session=2, hard=1), bill=None) as talk:
        assert await statuses(talk, bodies(MESSAGES)[:1]) == [200]
