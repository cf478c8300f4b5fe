"""The savings or losses from managing: the usage of each turn beside that of its shadow, the same client without the
proxy.

Token counts are stored; ``services/savings.py`` converts them to money at each query.
"""

from collections.abc import Sequence
from typing import cast

from mnemosyne.domain.cost.tokens import CREDIBLE
from mnemosyne.domain.ports import Recorded
from mnemosyne.domain.session.events import Event, TurnFinished, TurnInterrupted
from mnemosyne.domain.session.ledger_events import TurnAccounted
from mnemosyne.domain.session.round_events import EpochBegan, RoundBegan
from mnemosyne.projections.projection import Merge, Projection, Query, Row, Table, Type, row_of, text
from mnemosyne.projections.usage import TERMS, fold_terms, size_class

_PARTS = ("input", "output", "read", "write_5m", "write_1h")
_SIDES = ("shadow", "expected", "actual")

TURNS = Table(
    "turns",
    key={"stream": Type.UUID, "branch": Type.TEXT, "turn": Type.INTEGER, "attempt": Type.INTEGER},
    columns={
        "version": Type.INTEGER,
        "began": Type.INTEGER,
        "mode": Type.TEXT,
        "model": Type.TEXT,
        "replied": Type.TEXT,  # the model that replied
        "rounds": Type.INTEGER,
        "epoch": Type.INTEGER,
        "assumed": Type.BOOLEAN,
        "compacted": Type.BOOLEAN,
        "deviates": Type.BOOLEAN,
        "estimated": Type.INTEGER,
        "counted": Type.INTEGER,
        **TERMS,
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
        case TurnFinished() | TurnInterrupted():
            replied = event.model if isinstance(event, TurnFinished) else None
            columns = {"replied": text(replied), **fold_terms(event.usage)}
            return (Merge("turns", (stream, event.branch, event.turn, event.attempt), columns),)
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
    return {"version": version, **own, **sides}


def _prompt(side: str) -> str:
    return f"{side}_input + {side}_read + {side}_write_5m + {side}_write_1h"


_COLUMNS = [f"{side}_{part}" for side in _SIDES for part in _PARTS]
_PROMPT = "coalesce(nullif(counted, 0), estimated)"
_FAR = f"{_prompt('actual')} * {CREDIBLE} not between estimated * rounds and estimated * rounds * {CREDIBLE**2}"
_TERMS = "replied, service_tier, inference_geo, speed"
_SUMS = ",\n    ".join(f"sum({column})::bigint as {column}" for column in _COLUMNS)


def _sum_turns(which: str) -> str:
    return f"""select stream, mode, model, {size_class(_PROMPT)} as size,
    {size_class(_prompt("shadow"))} as shadow_size, {_TERMS}, count(*) as turns,
    coalesce(sum(web_searches), 0)::bigint as web_searches,
    count(*) filter (where assumed) as assumed, count(*) filter (where {_FAR}) as far,
    count(*) filter (where compacted) as compacted,
    bool_or(deviates) as deviates,
    {_SUMS}
from mnemosyne.savings_turns
where {which}
group by 1, 2, 3, 4, 5, 6, 7, 8, 9
order by min(began), 1, 2, 3, 4, 5, 6, 7, 8, 9"""


SAVED = Query(
    "saved",
    _sum_turns("began >= %(since)s"),
)

SAVED_OF = Query(
    "saved_of",
    _sum_turns("stream = any(%(streams)s) and began is not null"),
)

SAVED_BY_TURN = Query(
    "saved_by_turn",
    f"""select branch, turn, attempt, version, began, epoch, rounds, estimated, counted, mode, model,
    {size_class(_PROMPT)} as size, {size_class(_prompt("shadow"))} as shadow_size,
    {_TERMS}, coalesce(web_searches, 0) as web_searches,
    1 as turns, assumed::int as assumed, ({_FAR})::int as far, compacted::int as compacted, deviates,
    {", ".join(_COLUMNS)}
from mnemosyne.savings_turns
where stream = %(stream)s and began is not null
order by version""",
)

EPOCHS_OF = Query(
    "epochs_of",
    """select branch, epoch, turn, reason, price, payback from mnemosyne.savings_epochs where stream = %(stream)s
order by branch, epoch""",
)

SAVINGS = Projection(
    name="savings",
    version=5,
    tables=(TURNS, EPOCHS),
    changes=changes,
    queries=(SAVED, SAVED_OF, SAVED_BY_TURN, EPOCHS_OF),
)
