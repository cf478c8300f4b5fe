"""What a call and its results are about: by the tool's name where it is known, else by the shape of its input."""

import re
from collections.abc import Callable, Mapping, Sequence

import attrs

from mnemosyne.domain.objects.followed_plan import FINISHED, LIST, PROPOSAL, step_tag
from mnemosyne.domain.objects.kinds import DEFINITIONS, ObjectKind
from mnemosyne.domain.objects.units import Description
from mnemosyne.domain.segmentation import outcomes, plan_items, shell
from mnemosyne.domain.segmentation.commands import describe_command
from mnemosyne.domain.segmentation.exchanges import ToolExchange, any_answer, exchange_of, failure, render_answered
from mnemosyne.domain.segmentation.files import describe_edit, describe_write, path_of, read_file, text_editor
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


def describe(call: Block | None, results: Sequence[Block]) -> Description:
    """What a call and its results are about. Either may be missing."""
    exchange = exchange_of(call, results)
    described = _reader(exchange)(exchange)
    tags = described.tags
    if call is None:
        tags = (*tags, "orphan")
    elif not results:
        tags = (*tags, "unanswered")
    if outcomes.was_refused_by_user(exchange.said):
        tags = (*tags, "refused")
    defines = any(map(_defines, results))
    if defines:
        tags = (*tags, DEFINITIONS)
    facts = [each for each in exchange.attached if each not in described.stub]
    said = stub(f"{described.stub}, {'; '.join(facts)}") if facts else described.stub
    return attrs.evolve(described, tags=tags, stub=said, alone=described.alone or defines, parts=exchange.parts)


def _defines(result: Block) -> bool:
    """Whether it brings definitions of tools: the model may call these only as long as it stands there."""
    match result.get("content"):
        case list(content) | {"tool_references": list(content)}:
            return any(isinstance(each, Mapping) and blocks.type_of(each) == "tool_reference" for each in content)
        case _:
            return False


Reader = Callable[[ToolExchange], Description]


def _reader(exchange: ToolExchange) -> Reader:
    known = _BY_NAME.get(exchange.name.lower())
    if known is not None:
        return known
    given = exchange.input
    if exchange.name.startswith("mcp__") and _looks_outward(exchange.name):
        return _outside
    if exchange.string("command", "cmd") and not path_of(exchange):
        return describe_command
    if path_of(exchange):
        if any(name in given for name in _NEW_TEXTS):
            return describe_edit
        if isinstance(given.get("content") or given.get("file_text"), str):
            return describe_write
        if re.search(r"read|view|open|cat", exchange.name, re.IGNORECASE):
            return read_file
    if isinstance(given.get("url"), str):
        return _outside
    if isinstance(given.get("todos"), list):
        return _todos
    return any_answer


def _looks_outward(name: str) -> bool:
    return (
        re.search(r"docs?(?![a-z])|fetch|search|web|browse|wiki|library|context7|url|page", name, re.IGNORECASE)
        is not None
    )


def _describe_search(exchange: ToolExchange) -> Description:
    """Searches and listings."""
    pattern = exchange.string("pattern", "query", "regex")
    where = exchange.string("path", "include", "glob")
    key = f"{exchange.name} {shell.key_of(blocks.as_json(dict(exchange.input)))}"
    quoted = f' "{shorten(pattern, 90)}"' if pattern else ""
    place = f" in {shorten(where, 90)}" if where else ""
    if exchange.failed:
        return failure(exchange, key, asked=f"{exchange.name}{quoted}{place}" if quoted or place else None)
    return Description(
        kind=ObjectKind.TOOL_RESULT,
        tool=exchange.name,
        key=key,
        tags=("search",),
        group=ObjectKind.TOOL_RESULT.value,
        stub=render_answered(f"{exchange.name}{quoted}{place}", exchange),
        text=exchange.text,
    )


def _outside(exchange: ToolExchange) -> Description:
    asked = exchange.string("url", "query", "libraryName", "topic") or shell.key_of(
        blocks.as_json(dict(exchange.input))
    )
    key = f"{exchange.name} {shell.key_of(asked)}"
    if exchange.failed or outcomes.says_error(exchange.said):
        return failure(exchange, key)
    return Description(
        kind=ObjectKind.EXTERNAL_REFERENCE,
        tool=exchange.name,
        key=key,
        group=ObjectKind.EXTERNAL_REFERENCE.value,
        stub=render_answered(f"{exchange.name} {plain(asked, 120)}", exchange),
        text=exchange.text,
    )


