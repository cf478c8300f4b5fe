"""Describe reads and changes of files."""

import re

from mnemosyne.domain.objects.kinds import UNCHANGED, ObjectKind
from mnemosyne.domain.objects.units import Description
from mnemosyne.domain.segmentation import outcomes, paths
from mnemosyne.domain.segmentation.exchanges import ToolExchange, any_answer, describe_exchange, failure, lines_in
from mnemosyne.domain.text.stubs import plain, render_count, stub
from mnemosyne.domain.wire import rereads
from mnemosyne.domain.wire.places import index_of

_LINE = re.compile(r"^\s{0,8}(\d{1,7})(?:→|\t|: |:(?=\S)|\|)", re.MULTILINE)
_PATCHED = re.compile(r"^\*\*\* (?:Update|Add|Delete) File: (.+)$", re.MULTILINE)
_MOST_LINES = 2_000
"""How many lines clients read by default: a longer file was not read to its end."""

_PATHS = (
    "file_path",
    "filePath",
    "path",
    "notebook_path",
    "filename",
    "file",
    "target_file",
    "relative_workspace_path",
)


def reads_of(path: str | None) -> str:
    """Return the group of small reads of a file."""
    return f"read {path}"


def path_of(exchange: ToolExchange) -> str:
    path = exchange.string(*_PATHS)
    return paths.normal(path) if paths.is_path(path) else ""


def read_file(exchange: ToolExchange) -> Description:
    path = path_of(exchange)
    if not path:
        return any_answer(exchange)
    if exchange.failed or outcomes.says_error(exchange.answer):
        return failure(exchange, path, tags=("read",))
    if rereads.find_reference(exchange.answer) is not None:
        return _describe_reread(exchange, path)
    part = any(
        exchange.input.get(name) is not None for name in ("offset", "limit", "pages", "view_range", "start_line")
    )
    lines = _find_numbers(exchange.answer)
    return file_read(exchange, path, lines, whole=not part and (lines is None or lines[1] < _MOST_LINES))


def find_asked(exchange: ToolExchange) -> tuple[object, ...]:
    """Return the part of a file that a read asks for. Two reads with equal values ask for the same part."""
    start = index_of(exchange.input.get("offset", exchange.input.get("start_line")))
    rest = (exchange.input.get(name) for name in ("limit", "end_line", "pages", "view_range"))
    return (
        start if start not in (None, 0, 1) else None,
        *(str(value) if value is not None else None for value in rest),
    )


def _describe_reread(exchange: ToolExchange, path: str) -> Description:
    """Describe a read that was answered with a reference.

    It is a separate object without a source key, so that it never supersedes the read that it refers to. Its lines show
    which of the earlier reads that is.
    """
    start, limit, *others = find_asked(exchange)
    tags: tuple[str, ...] = (UNCHANGED,)
    if start is limit is None and not any(others):
        tags = (UNCHANGED, "whole")
    elif isinstance(start, int | None) and isinstance(limit, str) and limit.isascii() and limit.isdigit():
        tags = (UNCHANGED, f"lines:{start or 1}-{(start or 1) + int(limit) - 1}")
    line = stub(f"Read {plain(path, 110)} again: unchanged")
    return describe_exchange(exchange, ObjectKind.TOOL_RESULT, line, tags=tags, group=reads_of(path), alone=True)


def file_read(
    exchange: ToolExchange, path: str, lines: tuple[int, int] | None, *, whole: bool, asked: str = ""
) -> Description:
    """Describe a file that was read, by its path and the lines shown, or by the command ``asked``."""
    whole = whole and not outcomes.cut_short(exchange.answer)
    tags = ("read", *(("whole",) if whole else ()), *((f"lines:{lines[0]}-{lines[1]}",) if lines and not whole else ()))
    shown = lines[1] - lines[0] + 1 if lines else exchange.answer.count("\n") + bool(exchange.answer)
    where = f" lines {lines[0]}-{lines[1]}" if lines else "" if whole else " in part"
    facts = (
        exchange.attached or ("empty",) if not exchange.answer or exchange.attached else (render_count(shown, "line"),)
    )
    line = stub(asked or f"Read {plain(path, 110)}{where}", *facts)
    return describe_exchange(exchange, ObjectKind.FILE_CONTEXT, line, key=path, tags=tags, group=reads_of(path))


def _find_numbers(answer: str) -> tuple[int, int] | None:
    """Return the first and the last line number of a numbered listing."""
    first = _LINE.match(answer)
    if first is None:
        return None
    last = _LINE.findall(answer, max(0, len(answer) - 4_000)) or [first[1]]
    return (int(first[1]), int(last[-1])) if int(first[1]) <= int(last[-1]) else None


def describe_edit(exchange: ToolExchange) -> Description:
    path = path_of(exchange) or _find_patched(exchange)
    return describe_change(exchange, path, "edit") if path else any_answer(exchange)


def _find_patched(exchange: ToolExchange) -> str:
    named = _PATCHED.findall(exchange.string("patchText", "patch", "input", "diff"))
    return paths.normal(named[0]) if named else ""


def describe_write(exchange: ToolExchange) -> Description:
    path = path_of(exchange)
    return describe_change(exchange, path, "write") if path else any_answer(exchange)


def describe_change(exchange: ToolExchange, path: str, what: str) -> Description:
    if exchange.failed or outcomes.says_error(exchange.answer):
        return failure(exchange, path, tags=("change",))
    written = exchange.string(
        "content", "file_text", "new_string", "newString", "new_str", "new_source", "patchText", "command"
    )
    replaced = exchange.string("old_string", "oldString", "old_str")
    change = (
        f"{lines_in(replaced)} → {render_count(lines_in(written), 'line')}"
        if replaced
        else render_count(lines_in(written), "line")
    )
    line = stub(f"{'Wrote' if what == 'write' else 'Edited'} {plain(path, 110)}", change)
    tags = ("write", "whole") if what == "write" else ("edit",)
    return describe_exchange(exchange, ObjectKind.FILE_CONTEXT, line, key=path, tags=tags, group=f"change {path}")


def text_editor(exchange: ToolExchange) -> Description:
    match exchange.string("command"):
        case "view":
            return read_file(exchange)
        case "create":
            return describe_write(exchange)
        case _:
            return describe_edit(exchange)
