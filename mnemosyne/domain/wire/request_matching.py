"""Compare a client's request with a recorded one. Two runs of the same work differ in ids, dates and metadata."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from hashlib import sha256
from itertools import groupby, islice, zip_longest
from typing import Any

import attrs

from mnemosyne.domain.wire.billing import BILLING
from mnemosyne.domain.wire.blocks import MARKER, is_call, is_prompt
from mnemosyne.domain.wire.dialect import Dialect
from mnemosyne.domain.wire.normal_form import content_blocks

Place = tuple[tuple[str, ...], ...]
"""The state of a conversation: the ids of the calls in each of the model's messages, which a client copies."""

EVERYWHERE: Mapping[str, str] = {MARKER: "cache markers", "internal_chat_message_metadata_passthrough": "metadata"}
AT_TOP: Mapping[str, str] = {
    **dict.fromkeys(("metadata", "client_metadata", "user", "safety_identifier"), "metadata"),
    **dict.fromkeys(("prompt_cache_key", "prompt_cache_options", "diagnostics"), "cache settings"),
}
"""Members of a request that may differ, each with its name in reports: at any depth, and only at the top."""

_TEXTS = re.compile(
    r"[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}"  # a UUID
    r"|\b[0-9a-f]{12,}\b"
    r"|\b\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|[+-]\d\d:?\d\d)?)?"  # ISO 8601
    r"|\b[A-Z][a-z]{2} [A-Z][a-z]{2} \d\d \d{4}\b"  # as JavaScript's toDateString writes it
    r"|\b\d\d?:\d\d:\d\d(?:\.\d+)?"
    r"|\bses_\w+"  # of opencode
    r"|<duration_ms>\d+"  # in Claude Code's notice that a sub-agent has ended
    r"|\A(?:Chunk ID: \w+|Script \w+)\nWall time:? [\d.]+ seconds"  # the head of an output in Codex 0.171.0
)
"""Ids, dates and times in a text."""

AROUND = 40
"""Characters shown before and after the first different one."""


@attrs.frozen
class RequestDifference:
    """A value that differs: its ``path`` in the request, and an excerpt of each of the two values."""

    path: str
    recorded: str
    now: str


@attrs.frozen
class RequestComparison:
    """The differences that count, and the kinds of those that do not (``ignored``), each with the first path in the
    request.
    """

    differences: tuple[RequestDifference, ...]
    ignored: Mapping[str, str]

    def differs_in(self, path: str) -> bool:
        """Whether any difference is at or below a path."""
        return any(each.path == path or each.path.startswith((f"{path}.", f"{path}[")) for each in self.differences)


def find_place(request: Any, dialect: Dialect) -> Place:
    """The state of the conversation in a parsed request, without messages of other agents, which come at any time."""
    return tuple(calls for each in _elements(request, dialect) if (calls := _find_calls(each, dialect)) is not None)


def find_replies(request: Any, dialect: Dialect) -> Iterator[tuple[int, int]]:
    """The element ranges of the replies in a parsed request's history, the last reply first."""
    elements = _elements(request, dialect)
    numbers = reversed(range(len(elements)))
    for is_reply, run in groupby(numbers, lambda number: _find_calls(elements[number], dialect) is not None):
        end, *_, start = [*run] * 2
        if is_reply and end < len(elements) - 1:
            yield start, end + 1


def _find_calls(element: Any, dialect: Dialect) -> tuple[str, ...] | None:
    """The ids of the calls in a message of the model; None for another element."""
    if not isinstance(element, dict) or element.get("type") == "agent_message":
        return None
    message = dialect.read_message(element)
    calls = tuple(str(block.get("id")) for block in content_blocks(message.get("content")) if is_call(block))
    return calls if message.get("role") == "assistant" else None


def find_last(request: Any, dialect: Dialect) -> bytes:
    """A digest of a parsed request's last block outside system messages, without the parts that may vary."""
    elements = (each for each in reversed(_elements(request, dialect)) if isinstance(each, dict))
    ends = islice((each for each in elements if dialect.read_message(each).get("role") != "system"), 1)
    blocks = ((content_blocks(each.get("content")) or [each])[-1].items() for each in ends)
    last = [{key: value for key, value in block if key not in EVERYWHERE} for block in blocks]
    return sha256(_TEXTS.sub("…", json.dumps(last)).encode()).digest()


def offers_alike(request: Any, other: Any) -> bool:
    """Whether two parsed requests have most of their tools in common, or both have none."""
    names, others = ({_name(each) for each in _elements_of(one, "tools")} for one in (request, other))
    return names == others or 2 * len(names & others) > max(len(names), len(others))


