"""A context map as SVG: turns to the right, tokens upward, one band per object in wire order, coloured by its kind and
hatched if it is shortened; compactions are cuts, faults are dots, and a strip below shows the share read from the
provider's cache.
"""

from collections.abc import Iterator, Mapping, Sequence
from html import escape
from itertools import groupby, pairwise
from urllib.parse import quote

import attrs

from mnemosyne.domain.history.window_contents import KIND_NAMES, ContentKind, classify_object, name_object
from mnemosyne.domain.objects.events import ObjectFields
from mnemosyne.domain.objects.fidelity import Fidelity
from mnemosyne.domain.objects.kinds import KINDS
from mnemosyne.figures import count_text
from mnemosyne.services.charts import WIDTH, Plane, area, grid, nothing, picture, points_text, px, simplify, ticks
from mnemosyne.services.context_map import ContextMap, MapObject, MapTurn, Span
from mnemosyne.terminal import harmless

HEIGHT = 380
_LEFT, _RIGHT, _TOP, _BASE = 56, WIDTH - 8, 28, 318
_STRIP = (_BASE + 8, 10)
"""The top of the cache strip, and its height."""

THIN, THICK, MOST_BANDS = 0.4, 8.0, 700
"""Bands that are less than ``THIN`` units high are drawn together with their neighbours. In a window with more than
``MOST_BANDS`` bands the limit is doubled, up to ``THICK``: each band is a link with a title, which the page must carry.
"""

NEAR = 1.3
"""The window's limit is drawn if it is at most this many times the highest prompt."""


@attrs.frozen
class _Band:
    """A single object, or neighbours too thin to be visible: ``steps`` are their first turns and tokens, in order."""

    first: int
    last: int
    below: int
    tokens: int
    fidelity: Fidelity
    object: str | None
    kind: ContentKind
    label: str
    steps: Sequence[tuple[int, int]] = ()


LEVELS = {"L0": "L0 full", "L1": "L1 detailed", "L2": "L2 compact", "L3": "L3 one line"}
"""The names of the fidelities that have a size."""

MAPPED = (
    ContentKind.FILES,
    ContentKind.RESULTS,
    ContentKind.REMINDERS,
    ContentKind.PROMPTS,
    ContentKind.REPLIES,
)
"""The kinds of objects."""

KEY = {
    "fixed": "system prompt and tools",
    **{each.value: KIND_NAMES[each].lower() for each in MAPPED},
    "rest": "everything else, such as memory notes",
    "hatch": "shortened (the more gaps, the shorter)",
    "line cut": "compaction",
    "line limit": "usable tokens",
    "missed": "needed again",
    "hit": "cached",
    "miss": "not cached",
}
"""What the elements of the map show, by their classes: for the key next to the map and for the elements' own titles."""


_KINDS = {
    kind.value: ContentKind.FILES
    if traits.is_file
    else ContentKind.REPLIES
    if traits.is_conversation
    else ContentKind.RESULTS
    for kind, traits in KINDS.items()
}
"""The kind of an object of which only its own kind is known."""


@attrs.frozen
class MapLinks:
    """The objects of a map by id, which name its bands, and the address of its session; empty if there are no links."""

    objects: Mapping[str, ObjectFields] = attrs.field(factory=dict)
    session: str = ""

    def describe(self, known: MapObject) -> tuple[ContentKind, str]:
        made = self.objects.get(known.id)
        if made is not None:
            return classify_object(made), harmless(name_object(made))
        return _KINDS.get(known.kind, ContentKind.OTHER), ""

    def wrap(self, drawn: str, path: str) -> str:
        """A link around an element. It is not in the tab order: the tables of the page have the same links."""
        return f'<a href="{escape(self.session + path)}" tabindex="-1">{drawn}</a>' if self.session else drawn


def map_chart(
    windows: Sequence[ContextMap],
    name: str = "map",
    beside: Sequence[ContextMap] = (),
    links: MapLinks | None = None,
) -> str:
    """The SVG element of consecutive windows, with a sentence instead if there is nothing to draw. It uses the scales
    of the windows ``beside`` it, if they are larger.
    """
    label = f"Context of {', then '.join(each.branch for each in windows)} over its turns"
    shown = [each for each in windows if each.turns]
    if not shown:
        return picture(name, label, nothing("No turns of this branch are recorded."), height=HEIGHT)
    other = [each for each in beside if each.turns] or shown
    first = min(shown[0].turns[0].turn, other[0].turns[0].turn)
    ranges, longest = _ranges(shown, first), max(sum(map(len, _ranges(each, first))) for each in (shown, other))
    highest = _find_highest([each for found in (*shown, *other) for each in found.turns])
    planes = list(_planes(ranges, highest, longest))
    drawn = [_draw(each, plane, name, links or MapLinks()) for each, plane in zip(shown, planes, strict=True)]
    parts = [_patterns(name), *_scale(planes[0]), *_turn_numbers(planes), *drawn, *_joints(shown, planes)]
    role = "group" if links is not None and links.session else "img"
    return picture(name, label, "".join(parts), height=HEIGHT, role=role)


