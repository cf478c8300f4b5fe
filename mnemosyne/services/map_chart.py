"""A context map as SVG: turns to the right, tokens upward, one band per object in wire order, coloured by its fidelity;
rewrites are cuts, faults are dots, and a strip below shows the share read from the provider's cache.
"""

from collections.abc import Iterator, Sequence
from html import escape
from itertools import groupby, pairwise

import attrs

from mnemosyne.domain.objects.fidelity import Fidelity
from mnemosyne.figures import count_text
from mnemosyne.services.charts import (
    WIDTH,
    Plane,
    area,
    grid,
    nothing,
    picture,
    points_text,
    px,
    simplify,
    ticks,
)
from mnemosyne.services.context_map import ContextMap, MapTurn, Span

HEIGHT = 380
_LEFT, _RIGHT, _TOP, _BASE = 56, WIDTH - 8, 28, 318
_STRIP = (_BASE + 8, 10)
"""The top of the cache strip, and its height."""

THIN = 0.4
"""Height in units below which bands are drawn together with their neighbours."""

NEAR = 1.3
"""The window's limit is drawn if it is at most this many times the highest prompt."""


@attrs.frozen
class _Band:
    """One rectangle: a single object, or ``count`` neighbours too thin to be visible."""

    first: int
    last: int
    below: int
    tokens: int
    fidelity: Fidelity
    object: str | None
    kind: str
    count: int = 1


KEY = {
    "L0": "L0 full",
    "L1": "L1 detailed",
    "L2": "L2 compact",
    "L3": "L3 one line",
    "fixed": "system prompt and tools",
    "rest": "everything else, such as memory notes",
    "line cut": "compaction",
    "line limit": "usable tokens",
    "missed": "needed again",
    "hit": "cached",
    "miss": "not cached",
}
"""What the elements of the map show, by their classes: for the key next to the map and for the elements' own titles."""


def map_chart(windows: Sequence[ContextMap], name: str = "map", beside: Sequence[ContextMap] = ()) -> str:
    """The SVG element of consecutive windows, with a sentence instead if there is nothing to draw. It uses the scales
    of the windows ``beside`` it, if they are larger.
    """
    label = f"Context of {', then '.join(each.branch for each in windows)} over its turns"
    shown = [each for each in windows if each.turns]
    if not shown:
        return picture(name, label, nothing("Nothing of this branch was remembered."), height=HEIGHT)
    other = [each for each in beside if each.turns] or shown
    first = min(shown[0].turns[0].turn, other[0].turns[0].turn)
    ranges, longest = _ranges(shown, first), max(_count(_ranges(each, first)) for each in (shown, other))
    highest = _find_highest([each for found in (*shown, *other) for each in found.turns])
    planes = list(_planes(ranges, highest, longest))
    parts = [*_scale(planes[0]), *_turn_numbers(planes), *map(_draw, shown, planes), *_joints(shown, planes)]
    return picture(name, label, "".join(parts), height=HEIGHT)


def _draw(found: ContextMap, plane: Plane) -> str:
    """One window. The page's script reads from its element which turn the pointer is at."""
    parts = [
        area("rest", plane, [(each.turn, each.tokens) for each in found.turns]),
        area("fixed", plane, [(each.turn, min(each.fixed, each.tokens)) for each in found.turns]),
        *(_rectangle(plane, each) for each in _bands(found, plane)),
        _limit(plane, found.turns),
        *_cuts(plane, found.turns),
        *_misses(plane, found.turns),
        *_cache(plane, found.turns),
    ]
    ends = {"first": plane.first, "last": plane.last, "left": plane.left, "right": plane.right}
    data = "".join(f' data-{end}="{value:g}"' for end, value in ends.items())
    return f'<g data-branch="{escape(found.branch)}"{data}>{"".join(parts)}</g>'


def _find_highest(turns: Sequence[MapTurn]) -> float:
    highest = max(each.tokens for each in turns)
    limit = max(each.fixed + each.usable for each in turns)
    return (limit if highest <= limit <= NEAR * highest else highest) or 1


def _ranges(windows: Sequence[ContextMap], first: int) -> list[range]:
    """The turns that fit in each window; the first has room from turn ``first`` on."""
    starts = [first, *(each.turns[0].turn for each in windows[1:])]
    return [range(start, each.turns[-1].turn + 1) for start, each in zip(starts, windows, strict=True)]


def _count(ranges: Sequence[range]) -> int:
    return sum(map(len, ranges))


def _planes(ranges: Sequence[range], highest: float, longest: int) -> Iterator[Plane]:
    """The area of each window: all turns are equally wide, and ``longest`` of them fill the chart."""
    left = float(_LEFT)
    for turns in ranges:
        right = left + len(turns) / longest * (_RIGHT - _LEFT)
        yield Plane(left=left, right=right, top=_TOP, base=_BASE, first=turns.start, last=turns.stop, highest=highest)
        left = right


def _bands(found: ContextMap, plane: Plane) -> Iterator[_Band]:
    """Nothing moves between two cuts: new objects are stacked on top."""
    first, last = found.turns[0].turn, found.turns[-1].turn
    heads = {each.turn: each.fixed for each in found.turns}
    spans = sorted(found.spans, key=lambda span: span.place)
    for start, end in pairwise([first, *(cut for cut in found.cuts if cut > first), last + 1]):
        here = [span for span in spans if span.tokens and span.first < end and span.last >= start]
        yield from _stack(here, start, end - 1, heads.get(start, 0), plane)