def find_prompt(request: Any, dialect: Dialect) -> str | None:
    """The path of the prompt that ends a parsed request, apart from system messages after it; None without one."""
    for number, element in reversed([*enumerate(_elements(request, dialect))]):
        message = dialect.read_message(element) if isinstance(element, dict) else {}
        if message.get("role") != "system":
            is_typed = is_prompt(message.get("role"), content_blocks(message.get("content")))
            return f"{dialect.array}[{number}]" if is_typed else None
    return None


def compare(recorded: Any, now: Any) -> RequestComparison:
    """Compare two parsed requests."""
    ignored: dict[str, str] = {}
    differences = tuple(_differences(recorded, now, "", ignored))
    return RequestComparison(differences, ignored)


def _differences(recorded: Any, now: Any, path: str, ignored: dict[str, str]) -> Iterator[RequestDifference]:
    if recorded == now:
        return
    match recorded, now:
        case dict(), dict():
            for key in {**recorded, **now}:
                varied = EVERYWHERE.get(key) or (None if path else AT_TOP.get(key))
                place = f"{path}.{key}" if path else key
                if varied is None:
                    yield from _differences(recorded.get(key), now.get(key), place, ignored)
                elif recorded.get(key) != now.get(key):
                    ignored.setdefault(varied, place)
        case list(), list():
            recorded, now = _without_billing(recorded, path, ignored), _without_billing(now, path, ignored)
            for number, pair in _align(recorded, now):
                yield from _differences(*pair, f"{path}[{number}]", ignored)
        case str(), [{"type": "text", "text": str(text)}]:
            yield from _differences(recorded, text, path, ignored)
        case [{"type": "text", "text": str(text)}], str():
            yield from _differences(text, now, path, ignored)
        case str(), str():
            recorded, now = _TEXTS.sub("…", recorded), _TEXTS.sub("…", now)
            if recorded != now:
                yield RequestDifference(path, *_excerpts(recorded, now))
            else:
                ignored.setdefault("ids, dates and times in texts", path)
        case _:
            yield RequestDifference(path, *_excerpts(_write(recorded), _write(now)))


def _align(recorded: Sequence[Any], now: Sequence[Any]) -> Iterator[tuple[int, tuple[Any, Any]]]:
    """Pairs of elements, None for one without a counterpart, each with its number in the list that has it: another
    version of a client adds messages and tools, or leaves some out.
    """
    names = [list(map(_name, each)) for each in (recorded, now)]
    # What both begin with is most of a conversation; to match it again would take quadratic time.
    same = next((at for at, pair in enumerate(zip(*names, strict=False)) if pair[0] != pair[1]), min(map(len, names)))
    yield from enumerate(zip(recorded[:same], now[:same], strict=True))
    rest = SequenceMatcher(None, names[0][same:], names[1][same:], autojunk=False)
    for _, start, end, other, last in rest.get_opcodes():
        pairs = zip_longest(recorded[same + start : same + end], now[same + other : same + last])
        yield from enumerate(pairs, same + (start if end - start >= last - other else other))


def _name(element: Any) -> str:
    """The key that tells an element of a list from its neighbors: its role, kind and name, and the ids of calls."""
    if not isinstance(element, dict):
        return ""
    content, calls = (element.get(key) for key in ("content", "tool_calls"))
    blocks = [each for part in (content, calls) if isinstance(part, list) for each in part if isinstance(each, dict)]
    ids = [block.get("tool_use_id") or block.get("id") for block in blocks]
    return _write([*(element.get(key) for key in ("role", "type", "name", "call_id", "tool_call_id")), ids])


def _without_billing(elements: list[Any], path: str, ignored: dict[str, str]) -> list[Any]:
    """The blocks without the client's billing line, which changes with each prompt."""
    first = elements[0] if elements else None
    if isinstance(first, dict) and str(first.get("text", "")).startswith(BILLING):
        ignored.setdefault("the billing line", f"{path}[0]")
        return elements[1:]
    return elements


def _excerpts(recorded: str, now: str) -> tuple[str, str]:
    pairs = enumerate(zip(recorded, now, strict=False))
    first = next((number for number, pair in pairs if pair[0] != pair[1]), min(len(recorded), len(now)))
    start = max(0, first - AROUND)
    return _excerpt(recorded, start, first), _excerpt(now, start, first)


def _excerpt(text: str, start: int, first: int) -> str:
    end = first + AROUND
    return f"{'…' if start else ''}{text[start:end]}{'…' if len(text) > end else ''}"


def _write(value: Any) -> str:
    return "nothing" if value is None else json.dumps(value, ensure_ascii=False)


def _elements(request: Any, dialect: Dialect) -> list[Any]:
    return _elements_of(request, dialect.array)


def _elements_of(request: Any, member: str) -> list[Any]:
    elements = request.get(member) if isinstance(request, dict) else None
    return elements if isinstance(elements, list) else []
