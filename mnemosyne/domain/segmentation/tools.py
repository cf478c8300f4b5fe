"""Describe a call and its results: by the tool's name if it is known, else by the shape of its input."""

import re
from collections.abc import Callable, Mapping, Sequence

import attrs

from mnemosyne.domain.objects.followed_plan import FINISHED, LIST, PROPOSAL, step_tag
from mnemosyne.domain.objects.kinds import DEFINITIONS, ObjectKind
from mnemosyne.domain.objects.units import RUN, Description
from mnemosyne.domain.segmentation import outcomes, paths, plan_items, shell
from mnemosyne.domain.segmentation.exchanges import (
    ToolExchange,
    any_answer,
    describe_exchange,
    exchange_of,
    failure,
    render_answered,
)
from mnemosyne.domain.segmentation.files import (
    describe_change,
    describe_edit,
    describe_write,
    file_read,
    path_of,
    read_file,
    text_editor,
)
from mnemosyne.domain.text.stubs import amount, plain, shorten, stub
from mnemosyne.domain.wire import blocks
from mnemosyne.domain.wire.blocks import Block

_NEW_TEXTS = (
    "old_string",
    "oldString",
    "old_str",
    "new_str",
    "edits",
    "patch",
    "patchText",
    "diff",
    "new_source",
    "insert_line",
)

_SWE_AGENT = re.compile(r"\(Open file: ([^)\n]{1,400})\)\n\(Current directory: [^)\n]{0,400}\)\nbash-\$\s*\Z")
_SWE_FILE = re.compile(r"\[File: ([^\n]{1,400}) \((\d+) lines total\)\]")
"""The end of an answer of SWE-agent's editor within the shell, and its line about the open file."""


def describe(call: Block | None, results: Sequence[Block]) -> Description:
    """Describe a call and its results. Either may be missing."""
    exchange = exchange_of(call, results)
    described = _reader(exchange)(exchange)
    tags = described.tags
    if call is None:
        tags = (*tags, "orphan")
    elif not results:
        tags = (*tags, "unanswered")
    if outcomes.was_refused_by_user(exchange.answer):
        tags = (*tags, "refused")
    defines = any(map(_defines, results))
    if defines:
        tags = (*tags, DEFINITIONS)
    facts = [fact for fact in exchange.attached if fact not in described.stub]
    line = stub(f"{described.stub}, {'; '.join(facts)}") if facts else described.stub
    return attrs.evolve(described, tags=tags, stub=line, alone=described.alone or defines, parts=exchange.parts)


def _defines(result: Block) -> bool:
    """Return whether a result contains definitions of tools: the model may call these only while the result is in the
    context.
    """
    match result.get("content"):
        case list(content) | {"tool_references": list(content)}:
            return any(isinstance(part, Mapping) and blocks.type_of(part) == "tool_reference" for part in content)
        case _:
            return False


Reader = Callable[[ToolExchange], Description]


def _reader(exchange: ToolExchange) -> Reader:
    known = _BY_NAME.get(exchange.name.lower().rpartition("__")[2])
    if known is not None:
        return known
    given = exchange.input
    if exchange.string("command", "cmd") and not path_of(exchange):
        return _describe_command
    if path_of(exchange):
        if any(name in given for name in _NEW_TEXTS):
            return describe_edit
        if isinstance(given.get("content") or given.get("file_text"), str):
            return describe_write
    if isinstance(given.get("url"), str):
        return _describe_external
    if isinstance(given.get("todos"), list):
        return _describe_todos
    return any_answer


def _describe_command(exchange: ToolExchange) -> Description:
    command = exchange.string("command", "cmd", "script")
    key = f"{exchange.name} {shell.key_of(command)}"
    of_editor = _describe_swe_agent(exchange, command)
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


def _describe_swe_agent(exchange: ToolExchange, command: str) -> Description | None:
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


def _describe_search(exchange: ToolExchange) -> Description:
    pattern = exchange.string("pattern", "query", "regex")
    where = exchange.string("path", "include", "glob")
    key = f"{exchange.name} {shell.key_of(blocks.as_json(dict(exchange.input)))}"
    quoted = f' "{shorten(pattern, 90)}"' if pattern else ""
    place = f" in {shorten(where, 90)}" if where else ""
    if exchange.failed:
        return failure(exchange, key, asked=f"{exchange.name}{quoted}{place}" if quoted or place else None)
    line = render_answered(f"{exchange.name}{quoted}{place}", exchange)
    return describe_exchange(exchange, ObjectKind.TOOL_RESULT, line, key=key, tags=("search",))


