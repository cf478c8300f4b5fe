"""Billed usage: the tokens of every attempt, as the provider counted them.

Token counts are stored; ``services/usage.py`` converts them to dollars at each query. So a corrected price needs no
rebuild, and an interrupted attempt, whose event does not name the model that answered, is priced by the model that its
request named.
"""

from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import Any, TypeVar, cast
from uuid import UUID

from mnemosyne.domain.cost.catalogue import factor_of, price_of
from mnemosyne.domain.cost.prices import LONG_PROMPTS, terms_of, tokens_of, window_of
from mnemosyne.domain.ports import Recorded
from mnemosyne.domain.session.events import Event, TurnBegan, TurnFinished, TurnInterrupted
from mnemosyne.domain.session.round_events import RoundBegan, RoundFinished
from mnemosyne.domain.wire.limits import ACCOUNT, WINDOWS, window_use
from mnemosyne.projections.projection import (
    PROMPT_TOKENS,
    TOKENS,
    Merge,
    Projection,
    Query,
    Table,
    Type,
    fold_tokens,
    row_of,
    text,
)

Group = TypeVar("Group", bound=Hashable)

TERMS = {
    "service_tier": Type.TEXT,
    "inference_geo": Type.TEXT,
    "speed": Type.TEXT,
    "web_searches": Type.INTEGER,
}
"""The columns of ``prices.Terms``: the terms on which a price depends, apart from models and tokens."""

LAST = ("last_input", "last_read", "last_write_5m", "last_write_1h")
"""The columns of the last round's prompt, if an attempt has several (``prices.window_of``)."""

_PRICE = ("input", "output", "read", "long_factor", "long_output", "long_from", "fast")
PRICES = Table("prices", {"stream": Type.UUID, "model": Type.TEXT}, dict.fromkeys(_PRICE, Type.INTEGER))
"""The prices (``prices.Price``) of the models that a session named, at the time of recording, for sums in SQL."""

TURNS = Table(
    "turns",
    key={
        "stream": Type.UUID,
        "branch": Type.TEXT,
        "turn": Type.INTEGER,
        "attempt": Type.INTEGER,
        "round": Type.INTEGER,  # 0 for the attempt as a whole
    },
    columns={
        "in_rounds": Type.INTEGER,  # the last round of a managed attempt, whose rounds contain its usage
        "asked_model": Type.TEXT,
        "model": Type.TEXT,
        "began": Type.INTEGER,
        "at": Type.INTEGER,
        **TOKENS,
        **dict.fromkeys(LAST, Type.INTEGER),
        **TERMS,
        "factor": Type.INTEGER,  # on the list price, in thousandths
        "fast": Type.BOOLEAN,
    },
)

LIMITS = Table(
    "limits",
    key={
        "stream": Type.UUID,
        "branch": Type.TEXT,
        "turn": Type.INTEGER,
        "attempt": Type.INTEGER,
        "span": Type.TEXT,  # 5h or 7d
    },
    columns={
        "account": Type.TEXT,  # a digest
        "at": Type.INTEGER,
        "first_byte": Type.INTEGER,  # µs after the request
        "used": Type.INTEGER,  # millionths
        "reset": Type.INTEGER,
        "status": Type.TEXT,
    },
)


def changes(recorded: Recorded[object]) -> Sequence[Merge]:
    """Return the row of the attempt that an event begins or ends."""
    event = cast("Event", recorded.envelope.event)
    match event:
        case TurnBegan():
            asked = _merge(recorded.stream, event, {"asked_model": text(event.model), "began": event.at})
            return (asked, *_prices(recorded.stream, event.model))
        case TurnFinished() | TurnInterrupted():
            model = event.model if isinstance(event, TurnFinished) else None
            ended = _merge(recorded.stream, event, {"model": text(model), **_fold_usage(event.at, event.usage)})
            return (ended, *_prices(recorded.stream, model), *_limits(recorded.stream, event))
        case RoundBegan():
            return (_merge(recorded.stream, event, {"in_rounds": event.round}),)
        case RoundFinished():
            columns = {"model": text(event.model), **_fold_usage(event.at, event.usage)}
            return (_merge(recorded.stream, event, columns, event.round), *_prices(recorded.stream, event.model))
        case _:
            return ()


def _merge(
    stream: UUID,
    event: TurnBegan | TurnFinished | TurnInterrupted | RoundBegan | RoundFinished,
    columns: Mapping[str, Any],
    round_: int = 0,
) -> Merge:
    return Merge("turns", (stream, event.branch, event.turn, event.attempt, round_), columns)


def _prices(stream: UUID, model: str | None) -> Iterator[Merge]:
    if (price := price_of(model)) is not None:
        yield Merge("prices", (stream, text(model)), row_of(price, *_PRICE))


