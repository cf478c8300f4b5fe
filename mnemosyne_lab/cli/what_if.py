"""``mnemosyne what-if``: the cost of recorded transcripts, and their cost with Mnemosyne."""

import os
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mnemosyne.cli.cache_misses import misses_as_json, print_misses
from mnemosyne.cli.log_access import json_option
from mnemosyne.cli.printing import PAGE_WIDTH, print_json, progress_bar, say, table_lines, terminal_width
from mnemosyne.errors import MnemosyneError
from mnemosyne.figures import count_text, dollars, dollars_text, plural, printable
from mnemosyne.times import utc

if TYPE_CHECKING:
    from mnemosyne_lab.evaluation.results import Evaluation, PolicyComparison
    from mnemosyne_lab.evaluation.what_if import WhatIf

HEADERS = ("tariff", "without", "with", "change", "native", "worst", "ends>1.02")


@click.command("what-if")
@click.argument("paths", nargs=-1, type=click.Path(path_type=Path), metavar="[PATH]…")
@click.option(
    "--since",
    default="30d",
    show_default=True,
    metavar="WHEN",
    help="Sessions active since then: 2026-11-21, or 12h, 7d, 2w ago.",
)
@click.option(
    "--tariffs",
    multiple=True,
    metavar="NAME[,NAME…]",
    help="Tariffs: api-5m, api-1h, quota, openai, openai-before-5.6, local, or all.  "
    "[default: what the record shows, and quota]",
)
@click.option("--misses", is_flag=True, help="Show only the tokens that were not read from the cache, by cause.")
@json_option
@click.pass_context
def what_if(
    ctx: click.Context, /, paths: tuple[Path, ...], since: str, tariffs: tuple[str, ...], misses: bool, as_json: bool
) -> None:
    """Estimate from Claude Code's transcripts what your sessions would have cost with Mnemosyne. It needs no proxy and
    no key, and sends nothing.

    \b
      mnemosyne what-if --since 7d
      mnemosyne what-if --since 7d --misses

    PATH is a transcript or a folder of them; default: `projects` in ~/.claude, or in $CLAUDE_CONFIG_DIR. Any session
    active in that period counts in full, unless Mnemosyne managed it. The cost without Mnemosyne is computed
    from the provider's counts at list prices, as in `mnemosyne savings`; the rest is simulated as in `mnemosyne
    evaluate`. The exit code is 2 if there is no result.
    """
    from mnemosyne.adapters.claude_transcripts import list_folders
    from mnemosyne.cli.log_access import time_of
    from mnemosyne_lab.evaluation.policy import choose_tariffs
    from mnemosyne_lab.evaluation.what_if import what_if as told

    start = utc(time_of(since)).strftime("%Y-%m-%dT%H:%M:%S")
    names = [name.strip() for each in tariffs for name in each.split(",") if name.strip()]
    places = paths or list_folders(os.environ)
    if misses:
        _show_misses(ctx, places, start, as_json)
        return
    with progress_bar("reading, then simulating") as progress:
        found = told(
            places,
            since=start,
            tariffs=choose_tariffs(names),
            say=lambda sentence: say(printable(sentence), err=True),
            progress=progress,
            managed=_list_managed(),
        )
    if not found.replies:
        for words in found.unknown or [f"No session since {start[:10]} in {', '.join(map(str, places))}."]:
            say(printable(words), err=True)
        ctx.exit(2)
    if as_json:
        print_json(_as_json(found, start))
    else:
        say(render(found, start))


def _show_misses(ctx: click.Context, places: tuple[Path, ...], since: str, as_json: bool) -> None:
    from mnemosyne_lab.evaluation.cache_misses import sum_recorded
    from mnemosyne_lab.evaluation.what_if import find_misses

    with progress_bar("reading") as progress:
        found = find_misses(
            places,
            since=since,
            skip=lambda sentence: say(f"Skipped: {printable(sentence)}", err=True),
            progress=progress,
            managed=_list_managed(),
        )
    for sentence in found.left_out:
        say(printable(sentence), err=True)
    if not found.sessions:
        say(printable(f"No session since {since[:10]} in {', '.join(map(str, places))}."), err=True)
        ctx.exit(2)
    groups = sum_recorded(found.sessions)
    if as_json:
        sizes = {"sessions": len(found.sessions), "requests": sum(map(len, found.sessions.values()))}
        print_json({"since": since, **sizes, "causes": misses_as_json(groups), "left_out": found.left_out})
    else:
        print_misses(groups)


