"""Compare two runs of one task: where their conversations diverge."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import Any

import attrs

from mnemosyne.domain.wire.blocks import (
    CALL_IDS,
    HIDDEN,
    MARKER,
    call_id_of,
    is_any_call,
    is_any_result,
    text_of,
    type_of,
)
from mnemosyne.domain.wire.dialect import Dialect
from mnemosyne.domain.wire.normal_form import content_blocks
from mnemosyne.domain.wire.request_matching import RequestDifference, compare

VARIED = HIDDEN | CALL_IDS | {MARKER}
"""Members of a block that differ in any two runs, or that the model does not read."""

SHOWN = 80
"""Characters shown of a part whose counterpart is of another kind."""


@attrs.frozen
class Run:
    """A conversation up to its ``last`` turn: that turn's parsed request and reply, and for each message of the request
    the turn that first sent it.
    """

    dialect: Dialect
    request: Mapping[str, Any]
    reply: Mapping[str, Any]
    turns: Sequence[int]
    last: int


@attrs.frozen
class RunPart:
    """One block of a run, with the turn of its request or reply."""

    turn: int
    name: str
    block: Mapping[str, Any]


@attrs.frozen
class Divergence:
    """The first parts that differ, None where a run has ended, and in what."""

    first: RunPart | None
    second: RunPart | None
    difference: RequestDifference


@attrs.frozen
class RunComparison:
    """``same`` is the number of equal parts before the divergence. ``settings`` are the members of the requests beside
    the history that differ, ``ignored`` the kinds of differences that do not count.
    """

    same: int
    divergence: Divergence | None
    settings: tuple[str, ...]
    ignored: tuple[str, ...]


def compare_runs(first: Run, second: Run) -> RunComparison:
    """Compare two runs, as far as both go."""
    beside = compare(_beside_history(first), _beside_history(second))
    settings = tuple(dict.fromkeys(each.path.partition(".")[0].partition("[")[0] for each in beside.differences))
    ignored = dict.fromkeys(beside.ignored)
    same = 0
    for one, other in zip_longest(_list_parts(first), _list_parts(second)):
        found = compare(one and one.block, other and other.block)
        if found.differences:
            divergence = Divergence(one, other, _describe(one, other, found.differences[0]))
            return RunComparison(same, divergence, settings, tuple(ignored))
        ignored |= dict.fromkeys(found.ignored)
        same += 1
    return RunComparison(same, None, settings, tuple(ignored))


def _beside_history(run: Run) -> dict[str, Any]:
    return {name: value for name, value in run.request.items() if name != run.dialect.array}


def _list_parts(run: Run) -> Iterator[RunPart]:
    tools: dict[str | None, str] = {}
    messages = [(turn, run.dialect.read_message(each)) for turn, each in zip(run.turns, _elements(run), strict=False)]
    for turn, message in (
        *messages,
        (run.last + 1, {"role": "assistant", "content": run.dialect.reply_content(run.reply)}),
    ):
        for block in content_blocks(message.get("content")):
            if is_any_call(block):
                tools[str(block.get("id"))] = str(block.get("name"))
            kept = {name: value for name, value in block.items() if name not in VARIED and value is not None}
            at = max(1, turn - 1) if message.get("role") == "assistant" else turn
            yield RunPart(at, _name(message.get("role"), block, tools), kept)


def _elements(run: Run) -> list[dict[str, Any]]:
    elements = run.request.get(run.dialect.array)
    return [each if isinstance(each, dict) else {} for each in elements] if isinstance(elements, list) else []


def _name(role: object, block: Mapping[str, Any], tools: Mapping[str | None, str]) -> str:
    if is_any_call(block):
        return f"call of {block.get('name')}"
    if is_any_result(block):
        return f"result of {tools.get(call_id_of(block), 'a call')}"
    kind = type_of(block)
    return {"user": "prompt", "system": "system message"}.get(str(role), kind) if kind == "text" else kind


def _describe(one: RunPart | None, other: RunPart | None, difference: RequestDifference) -> RequestDifference:
    if one is not None and other is not None and one.name == other.name:
        return difference
    texts = ("nothing" if each is None else text_of(each.block) or each.name for each in (one, other))
    return RequestDifference("", *(text if len(text) <= SHOWN else f"{text[:SHOWN]}…" for text in texts))
