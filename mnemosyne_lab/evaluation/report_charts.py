"""The chart of all policies together: the bill against the faults. The page's template draws it."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import attrs

from mnemosyne.figures import printable
from mnemosyne.services.charts import WIDTH, Plane, px

HEIGHT = 440
_LEFT, _RIGHT, _TOP, _BOTTOM = 56, 130, 20, 44
_LINE = 14
_LONGEST = 28
"""Characters of a label."""


@attrs.frozen
class FrontierPoint:
    """A policy: its billed ratio, its faults per thousand demands, and the total number of silent ones."""

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


def list_points(policies: Mapping[str, Any]) -> list[FrontierPoint]:
    """Every policy with a bill and demands, from the JSON report."""
    totals = {name: policy["totals"] for name, policy in policies.items()}
    return [
        FrontierPoint(name, ratio, faults, told["silent"], policies[name]["bound"])
        for name, told in totals.items()
        if (ratio := told["billed_ratio"]) is not None and (faults := told["faults_per_thousand_demands"]) is not None
    ]


def find_plane(points: Sequence[FrontierPoint]) -> Plane:
    """The ratio goes across, the faults up. The ratio axis spans whole tenths and need not start at zero."""
    ratios = [point.ratio for point in points] + [1.0]
    # A bound that spares no specifics has faults beyond all others; it must not press those into one line.
    faults = [point.faults for point in points if not point.bound]
    return Plane(
        left=_LEFT,
        right=WIDTH - _RIGHT,
        top=_TOP,
        base=HEIGHT - _BOTTOM,
        first=max(0, math.floor(min(ratios) * 10 - 0.25)) / 10,
        last=math.ceil(max(ratios) * 10 + 0.25) / 10,
        highest=1.05 * max([*faults, 1.0]),
    )


def list_tenths(plane: Plane) -> list[float]:
    """The labelled ratios, at most twelve."""
    first, last = round(plane.first * 10), round(plane.last * 10)
    return [tenth / 10 for tenth in range(first, last + 1, math.ceil((last - first) / 12))]


def find_undominated(places: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """The pairs of (bill, faults) that no other pair beats in both, cheapest first."""
    kept: list[tuple[float, float]] = []
    for place in sorted(places):
        if not kept or place[1] < kept[-1][1]:
            kept.append(place)
    return kept


def draw_frontier(points: Sequence[FrontierPoint], plane: Plane) -> str:
    """The SVG path along the undominated policies."""
    path = ""
    for ratio, faults in find_undominated([(point.ratio, point.faults) for point in points if not point.bound]):
        x, y = px(plane.x(ratio)), px(plane.y(faults))
        path += f"H{x}V{y}" if path else f"M{x} {y}"
    return path


def place_labels(points: Sequence[FrontierPoint], plane: Plane) -> list[tuple[str, float, float, float]]:
    """Each label: its text, its x and y, and the y of its point. It is to the right of the point, and moved vertically
    where it would overlap others.
    """
    marks = [(plane.x(point.ratio), plane.y(point.faults)) for point in points]
    taken: list[tuple[float, float, float]] = [(x - 5, x + 5, y) for x, y in marks]
    placed = []
    for point in sorted(points, key=lambda point: (point.faults, point.ratio)):
        shown = printable(point.name)
        name = shown if len(shown) <= _LONGEST else shown[: _LONGEST - 1] + "…"
        name += f" (above: {point.faults:.0f})" if point.faults > plane.highest else ""
        x, y = plane.x(point.ratio) + 10, plane.y(point.faults)
        width = 7.0 * len(name)
        beside = [other for start, end, other in taken if x < end and start < x + width]
        # The nearest place inside the chart that is a line away from the others.
        inside = (y, *range(_TOP, HEIGHT - _BOTTOM + 1))
        free = [place for place in inside if all(abs(place - other) >= _LINE for other in beside)]
        low = min(free, key=lambda place: abs(place - y), default=y)
        taken.append((x, x + width, low))
        placed.append((name, x, low, y))
    return placed
