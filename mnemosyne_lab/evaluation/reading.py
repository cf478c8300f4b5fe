"""Read recorded sessions: JSON Lines as docs/evaluation.md describes them, or a file that `mnemosyne export` wrote."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from mnemosyne.domain.wire import blocks
from mnemosyne.domain.wire.normal_form import content_blocks
from mnemosyne.errors import MnemosyneError
from mnemosyne.regular_files import open_regular
from mnemosyne_lab.evaluation.trace import OwnHead, Reset, Trace, TraceRequest

GAP = 20_000_000
"""µs between two requests of a session that has no times on record."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Unreadable(ValueError):
    """It is no recorded session; the message says why."""


LINES_NAMED = 3
"""So many lines of a file that are unreadable, or sessions left out, for the same reason are named."""

Exported = Callable[[Path], Iterator[Mapping[str, Any]]]
"""Reads the sessions, in the form of a line of ours, out of a file that `mnemosyne export` wrote. Raises
MnemosyneError.
"""


def read(paths: Sequence[Path], exported: Exported) -> Iterator[Trace | str]:
    """The sessions in files, in order. For input that is not a session, a sentence with file and line."""
    for path in paths:
        try:
            with open_regular(path) as file:
                is_export = _is_export(file.readline())
                file.seek(0)
                yield from _of_export(path, exported) if is_export else _sessions(path, file)
        except OSError as error:
            yield f"{path}: it cannot be read: {error.strerror or error}."


def _is_export(line: bytes) -> bool:
    try:
        header = json.loads(line)
    except (ValueError, RecursionError):
        return False
    return isinstance(header, dict) and header.get("format") == "mnemosyne-session"


def _of_export(path: Path, exported: Exported) -> Iterator[Trace | str]:
    found = False
    try:
        for session in exported(path):
            found = True
            try:
                yield recording(str(path), session)
            except Unreadable as error:
                yield f"{path} ({session['name']}): {error}."
    except MnemosyneError as error:
        yield str(error)
    else:
        if not found:
            yield f"{path}: the exported session holds no conversation."


def _sessions(path: Path, lines: Iterator[bytes]) -> Iterator[Trace | str]:
    """The sessions of a file, then a sentence for each reason why lines were skipped."""
    empty = True
    unreadable: dict[str, list[int]] = {}
    for number, line in enumerate(lines, 1):
        if line.strip():
            empty = False
            try:
                yield recording(f"{path}, line {number}", json.loads(line))
            except Unreadable as error:
                unreadable.setdefault(str(error), []).append(number)
            except (ValueError, RecursionError):
                reason = "it is no recorded session: no JSON object stands there"
                unreadable.setdefault(reason, []).append(number)
    for reason, numbers in unreadable.items():
        yield f"{path}, {_render_lines(numbers)}: {reason}."
    if empty:
        yield f"{path}: it is empty."


def _render_lines(numbers: Sequence[int]) -> str:
    if len(numbers) == 1:
        return f"line {numbers[0]}"
    shown = ", ".join(map(str, numbers[:LINES_NAMED]))
    more = f" and {len(numbers) - LINES_NAMED} more" if len(numbers) > LINES_NAMED else ""
    return f"lines {shown}{more}"


# From JSON to requests


def recording(where: str, session: object) -> Trace:
    """One session, checked and put in order. Raises Unreadable."""
    if not isinstance(session, dict) or not isinstance(session.get("name"), str) or not session["name"]:
        raise Unreadable("it is no recorded session: a JSON object with a name, messages and turns")
    messages = session.get("messages")
    if not isinstance(messages, list) or not all(map(_is_message, messages)):
        raise Unreadable("its messages are no list of messages with a role and content")
    notes: list[str] = []
    turns = list(_turns(session.get("turns"), len(messages), notes.append))
    times = times_of([turn.get("ts") for turn in turns], notes.append)
    resets = tuple(_resets(session.get("resets"), messages, [turn["msg"] for turn in turns], notes.append))
    usage = turns[0].get("usage")
    cached = usage.get("cache_read") if isinstance(usage, dict) else None
    model, own, cost, developer = (session.get(name) for name in ("model", "head", "nanodollars", "developer"))
    return Trace(
        where=where,
        name=session["name"],
        model=model if isinstance(model, str) else None,
        messages=messages,
        requests=tuple(_requests(messages, turns, times)),
        resets=resets,
        notes=tuple(notes),
        found_cached=cached if isinstance(cached, int) else 0,
        head=OwnHead(own.get("system"), own.get("tools")) if isinstance(own, dict) else None,
        nanodollars=cost if type(cost) is int and cost > 0 else None,
        developer=developer if isinstance(developer, str) else None,
    )


