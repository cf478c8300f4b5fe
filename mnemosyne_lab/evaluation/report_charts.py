"""The charts of all policies together, as SVG: faults by distance, and the bill against the faults."""

import math
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

import attrs

from mnemosyne.figures import printable
from mnemosyne.services.charts import WIDTH, Plane, count_text, grid, nothing, picture, px, ticks
from mnemosyne_lab.evaluation.report_figures import managing
from mnemosyne_lab.evaluation.results import Evaluation

_PANELS, _PANEL_HEIGHT = 4, 120
_DISTANCES = ((1, 1), (2, 2), (3, 4), (5, 8), (9, 16), (17, 32), (33, 64), (65, None))


def distance_counts(distances: Sequence[int]) -> list[int]:
    """How many faults lie in each class of the histogram: up to 1 turn back, 2, 3 to 4, and so on by doubling."""
    edges = [last for _, last in _DISTANCES if last is not None]
    counts = [0] * len(_DISTANCES)
    for distance in distances:
        counts[sum(distance > edge for edge in edges)] += 1
    return counts


def distance_chart(evaluation: Evaluation, policies: Mapping[str, Any]) -> str:
    """Faults by distance: a panel for each policy that manages, all on one scale."""
    names = managing(policies)
    found = {
        policy.name: distance_counts([far for session in policy.sessions for far in session.fault_distances])
        for policy in evaluation.policies
        if policy.name in names
    }
    if not found:
        return picture("distances", "No policy evicted anything.", nothing("No policy evicted anything."))
    top = max(max(counts) for counts in found.values()) or 1
    panels = [_panel(index, name, counts, top) for index, (name, counts) in enumerate(found.items())]
    height = -(-len(panels) // _PANELS) * _PANEL_HEIGHT
    label = f"Faults by distance in turns, for {len(panels)} policies; the highest bar is {top} faults."
    return picture("distances", label, "".join(panels), height=height)


def _panel(index: int, name: str, counts: Sequence[int], top: int) -> str:
    width = WIDTH / _PANELS
    left, base = index % _PANELS * width + 8, (index // _PANELS + 1) * _PANEL_HEIGHT - 26
    step, room = (width - 24) / len(counts), _PANEL_HEIGHT - 58
    parts = [f'<text class="panel" x="{px(left)}" y="{base - room - 18}">{_short(name)}: {sum(counts)}</text>']
    parts.append(f'<line class="axis" x1="{px(left)}" x2="{px(left + width - 24)}" y1="{base}" y2="{base}"/>')
    for bar, (count, (first, last)) in enumerate(zip(counts, _DISTANCES, strict=True)):
        x, high = left + bar * step, count / top * room
        words = f"{first} or more" if last is None else f"{first}" if first == last else f"{first} to {last}"
        middle = px(x + step / 2)
        parts.append(f'<text class="small" x="{middle}" y="{base + 12}">{first}{"+" * (last is None)}</text>')
        if count:
            parts.append(
                f'<rect class="bar" x="{px(x + 1)}" width="{px(step - 3)}" y="{px(base - high)}"'
                f' height="{px(high)}"><title>{escape(printable(name))}: {count} faults, {words} turns back</title>'
                "</rect>"
                f'<text class="small" x="{middle}" y="{px(base - high - 3)}">{count_text(count)}</text>'
            )
    return "".join(parts)


def _short(name: str, longest: int = 28) -> str:
    shown = printable(name)
    return escape(shown if len(shown) <= longest else shown[: longest - 1] + "…")


_FRONTIER_HEIGHT, _LEFT, _RIGHT, _TOP, _BOTTOM = 440, 56, 130, 20, 44
_LINE = 14


@attrs.frozen
class _Point:
    name: str
    ratio: float
    faults: float
    silent: int
    bound: bool


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
    parts = [_axes(plane), _stairs([point for point in points if not point.bound], plane)]
    parts += [_mark(point, plane) for point in points]
    parts += _labels(points, plane)
    label = "; ".join(f"{point.name}: {_words(point)}" for point in points)
    return picture("frontier", printable(label), "".join(parts), height=_FRONTIER_HEIGHT)


def _plane(points: Sequence[_Point]) -> Plane:
    """Ratios are far from zero, and their axis need not begin there: it goes from a tenth to another."""
    ratios = [point.ratio for point in points] + [1.0]
    first, last = math.floor(min(ratios) * 10 - 0.25), math.ceil(max(ratios) * 10 + 0.25)
    # A bound that spares no specifics has faults beyond all others; it must not press those into one line.
    faults = [point.faults for point in points if not point.bound]
    return Plane(
        left=_LEFT,
        right=WIDTH - _RIGHT,
        top=_TOP,
        base=_FRONTIER_HEIGHT - _BOTTOM,
        first=max(0, first) / 10,
        last=last / 10,
        highest=1.05 * max([*faults, 1.0]),
    )


def _axes(plane: Plane) -> str:
    parts = [*grid(plane, ticks(plane.highest), str)]
    first, last = round(plane.first * 10), round(plane.last * 10)
    parts += [
        f'<text class="across" x="{px(plane.x(tenth / 10))}" y="{plane.base + 16}">{tenth / 10:.1f}</text>'
        for tenth in range(first, last + 1, math.ceil((last - first) / 12))
    ]
    one = px(plane.x(1))
    parts.append(f'<line class="even" x1="{one}" x2="{one}" y1="{_TOP}" y2="{plane.base}"/>')
    parts.append(f'<text class="small" x="{one}" y="{_TOP - 6}">costs the same</text>')
    parts.append(f'<text class="unit" x="{WIDTH - _RIGHT}" y="{_FRONTIER_HEIGHT - 6}">billed ratio</text>')
    parts.append(f'<text class="start" x="4" y="{_TOP - 6}">faults per 1000 demands</text>')
    return "".join(parts)


def find_undominated(places: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """Those of some (bill, faults) that no other beats in both; the cheapest first."""
    kept: list[tuple[float, float]] = []
    for place in sorted(places):
        if not kept or place[1] < kept[-1][1]:
            kept.append(place)
    return kept


def _stairs(points: Sequence[_Point], plane: Plane) -> str:
    path = ""
    for ratio, faults in find_undominated([(point.ratio, point.faults) for point in points]):
        x, y = px(plane.x(ratio)), px(plane.y(faults))
        path += f"H{x}V{y}" if path else f"M{x} {y}"
    return f'<path class="stairs" d="{path}"/>' if path else ""


def _mark(point: _Point, plane: Plane) -> str:
    x, y = plane.x(point.ratio), plane.y(point.faults)
    title = f"<title>{escape(printable(point.name))}: {_words(point)}</title>"
    if point.bound:
        line = f'<line class="bound" x1="{px(x)}" x2="{px(x)}" y1="{_TOP}" y2="{_FRONTIER_HEIGHT - _BOTTOM}"/>'
        return f'{line}<path class="bound" d="M{px(x - 6)} {px(y)}l6-6l6 6l-6 6Z">{title}</path>'
    if point.silent:
        return f'<rect class="silent" x="{px(x - 5)}" y="{px(y - 5)}" width="10" height="10">{title}</rect>'
    return f'<circle class="point" cx="{px(x)}" cy="{px(y)}" r="5">{title}</circle>'


def _words(point: _Point) -> str:
    silent = f", {point.silent} of them silent in all" if point.silent else ""
    bound = " (a bound)" if point.bound else ""
    return f"billed {point.ratio:.3f}, {point.faults:.1f} faults per thousand demands{silent}{bound}"


def _labels(points: Sequence[_Point], plane: Plane) -> list[str]:
    """A name at the right of each point, moved up or down to where nothing else is, with a line to its point."""
    marks = [(plane.x(point.ratio), plane.y(point.faults)) for point in points]
    taken: list[tuple[float, float, float]] = [(x - 5, x + 5, y) for x, y in marks]
    parts = []
    for point in sorted(points, key=lambda point: (point.faults, point.ratio)):
        name = _short(point.name) + (f" (above: {point.faults:.0f})" if point.faults > plane.highest else "")
        x, y = plane.x(point.ratio) + 10, plane.y(point.faults)
        width = 7.0 * len(name)
        beside = [other for start, end, other in taken if x < end and start < x + width]
        low = _free(y, beside)
        taken.append((x, x + width, low))
        if abs(y - low) > 2:
            parts.append(f'<line class="leader" x1="{px(x - 8)}" x2="{px(x - 1)}" y1="{px(y)}" y2="{px(low)}"/>')
        parts.append(f'<text class="label" x="{px(x)}" y="{px(low)}">{name}</text>')
    return parts


def _free(y: float, others: Sequence[float]) -> float:
    """The place nearest to ``y``, inside the chart, that is a line away from the others."""
    inside = range(_TOP, _FRONTIER_HEIGHT - _BOTTOM + 1)
    free = [place for place in (y, *inside) if all(abs(place - other) >= _LINE for other in others)]
    return min(free, key=lambda place: abs(place - y), default=y)
