"""What the provider billed for a session is one number, wherever it is shown or limited."""

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import count
from operator import itemgetter
from typing import Any
from uuid import UUID

import attrs
import trio
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mnemosyne.adapters.postgres.event_log import PostgresEventLog
from mnemosyne.adapters.postgres.projection_store import PostgresSpending
from mnemosyne.app.storage import event_codec
from mnemosyne.domain.cost.catalogue import WEB_SEARCH
from mnemosyne.domain.cost.prices import Tokens, tokens_of
from mnemosyne.domain.ports import Append, Envelope
from mnemosyne.domain.session.budget import DAY
from mnemosyne.domain.session.events import SessionStarted
from mnemosyne.domain.session.round_events import Mode
from mnemosyne.projections.savings import SAVED, SAVED_BY_TURN, SAVED_UNACCOUNTED, SAVINGS
from mnemosyne.projections.timeline import TIMELINE
from mnemosyne.projections.usage import BILLED, USAGE, USED, USED_BY_TURN
from mnemosyne.services import savings, usage
from mnemosyne.services.budgets import bill_of
from mnemosyne.services.tally import RecordTally
from mnemosyne.services.turn_prices import prices_of
from mnemosyne_lab.evaluation.exports import _balances
from tests.adapters.postgres.test_sql_views import rows as rows_of_view
from tests.domain.session_events import accounted, began, finished, interrupted, round_began, round_finished
from tests.projections.support import POSTGRES, World, open_world

MODELS = ("claude-opus-4-5", "claude-haiku-4-5", "gpt-5.6-terra", "gpt-6.1-sol", "nobody's", None)
TERMS: Sequence[dict[str, Any]] = (
    {},
    {"service_tier": "batch"},
    {"inference_geo": "us", "server_tool_use": {"web_search_requests": 3}},
    {"speed": "fast"},
    {"service_tier": "priority"},
)
COUNTS = st.sampled_from((0, 1, 7, 90_000, 300_000, 10**12, -1, None))
"""Some are not valid counts."""

ONE_ROUND = {"type": "message", "input_tokens": 1}

EXAMPLES = count(1)


@st.composite
def usages(draw: st.DrawFn) -> dict[str, Any]:
    """A ``usage`` as providers report it: with or without counts of the cache, on any terms; or empty."""
    kind = draw(st.sampled_from(("none", "plain", "cached", "split")))
    if kind == "none":
        return {}
    names = ["input_tokens", "output_tokens"]
    if kind != "plain":
        names += ["cache_read_input_tokens", "cache_creation_input_tokens"]
    found: dict[str, Any] = {name: draw(COUNTS) for name in names} | draw(st.sampled_from(TERMS))
    if kind == "split":
        found["cache_creation"] = {"ephemeral_1h_input_tokens": draw(COUNTS), "ephemeral_5m_input_tokens": draw(COUNTS)}
    return found


@attrs.frozen
class MadeTurn:
    """A turn: the model it asked for, its rounds by model and usage (none: the client's own request), whether its last
    round was interrupted, the usage of its end, and its account; None for a side call or a repeated attempt.
    """

    asked: str | None
    rounds: Sequence[tuple[str | None, dict[str, Any]]]
    cut: bool
    usage: dict[str, Any]
    account: dict[str, Any] | None
    shadow: Tokens

    def events(self, turn: int, at: int) -> Iterator[object]:
        """Its events, in the order of the log."""
        yield began(turn, self.asked, at=at)
        for number, (model, used) in enumerate(self.rounds, 1):
            yield round_began(number, at=at, turn=turn)
            if not self.cut or number < len(self.rounds):
                yield round_finished(number, used, at=at, turn=turn, model=model)
        model = self.rounds[-1][0] if self.rounds else self.asked
        end = partial(interrupted, turn=turn) if self.cut else partial(finished, turn, model)
        yield end(self.usage, at=at)
        if self.account is not None:
            account = {"at": at, "began": at, "model": self.asked, "shadow": self.shadow, **self.account}
            yield attrs.evolve(accounted(turn, 0, 0), **account)


tokens = st.builds(Tokens, input=st.sampled_from((0, 5, 200_000)), read=st.sampled_from((0, 9)), output=st.just(3))


@st.composite
def turns(draw: st.DrawFn) -> MadeTurn:
    models = st.sampled_from(MODELS)
    rounds = draw(st.lists(st.tuples(models, usages()), max_size=3))
    cut = draw(st.booleans())
    ends = [draw(usages())]
    if cut:  # before its first count, the usage of the turn repeats that of the round before
        before = [used for _, used in rounds[:-1] if tokens_of(used) is not None]
        ends += [{**used, **more} for used in before[-1:] for more in ({}, {"iterations": [ONE_ROUND]})]
    end = draw(st.sampled_from(ends))
    modes = st.sampled_from([Mode.OBSERVE] if not rounds else [Mode.MANAGE, Mode.BYPASS])
    account = {"mode": draw(modes), "assumed": draw(st.booleans()), "far": draw(st.sampled_from((None, False, True)))}
    account = draw(st.sampled_from((account, account, None)))
    account = account and {**account, "actual": draw(tokens)}
    return MadeTurn(draw(models), rounds, cut, end, account, draw(tokens))


