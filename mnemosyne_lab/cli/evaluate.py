"""``mnemosyne evaluate``: policies compared on recorded sessions, without a model."""

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import attrs
import click

from mnemosyne.cli.printing import progress_bar, say
from mnemosyne.cli.private_files import write_private
from mnemosyne.cli.settings import configuration, log_options
from mnemosyne.figures import printable

if TYPE_CHECKING:
    from mnemosyne.domain.cost.prompt import Ttl


@click.command()
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="FILE…")
@click.option(
    "--policy",
    "names",
    multiple=True,
    metavar="NAME[,NAME…]",
    help="Only these policies; MODULE:NAME is your own.  [default: all built-in ones]",
)
@click.option("--ttl", type=click.Choice(("5m", "1h")), default="5m", show_default=True, help="Cache lifetime.")
@click.option(
    "--tariffs",
    multiple=True,
    metavar="NAME[,NAME…]",
    help="Tariffs: api-5m, api-1h, quota, openai, openai-before-5.6, local, or all.  [default: as --ttl]",
)
@click.option("--model", metavar="MODEL", help="Model for prices and cache.  [default: the session's own]")
@click.option(
    "--fixed-tokens",
    type=click.IntRange(min=0),
    metavar="N",
    help="Size of system prompt and tools.  [default: the session's own, or 41000]",
)
@click.option("--memory-tools", is_flag=True, help="Include the memory tools in managed requests.")
@click.option(
    "--window",
    type=click.IntRange(min=1_000),
    metavar="N",
    help="Limit prompts to this window, and compare with a client that compacts in it.  [default: the models' own]",
)
@click.option(
    "--min-turns", type=click.IntRange(min=1), default=1, show_default=True, metavar="N", help="Skip shorter sessions."
)
@click.option(
    "--judge",
    "judged",
    type=click.IntRange(min=1),
    metavar="N",
    help="Have the helper model judge N places with evicted content. This sends content to it and costs money.",
)
@click.option(
    "--report",
    "reports",
    multiple=True,
    type=click.Path(path_type=Path, dir_okay=False, writable=True),
    metavar="OUT.{json,html}",
    help="Also write the report; repeatable.",
)
@log_options()
@click.pass_context
def evaluate(
    ctx: click.Context,
    /,
    files: tuple[Path, ...],
    names: tuple[str, ...],
    ttl: "Ttl",
    tariffs: tuple[str, ...],
    model: str | None,
    fixed_tokens: int | None,
    memory_tools: bool,
    window: int | None,
    min_turns: int,
    judged: int | None,
    reports: tuple[Path, ...],
    **options: object,
) -> None:
    """Compare context policies on recorded sessions: the requests that each would have sent, their cost, and the
    evicted content that the agent would have needed again.

    \b
      mnemosyne evaluate session.jsonl --report report.html
      mnemosyne evaluate session.jsonl --judge 20

    FILE is a session written by `mnemosyne export`, or JSON Lines of sessions. The first line is the verdict. Without
    --judge, the same files give the same report, byte for byte. The exit code is 2 if nothing could be read. See
    docs/evaluation.md.
    """
    from mnemosyne.app.storage import event_codec
    from mnemosyne_lab.cli.evaluation import render_evaluation
    from mnemosyne_lab.cli.judge import check_judge, judge, render_judge
    from mnemosyne_lab.evaluation.exports import conversations
    from mnemosyne_lab.evaluation.policies import NATIVE, UNMANAGED
    from mnemosyne_lab.evaluation.policy import MODEL, Settings, api, choose_tariffs
    from mnemosyne_lab.evaluation.report_html import report_html
    from mnemosyne_lab.evaluation.report_json import report_json
    from mnemosyne_lab.evaluation.running import RunPlan
    from mnemosyne_lab.evaluation.running import evaluate as evaluate_files
    from mnemosyne_lab.evaluation.verdict import OURS

    for path in reports:
        if path.suffix not in (".json", ".html"):
            raise click.UsageError(f"A report is OUT.json or OUT.html, not {path}.")
        if not path.parent.is_dir():  # said before the work begins
            raise click.ClickException(f"{path} cannot be written: there is no folder {path.parent}.")
    settings = Settings(
        tariff=api(ttl),
        model=model or MODEL,
        fixed=fixed_tokens,
        memory_tools=memory_tools or window is not None,
        window=window,
    )
    settings.price  # noqa: B018 -- an unknown model is said before the work begins
    config = None if judged is None else configuration(options)
    if config is not None:
        check_judge(config)
    compared = choose_tariffs(_split_names(tariffs))
    few = [UNMANAGED.name, OURS] if window is None else [NATIVE.name, OURS]
    wanted = _split_names(names) or (few if compared or window is not None else [])
    asked = RunPlan(
        policies=wanted,
        settings=settings,
        model=model,
        min_turns=min_turns,
        tariffs=compared or [settings.tariff],
        samples=judged is not None,
    )
    with progress_bar("evaluating") as progress:
        found = evaluate_files(
            files,
            asked,
            exported=partial(conversations, codec=event_codec()),
            say=lambda sentence: say(printable(sentence), err=True),
            progress=progress,
        )
    if not any(policy.sessions for policy in found.policies):
        for sentence in found.window:
            say(sentence, err=True)
        if not found.skipped:  # the reason was printed already
            say("No session to evaluate.", err=True)
        ctx.exit(2)
    say(render_evaluation(found))
    if config is not None and judged is not None:
        found = attrs.evolve(found, judge=judge(config, found, judged))
        say(render_judge(found.judge))
    for path in reports:
        write_private(path, report_json(found) if path.suffix == ".json" else report_html(found))


def _split_names(given: tuple[str, ...]) -> list[str]:
    return [name.strip() for each in given for name in each.split(",") if name.strip()]
