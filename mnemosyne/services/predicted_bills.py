"""The bill of a session as predicted before each of its turns, compared with the provider's count.

The prediction uses only facts known when the request was sent: the size of the branch's previous prompt by the
provider's count, the estimated growth, and the cache rules. A reply's length is not known before, so both amounts have
the actual output. Turns with hidden rounds are left out: how often a model asks its memory is not known before, either.
So is the first request of a branch, unless it begins with a prompt that another branch had put in the cache: what other
sessions have put there is not known.
"""

from collections.abc import Iterable
from fractions import Fraction
from statistics import median

import attrs

from mnemosyne.domain.cost.catalogue import cost
from mnemosyne.domain.cost.prices import Tokens, size_class
from mnemosyne.domain.cost.tokens import apportion
from mnemosyne.figures import dollars_text, percent_text, plural
from mnemosyne.services.read_models import Row
from mnemosyne.services.savings import balance_of
from mnemosyne.services.usage import terms_in


@attrs.frozen(kw_only=True)
class PredictedBill:
    """The ``predicted`` and the ``billed`` cost of some turns, in nanodollars, and the ``error`` of the median turn as
    a share of its bill; ``turns`` are predicted, ``left_out`` are not.
    """

    turns: int
    left_out: int
    predicted: int
    billed: int
    error: float

    @property
    def sentence(self) -> str:
        """For the page and the command."""
        if not self.turns:
            turns = plural(self.left_out, "turn")
            return f"No bill was predicted: {turns}, all first requests or without a count or price."
        share = abs(self.predicted - self.billed) / self.billed if self.billed else 0.0
        way = "less" if self.predicted < self.billed else "more"
        reasons = "first requests, hidden rounds or no count"
        rest = f"; {plural(self.left_out, 'turn')} left out ({reasons})" if self.left_out else ""
        return (
            f"Predicted before each of {plural(self.turns, 'turn')}: {dollars_text(self.predicted)}, which is"
            f" {percent_text(share, 1)} {way} than the bill of {dollars_text(self.billed)}; the median turn was off by"
            f" {percent_text(self.error, 1)}{rest}."
        )


@attrs.frozen
class _Counted:
    """The last prompt of a branch: the provider's count and the estimate. ``growth``: both, of all that was added."""

    model: str | None
    counted: int
    estimated: int
    growth: tuple[int, int] = (0, 0)

    def follow(self, row: Row) -> "_Counted":
        counted, estimated = row["counted"] - self.counted, row["estimated"] - self.estimated
        is_growth = self.model == row["model"] and counted > 0 < estimated
        growth = (self.growth[0] + counted, self.growth[1] + estimated) if is_growth else self.growth
        return _Counted(row["model"], row["counted"], row["estimated"], growth)


def predict_bill(rows: Iterable[Row]) -> PredictedBill:
    """The predicted bill of a session, from the rows of ``saved_by_turn``."""
    last: dict[str, _Counted] = {}
    of_model: dict[str | None, _Counted] = {}
    pairs: list[tuple[int, int]] = []
    left_out = 0
    for row in rows:
        shared = of_model.get(row["model"]) if row["expected_read"] else None
        amounts = _predict(row, last.get(row["branch"], shared))
        if amounts is None:
            left_out += 1
        else:
            pairs.append(amounts)
        if row["counted"] and not row["far"]:
            known = last.get(row["branch"], _Counted(None, 0, 0))
            last[row["branch"]] = known.follow(row)
            of_model[row["model"]] = _Counted(row["model"], row["counted"], row["estimated"])
    errors = [abs(predicted - billed) / billed for predicted, billed in pairs if billed]
    return PredictedBill(
        turns=len(pairs),
        left_out=left_out,
        predicted=sum(predicted for predicted, _ in pairs),
        billed=sum(billed for _, billed in pairs),
        error=median(errors) if errors else 0.0,
    )


def _predict(row: Row, last: _Counted | None) -> tuple[int, int] | None:
    """The predicted and the actual cost of a turn, in nanodollars; None if it is left out."""
    billed = balance_of(row)
    if last is None or row["rounds"] != 1 or row["assumed"] or row["far"] or not row["counted"] or billed.unpriced:
        return None
    expected = Tokens(**{kind: row[f"expected_{kind}"] for kind in ("input", "read", "write_5m", "write_1h")})
    predicted = _scale(expected, _predict_size(row, last))
    predicted = attrs.evolve(predicted, output=billed.actual.output)
    amount = cost(predicted, row["model"], prompt=size_class(predicted.prompt), terms=terms_in(row))
    return None if amount is None else (amount, billed.nanodollars)


def _predict_size(row: Row, last: _Counted) -> int:
    """The size of a prompt: the counted size of the branch's last one, and the estimated growth, at the scale of all
    earlier growth, if there is any. A smaller prompt has the scale of the last one.
    """
    if last.model != row["model"] or not last.estimated:
        return int(row["estimated"])
    growth, scale = row["estimated"] - last.estimated, last.growth
    if not all(scale):
        scale = (1, 1) if growth > 0 else (last.counted, last.estimated)
    return max(0, round(last.counted + Fraction(growth * scale[0], scale[1])))


def _scale(expected: Tokens, size: int) -> Tokens:
    """The usage by the cache rules at a predicted size: the growth is behind the part that is read."""
    read = min(expected.read, size)
    parts = (Fraction(expected.write_5m), Fraction(expected.write_1h), Fraction(expected.input))
    new = size - read
    write_5m, write_1h, rest = apportion(new, parts) if new and any(parts) else (0, 0, new)
    return Tokens(input=rest, read=read, write_5m=write_5m, write_1h=write_1h)
