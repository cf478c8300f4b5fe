"""The columns of the comparison, shared by terminal and page."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import attrs

from mnemosyne.figures import printable

Totals = Mapping[str, Any]
"""The ``totals`` of one policy in the JSON report."""

NOTHING = "–"  # noqa: RUF001 - a dash, where there is no number
BEST = "*"


@attrs.frozen
class Column:
    """A table column that shows the figure ``key`` of the totals; ``words`` explain it."""

    title: str
    key: str
    form: str
    better: Literal["low", "high"] | None
    words: str

    def value(self, totals: Totals) -> float | None:
        """The figure of a policy, of the dearest session its ratio; None if there is nothing to compare."""
        found = totals[self.key]
        value: float | None = found["ratio"] if isinstance(found, Mapping) else found
        return value

    def text(self, totals: Totals) -> str:
        """The cell of a policy, for people."""
        value = self.value(totals)
        return NOTHING if value is None else self.form.format(value)


_BILLED = "the total cost of all sessions in input-token equivalents, relative to the same sessions unmanaged"
_DEAREST = "the billed ratio of the session that fared worst (its name is given beside it or below)"
_RESIDENT = "share of demands (exact texts and specifics that the next reply took from earlier) still in what was sent"
_SILENT = "demands that were absent and that nothing resident named: each one is a defect"
_NOMINAL = "tokens sent, relative to unmanaged; it differs from the cost because of the cache"
_DEARER = "share of sessions that cost more than 1.02 times the unmanaged one"
_FAULTS = "exact texts that were needed but evicted, per eviction"
_STEPS = "share of the steps down that end at a short form"

COLUMNS: Sequence[Column] = (
    Column("billed", "billed_ratio", "{:.3f}", "low", _BILLED),
    Column("nominal", "nominal_ratio", "{:.3f}", "low", _NOMINAL),
    Column("dearest", "dearest_session", "{:.3f}", "low", _DEAREST),
    Column(">1.02", "share_of_sessions_dearer", "{:.0%}", "low", _DEARER),
    Column("faults/evict", "exact_faults_per_eviction", "{:.2%}", "low", _FAULTS),
    Column("to L1, L2", "share_of_steps_to_short_forms", "{:.0%}", None, _STEPS),
    Column("resident", "share_resident", "{:.1%}", "high", _RESIDENT),
    Column("silent", "silent", "{:d}", "low", _SILENT),
    Column("epochs", "epochs_per_session", "{:.1f}", None, "rewrites for each session"),
    Column("$", "dollars", "{:.2f}", "low", "dollars for all sessions, input side only"),
)


def denominator(told: Mapping[str, Any]) -> str:
    """The denominator of a JSON report's ratios, in a sentence."""
    return _IN_A_WINDOW if told["window"] else _DENOMINATOR


def managing(policies: Mapping[str, Any]) -> list[str]:
    """The names of the policies that evict and do not know the future, which can be compared fairly."""
    return [name for name, policy in policies.items() if policy["totals"]["evictions"] and not policy["bound"]]


def best(column: Column, policies: Mapping[str, Any]) -> set[str]:
    """The best policies in a column among those that manage; all of them if equal as shown."""
    values = {name: column.value(policies[name]["totals"]) for name in managing(policies)}
    known = [value for value in values.values() if value is not None]
    if not known or column.better is None:
        return set()
    target = column.form.format(min(known) if column.better == "low" else max(known))
    return {name for name in values if column.text(policies[name]["totals"]) == target}


def wire_sentence(policies: Mapping[str, Any]) -> str:
    """The number of requests that break a wire rule, by policy, in a sentence."""
    broken = {name: policy["totals"]["wire_violations"] for name, policy in policies.items()}
    told = ", ".join(f"{printable(name)} {count}" for name, count in broken.items() if count)
    return f"Requests that break a rule of the wire: {told or 'none, under any policy'}."


_DENOMINATOR = (
    "Each ratio is relative to the actual cost of the same client, including its own compactions and cache hits."
)
_IN_A_WINDOW = "Each ratio is relative to a client that compacts by itself in this window (native)."
LIMITS = (
    "The agent is a recording: it does not react to what it is sent. What it would have done otherwise, and whether it"
    " would have asked for what was missing, is not in these numbers."
)

AGAINST: Sequence[tuple[str, str, Callable[[Mapping[str, Any]], str]]] = (
    ("billed", "the total cost of all sessions, relative to the alternative", lambda row: _ratio(row["ratio"])),
    ("dearest", "the same of the session that fared worst", lambda row: _ratio(row["dearest"])),
    (
        "ends>1.02",
        "share of requests after which the session, had it ended there, would have cost more than 1.02 times as much",
        lambda row: NOTHING if row["share_of_ends_dearer"] is None else f"{row['share_of_ends_dearer']:.1%}",
    ),
    ("worst end", "the worst of these", lambda row: _ratio(row["dearest_end"])),
)
"""The columns of a comparison: title, words, and the cell for a row of the JSON report."""


def _ratio(value: float | None) -> str:
    return NOTHING if value is None else f"{value:.3f}"


def rows_of_comparisons(told: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The comparisons of the judged policy in a JSON report."""
    return [row for row in told["comparisons"] if row["policy"] == told["judged"]]


STRETCHES_SHOWN = 12

STRETCHES: Mapping[str, str] = {
    **dict.fromkeys(("session", "after requests", "worst end"), ""),
    "for request": "the one that cost most above the other since the session was last no dearer",
    "tokens": "what that cost more, in tokens of plain input",
    "why": "",
}
"""Explanations of the columns of the table of dearer ends, by title."""


def rows_of_dearer(told: Mapping[str, Any]) -> list[list[str]]:
    """A row for each stretch of dearer ends in a JSON report, longest first: the tariff and the cells of STRETCHES.
    Compared only with reality, or with the client that replaces it in a window.
    """
    rows = rows_of_comparisons(told)
    against = rows[0]["against"] if rows else ""
    found = [(row["tariff"], each) for row in rows if row["against"] == against for each in row["dearer"]]
    found.sort(key=lambda each: each[1]["first"] - each[1]["last"])
    return [
        [
            tariff,
            printable(each["session"]),
            f"{each['first']}-{each['last']}" if each["first"] < each["last"] else str(each["first"]),
            _ratio(each["worst"]),
            str(each["turn"]),
            f"{each['more']:,.0f}",
            each["why"],
        ]
        for tariff, each in found
    ]
