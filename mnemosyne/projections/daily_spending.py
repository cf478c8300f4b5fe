"""Daily spending, by turns at list prices and by the helper models as recorded.

Unlike in the read model of usage, prices are those of the time at which an event was applied: the helpers' budget needs
a sum before each request and must not price the day's turns each time.
"""

from collections.abc import Sequence
from typing import Any

from mnemosyne.domain.cost.catalogue import cost
from mnemosyne.domain.cost.prices import terms_of, tokens_of, window_of
from mnemosyne.domain.objects.events import ObjectSummarized
from mnemosyne.domain.ports import Recorded
from mnemosyne.domain.session.budget import DAY
from mnemosyne.domain.session.events import TurnFinished
from mnemosyne.domain.session.input_events import HelperAsked
from mnemosyne.projections.projection import Merge, Projection, Query, Table, Type

SPENT = Table(
    "spent",
    key={"day": Type.INTEGER, "stream": Type.UUID, "version": Type.INTEGER},  # days since 1970, in UTC
    columns={"turns": Type.INTEGER, "helpers": Type.INTEGER},  # nanodollars
)


def changes(recorded: Recorded[object]) -> Sequence[Merge]:
    """Return the row of an event with a cost."""
    event = recorded.envelope.event
    match event:
        case TurnFinished():
            used, window = tokens_of(event.usage), window_of(event.usage)
            terms = terms_of(event.usage)
            amount = cost(used, event.model, prompt=window.prompt, terms=terms) if used and window else None
            return _merge_spent(recorded, event.at, {"turns": amount})
        case ObjectSummarized() | HelperAsked():
            return _merge_spent(recorded, event.at, {"helpers": event.nanodollars})
        case _:
            return ()


def _merge_spent(recorded: Recorded[object], at: int, columns: dict[str, Any]) -> Sequence[Merge]:
    if not any(columns.values()):
        return ()
    return (Merge("spent", (at // DAY, recorded.stream, recorded.version), columns),)


ON_DAY = Query(
    "on_day",
    "Cost of turns and helpers on a day, in nanodollars",
    """select coalesce(sum(turns), 0)::bigint as turns, coalesce(sum(helpers), 0)::bigint as helpers
from mnemosyne.budget_spent
where day = %(day)s
group by day""",
)

BUDGET = Projection(
    name="budget",
    version=4,
    tables=(SPENT,),
    changes=changes,
    queries=(
        ON_DAY,
        Query(
            "days",
            "Cost of turns and helpers by day, in dollars",
            """select date '1970-01-01' + day::integer as day, sum(turns) / 1e9 as turns, sum(helpers) / 1e9 as helpers
from mnemosyne.budget_spent
group by 1
order by 1""",
        ),
    ),
)
