"""An evaluation on a terminal: a row for each policy, and below it what the columns mean."""

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from mnemosyne.cli.printing import table_of
from mnemosyne.figures import printable

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.text import Text

    from mnemosyne_lab.evaluation.results import Evaluation


def render_evaluation(evaluation: "Evaluation", *, width: int | None = None) -> "RenderableType":
    """What it came to, the table, the legend and the inputs that were skipped. It is complete without colour.
    ``width`` as in ``table_of``.
    """
    from rich.console import Group
    from rich.text import Text

    from mnemosyne_lab.evaluation.report_json import report

    told = report(evaluation)
    policies = told["policies"]
    parts: list[RenderableType] = [Text("No policy was evaluated.")]
    if policies:
        parts = [_table(policies, width), *_against(told, width), *_probes(told, width), _legend(told)]
    if told["window"]:
        parts = [*(Text(printable(sentence)) for sentence in told["window"]), Text(""), *parts]
    if told["verdict"]:
        parts = [Text(printable(told["verdict"]) + "\n", style="bold"), *_verdicts(told), *parts]
    return Group(*parts, *(Text(f"Skipped: {printable(sentence)}") for sentence in told["skipped"]))


def _verdicts(told: Mapping[str, Any]) -> "Iterator[RenderableType]":
    """A sentence for each tariff, where there are several."""
    from rich.padding import Padding

    if len(told["verdicts"]) > 1:
        yield Padding(_grid(told["verdicts"].items()), (0, 0, 1, 0))


def _table(policies: Mapping[str, Any], width: int | None) -> "Text":
    from rich.text import Text

    from mnemosyne_lab.evaluation.report_figures import BEST, COLUMNS, best

    titles = [column.title for column in COLUMNS]
    winners = {column.title: best(column, policies) for column in COLUMNS}
    rows: list[list[str | Text]] = []
    for name, policy in policies.items():
        cells: list[str | Text] = [printable(name) + (" (bound)" if policy["bound"] else "")]
        for column in COLUMNS:
            won = name in winners[column.title]
            # A place is kept for the mark, so that the digits of a column stay under each other.
            text = column.text(policy["totals"]) + (BEST if won else " ")
            cells.append(Text(text, style="bold green") if won else text)
        rows.append(cells)
    return table_of(["policy", *titles], rows, right=titles, spare=("$", "epochs"), width=width)


def _against(told: Mapping[str, Any], width: int | None) -> "Iterator[Text]":
    """A row for each tariff: what was billed over each of what the sessions could have been without the policy, and the
    rest against the first of these.
    """
    from rich.text import Text

    from mnemosyne_lab.evaluation.report_figures import AGAINST, rows_of_comparisons

    rows = rows_of_comparisons(told)
    if rows:
        (_, _, billed), *others = AGAINST
        yield Text(f"\n{printable(told['judged'])} against what could have been without it", style="bold")
        against = list(dict.fromkeys(row["against"] for row in rows))
        by_tariff = {row["tariff"]: [each for each in rows if each["tariff"] == row["tariff"]] for row in rows}
        titles = [*against, *(title for title, _, _ in others)]
        cells = [
            [tariff, *map(billed, found), *(text(found[0]) for _, _, text in others)]
            for tariff, found in by_tariff.items()
        ]
        yield table_of(["tariff", *titles], cells, right=titles, width=width)
        yield from _dearer(told, width)


def _dearer(told: Mapping[str, Any], width: int | None) -> "Iterator[Text]":
    """What made ends dearer, most first."""
    from rich.text import Text

    from mnemosyne.figures import plural
    from mnemosyne_lab.evaluation.report_figures import STRETCHES, STRETCHES_SHOWN, rows_of_comparisons, rows_of_dearer

    rows = rows_of_dearer(told)
    if rows:
        against = rows_of_comparisons(told)[0]["against"]
        yield Text(f"\nWhy ends are above 1.02, against {against}", style="bold")
        titles = ["tariff", *(title for title, _ in STRETCHES)]
        yield table_of(titles, rows[:STRETCHES_SHOWN], right=["worst end", "for request", "tokens"], width=width)
    if len(rows) > STRETCHES_SHOWN:
        yield Text(f"{plural(len(rows) - STRETCHES_SHOWN, 'stretch')} more; the report as JSON has them.")


def _probes(told: Mapping[str, Any], width: int | None) -> "Iterator[Text]":
    """A row for each policy and each thing that was asked about, and what compactions cost."""
    from rich.text import Text

    from mnemosyne_lab.evaluation.report_figures import PROBED, rereads_sentence, rows_of_probes

    rows = rows_of_probes(told)
    if rows:
        yield Text("\nWhat can still be told after a rewrite", style="bold")
        titles = [title for title, _ in PROBED]
        cells = [[printable(name), *rest] for name, *rest in rows]
        yield table_of(["policy", "asked about", *titles], cells, right=titles, width=width)
        yield Text(rereads_sentence(told))


def _legend(told: Mapping[str, Any]) -> "RenderableType":
    from rich.padding import Padding

    return Padding(_grid(_meanings(told)), (1, 0, 0, 0))


def _grid(rows: Iterable[tuple[str, str]]) -> "RenderableType":
    """Titles, and beside each its words."""
    from rich.table import Table
    from rich.text import Text

    grid = Table.grid(padding=(0, 2))
    grid.add_column(no_wrap=True)
    grid.add_column()
    for title, words in rows:
        grid.add_row(Text(title), Text(words))
    return grid


def _meanings(told: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    from mnemosyne_lab.evaluation.report_figures import (
        AGAINST,
        BEST,
        COLUMNS,
        LIMITS,
        PROBED,
        STRETCHES,
        denominator,
        rows_of_comparisons,
        rows_of_dearer,
        wire_sentence,
    )

    policies = told["policies"]
    for column in COLUMNS:
        yield column.title, column.words
    yield BEST, "the best of those policies that evict and do not know the future"
    if any(policy["bound"] for policy in policies.values()):
        yield "bound", "knows the future: a limit, not a candidate"
    for name, policy in policies.items():
        if dearest := policy["totals"]["dearest_session"]:
            yield "dearest", f"{printable(name)}: {printable(dearest['name'])} at {dearest['ratio']:.3f}"
    if told["probes"]:
        yield from PROBED
    compared = rows_of_comparisons(told)
    if compared:
        against = f"against {compared[0]['against']}"
        yield from ((title, f"{words}; {against}") for title, words, _ in AGAINST[2:])
        if rows_of_dearer(told):
            yield from ((title, words) for title, words in STRETCHES if words)
        yield from told["legend"].items()
    yield "wire", wire_sentence(policies)
    yield "ratios", denominator(told)
    yield "limits", LIMITS
