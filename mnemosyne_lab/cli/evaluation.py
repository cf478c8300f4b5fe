"""An evaluation on a terminal: a row for each policy, and the meaning of the columns."""

import textwrap
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from mnemosyne.cli.printing import PAGE_WIDTH, table_lines, terminal_width
from mnemosyne.figures import plural, printable
from mnemosyne_lab.evaluation.report_json import (
    AGAINST,
    COLUMNS,
    LIMITS,
    STRETCHES,
    STRETCHES_SHOWN,
    denominator,
    report,
    rows_of_comparisons,
    rows_of_dearer,
    wire_sentence,
)
from mnemosyne_lab.evaluation.results import Evaluation


def render_evaluation(evaluation: Evaluation, *, width: int | None = None) -> str:
    """The verdict, the table, the legend and the skipped inputs. ``width`` as in ``table_lines``."""
    told = report(evaluation)
    lines: list[str] = []
    if told["verdict"]:
        lines += [printable(told["verdict"]), ""]
    if told["window"]:
        lines += [*map(printable, told["window"]), ""]
    if told["policies"]:
        lines += [*_table(told["policies"], width), *_against(told, width)]
        lines += ["", *_grid(_meanings(told), width)]
    else:
        lines.append("No policy was evaluated.")
    return "\n".join([*lines, *(f"Skipped: {printable(sentence)}" for sentence in told["skipped"])])


def _table(policies: Mapping[str, Any], width: int | None) -> list[str]:
    titles = [column.title for column in COLUMNS]
    rows = [
        [name + (" (bound)" if policy["bound"] else ""), *(each.text(policy["totals"]) for each in COLUMNS)]
        for name, policy in policies.items()
    ]
    return table_lines(["policy", *titles], rows, right=titles, spare=("$", "epochs"), width=width)


def _against(told: Mapping[str, Any], width: int | None) -> Iterator[str]:
    """A row for each tariff: the bill relative to each alternative, and the other columns for the first of these."""
    rows = rows_of_comparisons(told)
    if rows:
        (_, _, billed), *others = AGAINST
        yield from ("", f"{printable(told['judged'])} against what could have been without it")
        against = list(dict.fromkeys(row["against"] for row in rows))
        by_tariff = {row["tariff"]: [each for each in rows if each["tariff"] == row["tariff"]] for row in rows}
        titles = [*against, *(title for title, _, _ in others)]
        cells = [
            [tariff, *map(billed, found), *(text(found[0]) for _, _, text in others)]
            for tariff, found in by_tariff.items()
        ]
        yield from table_lines(["tariff", *titles], cells, right=titles, width=width)
        yield from _dearer(told, width)


def _dearer(told: Mapping[str, Any], width: int | None) -> Iterator[str]:
    """The reasons for dearer ends, longest first."""
    rows = rows_of_dearer(told)
    if rows:
        against = rows_of_comparisons(told)[0]["against"]
        yield from ("", f"Why ends are above 1.02, against {against}")
        titles = ["tariff", *STRETCHES]
        numbers = ["worst end", "for request", "tokens"]
        yield from table_lines(titles, rows[:STRETCHES_SHOWN], right=numbers, width=width)
    if len(rows) > STRETCHES_SHOWN:
        yield f"{plural(len(rows) - STRETCHES_SHOWN, 'stretch')} more; the report as JSON has them."


def _grid(rows: Iterable[tuple[str, str]], width: int | None) -> Iterator[str]:
    """Titles with their explanations in a second column."""
    held = list(rows)
    margin = max(len(title) for title, _ in held) + 2
    for title, words in held:
        yield from textwrap.wrap(
            words,
            width or terminal_width() or PAGE_WIDTH,
            initial_indent=title.ljust(margin),
            subsequent_indent=" " * margin,
        )


def _meanings(told: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    policies = told["policies"]
    for column in COLUMNS:
        yield column.title, column.words
    if any(policy["bound"] for policy in policies.values()):
        yield "bound", "knows the future: a limit, not a candidate"
    for name, policy in policies.items():
        if dearest := policy["totals"]["dearest_session"]:
            yield "dearest", f"{printable(name)}: {printable(dearest['name'])} at {dearest['ratio']:.3f}"
    compared = rows_of_comparisons(told)
    if compared:
        against = f"against {compared[0]['against']}"
        yield from ((title, f"{words}; {against}") for title, words, _ in AGAINST[2:])
        if rows_of_dearer(told):
            yield from ((title, words) for title, words in STRETCHES.items() if words)
        yield from told["legend"].items()
    yield "wire", wire_sentence(policies)
    yield "ratios", denominator(told)
    if told["closeness"]:
        yield "dollars", told["closeness"]
    yield "limits", LIMITS
