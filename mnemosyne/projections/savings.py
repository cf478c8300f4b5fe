"""The savings or losses from managing: each turn's usage beside its shadow's, which is the same client without the
proxy.

Token counts are stored; ``services/savings.py`` converts them to money at each query.
"""

from collections.abc import Sequence
from typing import cast

from mnemosyne.domain.ports import Recorded
from mnemosyne.domain.session.events import Event
from mnemosyne.domain.session.ledger import is_compared, is_far
from mnemosyne.domain.session.ledger_events import TurnAccounted
from mnemosyne.domain.session.round_events import EpochBegan, RoundBegan
from mnemosyne.projections.projection import PROMPT_TOKENS, TOKENS, Merge, Projection, Query, Row, Table, Type, row_of
from mnemosyne.projections.usage import TERMS, USAGE, size_class

_PARTS = ("input", "output", "read", "write_5m", "write_1h")
_SIDES = ("shadow", "expected", "actual")
_FLAGS = ("assumed", "far", "compacted")

TURNS = Table(
    "turns",
    key={"stream": Type.UUID, "branch": Type.TEXT, "turn": Type.INTEGER, "attempt": Type.INTEGER},
    columns={
        "version": Type.INTEGER,
        "began": Type.INTEGER,
        "mode": Type.TEXT,
        "model": Type.TEXT,
        "rounds": Type.INTEGER,
        "epoch": Type.INTEGER,
        "assumed": Type.BOOLEAN,
        "far": Type.BOOLEAN,  # whether its counts are not credible
        "compared": Type.BOOLEAN,  # if false, both sides cost the billed amount
        "compacted": Type.BOOLEAN,
        "deviates": Type.BOOLEAN,
        "estimated": Type.INTEGER,
        "counted": Type.INTEGER,
        **{f"{side}_{part}": Type.INTEGER for side in _SIDES for part in _PARTS},
    },
)

EPOCHS = Table(
    "epochs",
    key={"stream": Type.UUID, "branch": Type.TEXT, "epoch": Type.INTEGER},
    columns={"turn": Type.INTEGER, "reason": Type.TEXT, "price": Type.INTEGER, "payback": Type.INTEGER},
)


def changes(recorded: Recorded[object]) -> Sequence[Merge]:
    """Return the rows that an event changes."""
    stream, event = recorded.stream, cast("Event", recorded.envelope.event)
    match event:
        case TurnAccounted():
            return (Merge("turns", (stream, event.branch, event.turn, event.attempt), _turn(event, recorded.version)),)
        case EpochBegan():
            began = row_of(event, "turn", "reason", "price", "payback")
            return (Merge("epochs", (stream, event.branch, event.epoch), began),)
        case RoundBegan():
            return (Merge("turns", (stream, event.branch, event.turn, event.attempt), {"epoch": event.epoch}),)
        case _:
            return ()


def _turn(event: TurnAccounted, version: int) -> Row:
    own = row_of(event, "began", "mode", "model", "rounds", "assumed", "compacted", "deviates", "estimated", "counted")
    sides = {f"{side}_{part}": getattr(getattr(event, side), part) for side in _SIDES for part in _PARTS}
    return {"version": version, "far": is_far(event), "compared": is_compared(event), **own, **sides}


_PROMPT = "shadow_input + shadow_read + shadow_write_5m + shadow_write_1h"
_SIMULATED = [f"{side}_{part}" for side in _SIDES[:2] for part in _PARTS]
_OF_TURN = "mode is not null and coalesce(is_last, true)"


def _sum_bills(which: str, *by: str, where: str = "true", order: str = "min(coalesce(began, asked_at))") -> str:
    """A query that sums turns and billed replies by price, and by the columns ``by``. A turn's own columns are summed
    with its last reply, or alone if it has no reply. Unaccounted replies, such as those to side calls, have no
    ``mode``. ``which`` is a condition on ``stream``.
    """
    columns = {name: name for name in ("stream", *by, "mode", "compared", "replied", *TERMS) if name != "web_searches"}
    columns |= {"model": "coalesce(model, asked)", "size": "coalesce(size, 0)", "shadow_size": size_class(_PROMPT)}
    keys = ", ".join(columns.values())
    sums = [f"coalesce(sum({name}), 0)::bigint as actual_{part}" for name, part in zip(TOKENS, _PARTS, strict=True)]
    sums += [f"coalesce(sum({name}) filter (where {_OF_TURN}), 0)::bigint as {name}" for name in _SIMULATED]
    sums += [f"count(*) filter (where {name} and {_OF_TURN}) as {name}" for name in _FLAGS]
    return f"""select {", ".join(f"{value} as {name}" for name, value in columns.items())},
    count(*) filter (where {_OF_TURN}) as turns, count(is_last) as replies,
    coalesce(sum(web_searches), 0)::bigint as web_searches, coalesce(bool_or(deviates), false) as deviates,
    {", ".join(sums)}
from (select * from mnemosyne.savings_turns where {which}) t full join (
    select stream, branch, turn, attempt, asked_model as asked, model as replied, coalesce(began, at) as asked_at,
        {", ".join(TERMS)}, {", ".join(TOKENS)}, {size_class(PROMPT_TOKENS)} as size,
        row_number() over (partition by stream, branch, turn, attempt order by round desc) = 1 as is_last
    from mnemosyne.billed_replies() where {which}
) r using (stream, branch, turn, attempt)
where (mode is not null or is_last is not null) and {where}
group by {keys}
order by {order}, {keys}"""


_SHOWN = """stream = any(array(
    select distinct stream from mnemosyne.usage_turns
    where (%(streams)s::uuid[] is null or stream = any(%(streams)s)) and greatest(began, at) >= %(since)s
))"""
"""An array, so that the replies of other streams are not added up first."""

SAVED = Query("saved", _sum_bills(_SHOWN, where="coalesce(began, asked_at) >= %(since)s"))

_TURN = ("branch", "turn", "attempt", "version", "began", "epoch", "rounds", "estimated", "counted")
_ONE = "stream = %(stream)s"
SAVED_BY_TURN = Query("saved_by_turn", _sum_bills(_ONE, *_TURN, where="mode is not null", order="version, turns"))
"""A turn is counted in the row of its last reply; the rows before it are its replies at other prices."""

SAVED_UNACCOUNTED = Query("saved_unaccounted", _sum_bills(_ONE, "asked_at", where="mode is null"))
"""Unaccounted replies, by the time of the request."""

EPOCHS_OF = Query(
    "epochs_of",
    """select branch, epoch, turn, reason, price, payback from mnemosyne.savings_epochs where stream = %(stream)s
order by branch, epoch""",
)

SAVINGS = Projection(
    name="savings",
    version=6,
    tables=(TURNS, EPOCHS),
    changes=changes,
    queries=(SAVED, SAVED_BY_TURN, SAVED_UNACCOUNTED, EPOCHS_OF),
    others=(USAGE,),
)
