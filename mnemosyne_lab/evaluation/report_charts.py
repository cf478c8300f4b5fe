"""The chart of all policies together, as SVG: the bill against the faults."""

import math
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from typing import Any

import attrs

from mnemosyne.figures import printable
from mnemosyne.services.charts import WIDTH, Plane, grid, nothing, picture, px, ticks

_HEIGHT, _LEFT, _RIGHT, _TOP, _BOTTOM = 440, 56, 130, 20, 44
_LINE = 14
_LONGEST = 28
"""Characters of a label."""


@attrs.frozen
class _Point:
    name: str
    ratio: float
    faults: float
    silent: int
    bound: bool

    @property
    def words(self) -> str:
        silent = f", {self.silent} of them silent in all" if self.silent else ""
        bound = " (a bound)" if self.bound else ""
        name = printable(self.name)
        return f"{name}: billed {self.ratio:.3f}, {self.faults:.1f} faults per thousand demands{silent}{bound}"


def frontier_chart(policies: Mapping[str, Any]) -> str:
    """Every policy as a point: its billed ratio across, its faults for a thousand demands up."""
    points = [
        _Point(name, told["billed_ratio"], told["faults_per_thousand_demands"], told["silent"], policy["bound"])
        for name, policy in policies.items()
        for told in (policy["totals"],)
        if told["billed_ratio"] is not None and told["faults_per_thousand_demands"] is not None
    ]
    if not points:
        sentence = "No policy has both a bill and demands."
        return picture("frontier", sentence, nothing(sentence))
    plane = _plane(points)
    marks = (_mark(point, plane) for point in points)
    inner = "".join([*_list_axes(plane), _stairs(points, plane), *marks, *_list_labels(points, plane)])
    return picture("frontier", "; ".join(point.words for point in points), inner, height=_HEIGHT)


def _plane(points: Sequence[_Point]) -> Plane:
    """The ratio axis spans whole tenths and need not start at zero."""
    ratios = [point.ratio for point in points] + [1.0]
    # A bound that spares no specifics has faults beyond all others; it must not press those into one line.
    faults = [point.faults for point in points if not point.bound]
    return Plane(
        left=_LEFT,
        right=WIDTH - _RIGHT,
        top=_TOP,
        base=_HEIGHT - _BOTTOM,
        first=max(0, math.floor(min(ratios) * 10 - 0.25)) / 10,
        last=math.ceil(max(ratios) * 10 + 0.25) / 10,
        highest=1.05 * max([*faults, 1.0]),
    )


def _list_axes(plane: Plane) -> Iterator[str]:
    yield from grid(plane, ticks(plane.highest), str)
    first, last = round(plane.first * 10), round(plane.last * 10)
    for tenth in range(first, last + 1, math.ceil((last - first) / 12)):
        yield f'<text class="across" x="{px(plane.x(tenth / 10))}" y="{plane.base + 16}">{tenth / 10:.1f}</text>'
    one = px(plane.x(1))
    yield f'<line class="even" x1="{one}" x2="{one}" y1="{_TOP}" y2="{plane.base}"/>'
    yield f'<text class="small" x="{one}" y="{_TOP - 6}">costs the same</text>'
    yield f'<text class="unit" x="{WIDTH - _RIGHT}" y="{_HEIGHT - 6}">billed ratio</text>'
    yield f'<text class="start" x="4" y="{_TOP - 6}">faults per 1000 demands</text>'


def find_undominated(places: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """The pairs of (bill, faults) that no other pair beats in both, cheapest first."""
    kept: list[tuple[float, float]] = []
    for place in sorted(places):
        if not kept or place[1] < kept[-1][1]:
            kept.append(place)
    return kept


def _stairs(points: Sequence[_Point], plane: Plane) -> str:
    path = ""
    for ratio, faults in find_undominated([(point.ratio, point.faults) for point in points if not point.bound]):
        x, y = px(plane.x(ratio)), px(plane.y(faults))
        path += f"H{x}V{y}" if path else f"M{x} {y}"
    return f'<path class="stairs" d="{path}"/>' if path else ""


def _mark(point: _Point, plane: Plane) -> str:
    x, y = plane.x(point.ratio), plane.y(point.faults)
    title = f"<title>{escape(point.words)}</title>"
    if point.bound:
        line = f'<line class="bound" x1="{px(x)}" x2="{px(x)}" y1="{_TOP}" y2="{_HEIGHT - _BOTTOM}"/>'
        return f'{line}<path class="bound" d="M{px(x - 6)} {px(y)}l6-6l6 6l-6 6Z">{title}</path>'
    if point.silent:
        return f'<rect class="silent" x="{px(x - 5)}" y="{px(y - 5)}" width="10" height="10">{title}</rect>'
    return f'<circle class="point" cx="{px(x)}" cy="{px(y)}" r="5">{title}</circle>'


def _list_labels(points: Sequence[_Point], plane: Plane) -> Iterator[str]:
    """Place each name to the right of its point, moved vertically where it would overlap, with a leader line."""
    marks = [(plane.x(point.ratio), plane.y(point.faults)) for point in points]
    taken: list[tuple[float, float, float]] = [(x - 5, x + 5, y) for x, y in marks]
    for point in sorted(points, key=lambda point: (point.faults, point.ratio)):
        shown = printable(point.name)
        name = escape(shown if len(shown) <= _LONGEST else shown[: _LONGEST - 1] + "…")
        name += f" (above: {point.faults:.0f})" if point.faults > plane.highest else ""
        x, y = plane.x(point.ratio) + 10, plane.y(point.faults)
        width = 7.0 * len(name)
        beside = [other for start, end, other in taken if x < end and start < x + width]
        # The nearest place inside the chart that is a line away from the others.
        inside = (y, *range(_TOP, _HEIGHT - _BOTTOM + 1))
        free = [place for place in inside if all(abs(place - other) >= _LINE for other in beside)]
        low = min(free, key=lambda place: abs(place - y), default=y)
        taken.append((x, x + width, low))
        if abs(y - low) > 2:
            yield f'<line class="leader" x1="{px(x - 8)}" x2="{px(x - 1)}" y1="{px(y)}" y2="{px(low)}"/>'
        yield f'<text class="label" x="{px(x)}" y="{px(low)}">{name}</text>'