_GAPS = {"L1": 1.5, "L2": 3, "L3": 4.5}
"""The width of a gap in the hatching of a shortened object, of six units."""


def _patterns(name: str) -> str:
    """The hatching of each kind at each fidelity below full."""
    patterns = (
        f'<pattern id="{name}-{kind.value}-{level}" width="6" height="6" patternUnits="userSpaceOnUse"'
        f' patternTransform="rotate(45)"><rect class="{kind.value}" width="6" height="6"/>'
        f'<rect class="gap" width="{gap}" height="6"/></pattern>'
        for kind in (*MAPPED, ContentKind.OTHER)
        for level, gap in _GAPS.items()
    )
    return f"<defs>{''.join(patterns)}</defs>"


def _draw(found: ContextMap, plane: Plane, name: str, links: MapLinks) -> str:
    """One window. The page's script reads from its element which turn the pointer is at."""
    heads = _size_heads(found)
    thin, bands = THIN, list(_bands(found, heads, plane, links, THIN))
    while len(bands) > MOST_BANDS and thin < THICK:
        thin *= 2
        bands = list(_bands(found, heads, plane, links, thin))
    parts = [
        area("rest", plane, [(each.turn, each.tokens) for each in found.turns]),
        area("fixed", plane, list(heads.items())),
        *(_rectangle(plane, each, name, found.branch, links) for each in bands),
        *(_label(plane, each) for each in bands),
        _limit(plane, found.turns),
        *_cuts(plane, found, links),
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


def _planes(ranges: Sequence[range], highest: float, longest: int) -> Iterator[Plane]:
    """The area of each window: all turns are equally wide, and ``longest`` of them fill the chart."""
    left = float(_LEFT)
    for turns in ranges:
        right = left + len(turns) / longest * (_RIGHT - _LEFT)
        yield Plane(left=left, right=right, top=_TOP, base=_BASE, first=turns.start, last=turns.stop, highest=highest)
        left = right


def _size_heads(found: ContextMap) -> Mapping[int, int]:
    """The tokens of system prompt and tools at each turn, so that the first counted turn has no other difference
    between the provider's count and its objects.
    """
    scale = 1.0
    for each in found.turns:
        if each.counted is not None and each.fixed:
            objects = sum(span.tokens for span in found.standing_at(each.turn))
            scale = max(1.0, (each.counted - objects) / each.fixed)
            break
    return {each.turn: min(round(each.fixed * scale), each.tokens) for each in found.turns}


def _bands(found: ContextMap, heads: Mapping[int, int], plane: Plane, links: MapLinks, limit: float) -> Iterator[_Band]:
    """Nothing moves between two cuts: new objects are stacked on top."""
    first, last = found.turns[0].turn, found.turns[-1].turn
    spans = sorted(found.spans, key=lambda span: span.place)
    for start, end in pairwise([first, *(cut for cut in found.cuts if cut > first), last + 1]):
        here = [span for span in spans if span.tokens and span.first < end and span.last >= start]
        yield from _stack(here, range(start, end), heads.get(start, 0), plane, links, limit)


def _stack(
    spans: Sequence[Span], turns: range, head: int, plane: Plane, links: MapLinks, limit: float
) -> Iterator[_Band]:
    below = head
    thin: list[_Band] = []
    for span in spans:
        first, last = max(span.first, turns.start), min(span.last, turns.stop - 1)
        band = _Band(first, last, below, span.tokens, span.fidelity, span.object.id, *links.describe(span.object))
        height = plane.y(below) - plane.y(below + span.tokens)
        below += span.tokens
        if height < limit and (not thin or thin[-1].fidelity is band.fidelity):
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
        kind=max(bands, key=lambda each: each.tokens).kind,
        object=None,
        steps=[(each.first, each.tokens) for each in bands],
    )


