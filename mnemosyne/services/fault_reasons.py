"""Why evicted objects were needed again: shares of the reasons, and those that are suspicious."""

from collections.abc import Mapping, Sequence

import attrs

from mnemosyne.domain.objects.events import FaultReason
from mnemosyne.figures import percent_text
from mnemosyne.services.read_models import Row

FEWEST = 10
"""With fewer faults a share says nothing."""

LEAST: Mapping[FaultReason, float] = {FaultReason.USER_RECALL: 0.2}
"""A lower share is suspicious: the model asks on its own too often."""

MOST: Mapping[FaultReason, float] = {
    FaultReason.REFERENCE: 0.6,
    FaultReason.PREREQUISITE: 0.4,
    FaultReason.SPECULATIVE: 0.2,
}
"""A higher share is suspicious: what is needed is evicted, tools lack it, or guesses waste room."""


@attrs.frozen
class ReasonShare:
    """The number of faults for one ``reason``, their share of all, and a ``flag`` if that is suspicious."""

    reason: str
    faults: int
    share: float
    flag: str | None

    @property
    def text(self) -> str:
        """``user recall 3 (30 %)``."""
        flag = f", {self.flag}" if self.flag is not None else ""
        return f"{self.reason.replace('_', ' ')} {self.faults} ({percent_text(self.share)}{flag})"


def list_shares(rows: Sequence[Row]) -> list[ReasonShare]:
    counts = {FaultReason(row["why"]): int(row["faults"] or 0) for row in rows}
    total = sum(counts.values())
    if not total:
        return []
    found = ((reason, counts.get(reason, 0), counts.get(reason, 0) / total) for reason in FaultReason)
    return [
        ReasonShare(reason.value, count, share, _flag(reason, share) if total >= FEWEST else None)
        for reason, count, share in found
    ]


def _flag(reason: FaultReason, share: float) -> str | None:
    if share < LEAST.get(reason, 0.0):
        return f"below {percent_text(LEAST[reason])}"
    if share > MOST.get(reason, 1.0):
        return f"above {percent_text(MOST[reason])}"
    return None
