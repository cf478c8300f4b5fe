"""The charts of one session, as SVG. The colours are classes, so that the page decides them for light, dark and print.

They are drawn a second time by ``report_page.js`` when the reader chooses another; a test holds
the two to the same text.
"""

import math
from collections.abc import Sequence
from html import escape
from itertools import accumulate

from mnemosyne.lab.evaluation.report_figures import count_text
from mnemosyne.lab.evaluation.report_series import LAYERS, Series

WIDTH, HEIGHT = 960, 320
LEFT, RIGHT, TOP, BOTTOM = 56, 12, 22, 36
_EPOCH_LABEL_GAP = 16


def picture(name: str, label: str, inner: str, *, height: int = HEIGHT) -> str:
    """An SVG that a screen reader calls by its label."""
    return f'<svg id="{name}" viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{escape(label)}">{inner}</svg>'


def context_chart(series: Series) -> str:
    """The context by fidelity over the turns, the unmanaged size as a line, and where the epochs are."""
    turns: Sequence[int] = series["turn"]
    if not turns:
        return nothing("No turns were recorded.")
    edges = list(accumulate((series[layer] for layer in LAYERS), _added, initial=[0] * len(turns)))
    top = max(*edges[-1], *series["unmanaged"], 1)
    parts = [_frame(turns, top)]
    for index, layer in enumerate(LAYERS):
        there = _places(turns, edges[index + 1], turns, top)
        back = _places(turns, edges[index], turns, top)[::-1]
        parts.append(f'<path class="area {layer}" d="M{"L".join(there + back)}Z"/>')
    parts.append(f'<path class="line unmanaged" d="M{"L".join(_places(turns, series["unmanaged"], turns, top))}"/>')
    last = -math.inf
    for number, epoch in enumerate(series["epochs"], 1):
        x = _across(epoch[0], turns)
        parts.append(f'<line class="epoch" x1="{px(x)}" x2="{px(x)}" y1="{TOP}" y2="{HEIGHT - BOTTOM}"/>')
        if x - last >= _EPOCH_LABEL_GAP:
            parts.append(f'<text class="epoch" x="{px(x)}" y="{TOP - 6}">{number}</text>')
            last = x
    return "".join(parts)


def money_chart(series: Series) -> str:
    """The bill so far with and without the policy; each epoch's price as a bar, and a line to when it had paid."""
    turns: Sequence[int] = series["turn"]
    if not turns:
        return nothing("No turns were recorded.")
    top = max(*series["billed"], *series["shadow"], 1)
    parts = [_frame(turns, top)]
    parts += [
        f'<path class="line {line}" d="M{"L".join(_places(turns, series[line], turns, top))}"/>'
        for line in ("shadow", "billed")
    ]
    base = HEIGHT - BOTTOM
    for turn, _, price, _, paid in series["epochs"]:
        x, y = _across(turn, turns), min(_up(max(0, price), top), base - 2)
        end = WIDTH - RIGHT if paid is None else _across(turn + paid, turns)
        state = "unpaid" if paid is None else "paid"
        parts.append(f'<line class="price" x1="{px(x)}" x2="{px(x)}" y1="{base}" y2="{px(y)}"/>')
        parts.append(f'<line class="{state}" x1="{px(x)}" x2="{px(end)}" y1="{px(y)}" y2="{px(y)}"/>')
        if paid is not None:
            parts.append(f'<circle class="paid" cx="{px(end)}" cy="{px(y)}" r="3"/>')
    return "".join(parts)


def _added(below: Sequence[int], layer: Sequence[int]) -> list[int]:
    return [a + b for a, b in zip(below, layer, strict=True)]


def _frame(turns: Sequence[int], top: int) -> str:
    parts = []
    for value in ticks(top):
        y = px(_up(value, top))
        parts.append(f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y}" y2="{y}"/>')
        parts.append(f'<text class="up" x="{LEFT - 6}" y="{y}">{count_text(value)}</text>')
    for value in [turns[0], *(tick for tick in ticks(turns[-1]) if tick > turns[0])]:
        x = px(_across(value, turns))
        parts.append(f'<text class="across" x="{x}" y="{HEIGHT - BOTTOM + 16}">{value}</text>')
    parts.append(f'<text class="name" x="{WIDTH - RIGHT}" y="{HEIGHT - 4}">turn</text>')
    return "".join(parts)


def _places(xs: Sequence[int], ys: Sequence[int], turns: Sequence[int], top: int) -> list[str]:
    return [f"{px(_across(x, turns))} {px(_up(y, top))}" for x, y in zip(xs, ys, strict=True)]


def _across(turn: int, turns: Sequence[int]) -> float:
    return LEFT + (turn - turns[0]) / max(1, turns[-1] - turns[0]) * (WIDTH - LEFT - RIGHT)


def _up(value: float, top: float) -> float:
    return HEIGHT - BOTTOM - value / top * (HEIGHT - TOP - BOTTOM)


def px(value: float) -> str:
    """A coordinate: to the nearest tenth, halves up, as JavaScript does it too."""
    return f"{math.floor(value * 10 + 0.5) / 10:g}"


def ticks(top: float) -> list[int]:
    """Round numbers from 0 to ``top``, at most six."""
    step = 1
    while top / step > 5:
        step = step * 5 // 2 if str(step)[0] == "2" else step * 2
    return list(range(0, math.floor(top) + 1, step))


def nothing(sentence: str) -> str:
    """What a chart shows that has nothing to draw."""
    return f'<text class="across" x="{WIDTH // 2}" y="{HEIGHT // 2}">{sentence}</text>'
