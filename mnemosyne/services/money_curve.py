"""A branch's cost turn by turn, next to its simulated cost without Mnemosyne, as numbers and as SVG."""

from collections.abc import Sequence
from functools import partial

import attrs

from mnemosyne.figures import NANODOLLARS, amount_text, count_text, plural
from mnemosyne.services.charts import WIDTH, Plane, curve, grid, nothing, picture, px, ticks
from mnemosyne.services.read_models import Row
from mnemosyne.services.savings import Balance

HEIGHT = 240
_LEFT, _RIGHT, _TOP, _BASE = 56, WIDTH - 8, 22, 196


@attrs.frozen(kw_only=True)
class MoneyPoint:
    """The cost of a session's turns up to and including this one: ``actual`` as billed, ``unmanaged`` without
    Mnemosyne, ``expected`` by the rules of the provider's cache; in dollars, all but ``unmanaged`` include helpers.
    ``number`` counts the turns of all branches in the order of accounting.
    """

    number: int
    branch: str
    turn: int
    actual: float
    unmanaged: float
    expected: float


@attrs.frozen(kw_only=True)
class MoneyCurve:
    """The points in order, in ``dollars`` without ``unpriced`` replies, or in ``tokens of input`` without any price."""

    unit: str
    unpriced: int
    points: Sequence[MoneyPoint]


def money_curve(rows: Sequence[Row], balances: Sequence[Balance]) -> MoneyCurve:
    """The curve of a session, from the rows of ``saved_by_turn`` and their balances (``balances_of``)."""
    total = sum(balances, Balance())
    priced = total.is_priced or not total.replies
    sums = dict.fromkeys(_LINES, 0.0)
    points = []
    for number, (row, balance) in enumerate(zip(rows, balances, strict=False), 1):
        in_tokens = (balance.unmanaged, balance.expected, balance.billed)
        amounts = _in_dollars(balance) if priced else [float(amount) for amount in in_tokens]
        sums = {line: sums[line] + amount for line, amount in zip(_LINES, amounts, strict=True)}
        points.append(MoneyPoint(number=number, branch=row["branch"], turn=row["turn"], **sums))
    unit = "dollars" if priced else "tokens of input"
    return MoneyCurve(unit=unit, unpriced=total.unpriced if priced else 0, points=points)


def _in_dollars(balance: Balance) -> Sequence[float]:
    amounts = (balance.nanodollars_unmanaged, balance.nanodollars_expected + balance.helpers, balance.nanodollars)
    return [amount / NANODOLLARS for amount in amounts]


_LINES = ("unmanaged", "expected", "actual")


def money_chart(found: MoneyCurve) -> str:
    """The SVG element."""
    without = f", without {plural(found.unpriced, 'unpriced reply')}" if found.unpriced else ""
    label = f"What the session cost so far, in {found.unit}{without}"
    if not found.points:
        return picture("money", label, nothing("No turns are accounted for yet."), height=HEIGHT)
    highest = max(getattr(point, line) for point in found.points for line in _LINES) or 1
    plane = Plane(left=_LEFT, right=_RIGHT, top=_TOP, base=_BASE, first=0, last=len(found.points), highest=highest)
    parts = [*grid(plane, _ticks(highest), partial(render_amount, unit=found.unit))]
    parts += [
        f'<text class="across" x="{px(plane.x(turn))}" y="{_BASE + 18}">{turn}</text>'
        for turn in ticks(len(found.points))
        if turn
    ]
    parts.append(f'<text class="unit" x="{_RIGHT}" y="{HEIGHT - 6}">turn, of all branches</text>')
    for line in _LINES:
        places = [(0.0, 0.0), *((float(point.number), getattr(point, line)) for point in found.points)]
        parts.append(curve(line, plane, places))
    return picture("money", label, "".join(parts), height=HEIGHT)


def _ticks(highest: float) -> list[float]:
    """Round amounts, also below one."""
    scale = 1.0
    while highest * scale < 5:
        scale *= 10
    return [tick / scale for tick in ticks(highest * scale)]


def render_amount(amount: float, unit: str) -> str:
    return amount_text(amount) if unit == "dollars" else count_text(round(amount))
