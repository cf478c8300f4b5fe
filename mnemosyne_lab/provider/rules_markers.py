"""Rule R4: where cache markers may stand, how many, and in which order.

Source: Messages API documentation (prompt caching). The prompt order is tools, system, messages.
"""

from collections.abc import Iterator

import attrs

from mnemosyne_lab.provider.reading import Body, Json, as_dict, as_list, blocks, messages, tools

MOST_MARKERS = 4
_NO_MARKER = {"thinking", "redacted_thinking"}


@attrs.frozen
class Violation:
    """One breach: the rule's name (see `rules.py`), the text of the API's error, the place in the body."""

    rule: str
    message: str
    path: str
    code: str | None = None
    """The error's code, in the dialects whose errors have one."""
    status: int = 400


@attrs.frozen
class _Marker:
    path: str
    ttl: str
    block: dict[str, Json]
    inside: bool
    """On a block within another block's content."""


def _of(block: dict[str, Json], path: str, inside: bool = False) -> Iterator[_Marker]:
    control = block.get("cache_control")
    if isinstance(control, dict):
        yield _Marker(path, str(control.get("ttl") or "5m"), block, inside)


def _all(body: Body) -> Iterator[_Marker]:
    for number, tool in enumerate(tools(body)):
        yield from _of(tool, f"tools.{number}")
    for number, entry in enumerate(blocks(body.get("system"))):
        yield from _of(entry, f"system.{number}")
    for number, message in enumerate(messages(body)):
        for index, block in enumerate(blocks(message.get("content"))):
            path = f"messages.{number}.content.{index}"
            for deeper, part in enumerate(as_list(block.get("content"))):
                if isinstance(part, dict):
                    yield from _of(part, f"{path}.content.{deeper}", inside=True)
            yield from _of(block, path)
            yield from _of(as_dict(as_dict(block.get("tool")).get("definition")), f"{path}.tool.definition")


def _find_cleared(body: Body) -> set[str]:
    """Paths of system messages that the API empties at the next user message."""
    return {
        f"messages.{number}."
        for number, message in enumerate(messages(body))
        if message.get("role") == "system" and message.get("clear_at")
    }


def marker_breaches(body: Body) -> Iterator[Violation]:
    """Every breach of R4."""
    found = list(_all(body))
    top = body.get("cache_control")
    count = len(found) + isinstance(top, dict)
    if count > MOST_MARKERS:
        text = f"A maximum of {MOST_MARKERS} blocks with cache_control may be provided. Found {count}."
        yield Violation("R4", text, "cache_control")
    cleared = _find_cleared(body)
    for marker in found:
        kind = marker.block.get("type")
        if kind in _NO_MARKER:
            yield Violation("R4", f"{marker.path}: cache_control cannot be set on {kind} blocks", marker.path)
        elif kind == "text" and not str(marker.block.get("text", "")).strip():
            yield Violation("R4", f"{marker.path}: cache_control cannot be set for empty text blocks", marker.path)
        elif marker.inside:
            yield Violation("R4", f"{marker.path}: cache_control cannot be set inside another block", marker.path)
        elif any(marker.path.startswith(path) for path in cleared):
            yield Violation(
                "R4", f"{marker.path}: cache_control cannot be set on a cleared system message", marker.path
            )
    ttls = [(marker.path, marker.ttl) for marker in found]
    if isinstance(top, dict):
        ttls.append(("cache_control", str(top.get("ttl") or "5m")))
    yield from _order(ttls)
    if isinstance(top, dict) and found:
        yield from _conflict(body, found[-1], ttls[-1][1])


def _order(ttls: list[tuple[str, str]]) -> Iterator[Violation]:
    short = False
    for path, ttl in ttls:
        if ttl not in {"5m", "1h"}:
            yield Violation("R4", f"{path}: cache_control.ttl should be '5m' or '1h'", path)
        elif ttl == "1h" and short:
            text = f"{path}: a ttl='1h' cache_control block must not come after a ttl='5m' cache_control block"
            yield Violation("R4", text, path)
        short = short or ttl == "5m"


def _conflict(body: Body, last: _Marker, ttl: str) -> Iterator[Violation]:
    said = messages(body)
    end = f"messages.{len(said) - 1}.content.{len(blocks(said[-1].get('content'))) - 1}" if said else ""
    if last.path == end and last.ttl != ttl:
        yield Violation("R4", f"{end}: the marker's ttl differs from the top-level cache_control", end)