def _limits(stream: UUID, event: TurnFinished | TurnInterrupted) -> Iterator[Merge]:
    """Yield the subscription limits that the reply reported."""
    for span in WINDOWS:
        use = window_use(event.limits, span)
        if use.used is not None:
            columns = {"account": text(event.limits.get(ACCOUNT)), **row_of(event, "at", "first_byte")}
            columns |= {"used": use.used, "reset": use.reset, "status": text(use.status)}
            yield Merge("limits", (stream, event.branch, event.turn, event.attempt, span), columns)


def _fold_usage(at: int, usage: Mapping[str, Any]) -> dict[str, Any]:
    tokens, window, terms = tokens_of(usage), window_of(usage), terms_of(usage)
    if tokens is None or window is None:
        return {"at": at}
    factor = factor_of(terms)
    return {
        "at": at,
        **fold_tokens(tokens),
        **dict(zip(LAST, (window.input, window.read, window.write_5m, window.write_1h), strict=True)),
        "factor": None if factor is None else int(factor * 1000),
        "fast": terms.is_fast,
        "service_tier": text(terms.tier),
        "inference_geo": text(terms.geo),
        "speed": text(terms.speed),
        "web_searches": terms.searches,
    }


def size_class(prompt: str) -> str:
    """Return an SQL expression for ``prices.size_class`` of a prompt size that is an SQL expression."""
    cases = " ".join(f"when {prompt} > {size} then {size + 1}" for size in sorted(LONG_PROMPTS, reverse=True))
    return f"case {cases} else 0 end"


_SUMS = """count(*) as replies,
    coalesce(sum(web_searches), 0)::bigint as web_searches,
    sum(input_tokens)::bigint as input, sum(output_tokens)::bigint as output, sum(cache_read_tokens)::bigint as read,
    sum(cache_write_5m_tokens)::bigint as write_5m, sum(cache_write_1h_tokens)::bigint as write_1h
from mnemosyne.billed_replies()"""

USED = Query(
    "used",
    f"""select stream, branch, asked_model as model, model as replied, at / 900000000 * 900000000 as quarter,
    {size_class(PROMPT_TOKENS)} as size, service_tier, inference_geo, speed, {_SUMS}
group by 1, 2, 3, 4, 5, 6, 7, 8, 9
order by min(at), 1, 2, 3, 4, 5, 6, 7, 8, 9""",
)

USED_BY_TURN = Query(
    "used_by_turn",
    f"""select branch, turn, attempt, asked_model as model, model as replied, {size_class(PROMPT_TOKENS)} as size,
    service_tier, inference_geo, speed, 1 as replies, coalesce(web_searches, 0) as web_searches,
    input_tokens as input, output_tokens as output,
    cache_read_tokens as read, cache_write_5m_tokens as write_5m, cache_write_1h_tokens as write_1h
from mnemosyne.billed_replies()
where stream = %(stream)s
order by at, branch, turn, attempt, round""",
)

BILLED = Query(
    "billed",
    f"""select stream = %(stream)s as own, at >= %(since)s as today, asked_model as model, model as replied,
    {size_class(PROMPT_TOKENS)} as size, service_tier, inference_geo, speed, {_SUMS}
where (stream = %(stream)s or at >= %(since)s) and stream in (
    select stream from mnemosyne.timeline_sessions
    where stream = %(stream)s or (tenant = %(tenant)s and last_active_at >= %(since)s)
)
group by 1, 2, 3, 4, 5, 6, 7, 8""",
)

LONGEST_WINDOW = 8 * 24 * 3600 * 1_000_000
LONGEST_TURN = 3600 * 1_000_000
"""In µs: how long before and after a session the replies of other sessions share its windows."""

LIMITS_SEEN = Query(
    "limits_seen",
    f"""select l.stream, l.branch, l.turn, l.attempt, l.span, l.account, l.used, l.reset, l.status, l.at as ended,
    u.began, least(u.began + l.first_byte, l.at) as at, u.tokens
from mnemosyne.usage_limits l
cross join lateral (
    select coalesce(min(began), l.at) as began,
        coalesce((
            select sum({PROMPT_TOKENS} + output_tokens) from mnemosyne.billed_replies() b
            where (b.stream, b.branch, b.turn, b.attempt) = (l.stream, l.branch, l.turn, l.attempt)
        ), 0)::bigint as tokens
    from mnemosyne.usage_turns t
    where (t.stream, t.branch, t.turn, t.attempt) = (l.stream, l.branch, l.turn, l.attempt)
) u
where %(stream)s::uuid is null or l.at between
    (select min(at) - {LONGEST_WINDOW} from mnemosyne.usage_limits where stream = %(stream)s)
    and (select max(at) + {LONGEST_TURN} from mnemosyne.usage_limits where stream = %(stream)s)
order by l.at, l.stream, l.branch, l.turn, l.attempt, l.span""",
)

USAGE = Projection(
    name="usage",
    version=7,
    tables=(TURNS, LIMITS, PRICES),
    changes=changes,
    queries=(USED, USED_BY_TURN, BILLED, LIMITS_SEEN),
)
