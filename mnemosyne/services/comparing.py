"""Two recorded runs of one task side by side."""

import attrs

from mnemosyne.domain.history.run_comparison import Run, RunComparison, compare_runs
from mnemosyne.domain.history.time_travel import History
from mnemosyne.domain.objects.kinds import WRITTEN, is_change, list_declared
from mnemosyne.domain.segmentation.tools import describe
from mnemosyne.domain.session.events import BranchKind
from mnemosyne.domain.wire.blocks import call_id_of, is_call, is_result
from mnemosyne.domain.wire.normal_form import content_blocks
from mnemosyne.domain.wire.reply import json_object
from mnemosyne.errors import NotFound
from mnemosyne.services.contexts import read_reply, rebuild
from mnemosyne.services.forks import RecordedLine, find_line, name_of
from mnemosyne.services.read_models import ReadModels
from mnemosyne.services.sessions import Archive
from mnemosyne.services.timeline import PROMPT, TOKENS, read_timeline, total


@attrs.frozen(kw_only=True)
class RunSummary:
    """The figures of a run, its sub-agents and side calls included. A fork with its own name is another run, and counts
    only its own requests. ``microseconds`` are from its first request to its last reply; ``files`` were changed by the
    client's tools for files.
    """

    session: str
    name: str
    branch: str
    client: str
    model: str | None
    turns: int
    nanodollars: int | None
    prompt_tokens: int
    cached_tokens: int
    reply_tokens: int
    microseconds: int
    files: tuple[str, ...]


@attrs.frozen
class SessionComparison:
    """Two runs, and where their main conversations diverge."""

    first: RunSummary
    second: RunSummary
    found: RunComparison


async def read_comparison(archive: Archive, models: ReadModels, first: str, second: str) -> SessionComparison:
    """Compare two sessions, or forks by their client's name. Raises NotFound, and what ``rebuild`` raises."""
    one, other = await find_line(archive, first), await find_line(archive, second)
    runs = await _read_run(archive, one), await _read_run(archive, other)
    summaries = await _read_summary(models, one, runs[0]), await _read_summary(models, other, runs[1])
    return SessionComparison(*summaries, compare_runs(*runs))


async def _read_run(archive: Archive, line: RecordedLine) -> Run:
    history = line.history
    if line.branch not in history.lines:
        raise NotFound(f"Session {line.stream} has no agent conversation to compare.")
    attempt = history.turn(line.branch)[-1]
    return Run(
        dialect=history.dialect_of(line.branch),
        request=json_object((await rebuild(archive, line.stream, history, attempt)).body),
        reply=json_object(await read_reply(archive, line.stream, attempt) or b""),
        turns=history.first_turns(attempt),
        last=attempt.began.turn,
    )


async def _read_summary(models: ReadModels, line: RecordedLine, run: Run) -> RunSummary:
    timeline = await read_timeline(models, str(line.stream))
    branches = _list_branches(line.history, line.branch)
    turns = [row for row in timeline.turns if row["branch"] in branches]
    billed = attrs.evolve(timeline, turns=turns, helpers=timeline.helpers if len(turns) == len(timeline.turns) else ())
    # The last calls and results have no objects. A request has the run's own calls from its second turn on.
    first, elements = line.history.line(line.branch).inherited + 1, run.request.get(run.dialect.array, ())
    own = [run.dialect.read_message(one) for one, at in zip(elements, run.turns, strict=False) if at > first]
    blocks = [block for one in own for block in content_blocks(one.get("content"))]
    blocks += run.dialect.reply_content(run.reply)
    results = {call_id_of(block): [block] for block in blocks if is_result(block)}
    last = [describe(each, results.get(each.get("id"), ())) for each in blocks if is_call(each)]
    changed = (
        path
        for each in line.history.objects.values()
        if each.branch in branches
        for path in (*([each.source_key] if is_change(each.tags) else ()), *list_declared(each.tags, WRITTEN))
    )
    times = [at for row in turns for at in (row["began_at"], row["ended_at"]) if at is not None]
    return RunSummary(
        session=str(line.stream),
        name=line.name,
        branch=line.branch,
        client=line.client,
        model=line.history.turn(line.branch)[-1].began.model,
        turns=len({(row["branch"], row["turn"]) for row in turns}),
        nanodollars=billed.nanodollars,
        prompt_tokens=sum(total(row, PROMPT) or 0 for row in turns),
        cached_tokens=sum(row["cache_read_tokens"] or 0 for row in turns),
        reply_tokens=sum(total(row, TOKENS[1:2]) or 0 for row in turns),
        microseconds=max(times, default=0) - min(times, default=0),
        files=tuple(
            sorted({path for path in (*changed, *(each.key for each in last if is_change(each.tags))) if path})
        ),
    )


def _list_branches(history: History, branch: str) -> set[str]:
    """The branches of a run."""
    run_of: dict[str, str] = {}
    main = next((line.name for line in history.lines.values() if line.opened.kind is BranchKind.MAIN), branch)
    for name, line in history.lines.items():  # a branch is opened after its parent
        parent = line.opened.parent or main
        is_fork = line.opened.kind is BranchKind.FORK and line.opened.agent_id is None
        is_own = is_fork and name_of(history, name) != name_of(history, parent)
        run_of[name] = name if is_own else run_of.get(parent, parent)
    return {name for name, run in run_of.items() if run == run_of.get(branch, branch)}
