"""The sizes of one session, as its provider counted them: what it says of whole prompts is divided over their parts.

An estimate is at the scale of a model's family. Where each request's prompt was counted, and it is known what was in
it, what a request added is as large as the prompts grew.
"""

from collections.abc import Collection, Sequence
from itertools import pairwise

import attrs

from mnemosyne_lab.evaluation.trace import TraceRequest

LEAST_GROWTH = 2_000
"""A history that grew by fewer tokens says nothing about the scale of its estimates."""

LEAST, MOST = 0.25, 4.0
"""What a request added is not scaled by less or more; the next one makes up for the rest."""


@attrs.frozen(kw_only=True)
class Scales:
    """How many tokens there are for each estimated one: in each message, in tools and system prompt, and in what is
    rendered anew. ``fixed`` is the size of tools and system prompt where nothing but the counted prompts tells it.
    """

    messages: Sequence[float]
    head: float
    rest: float
    fixed: int | None


def scales_of(
    requests: Sequence[TraceRequest],
    sizes: Sequence[int],
    *,
    head: int | None,
    added: int = 0,
    overhead: int,
    dropped: Collection[int],
) -> Scales:
    """From the estimated ``sizes`` of messages, each without the ``overhead`` that every one has, and of the ``head``
    (None if it is not on record), of which the provider ``added`` so many tokens itself. ``dropped`` are the turns
    before which the client dropped its history.
    """
    rest = _measure_growth(requests, sizes, overhead, dropped)
    begun, told = _between(sizes, overhead, 0, requests[0].messages), requests[0].prompt
    first = rest
    if head is not None and told is not None:
        first = _clip((told - added - begun[1]) / max(1, head - added + begun[0]))
        rest = first if rest is None else rest
    rest = 1.0 if rest is None else rest
    first = rest if first is None else first
    scales = [first] * requests[0].messages
    carried = 0.0
    for before, request in pairwise(requests):
        size, around = _between(sizes, overhead, before.messages, request.messages)
        scale = rest
        if before.prompt is None or request.prompt is None or request.turn in dropped:
            carried = 0.0
        elif size:
            wanted = request.prompt - before.prompt - around + carried
            scale = _clip(wanted / size)
            carried = wanted - scale * size
        scales += [scale] * (request.messages - before.messages)
    scales += [rest] * (len(sizes) - len(scales))
    fixed = None
    if head is None and told is not None:
        fixed = max(0, round(told - begun[1] - first * begun[0]))
    return Scales(messages=scales, head=first, rest=rest, fixed=fixed)


def _measure_growth(
    requests: Sequence[TraceRequest], sizes: Sequence[int], overhead: int, dropped: Collection[int]
) -> float | None:
    """By how much prompts grew over what was estimated, all requests together; None where they tell too little."""
    counted = estimated = 0
    for before, request in pairwise(requests):
        size, around = _between(sizes, overhead, before.messages, request.messages)
        if before.prompt is not None and request.prompt is not None and request.turn not in dropped:
            growth = request.prompt - before.prompt - around
            if growth > 0 and size:
                counted, estimated = counted + growth, estimated + size
    return _clip(counted / estimated) if estimated >= LEAST_GROWTH else None


def _between(sizes: Sequence[int], overhead: int, start: int, end: int) -> tuple[int, int]:
    """The estimated size of messages, and what is around them."""
    return sum(sizes[start:end]), overhead * (end - start)


def _clip(scale: float) -> float:
    return max(LEAST, min(MOST, scale))
