"""Sentences about recorded sessions in a limited window: for a client that does nothing, for one that compacts, and
with memory.
"""

from collections.abc import Mapping, Sequence
from statistics import median_low

from mnemosyne_lab.evaluation.results import PolicyResult, SessionResult

Driven = Mapping[tuple[str, str], SessionResult]
"""One session by tariff and policy."""


def split_too_small(
    results: Sequence[Driven], window: int | None, driven: tuple[str, str]
) -> tuple[list[SessionResult], list[Driven]]:
    """Split off the sessions whose system prompt and tools exceed the window, with their results for ``driven``."""
    small = [found for found in results if window is not None and found[driven].points[0].fixed >= window]
    return [found[driven] for found in small], [found for found in results if found not in small]


def list_refused(session: SessionResult, window: int) -> list[int]:
    """The indexes of the requests that exceed the window."""
    return [number for number, point in enumerate(session.points) if point.prompt > window]


def render_too_small(sessions: Sequence[SessionResult], window: int) -> list[str]:
    """A sentence about the sessions that a window cannot hold at all."""
    if not sessions:
        return []
    sizes = [each.points[0].fixed for each in sessions]
    size = f"{min(sizes):,}" if min(sizes) == max(sizes) else f"{min(sizes):,} to {max(sizes):,}"
    return [
        f"System prompt and tools of {_count(len(sessions), 'session')} take {size} tokens, so no request fits into"
        f" a window of {window:,}, with us or without, and nothing was compared. Take a larger window, a client that"
        " sends less, or say with --fixed-tokens what such a client would send."
    ]


def render_window(
    window: int, idle: Sequence[SessionResult], native: Sequence[SessionResult], ours: PolicyResult | None
) -> list[str]:
    """Sentences about a client that does nothing when the window is full, one that compacts, and one with memory."""
    if not idle:
        return []
    refused = {number: found for number, each in enumerate(idle) if (found := list_refused(each, window))}
    requests = sum(len(each.points) for each in idle)
    if not refused:
        return [f"All {requests:,} requests of {_count(len(idle), 'session')} fit into a window of {window:,} tokens."]
    lost = sum(len(idle[number].points) - found[0] for number, found in refused.items())
    first = median_low(1 + found[0] for found in refused.values())
    said = [
        f"In a window of {window:,} tokens a client that does nothing when it is full is refused in"
        f" {_share(len(refused), len(idle), 'session')}, at request {first} in the median;"
        f" {_share(lost, requests, 'request')} {_is_or_are(lost)} never answered.",
        f"One that compacts by itself does so {_times(sum(each.compactions for each in native))};"
        f" {_render_missing(native)} had left with that; {_render_refused(native, window)}.",
    ]
    if ours is not None:
        rewrites = _count(sum(len(each.epochs) for each in ours.sessions), "rewrite")
        missing, refusals = _render_missing(ours.sessions), _render_refused(ours.sessions, window)
        said.append(f"With {ours.name}: {rewrites}; {missing} was no longer in the prompt; {refusals}.")
    return said


def _render_missing(sessions: Sequence[SessionResult]) -> str:
    demands = sum(each.demands for each in sessions)
    missing = demands - sum(each.resident for each in sessions)
    return f"{100 * missing / max(1, demands):.1f} % of what was needed later"


def _render_refused(sessions: Sequence[SessionResult], window: int) -> str:
    count = sum(len(list_refused(each, window)) for each in sessions)
    return f"{_count(count, 'request')} would not fit all the same" if count else "every request fits"


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _share(number: int, whole: int, noun: str) -> str:
    return f"{number:,} of {_count(whole, noun)}"


def _is_or_are(number: int) -> str:
    return "is" if number == 1 else "are"


def _times(number: int) -> str:
    return "once" if number == 1 else f"{number:,} times"
