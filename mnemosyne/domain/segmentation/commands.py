"""Describe a shell command and its outcome."""

import re

from mnemosyne.domain.objects.kinds import ObjectKind
from mnemosyne.domain.objects.units import RUN, Description
from mnemosyne.domain.segmentation import outcomes, paths, shell
from mnemosyne.domain.segmentation.exchanges import ToolExchange, describe_exchange, failure, render_answered
from mnemosyne.domain.segmentation.files import describe_change, file_read
from mnemosyne.domain.text.stubs import plain

_SWE_AGENT = re.compile(r"\(Open file: ([^)\n]{1,400})\)\n\(Current directory: [^)\n]{0,400}\)\nbash-\$\s*\Z")
_SWE_FILE = re.compile(r"\[File: ([^\n]{1,400}) \((\d+) lines total\)\]")


def describe_command(exchange: ToolExchange) -> Description:
    command = exchange.string("command", "cmd", "script")
    key = f"{exchange.name} {shell.key_of(command)}"
    of_editor = _swe_agent(exchange, command)
    if of_editor is not None:
        return of_editor
    code = outcomes.exit_code(exchange.answer)
    runs = shell.is_run(command)
    failed = exchange.failed and not (code is not None and not shell.is_failure(command, code))
    failed = (
        failed
        or (code is not None and shell.is_failure(command, code))
        or (runs and outcomes.shows_failure(exchange.answer))
    )
    deed = shell.find_deed(command)
    if failed:
        return failure(exchange, key, tags=(RUN,) if runs else (), alone=runs)
    if deed is not None and deed.what == "read":
        return file_read(
            exchange, deed.path, deed.lines, whole=deed.whole, asked=f"{exchange.name} {plain(command, 140)}"
        )
    if deed is not None:
        return describe_change(exchange, deed.path, deed.what)
    line = render_answered(f"{exchange.name} {plain(shell.key_of(command), 140)}", exchange)
    return describe_exchange(exchange, ObjectKind.TOOL_RESULT, line, key=key, tags=(RUN,) if runs else ())


def _swe_agent(exchange: ToolExchange, command: str) -> Description | None:
    """Describe a command of an editor within the shell (SWE-agent), whose answer ends with the open file."""
    status = _SWE_AGENT.search(exchange.answer[-1_000:])
    verb = command.split(maxsplit=1)[0] if command.strip() else ""
    if status is None or verb not in ("open", "goto", "scroll_up", "scroll_down", "edit", "create"):
        return None
    path = paths.normal(status[1])
    shown = _SWE_FILE.search(exchange.answer[:1_000])
    if shown is None or outcomes.says_error(exchange.answer):
        return failure(exchange, path, tags=("change",) if verb in ("edit", "create") else ("read",))
    if verb in ("edit", "create"):
        return describe_change(exchange, path, "edit" if verb == "edit" else "write")
    numbers = [int(number) for number in re.findall(r"^(\d+):", exchange.answer, re.MULTILINE)]
    lines = (numbers[0], numbers[-1]) if numbers else None
    return file_read(exchange, path, lines, whole=lines == (1, int(shown[2])))