def _rectangle(plane: Plane, band: _Band, name: str, branch: str, links: MapLinks) -> str:
    named = ": ".join(filter(None, (KIND_NAMES[band.kind], band.label[:120])))
    what = f"{len(band.steps)} small objects" if band.steps else named
    level = band.fidelity.label
    title = f"{what}, {LEVELS.get(level, level)}, {count_text(band.tokens)} tokens, turns {band.first} to {band.last}"
    look = f'class="{band.kind.value} {level}"'
    if band.fidelity is not Fidelity.FULL:
        look = f'class="{level}" fill="url(#{name}-{band.kind.value}-{level})"'
    mark = f' data-object="{escape(band.object)}"' if band.object is not None else ""
    place = f"/window?turn={band.first}&branch={quote(branch)}" if band.object is None else f"/object/{band.object}"
    shape = _staircase(plane, band) if band.steps else _box(plane, band)
    return links.wrap(f"<{shape[0]} {look}{mark} {shape[1]}><title>{escape(title)}</title></{shape[0]}>", place)


def _box(plane: Plane, band: _Band) -> tuple[str, str]:
    """The element of one object, and its attributes."""
    x, end = plane.x(band.first), plane.x(band.last + 1)
    top, base = plane.y(band.below + band.tokens), plane.y(band.below)
    size = f'width="{px(max(end - x, 0.3))}" height="{px(max(base - top, 0.2))}"'
    return "rect", f'x="{px(x)}" y="{px(top)}" {size}'


def _staircase(plane: Plane, band: _Band) -> tuple[str, str]:
    """The element of joined objects: each adds to the height from its first turn on."""
    base = px(plane.y(band.below))
    drawn, height, shown = [f"M{px(plane.x(band.first))} {base}"], band.below, base
    for first, tokens in sorted(band.steps):
        height += tokens
        if (top := px(plane.y(height))) != shown:
            drawn.append(f"H{px(plane.x(first))}V{top}")
            shown = top
    return "path", f'd="{"".join(drawn)}H{px(plane.x(band.last + 1))}V{base}Z"'


_LETTER, _LINE = 6.5, 13
"""The width of a letter and the height of a line of a label."""


def _label(plane: Plane, band: _Band) -> str:
    """The name of a band inside it, if it has room for it."""
    x, top, base = plane.x(band.first), plane.y(band.below + band.tokens), plane.y(band.below)
    room = int((plane.x(band.last + 1) - x - 8) / _LETTER)
    text = "" if band.steps else band.label.rpartition("/")[2]
    if not text or base - top < _LINE or room < min(len(text), _SHORTEST):
        return ""
    text = text if len(text) <= room else f"{text[: room - 1]}…"
    return f'<text class="name" x="{px(x + 4)}" y="{px((top + base) / 2)}">{escape(text)}</text>'


_SHORTEST = 8
"""Letters that a longer label keeps at least."""


def _scale(plane: Plane) -> Iterator[str]:
    yield from grid(attrs.evolve(plane, right=_RIGHT), ticks(plane.highest))
    yield f'<text class="up" x="{_LEFT - 6}" y="{_STRIP[0] + _STRIP[1] / 2}">cache</text>'
    yield f'<text class="start" x="4" y="{_TOP - 16}">tokens</text>'
    yield f'<text class="unit" x="{_RIGHT}" y="{HEIGHT - 6}">turn</text>'


_LAST = WIDTH - 16
"""The right-most position of a turn number."""

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
                yield f'<text class="across" x="{px(min(x, _LAST))}" y="{_BASE + 36}">{turn}</text>'
                end = x


def _joints(windows: Sequence[ContextMap], planes: Sequence[Plane]) -> Iterator[str]:
    """Lines where the client continued in a compacted window of its own."""
    for found, plane in list(zip(windows, planes, strict=True))[1:]:
        title, x = escape(f"{found.branch} began here, after the client compacted its context"), px(plane.left)
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


def _cuts(plane: Plane, found: ContextMap, links: MapLinks) -> Iterator[str]:
    """A line before each turn whose history was compacted, with a link to what that changed."""
    for each in found.turns:
        if each.epoch:
            x = px(plane.x(each.turn))
            title = f"{KEY['line cut']} before turn {each.turn}"
            line = f'<line class="cut" x1="{x}" y1="{_TOP}" x2="{x}" y2="{_BASE}"><title>{title}</title></line>'
            path = f"/turn/{each.turn - 1}/to/{each.turn}?branch={quote(found.branch)}"
            yield links.wrap(line, path) if each.turn > 1 else line


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
        first, last = run[0].turn, run[-1].turn
        turns_text = f"turn {first}" if first == last else f"turns {first} to {last}"
        title = f"{turns_text}: {KEY.get(state, 'cache use unknown')}"
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
