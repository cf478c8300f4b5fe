"""The used share of a subscription: its five-hour and seven-day windows, as the provider's replies report them."""

from collections.abc import Iterable, Mapping
from typing import Any
from uuid import UUID

import attrs

from mnemosyne.domain.wire.limits import PARTS
from mnemosyne.services.read_models import Question

LIMITS_SEEN = Question("usage", "limits_seen")


@attrs.frozen(kw_only=True)
class QuotaWindow:
    """A window in its last report, ``at`` µs of UTC: the used share, its reset time, and the provider's status word.
    ``taken`` is its increase with the replies of each session, including others' use in the meantime.
    """

    span: str
    at: int
    used: float
    reset: int | None
    status: str | None
    taken: Mapping[UUID, float]


def windows_of(rows: Iterable[Mapping[str, Any]]) -> list[QuotaWindow]:
    """The reported windows, the shortest first, from the answer to LIMITS_SEEN. Use before the first reply of a window
    is assigned to no session.
    """
    last: dict[str, Mapping[str, Any]] = {}
    taken: dict[str, dict[UUID, int]] = {}
    for row in rows:
        before = last.get(row["span"])
        if before is not None and before["reset"] == row["reset"] and row["used"] > before["used"]:
            by = taken.setdefault(row["span"], {})
            by[row["stream"]] = by.get(row["stream"], 0) + row["used"] - before["used"]
        last[row["span"]] = row
    return [
        QuotaWindow(
            span=span,
            at=row["at"],
            used=row["used"] / PARTS,
            reset=row["reset"],
            status=row["status"],
            taken={stream: parts / PARTS for stream, parts in taken.get(span, {}).items()},
        )
        for span, row in sorted(last.items())
    ]
