"""Charts as SVG: shared coordinates, scales and labels."""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from html import escape
from itertools import groupby

import attrs

from mnemosyne.figures import count_text

WIDTH, HEIGHT = 960, 320
"""Size of a chart in its own units; the page fits it to its width."""


def picture(name: str, label: str, inner: str = "", *, height: int = HEIGHT, role: str = "img") -> str:
    """An SVG element with a label for screen readers. The role ``group`` is for one with links."""
    box = f'viewBox="0 0 {WIDTH} {height}"'
    return f'<svg id="{name}" {box} role="{role}" aria-label="{escape(label)}">{inner}</svg>'


def nothing(sentence: str) -> str:
    """The content of a chart without data."""
    return f'<text class="across" x="{WIDTH // 2}" y="{HEIGHT // 2}">{sentence}</text>'


@attrs.frozen(kw_only=True)
class Plane:
    """The plotting area of a chart. Values from ``first`` to ``last`` map to ``left`` to ``right``, values from 0 to
    ``highest`` to ``base`` to ``top``; higher values are clipped to the top.
    """

    left: float
    right: float
    top: float
    base: float
    first: float
    last: float
    highest: float

    def x(self, value: float) -> float:
        """The horizontal coordinate of a value."""
        return self.left + (value - self.first) / ((self.last - self.first) or 1) * (self.right - self.left)

    def y(self, value: float) -> float:
        """The vertical coordinate of a value."""
        return self.base - min(value / self.highest, 1) * (self.base - self.top)


Place = tuple[float, float]
"""The coordinates of a value: from the left, from the top."""

OFF = 0.2
"""Tolerance of a simplified line in chart units: invisible, and most points become unnecessary."""


def simplify(places: Sequence[Place]) -> list[Place]:
    """The points that a line needs, from left to right, to miss no other by more than ``OFF``."""
    kept = list(places[:1])
    lowest, highest, last = -math.inf, math.inf, None
    for x, y in places[1:]:
        across, up = x - kept[-1][0], y - kept[-1][1]
        if last is not None and not (across > 0 and lowest <= up / across <= highest):
            kept.append(last)
            lowest, highest = -math.inf, math.inf
            across, up = x - last[0], y - last[1]
        if across > 0:
            lowest, highest = max(lowest, (up - OFF) / across), min(highest, (up + OFF) / across)
        last = x, y
    return kept if last is None else [*kept, last]


def points_text(places: Sequence[Place]) -> str:
    """Points in the syntax of the SVG attribute ``points``."""
    return " ".join(f"{px(x)},{px(y)}" for x, y in places)


def px(value: float) -> str:
    """A coordinate: to the nearest tenth, halves up."""
    return f"{math.floor(value * 10 + 0.5) / 10:g}"


def ticks(top: float, span: float | None = None) -> list[int]:
    """Round numbers from 0 to ``top``, spaced so that at most six of them reach ``span``, by default ``top``."""
    step = 1
    while (span or top) / step > 5:
        step = step * 5 // 2 if str(step)[0] == "2" else step * 2
    return list(range(0, math.floor(top) + 1, step))


# Shapes in a plotting area; the page sets their colours


def grid(plane: Plane, heights: Iterable[float], name: Callable[[float], str] = count_text) -> Iterator[str]:
    """Horizontal grid lines, each with its label at the left."""
    for height in heights:
        y = px(plane.y(height))
        yield f'<line class="grid" x1="{px(plane.left)}" y1="{y}" x2="{px(plane.right)}" y2="{y}"/>'
        yield f'<text class="up" x="{px(plane.left - 6)}" y="{y}">{name(height)}</text>'


def area(name: str, plane: Plane, values: Sequence[tuple[int, int]]) -> str:
    """The area below a step function: one height per turn, all turns equally wide."""
    steps = [f"M{px(plane.x(values[0][0]))} {px(plane.base)}"]
    for height, run in groupby(values, lambda each: px(plane.y(each[1]))):
        *_, (last, _) = run
        steps.append(f"V{height}H{px(plane.x(last + 1))}")
    return f'<path class="{name}" d="{"".join(steps)}V{px(plane.base)}Z"/>'


def curve(name: str, plane: Plane, values: Sequence[tuple[float, float]]) -> str:
    """A line through values from left to right, titled with its name."""
    points = points_text(simplify([(plane.x(across), plane.y(up)) for across, up in values]))
    return f'<polyline class="line {name}" points="{points}"><title>{name}</title></polyline>'


def bar(name: str, parts: Sequence[tuple[str, str, int]], whole: int, height: int = 20) -> str:
    """One bar of ``whole`` units with a part for each (class, title, size), from left to right."""
    drawn, left = [], 0.0
    for kind, title, size in parts:
        width = WIDTH * size / (whole or 1)
        rectangle = f'<rect class="{kind}" x="{px(left)}" width="{px(width)}" height="{height}">'
        drawn.append(f"{rectangle}<title>{escape(title)}</title></rect>")
        left += width
    inner = "".join(drawn)
    return (
        f'<svg class="bar" viewBox="0 0 {WIDTH} {height}" preserveAspectRatio="none" role="img"'
        f' aria-label="{escape(name)}">{inner}</svg>'
    )
