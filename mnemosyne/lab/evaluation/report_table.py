"""An evaluation on a terminal: a row for each policy, and below it what the columns mean."""

from collections.abc import Mapping
from typing import Any

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from mnemosyne.lab.evaluation.report_figures import BEST, COLUMNS, DENOMINATOR, LIMITS, best, printable, wire_sentence
from mnemosyne.lab.evaluation.report_json import report
from mnemosyne.lab.evaluation.results import Evaluation


def print_report(evaluation: Evaluation, console: Console) -> None:
    """Write the table, the legend and the inputs that were skipped. It is complete without colour."""
    told = report(evaluation)
    if told["policies"]:
        console.print(_table(told["policies"]))
        console.print(_legend(told["policies"]))
    else:
        console.print(Text("No policy was evaluated."))
    for sentence in told["skipped"]:
        console.print(Text(f"Skipped: {printable(sentence)}"))


def _table(policies: Mapping[str, Any]) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 1))
    table.add_column("policy", overflow="fold", min_width=12)
    for column in COLUMNS:
        table.add_column(column.title, justify="right", no_wrap=True)
    winners = {column.title: best(column, policies) for column in COLUMNS}
    for name, policy in policies.items():
        cells = [Text(printable(name) + (" (bound)" if policy["bound"] else ""))]
        for column in COLUMNS:
            won = name in winners[column.title]
            # A place is kept for the mark, so that the digits of a column stay under each other.
            text = column.text(policy["totals"]) + (BEST if won else " ")
            cells.append(Text(text, style="bold green" if won else ""))
        table.add_row(*cells)
    return table


def _legend(policies: Mapping[str, Any]) -> Padding:
    rows = Table.grid(padding=(0, 2))
    rows.add_column(no_wrap=True)
    rows.add_column()
    for column in COLUMNS:
        rows.add_row(Text(column.title), Text(column.words))
    rows.add_row(Text(BEST), Text("the best of those policies that evict and do not know the future"))
    if any(policy["bound"] for policy in policies.values()):
        rows.add_row(Text("bound"), Text("knows the future: a limit, not a candidate"))
    for name, policy in policies.items():
        if note := _dearest(policy):
            rows.add_row(Text("dearest"), Text(f"{printable(name)}: {note}"))
    rows.add_row(Text("wire"), Text(wire_sentence(policies)))
    rows.add_row(Text("ratios"), Text(DENOMINATOR))
    rows.add_row(Text("limits"), Text(LIMITS))
    return Padding(rows, (1, 0, 0, 0))


def _dearest(policy: Mapping[str, Any]) -> str:
    dearest = policy["totals"]["dearest_session"]
    return f"{printable(dearest['name'])} at {dearest['ratio']:.3f}" if dearest else ""