def _describe_external(exchange: ToolExchange) -> Description:
    asked = exchange.string("url", "query", "libraryName", "topic") or shell.key_of(
        blocks.as_json(dict(exchange.input))
    )
    key = f"{exchange.name} {shell.key_of(asked)}"
    if exchange.failed or outcomes.says_error(exchange.answer):
        return failure(exchange, key)
    line = render_answered(f"{exchange.name} {plain(asked, 120)}", exchange)
    return describe_exchange(exchange, ObjectKind.EXTERNAL_REFERENCE, line, key=key)


def _describe_agent(exchange: ToolExchange) -> Description:
    """Describe a sub-agent's report."""
    title = exchange.string("description", "name", "prompt")
    if exchange.failed:
        return failure(exchange, f"{exchange.name} {plain(title, 80)}", tags=("agent",))
    line = render_answered(
        f"{exchange.name} {plain(exchange.string('subagent_type'), 30)}: {plain(title, 80)}", exchange
    )
    return describe_exchange(exchange, ObjectKind.TOOL_RESULT, line, tags=("agent",), group="agent")


def _describe_todos(exchange: ToolExchange) -> Description:
    """Describe a to-do list that is written as a whole."""
    items = plan_items.list_of(exchange.input) or ()
    if exchange.failed:
        return failure(exchange, None)
    line = plan_items.render_list(items)
    tags = () if any(item.state.is_open for item in items) else (FINISHED,)
    return describe_exchange(exchange, ObjectKind.PLAN, line, key=LIST, tags=tags, alone=True)


def _describe_task(exchange: ToolExchange) -> Description:
    """Describe one change of a task list."""
    if exchange.failed:
        return failure(exchange, None)
    what = exchange.string("subject", "status", "taskId")
    task = plan_items.task_of(exchange.input, exchange.answer)
    number = task.number if task is not None else ""
    line = stub(f"{exchange.name} {number} {plain(what, 80)}".replace("  ", " "))
    tags = () if task is None or task.state is None else (step_tag(number, is_open=task.state.is_open),)
    return describe_exchange(exchange, ObjectKind.PLAN, line, tags=tags, group="tasks")


def _describe_plan(exchange: ToolExchange) -> Description:
    plan = exchange.string("plan")
    line = stub(f"Plan: {plain(plan, 100)}" if plan else f"{exchange.name}", amount(len(plan)) if plan else "")
    key = PROPOSAL if plan and not outcomes.was_refused_by_user(exchange.answer) else None
    return describe_exchange(exchange, ObjectKind.PLAN, line, key=key, alone=bool(plan))


def _describe_question(exchange: ToolExchange) -> Description:
    """Describe a question to the user, and the answer."""
    line = stub(f"Asked the user: {render_answers(exchange.answer) or plain(exchange.answer or exchange.text, 120)}")
    return describe_exchange(exchange, ObjectKind.DESIGN_DECISION, line, alone=True)


QUESTIONS = frozenset({"askuserquestion", "question"})
"""Tools that ask the user, in lower case."""

_ANSWER = re.compile(r'"([^"\n]{1,2000})"="([^"\n]{1,2000})"')
_ROOM_OF_ANSWERS = 200


def render_answers(text: str) -> str:
    """Return each question with its answer; long questions are cut so that every answer has space."""
    pairs = _ANSWER.findall(text)
    room = _ROOM_OF_ANSWERS // max(1, len(pairs))
    answers = [plain(answer, max(20, room // 2)) for _, answer in pairs]
    return "; ".join(
        f"{plain(question, max(12, room - len(answer) - 4))} {answer}"
        for (question, _), answer in zip(pairs, answers, strict=True)
    )


_READERS: Mapping[Reader, str] = {
    read_file: "read view_file read_file read_text_file open_file",
    describe_edit: "edit multiedit notebookedit patch apply_patch str_replace edit_file",
    describe_write: "write write_file create_file",
    text_editor: "str_replace_based_edit_tool str_replace_editor text_editor",
    _describe_command: "bash shell run_command execute_command local_shell",
    _describe_search: "grep glob ls list toolsearch codesearch find search_files",
    _describe_external: "webfetch websearch web_search web_fetch fetch",
    _describe_agent: "task agent",
    _describe_todos: "todowrite update_plan",
    _describe_task: "taskcreate taskupdate tasklist taskget todoread",
    _describe_plan: "exitplanmode enterplanmode",
    _describe_question: " ".join(QUESTIONS),
}
"""The tools of Claude Code and opencode, and common names of equivalent tools, in lower case; of a tool of an MCP
server, its name there.
"""

_BY_NAME = {name: reader for reader, names in _READERS.items() for name in names.split()}
