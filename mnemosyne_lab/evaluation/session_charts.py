"""The two SVG charts of a session under one policy: the content of its prompts, and its cost so far."""

from collections.abc import Iterator, Sequence
from html import escape
from itertools import accumulate

from mnemosyne.figures import printable
from mnemosyne.services.charts import HEIGHT, WIDTH, Plane, area, count_text, curve, grid, nothing, picture, px, ticks
from mnemosyne_lab.evaluation.report_series import LAYERS, DrawnEpoch, Series

_LEFT, _RIGHT, _TOP, _BASE = 56, WIDTH - 12, 22, HEIGHT - 36
_LABELS_APART = 16
"""The least distance of two epoch numbers, for legibility."""

_EMPTY = nothing("No turns were recorded.")


def context_chart(series: Series, name: str, about: str) -> str:
    """Chart the tokens of each prompt by fidelity, with the client's own request for comparison."""
    label = f"Context by fidelity over turns: {about}"
    if not series.turns:
        return picture(name, label, _EMPTY)
    tops = list(accumulate((series.layers[layer] for layer in LAYERS), _add))
    plane = _plane(series, max(*tops[-1], *series.unmanaged, 1))
    # Upper layers are drawn first, because each covers all below it.
    layers = [
        area(layer, plane, list(zip(series.turns, top, strict=True))) for layer, top in zip(LAYERS, tops, strict=True)
    ]
    unmanaged = [(turn + 0.5, tokens) for turn, tokens in zip(series.turns, series.unmanaged, strict=True)]
    parts = [*_frame(plane, "tokens"), *reversed(layers), curve("unmanaged", plane, unmanaged), *_cuts(plane, series)]
    return picture(name, label, "".join(parts))


def bill_chart(series: Series, name: str, about: str) -> str:
    """Chart the cost after each turn, managed and not, with the price of each epoch on the same scale."""
    label = f"Bill so far with and without management: {about}"
    if not series.turns:
        return picture(name, label, _EMPTY)
    plane = _plane(series, max(*series.billed, *series.shadow, 1))
    parts = [*_frame(plane, "tokens of input")]
    for line, amounts in (("unmanaged", series.shadow), ("actual", series.billed)):
        after = [(turn + 1.0, float(amount)) for turn, amount in zip(series.turns, amounts, strict=True)]
        parts.append(curve(line, plane, [(plane.first, 0.0), *after]))
    parts += [_price(plane, epoch) for epoch in series.epochs]
    return picture(name, label, "".join(parts))


def _add(below: Sequence[int], layer: Sequence[int]) -> Sequence[int]:
    return [low + high for low, high in zip(below, layer, strict=True)]


def _plane(series: Series, highest: int) -> Plane:
    first, last = series.turns[0], series.turns[-1] + 1
    return Plane(left=_LEFT, right=_RIGHT, top=_TOP, base=_BASE, first=first, last=last, highest=highest)


def _frame(plane: Plane, unit: str) -> Iterator[str]:
    yield from grid(plane, ticks(plane.highest))
    first, last = int(plane.first), int(plane.last) - 1
    for turn in [first, *(tick for tick in ticks(last) if tick > first)]:
        yield f'<text class="across" x="{px(plane.x(turn + 0.5))}" y="{_BASE + 16}">{turn}</text>'
    yield f'<text class="unit" x="{_RIGHT}" y="{HEIGHT - 6}">turn</text>'
    yield f'<text class="start" x="4" y="{_TOP - 8}">{unit}</text>'


def _cuts(plane: Plane, series: Series) -> Iterator[str]:
    end = -float(_LABELS_APART)
    for number, epoch in enumerate(series.epochs, 1):
        x, told = plane.x(epoch.turn), escape(printable(epoch.reason))
        at = px(x)
        title = f"<title>epoch {number}, before turn {epoch.turn}: {told}</title>"
        yield f'<line class="cut" x1="{at}" y1="{_TOP}" x2="{at}" y2="{_BASE}">{title}</line>'
        if x - end >= _LABELS_APART:
            yield f'<text class="across" x="{at}" y="{_TOP - 6}">{number}</text>'
            end = x


def _price(plane: Plane, epoch: DrawnEpoch) -> str:
    """A vertical line as high as the price, and a horizontal one until it had paid off."""
    x, y = px(plane.x(epoch.turn)), px(min(plane.y(max(0, epoch.price)), plane.base - 2))
    paid = epoch.paid is not None
    end = px(plane.x(epoch.turn + epoch.paid + 1) if epoch.paid is not None else plane.right)
    title = f"<title>before turn {epoch.turn}: {count_text(epoch.price)} tokens of input</title>"
    return (
        f'<line class="price" x1="{x}" y1="{px(plane.base)}" x2="{x}" y2="{y}">{title}</line>'
        f'<line class="{"paid" if paid else "unpaid"}" x1="{x}" y1="{y}" x2="{end}" y2="{y}"/>'
        + (f'<circle class="paid" cx="{end}" cy="{y}" r="3"/>' if paid else "")
    )
