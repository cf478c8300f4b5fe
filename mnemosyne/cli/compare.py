"""``mnemosyne compare``: two runs of one task side by side."""

from collections.abc import Callable
from typing import Any

import click

from mnemosyne.cli.log_access import log_of, prints, with_read_models
from mnemosyne.cli.printing import print_table, say
from mnemosyne.cli.settings import log_options
from mnemosyne.figures import count_text, dollars_text, printable, seconds_text
from mnemosyne.services.comparing import RunSummary, SessionComparison, read_comparison
from mnemosyne.services.unstructuring import as_json

FIGURES: tuple[tuple[str, Callable[[RunSummary], str]], ...] = (
    ("client", lambda run: printable(run.client)),
    ("model", lambda run: printable(run.model or "-")),
    ("turns", lambda run: str(run.turns)),
    ("cost", lambda run: dollars_text(run.nanodollars)),
    ("prompt tokens", lambda run: count_text(run.prompt_tokens)),
    ("of them cached", lambda run: count_text(run.cached_tokens)),
    ("reply tokens", lambda run: count_text(run.reply_tokens)),
    ("duration", lambda run: seconds_text(run.microseconds)),
    ("files changed", lambda run: str(len(run.files))),
)


def _print(found: SessionComparison) -> None:
    runs = (found.first, found.second)
    print_table(("", *(printable(run.name) for run in runs)), [(name, *map(read, runs)) for name, read in FIGURES])
    for number, (run, other) in enumerate((runs, runs[::-1]), 1):
        for path in run.files:
            if path not in other.files:
                say(f"only run {number} changed {printable(path)}")
    if found.found.settings:
        say(f"different beside the conversation: {', '.join(map(printable, found.found.settings))}")
    if found.found.ignored:
        say(f"ignored: {', '.join(found.found.ignored)}")
    apart = found.found.divergence
    if apart is None:
        say(f"All {found.found.same} parts of the conversation are the same.")
        return
    same = f"The first {found.found.same} parts of the conversation are the same. Then"
    say(f"{same if found.found.same else 'The conversations differ from the start'}:", bold=True)
    texts = (apart.difference.recorded, apart.difference.now)
    for number, (part, text) in enumerate(zip((apart.first, apart.second), texts, strict=True), 1):
        where = "ended" if part is None else f"turn {part.turn}, {printable(part.name)}"
        inside = f", {printable(apart.difference.path)}" if part is not None and apart.difference.path else ""
        say(f"  run {number}: {where}{inside}{'' if part is None else f': {printable(text)}'}")


@click.command()
@click.argument("first")
@click.argument("second")
@log_options()
@prints(as_json, _print)
def compare(first: str, second: str, **options: Any) -> SessionComparison:
    """Show two runs of one task side by side: their cost, turns, tokens and changed files, and the first difference
    between their conversations.

    \b
      mnemosyne compare 319a 7be2

    Each run is a session, or a fork, named by its client's id; a fork counts only its own turns. Ids, dates, cache
    markers and signatures are not compared. Changes by shell commands are unknown; the last reply's calls count.
    """
    return with_read_models(log_of(options), lambda models: read_comparison(models.archive, models, first, second))
