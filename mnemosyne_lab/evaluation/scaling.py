"""Scale estimated sizes to the provider's counts of whole prompts.

If the provider counted each prompt and its content is known, the size of a request's new messages is the growth of the
prompt.
"""

from collections.abc import Collection, Sequence
from itertools import pairwise

import attrs

from mnemosyne_lab.evaluation.trace import TraceRequest

LEAST_GROWTH = 2_000
"""A history that grew by fewer tokens is too short to measure the scale."""

LEAST, MOST = 0.25, 4.0
"""Bounds of the scale of a request's messages; the next request compensates for the rest."""


@attrs.frozen(kw_only=True)
class Scales:
    """Actual tokens for each estimated one: in each message, in tools and system prompt, and in new renderings.
    ``fixed`` is the size of tools and system prompt if only the counted prompts reveal it.
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
    """Compute the scales from the estimated ``sizes`` of messages without their ``overhead``, and of the ``head`` (None
    if not recorded), of which the provider ``added`` some tokens. ``dropped`` are the turns before which the client
    dropped its history.
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
    """The growth of all prompts relative to the estimate; None if there is too little."""
    counted = estimated = 0
    for before, request in pairwise(requests):
        size, around = _between(sizes, overhead, before.messages, request.messages)
        if before.prompt is not None and request.prompt is not None and request.turn not in dropped:
            growth = request.prompt - before.prompt - around
            if growth > 0 and size:
                counted, estimated = counted + growth, estimated + size
    return _clip(counted / estimated) if estimated >= LEAST_GROWTH else None


def _between(sizes: Sequence[int], overhead: int, start: int, end: int) -> tuple[int, int]:
    """The estimated size of some messages, and of their overhead."""
    return sum(sizes[start:end]), overhead * (end - start)


def _clip(scale: float) -> float:
    return max(LEAST, min(MOST, scale))
