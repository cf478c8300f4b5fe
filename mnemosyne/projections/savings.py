"""The savings or losses from managing: the usage of each turn beside that of its shadow, the same client without the
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
from mnemosyne.projections.usage import USAGE, size_class

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
_OF_TURN = "filter (where coalesce(is_last, true))"


def _sum_turns(which: str, *by: str, since: str = "0", order: str = "min(began)") -> str:
    """A query for the sums of turns and their billed replies, by price. The columns of a turn count with its last
    reply, or alone if it has none. ``which`` is a condition on ``stream``.
    """
    keys = ", ".join(("stream", *by, "mode, model, compared, replied, service_tier, inference_geo, speed"))
    sums = [f"coalesce(sum({name}), 0)::bigint as actual_{part}" for name, part in zip(TOKENS, _PARTS, strict=True)]
    sums += [f"coalesce(sum({name}) {_OF_TURN}, 0)::bigint as {name}" for name in _SIMULATED]
    sums += [f"count(*) filter (where {name} and coalesce(is_last, true)) as {name}" for name in _FLAGS]
    return f"""select {keys}, coalesce(size, 0) as size, {size_class(_PROMPT)} as shadow_size,
    count(*) {_OF_TURN} as turns, count(is_last) as replies,
    coalesce(sum(web_searches), 0)::bigint as web_searches, bool_or(deviates) as deviates,
    {", ".join(sums)}
from mnemosyne.savings_turns left join (
    select stream, branch, turn, attempt, model as replied, service_tier, inference_geo, speed, web_searches,
        {", ".join(TOKENS)}, {size_class(PROMPT_TOKENS)} as size,
        row_number() over (partition by stream, branch, turn, attempt order by round desc) = 1 as is_last
    from mnemosyne.billed_replies() where {which}
) r using (stream, branch, turn, attempt)
where {which} and began >= {since}
group by {keys}, size, shadow_size
order by {order}, {keys}, size, shadow_size"""


_SHOWN = """stream = any(array(
    select distinct stream from mnemosyne.savings_turns
    where (%(streams)s::uuid[] is null or stream = any(%(streams)s)) and began >= %(since)s
))"""
"""An array, so that the replies of other streams are not added up first."""

SAVED = Query("saved", _sum_turns(_SHOWN, since="%(since)s"))

_TURN = ("branch", "turn", "attempt", "version", "began", "epoch", "rounds", "estimated", "counted")
SAVED_BY_TURN = Query("saved_by_turn", _sum_turns("stream = %(stream)s", *_TURN, order="version, turns"))
"""Only the row of a turn's last reply counts the turn; its replies at another price are in the rows before."""

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
    queries=(SAVED, SAVED_BY_TURN, EPOCHS_OF),
    others=(USAGE,),
)