def _stack(spans: Sequence[Span], start: int, end: int, head: int, plane: Plane) -> Iterator[_Band]:
    below = head
    thin: list[_Band] = []
    for span in spans:
        band = _Band(
            max(span.first, start),
            min(span.last, end),
            below,
            span.tokens,
            span.fidelity,
            span.object.id,
            span.object.kind,
        )
        below += span.tokens
        if plane.y(0) - plane.y(span.tokens) < THIN and (not thin or thin[-1].fidelity is band.fidelity):
            thin.append(band)
            continue
        yield from _join(thin)
        thin = []
        yield band
    yield from _join(thin)


def _join(bands: Sequence[_Band]) -> Iterator[_Band]:
    if len(bands) < 2:
        yield from bands
        return
    first = bands[0]
    yield attrs.evolve(
        first,
        first=min(each.first for each in bands),
        last=max(each.last for each in bands),
        tokens=sum(each.tokens for each in bands),
        object=None,
        count=len(bands),
    )


def _rectangle(plane: Plane, band: _Band) -> str:
    x, end = plane.x(band.first), plane.x(band.last + 1)
    top, base = plane.y(band.below + band.tokens), plane.y(band.below)
    what = band.kind.replace("_", " ") if band.count == 1 else f"{band.count} small objects"
    level, size = KEY.get(band.fidelity.label, band.fidelity.label), count_text(band.tokens)
    title = f"{what}, {level}, {size} tokens, turns {band.first} to {band.last}"
    mark = f' data-object="{escape(band.object)}"' if band.object is not None else ""
    return (
        f'<rect class="{band.fidelity.label}"{mark} x="{px(x)}" y="{px(top)}" width="{px(max(end - x, 0.3))}"'
        f' height="{px(max(base - top, 0.2))}"><title>{escape(title)}</title></rect>'
    )


def _scale(plane: Plane) -> Iterator[str]:
    yield from grid(attrs.evolve(plane, right=_RIGHT), ticks(plane.highest))
    yield f'<text class="up" x="{_LEFT - 6}" y="{_STRIP[0] + _STRIP[1] / 2}">cache</text>'
    yield f'<text class="start" x="4" y="{_TOP - 16}">tokens</text>'
    yield f'<text class="unit" x="{_RIGHT}" y="{HEIGHT - 6}">turn</text>'


_APART = 28
"""Minimum distance between turn numbers, for legibility."""


def _turn_numbers(planes: Sequence[Plane]) -> Iterator[str]:
    """Each window's own turn numbers below it."""
    end = -float(_APART)
    most = max(int(plane.last) - int(plane.first) for plane in planes)
    for plane in planes:
        first, last = int(plane.first), int(plane.last) - 1
        for turn in [first, *(tick for tick in ticks(last, most) if tick > first)]:
            x = plane.x(turn + 0.5)
            if x - end >= _APART:
                yield f'<text class="across" x="{px(x)}" y="{_BASE + 36}">{turn}</text>'
                end = x


def _joints(windows: Sequence[ContextMap], planes: Sequence[Plane]) -> Iterator[str]:
    """Lines where the client continued in a compacted window of its own."""
    for found, plane in list(zip(windows, planes, strict=True))[1:]:
        title, x = escape(f"{found.branch} began here, with what the client kept"), px(plane.left)
        yield f'<line class="joint" x1="{x}" y1="{_TOP - 14}" x2="{x}" y2="{_BASE}"><title>{title}</title></line>'
        if plane.right - plane.left >= _NAMED:
            yield f'<text class="start" x="{px(plane.left + 4)}" y="{_TOP - 8}">{escape(found.branch)}</text>'


_NAMED = 80
"""Minimum width of a window that shows its name."""


def _limit(plane: Plane, turns: Sequence[MapTurn]) -> str:
    """The limit of the window, if it is within the chart."""
    shown = [each for each in turns if each.usable and each.fixed + each.usable <= plane.highest]
    if not shown:
        return ""
    points = points_text(simplify([(plane.x(each.turn + 0.5), plane.y(each.fixed + each.usable)) for each in shown]))
    return f'<polyline class="limit" points="{points}"><title>{KEY["line limit"]}</title></polyline>'


def _cuts(plane: Plane, turns: Sequence[MapTurn]) -> Iterator[str]:
    for each in turns:
        if each.epoch:
            x = px(plane.x(each.turn))
            title = f"{KEY['line cut']} before turn {each.turn}"
            yield f'<line class="cut" x1="{x}" y1="{_TOP}" x2="{x}" y2="{_BASE}"><title>{title}</title></line>'


def _misses(plane: Plane, turns: Sequence[MapTurn]) -> Iterator[str]:
    for each in turns:
        if each.missed:
            x, y = px(plane.x(each.turn + 0.5)), px(plane.y(each.tokens) - 5)
            title = f"turn {each.turn}: {each.missed} {KEY['missed']}"
            yield f'<circle class="missed" cx="{x}" cy="{y}" r="4"><title>{title}</title></circle>'


def _cache(plane: Plane, turns: Sequence[MapTurn]) -> Iterator[str]:
    """The cached share of each prompt; equal turns are merged."""
    top, height = _STRIP
    for state, group in groupby(turns, _find_hits):
        run = list(group)
        x, end = plane.x(run[0].turn), plane.x(run[-1].turn + 1)
        title = f"turns {run[0].turn} to {run[-1].turn}: {KEY.get(state, 'cache use unknown')}"
        yield (
            f'<rect class="cache {state}" x="{px(x)}" y="{top}" width="{px(end - x)}" height="{height}">'
            f"<title>{title}</title></rect>"
        )


MOSTLY = 0.5
"""Share of a prompt read from the cache above which a turn counts as a hit."""


def _find_hits(turn: MapTurn) -> str:
    if turn.read is None:
        return "unknown"
    return "hit" if turn.read >= MOSTLY * turn.tokens else "miss"