def _agent(exchange: ToolExchange) -> Description:
    """A sub-agent's report."""
    title = exchange.string("description", "name", "prompt")
    if exchange.failed:
        return failure(exchange, f"{exchange.name} {plain(title, 80)}", tags=("agent",))
    return Description(
        kind=ObjectKind.TOOL_RESULT,
        tool=exchange.name,
        tags=("agent",),
        group="agent",
        stub=render_answered(
            f"{exchange.name} {plain(exchange.string('subagent_type'), 30)}: {plain(title, 80)}", exchange
        ),
        text=exchange.text,
    )


def _todos(exchange: ToolExchange) -> Description:
    """A list of things to do, written whole."""
    items = plan_items.list_of(exchange.input) or ()
    if exchange.failed:
        return failure(exchange, None)
    return Description(
        kind=ObjectKind.PLAN,
        tool=exchange.name,
        key=LIST,
        tags=() if any(each.state.is_open for each in items) else (FINISHED,),
        group=ObjectKind.PLAN.value,
        alone=True,
        stub=plan_items.render_list(items),
        text=exchange.text,
    )


def _task_list(exchange: ToolExchange) -> Description:
    """One step of a plan that is changed step by step."""
    if exchange.failed:
        return failure(exchange, None)
    what = exchange.string("subject", "status", "taskId")
    task = plan_items.task_of(exchange.input, exchange.said)
    number = task.number if task is not None else ""
    return Description(
        kind=ObjectKind.PLAN,
        tool=exchange.name,
        tags=() if task is None or task.state is None else (step_tag(number, is_open=task.state.is_open),),
        group="tasks",
        stub=stub(f"{exchange.name} {number} {plain(what, 80)}".replace("  ", " ")),
        text=exchange.text,
    )


def _describe_plan(exchange: ToolExchange) -> Description:
    plan = exchange.string("plan")
    return Description(
        kind=ObjectKind.PLAN,
        tool=exchange.name,
        key=PROPOSAL if plan and not outcomes.was_refused_by_user(exchange.said) else None,
        group=ObjectKind.PLAN.value,
        alone=bool(plan),
        stub=stub(f"Plan: {plain(plan, 100)}" if plan else f"{exchange.name}", amount(len(plan)) if plan else ""),
        text=exchange.text,
    )


def _describe_question(exchange: ToolExchange) -> Description:
    """A question to the user, and what was decided."""
    return Description(
        kind=ObjectKind.DESIGN_DECISION,
        tool=exchange.name,
        group=ObjectKind.DESIGN_DECISION.value,
        alone=True,
        stub=stub(f"Asked the user: {_render_answers(exchange.said) or plain(exchange.said or exchange.text, 120)}"),
        text=exchange.text,
    )


_ANSWER = re.compile(r'"([^"\n]{1,2000})"="([^"\n]{1,2000})"')
_ROOM_OF_ANSWERS = 200


def _render_answers(said: str) -> str:
    """Each question with what was answered; of a long one the beginning, so that every answer has room."""
    found = _ANSWER.findall(said)
    room = _ROOM_OF_ANSWERS // max(1, len(found))
    answers = [plain(answer, max(20, room // 2)) for _, answer in found]
    return "; ".join(
        f"{plain(question, max(12, room - len(answer) - 4))} {answer}"
        for (question, _), answer in zip(found, answers, strict=True)
    )


_READERS: Mapping[Reader, str] = {
    read_file: "read view_file read_file open_file",
    describe_edit: "edit multiedit notebookedit patch apply_patch str_replace edit_file",
    describe_write: "write write_file create_file",
    text_editor: "str_replace_based_edit_tool str_replace_editor text_editor",
    describe_command: "bash shell run_command execute_command local_shell",
    _describe_search: "grep glob ls list toolsearch codesearch find search_files",
    _outside: "webfetch websearch web_search web_fetch fetch",
    _agent: "task agent",
    _todos: "todowrite update_plan",
    _task_list: "taskcreate taskupdate tasklist taskget todoread",
    _describe_plan: "exitplanmode enterplanmode",
    _describe_question: "askuserquestion question",
}
"""The tools of Claude Code and opencode, and what others commonly call the same; in lower case."""

_BY_NAME = {name: reader for reader, names in _READERS.items() for name in names.split()}
