"""Line charts as SVG files, for the documentation."""

import math
from collections.abc import Mapping, Sequence

import attrs

WIDTH, HEIGHT = 660, 330
_LEFT, _RIGHT, _TOP, _BASE = 60, 630, 20, 280


@attrs.frozen
class Axis:
    """An axis: its title, and its tick labels by value; the first and the last value are its ends."""

    title: str
    ticks: Mapping[float, str]
    logarithmic: bool = False

    def share(self, value: float) -> float:
        """The place of a value: 0 at the first end, 1 at the last; values beyond an end are drawn there."""
        ends = min(self.ticks), max(self.ticks)
        first, last, here = (math.log(each) if self.logarithmic else each for each in (*ends, value))
        return min(max((here - first) / (last - first), 0), 1)


@attrs.frozen
class Line:
    """A line through the points (x, y)."""

    points: Sequence[tuple[float, float]]
    color: str
    dashed: bool = False


def draw_lines(title: str, x_axis: Axis, y_axis: Axis, lines: Mapping[str, Line], *, legend: int) -> str:
    """The lines by their names as SVG, with the names at ``legend`` units from the left."""
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" '
        'font-family="sans-serif" font-size="12">',
        f"<title>{title}</title>",
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#fff"/>',
    ]

    def x(value: float) -> float:
        return round(_LEFT + (_RIGHT - _LEFT) * x_axis.share(value), 1)

    def y(value: float) -> float:
        return round(_BASE - (_BASE - _TOP) * y_axis.share(value), 1)

    def write(left: float, top: float, text: str, anchor: str = "middle", fill: str = "#555") -> None:
        parts.append(f'<text x="{left}" y="{top}" text-anchor="{anchor}" fill="{fill}">{text}</text>')

    for value, label in x_axis.ticks.items():
        write(x(value), _BASE + 16, label)
    for value, label in y_axis.ticks.items():
        parts.append(f'<path d="M{_LEFT} {y(value)}H{_RIGHT}" stroke="#ddd"/>')
        write(_LEFT - 6, y(value) + 4, label, "end")
    write((_LEFT + _RIGHT) / 2, HEIGHT - 12, x_axis.title)
    write(_LEFT, 12, y_axis.title, "start")
    for number, (name, line) in enumerate(lines.items()):
        dashes = ' stroke-dasharray="5 4"' if line.dashed else ""
        style = f'stroke="{line.color}" stroke-width="2"{dashes}'
        path = "L".join(f"{x(left)} {y(top)}" for left, top in line.points)
        parts.append(f'<path d="M{path}" fill="none" {style}/>')
        parts += [f'<circle cx="{x(left)}" cy="{y(top)}" r="3" fill="{line.color}"/>' for left, top in line.points]
        parts.append(f'<path d="M{legend} {36 + 16 * number}h30" {style}/>')
        write(legend + 38, 40 + 16 * number, name, "start", line.color)
    return "\n".join([*parts, "</svg>"]) + "\n"
