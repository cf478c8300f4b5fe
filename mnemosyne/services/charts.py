"""Charts as SVG: the coordinates, scales and labels that all of them share, and lines over turns as a picture of its
own.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from html import escape
from itertools import groupby

import attrs

WIDTH, HEIGHT = 960, 320
"""Of a chart in a page, in its own units; the page fits it to its width."""


def picture(name: str, label: str, inner: str = "", *, height: int = HEIGHT) -> str:
    """An SVG element that a screen reader calls by its label."""
    box = f'viewBox="0 0 {WIDTH} {height}"'
    return f'<svg id="{name}" {box} role="img" aria-label="{escape(label)}">{inner}</svg>'


def nothing(sentence: str) -> str:
    """What a chart shows that has nothing to draw."""
    return f'<text class="across" x="{WIDTH // 2}" y="{HEIGHT // 2}">{sentence}</text>'


@attrs.frozen(kw_only=True)
class Plane:
    """The part of a picture where values are drawn. Those from ``first`` to ``last`` lie between ``left`` and
    ``right``, those from 0 to ``highest`` between ``base`` and ``top``; what is higher lies at the top.
    """

    left: float
    right: float
    top: float
    base: float
    first: float
    last: float
    highest: float

    def x(self, value: float) -> float:
        """How far right a value lies."""
        return self.left + (value - self.first) / ((self.last - self.first) or 1) * (self.right - self.left)

    def y(self, value: float) -> float:
        """How far down a value lies."""
        return self.base - min(value / self.highest, 1) * (self.base - self.top)


Place = tuple[float, float]
"""Where a value lies: how far right, how far down."""

OFF = 0.2
"""By so little a line may miss its places, in a picture's units: nobody sees that, and most places are not needed."""


def simplify(places: Sequence[Place]) -> list[Place]:
    """Those of a line's places, from left to right, that it needs to miss none of the others by more than ``OFF``."""
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
    """Places as SVG has them in ``points``."""
    return " ".join(f"{px(x)},{px(y)}" for x, y in places)


def px(value: float) -> str:
    """A coordinate: to the nearest tenth, halves up."""
    return f"{math.floor(value * 10 + 0.5) / 10:g}"


def ticks(top: float, span: float | None = None) -> list[int]:
    """Round numbers from 0 to ``top``, as far apart as if at most six were to reach ``span``, by default ``top``."""
    step = 1
    while (span or top) / step > 5:
        step = step * 5 // 2 if str(step)[0] == "2" else step * 2
    return list(range(0, math.floor(top) + 1, step))


def count_text(count: float) -> str:
    """``950``, ``12.3k``, ``-1.2M``."""
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(count) >= size:
            return f"{px(count / size)}{unit}"
    return f"{count:g}"


# What is drawn on a plane; its colours are those of the page that it stands in


def grid(plane: Plane, heights: Iterable[float], name: Callable[[float], str] = count_text) -> Iterator[str]:
    """Lines across a plane, each with its name at the left."""
    for height in heights:
        y = px(plane.y(height))
        yield f'<line class="grid" x1="{px(plane.left)}" y1="{y}" x2="{px(plane.right)}" y2="{y}"/>'
        yield f'<text class="up" x="{px(plane.left - 6)}" y="{y}">{name(height)}</text>'


def area(name: str, plane: Plane, values: Sequence[tuple[int, int]]) -> str:
    """What lies below some heights, each that of a turn, in steps: every turn is as wide as any."""
    steps = [f"M{px(plane.x(values[0][0]))} {px(plane.base)}"]
    for height, run in groupby(values, lambda each: px(plane.y(each[1]))):
        *_, (last, _) = run
        steps.append(f"V{height}H{px(plane.x(last + 1))}")
    return f'<path class="{name}" d="{"".join(steps)}V{px(plane.base)}Z"/>'


def curve(name: str, plane: Plane, values: Sequence[tuple[float, float]]) -> str:
    """A line through values from left to right, called by its name."""
    points = points_text(simplify([(plane.x(across), plane.y(up)) for across, up in values]))
    return f'<polyline class="line {name}" points="{points}"><title>{name}</title></polyline>'


# Lines over turns, as a file

Points = Sequence[tuple[int, int]]
"""Turns, each with a height."""

COLOURS = ("#2563eb", "#d97706", "#059669", "#dc2626", "#7c3aed", "#0891b2", "#be185d", "#4d7c0f")
"""Of more lines, none could be told from all others."""

_SIZE = (900, 420)
_NAME_WIDTH = 110


def line_chart(title: str, lines: Mapping[str, Points], *, across: str, up: str) -> str:
    """An SVG file of lines with their names; ``across`` and ``up`` say what the axes are."""
    width, height = _SIZE
    places = [point for points in lines.values() for point in points]
    plane = Plane(
        left=70,
        right=width - 20,
        top=50,
        base=height - 50,
        first=1,
        last=max((turn for turn, _ in places), default=1),
        highest=max((value for _, value in places), default=1) or 1,
    )
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif"'
        ' font-size="12" fill="#334155">',
        f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
        f'<text x="{plane.left}" y="24" font-size="15">{escape(title)}</text>',
        *_axes(plane, height - 12, across, up),
        *(_line(plane, height - 12, index, *line) for index, line in enumerate(lines.items())),
        "</svg>\n",
    ]
    return "\n".join(parts)


def _axes(plane: Plane, foot: int, across: str, up: str) -> list[str]:
    parts = []
    for value in ticks(plane.highest):
        y, name = px(plane.y(value)), count_text(value)
        parts.append(f'<line x1="{plane.left}" y1="{y}" x2="{plane.right}" y2="{y}" stroke="#e2e8f0"/>')
        parts.append(f'<text x="{plane.left - 8}" y="{y}" text-anchor="end" dominant-baseline="middle">{name}</text>')
    parts += [
        f'<text x="{px(plane.x(turn))}" y="{plane.base + 18}" text-anchor="middle">{turn}</text>'
        for turn in [1, *(tick for tick in ticks(plane.last) if tick > 1)]
    ]
    parts.append(f'<text x="{plane.right}" y="{foot}" text-anchor="end">{escape(across)}</text>')
    parts.append(f'<text x="{plane.left}" y="42" fill="#64748b">{escape(up)}</text>')
    return parts


def _line(plane: Plane, foot: int, index: int, name: str, points: Points) -> str:
    colour = COLOURS[index % len(COLOURS)]
    places = [(px(plane.x(turn)), px(plane.y(value))) for turn, value in points]
    path = " ".join(f"{x},{y}" for x, y in places)
    dots = "".join(f'<circle cx="{x}" cy="{y}" r="2" fill="{colour}"/>' for x, y in places)
    label = f'<text x="{plane.left + _NAME_WIDTH * index}" y="{foot}" fill="{colour}">{escape(name)}</text>'
    return f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="1.5"/>{dots}{label}'