def _is_message(message: object) -> bool:
    match message:
        case {"role": "user" | "assistant" | "system", "content": str()}:
            return True
        case {"role": "user" | "assistant" | "system", "content": list(content)}:
            return all(isinstance(block, dict) and isinstance(block.get("type"), str) for block in content)
        case _:
            return False


def _turns(turns: object, count: int, note: Any) -> Iterator[dict[str, Any]]:
    """The turns whose request holds more of the history than the previous one."""
    if not isinstance(turns, list) or not turns:
        raise Unreadable("the session has no turns")
    before, left_out = 0, 0
    for number, turn in enumerate(turns, 1):
        if not isinstance(turn, dict) or type(turn.get("msg")) is not int or not 0 <= turn["msg"] <= count:
            raise Unreadable(f"turn {number} does not say how many of the {count} messages its request holds")
        if turn["msg"] > before:
            before = turn["msg"]
            yield turn
        else:
            left_out += 1
    if before == 0:
        raise Unreadable("none of its turns holds a message")
    if left_out:
        note(f"{left_out} turns that repeat an earlier request, or hold nothing, were left out")


def times_of(stamps: Sequence[object], note: Any = lambda sentence: None) -> list[int]:
    """Non-decreasing times in µs since 1970. A missing time is GAP after the previous one."""
    known = [_time(stamp) for stamp in stamps]
    first = next((at - GAP * (index + 1) for index, at in enumerate(known) if at is not None), -GAP)
    times: list[int] = []
    for at in known:
        before = times[-1] if times else first
        times.append(before + GAP if at is None else max(at, before))
    missing = known.count(None)
    backwards = sum(at is not None and at < told for at, told in zip(known, times, strict=True))
    if missing:
        note(f"{missing} turns have no time on record: {GAP // 1_000_000} s after the one before are assumed")
    if backwards:
        note(f"{backwards} turns begin before the one before them: the same time is assumed")
    return times


def _time(stamp: object) -> int | None:
    if not isinstance(stamp, str):
        return None
    try:
        read_as = datetime.fromisoformat(stamp)
        at = read_as.replace(tzinfo=read_as.tzinfo or UTC)
        return (at - _EPOCH) // timedelta(microseconds=1)
    except (ValueError, OverflowError):
        return None


def _requests(
    messages: Sequence[Mapping[str, Any]], turns: Sequence[Mapping[str, Any]], times: Sequence[int]
) -> Iterator[TraceRequest]:
    before, exchange = 0, 1
    for number, (turn, at) in enumerate(zip(turns, times, strict=True), 1):
        new = messages[before : turn["msg"]]
        if any(blocks.is_prompt(each["role"], content_blocks(each["content"])) for each in new):
            exchange = number
        before = turn["msg"]
        yield TraceRequest(
            turn=number,
            at=at,
            messages=before,
            prompt=_prompt_size(turn.get("usage")),
            exchange=exchange,
            output=output if type(output := turn.get("output")) is int and output >= 0 else None,
        )


def _prompt_size(usage: object) -> int | None:
    """The provider's count of the prompt's tokens."""
    if not isinstance(usage, dict):
        return None
    parts = [usage.get(name) for name in ("input", "cache_write", "cache_read")]
    counts = [part for part in parts if isinstance(part, int) and part >= 0]
    return sum(counts) or None if len(counts) == len(parts) else None


def _resets(resets: object, messages: Sequence[Mapping[str, Any]], counts: Sequence[int], note: Any) -> Iterator[Reset]:
    for reset in resets if isinstance(resets, list) else ():
        at = reset.get("before_msg") if isinstance(reset, dict) else None
        if type(at) is not int or not 0 < at < len(messages):
            note("a reset that does not say before which message it was is ignored")
        elif reset.get("kind") != "compact" or not isinstance(reset.get("summary"), str) or not reset["summary"]:
            note(f"what a {str(reset.get('kind'))[:40]} took away before message {at} is not on record; it is ignored")
        else:
            # If the assistant's message is next, the request was the summary alone.
            needed = at + (messages[at]["role"] == "user")
            turn = next((turn for turn, count in enumerate(counts, 1) if count >= needed), None)
            if turn is not None:
                manual = reset.get("trigger") == "manual"
                yield Reset(turn=turn, kept_from=at, summary=reset["summary"], by_user=manual)