def _list_managed() -> frozenset[str]:
    """The client's names of the sessions that Mnemosyne managed on this machine, as far as its log can be read."""
    from mnemosyne.cli.log_access import has_log, with_read_models
    from mnemosyne.cli.settings import configuration
    from mnemosyne.services.savings import read_savings

    try:
        config = configuration({}, warns=False)
        if not has_log(config):
            return frozenset()
        found = with_read_models(config, read_savings)
    except MnemosyneError as error:
        say(f"Sessions that were managed cannot be left out: {printable(str(error))}", err=True)
        return frozenset()
    return frozenset(found.names.get(stream, "") for stream, balance in found.sessions.items() if balance.managed)


def render(found: "WhatIf", since: str, *, width: int | None = None) -> str:
    """The sentence, the table, and the unknowns; ``width`` in columns, by default the terminal's."""
    lines = [sentence(found, since)]
    if found.evaluation is not None:
        tariffs = dict.fromkeys(each.tariff for each in found.evaluation.comparisons)
        rows = [_row(found.evaluation, tariff) for tariff in tariffs]
        lines += ["", *table_lines(HEADERS, rows, right=HEADERS[1:], width=width), ""]
    for words in _words(found):
        lines += textwrap.wrap(words, width or terminal_width() or PAGE_WIDTH)
    return "\n".join(lines)


def _words(found: "WhatIf") -> Iterator[str]:
    from mnemosyne_lab.evaluation.verdict import closeness

    if found.evaluation is not None:
        yield closeness(found.evaluation) or "The error of the simulation is unknown: no model here has a known price."
        yield WORDS
    if found.unpriced:
        yield f"Not in the money: {found.unpriced:,} replies of models without a known price, or on terms without one."
    yield from map(printable, found.unknown)


WORDS = (
    "In the first row, the cost without Mnemosyne is the recorded one; the other rows simulate the same sessions"
    " under another tariff. Native simulates Claude Code as of autumn 2026. Worst is the highest cost of a session"
    " with Mnemosyne, relative to its cost without it; ends>1.02 is the share of requests after which a session, had"
    " it ended there, would have cost more than 1.02 times as much. Providers do not publish how they count a quota:"
    " here a token of a prompt counts once, cached or not, and a token of a reply five times. Local counts what a"
    " server with one slot reads."
)


def sentence(found: "WhatIf", since: str) -> str:
    which = f"{plural(found.sessions, 'session')} used since {since[:10]} cost"
    cost = f"{which} {dollars_text(found.recorded)} at list prices"
    main = _against(found.evaluation, found.tariff.name, "unmanaged")
    if main is None or main.ratio is None:
        return f"{cost}. Their cost with Mnemosyne is unknown."
    saved = main.nanodollars_against - main.nanodollars
    share = 100 * saved / found.recorded if found.recorded else 0
    change = f"{abs(share):.0f} % {'less' if saved >= 0 else 'more'}"
    return f"{cost}; with Mnemosyne, about {dollars_text(found.recorded - saved)} ({change})."


def _against(evaluation: "Evaluation | None", tariff: str, against: str) -> "PolicyComparison | None":
    found = evaluation.comparisons if evaluation is not None else ()
    return next((each for each in found if (each.tariff, each.against) == (tariff, against)), None)


def _row(evaluation: "Evaluation", tariff: str) -> list[str]:
    real, native = (_against(evaluation, tariff, name) for name in ("unmanaged", "native"))
    assert real is not None
    assert native is not None
    in_money = tariff.startswith("api")
    name, show = ("nanodollars", dollars_text) if in_money else ("billed", count_text)
    without, ours, other = (
        round(getattr(*each)) for each in ((real, f"{name}_against"), (real, name), (native, f"{name}_against"))
    )
    return [
        tariff,
        show(without),
        show(ours),
        "-" if real.ratio is None else f"{100 * float(real.ratio - 1):+.0f} %",
        show(other),
        "-" if real.dearest is None else f"{float(real.dearest):.3f}",
        f"{100 * real.ends_dearer / max(1, real.ends):.1f} %",
    ]


def _as_json(found: "WhatIf", since: str) -> dict[str, Any]:
    from mnemosyne_lab.evaluation.report_json import report

    return {
        "since": since,
        "sentence": sentence(found, since),
        "sessions": found.sessions,
        "agents": found.agents,
        "replies": found.replies,
        "unpriced_replies": found.unpriced,
        "input_tokens": found.used.input,
        "cache_read_tokens": found.used.read,
        "cache_write_5m_tokens": found.used.write_5m,
        "cache_write_1h_tokens": found.used.write_1h,
        "output_tokens": found.used.output,
        "dollars": dollars(found.recorded),
        "tariff": found.tariff.name,
        "unknown": list(found.unknown),
        "skipped": list(found.skipped),
        "evaluation": None if found.evaluation is None else report(found.evaluation),
    }