async def bills(
    world: World, stream: UUID, day: int, events: Sequence[object]
) -> tuple[dict[str, savings.Balance | int], list[savings.Balance]]:
    """The bill of a session by each of its views, and the balance of each turn."""
    await world.journal.append(Append(stream, 0, tuple(Envelope(event, "c") for event in events)))
    for projection in (SAVINGS, USAGE, TIMELINE):
        await world.projector(projection).catch_up()
    about = {"stream": stream, "since": day * DAY, "tenant": "t", "streams": [stream]}
    queries = (USED, USED_BY_TURN, BILLED, SAVED, SAVED_BY_TURN, SAVED_UNACCOUNTED)
    found = await world.tables.select((USAGE, SAVINGS, TIMELINE), [(each, about) for each in queries])
    used, by_turn, billed, saved, saved_by_turn, unaccounted = found
    tally = RecordTally()
    tally.note(Append(stream, 0, tuple(Envelope(event, "c") for event in events)), 0, None)
    log = PostgresEventLog(world.database, event_codec())
    (money,) = await rows_of_view(
        world, f"select coalesce(sum(dollars), 0) * 1000000000 as nano from money where session_id = '{stream}'"
    )
    prices = prices_of(by_turn).values()
    consumed = usage.add_up([row for row in used if row["stream"] == stream], itemgetter("stream"))
    whole = consumed.get(stream, usage.Consumption())
    balances = savings.balances_of(savings.join_replies(saved_by_turn), unaccounted, [])
    views: dict[str, savings.Balance | int] = {
        "usage": whole.nanodollars,
        "the turns' pages": sum(each.used.nanodollars for each in prices),
        "limits": bill_of(billed, []).session,
        "limits of the day": bill_of(billed, []).day,
        "the helpers' budget": (await PostgresSpending(world.database, log).on_day(day)).turns,
        "money": int(money["nano"]),
        "savings": savings.add_up(saved).get(stream, savings.Balance()),
        "the session's page": sum(balances, savings.Balance()),
        "metrics": sum(tally.balances.values(), savings.Balance()),
        "exports": sum(_balances(await log.read(stream)).values(), savings.Balance()),
    }
    return views, balances


@given(st.lists(turns(), min_size=4, max_size=12))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
def test_every_view_of_any_session_has_the_same_bill(dsn: str, made: Sequence[MadeTurn]) -> None:
    """Whatever models answered, however turns ended, whichever counts are missing."""
    day = next(EXAMPLES)
    stream = UUID(int=day)
    start = SessionStarted(at=day * DAY, tenant="t", external_id="s", client="c", client_version=None, salt=b"s")
    events = [start, *(event for turn, each in enumerate(made, 1) for event in each.events(turn, day * DAY + turn))]

    async def run() -> tuple[dict[str, savings.Balance | int], list[savings.Balance]]:
        async with open_world(POSTGRES, dsn, event_codec()) as world:
            return await bills(world, stream, day, events)

    found, of_turns = trio.run(run)
    balances = {view: each for view, each in found.items() if isinstance(each, savings.Balance)}
    assert len(set(balances.values())) == 1, balances
    billed = {view: each.nanodollars if isinstance(each, savings.Balance) else each for view, each in found.items()}
    assert len(set(billed.values())) == 1, billed
    with_account = [turn for turn in made if turn.account is not None]
    for turn, balance in zip(with_account, of_turns, strict=False):
        assert turn.account is not None
        if turn.account["assumed"] or turn.account["far"] or not turn.rounds:
            assert balance.nanodollars_saved == 0


def test_an_interrupted_round_is_not_billed_the_searches_of_the_rounds_before(dsn: str) -> None:
    """The usage of a turn sums the searches of its rounds."""
    day = next(EXAMPLES)
    stream, model = UUID(int=day), "claude-opus-4-5"
    searched = {"input_tokens": 1, "output_tokens": 1, "server_tool_use": {"web_search_requests": 3}}
    in_all = {"input_tokens": 2, "output_tokens": 5, "server_tool_use": {"web_search_requests": 4}}
    account = {"mode": Mode.MANAGE, "assumed": False, "far": False, "actual": Tokens()}
    turn = MadeTurn(model, [(model, searched), (model, {})], True, in_all, account, Tokens())
    start = SessionStarted(at=day * DAY, tenant="t", external_id="s", client="c", client_version=None, salt=b"s")

    async def run() -> tuple[dict[str, savings.Balance | int], list[savings.Balance]]:
        async with open_world(POSTGRES, dsn, event_codec()) as world:
            return await bills(world, stream, day, [start, *turn.events(1, day * DAY + 1)])

    found, _ = trio.run(run)
    billed = {each.nanodollars if isinstance(each, savings.Balance) else each for each in found.values()}
    assert billed == {4 * WEB_SEARCH + 3 * 5_000 + 5 * 25_000}
