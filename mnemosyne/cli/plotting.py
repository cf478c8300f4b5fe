"""A line through numbers: in the terminal, of braille dots, and as an SVG file."""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from xml.sax.saxutils import escape

from mnemosyne.cli.figures import count_text

# A braille character holds two columns of four dots; the bits of each, from the top.
_BLANK = 0x2800
_DOTS = ((0x01, 0x02, 0x04, 0x40), (0x08, 0x10, 0x20, 0x80))

Points = Sequence[tuple[int, int]]
"""Where on the line, and how high."""

COLOURS = ("#2563eb", "#d97706", "#059669", "#dc2626", "#7c3aed", "#0891b2", "#be185d", "#4d7c0f")


def braille(values: Sequence[int], *, width: int, height: int) -> list[str]:
    """The values as a filled line, from 0 to the largest, with a scale at the left."""
    columns = _resampled(values, 2 * width)
    top = max(columns, default=0) or 1
    rows = [[_BLANK] * -(-len(columns) // 2) for _ in range(height)]
    for x, value in enumerate(columns):
        for level in range(max(1, round(value / top * 4 * height))):
            row = height - 1 - level // 4
            rows[row][x // 2] |= _DOTS[x % 2][3 - level % 4]
    scale = {height - 1: "0", 0: count_text(top)}
    margin = max(len(text) for text in scale.values())
    return [f"{scale.get(index, '').rjust(margin)} {''.join(map(chr, row))}" for index, row in enumerate(rows)]


def _resampled(values: Sequence[int], columns: int) -> list[int]:
    """About so many values, and never more: of many the largest of each part, so that no peak is lost."""
    if len(values) <= columns:
        return [value for value in values for _ in range(columns // len(values))] if values else []
    edges = [index * len(values) // columns for index in range(columns + 1)]
    return [max(values[start:end]) for start, end in pairwise(edges)]


_WIDTH, _HEIGHT, _LEFT, _TOP, _RIGHT, _BOTTOM = 900, 420, 70, 50, 20, 50
_TICKS = 5


def svg(title: str, lines: Mapping[str, Points], *, across: str, up: str) -> str:
    """A picture of some lines with their names; ``across`` and ``up`` say what the axes are."""
    right = max((x for points in lines.values() for x, _ in points), default=1)
    top = max((y for points in lines.values() for _, y in points), default=1) or 1
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" font-family="sans-serif"'
        ' font-size="12" fill="#334155">',
        f'<rect width="{_WIDTH}" height="{_HEIGHT}" fill="#ffffff"/>',
        f'<text x="{_LEFT}" y="24" font-size="15">{escape(title)}</text>',
        *_axes(right, top, across, up),
    ]
    for index, (name, points) in enumerate(lines.items()):
        parts += _line(name, [_place(point, right, top) for point in points], index)
    return "\n".join([*parts, "</svg>", ""])


def _place(point: tuple[int, int], right: int, top: int) -> tuple[float, float]:
    x, y = point
    span = max(1, right - 1)
    return (
        _LEFT + (x - 1) / span * (_WIDTH - _LEFT - _RIGHT),
        _HEIGHT - _BOTTOM - y / top * (_HEIGHT - _TOP - _BOTTOM),
    )


def _axes(right: int, top: int, across: str, up: str) -> list[str]:
    parts = []
    for tick in range(_TICKS + 1):
        _, y = _place((1, top * tick // _TICKS), right, top)
        parts.append(f'<line x1="{_LEFT}" y1="{y:.1f}" x2="{_WIDTH - _RIGHT}" y2="{y:.1f}" stroke="#e2e8f0"/>')
        text = count_text(top * tick // _TICKS)
        parts.append(f'<text x="{_LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{text}</text>')
    for turn in sorted({1 + (right - 1) * tick // _TICKS for tick in range(_TICKS + 1)}):
        x, y = _place((turn, 0), right, top)
        parts.append(f'<text x="{x:.1f}" y="{y + 18:.1f}" text-anchor="middle">{turn}</text>')
    parts.append(f'<text x="{_WIDTH - _RIGHT}" y="{_HEIGHT - 12}" text-anchor="end">{escape(across)}</text>')
    parts.append(f'<text x="{_LEFT}" y="42" fill="#64748b">{escape(up)}</text>')
    return parts


def _line(name: str, places: Sequence[tuple[float, float]], index: int) -> list[str]:
    colour = COLOURS[index % len(COLOURS)]
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
    dots = [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2" fill="{colour}"/>' for x, y in places]
    label = f'<text x="{_LEFT + 110 * index}" y="{_HEIGHT - 12}" fill="{colour}">{escape(name)}</text>'
    return [f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="1.5"/>', *dots, label]
