"""A line through numbers, of braille dots."""

from collections.abc import Sequence
from itertools import pairwise

from mnemosyne.figures import count_text

# A braille character holds two columns of four dots; the bits of each, from the top.
_BLANK = 0x2800
_DOTS = ((0x01, 0x02, 0x04, 0x40), (0x08, 0x10, 0x20, 0x80))


def braille(values: Sequence[int], *, width: int, height: int) -> list[str]:
    """The values as a filled line, from 0 to the largest, with a scale at the left."""
    columns = _resample(values, 2 * width)
    top = max(columns, default=0) or 1
    rows = [[_BLANK] * -(-len(columns) // 2) for _ in range(height)]
    for x, value in enumerate(columns):
        for level in range(max(1, round(value / top * 4 * height))):
            row = height - 1 - level // 4
            rows[row][x // 2] |= _DOTS[x % 2][3 - level % 4]
    scale = {height - 1: "0", 0: count_text(top)}
    margin = max(len(text) for text in scale.values())
    return [f"{scale.get(index, '').rjust(margin)} {''.join(map(chr, row))}" for index, row in enumerate(rows)]


def _resample(values: Sequence[int], columns: int) -> list[int]:
    """About so many values, and never more: of many the largest of each part, so that no peak is lost."""
    if len(values) <= columns:
        return [value for value in values for _ in range(columns // len(values))] if values else []
    edges = [index * len(values) // columns for index in range(columns + 1)]
    return [max(values[start:end]) for start, end in pairwise(edges)]
