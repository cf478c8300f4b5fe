"""An evaluation as one self-contained HTML page: verdict, tables, the chart of all policies, and the rewrites of each
session under the judged policy. It uses the styles and chart code of the server's pages.

All text from files is escaped where it is inserted; the page's content security policy allows only our script.
"""

import base64
import hashlib
import math
from collections.abc import Mapping, Sequence
from html import escape
from importlib.resources import files
from string import Template
from typing import Any

from mnemosyne.figures import count_text, printable
from mnemosyne.http.inspector.session_report import read_styles
from mnemosyne_lab.evaluation.report_charts import frontier_chart
from mnemosyne_lab.evaluation.report_figures import (
    AGAINST,
    BEST,
    COLUMNS,
    LIMITS,
    NOTHING,
    best,
    denominator,
    managing,
    rows_of_comparisons,
    wire_sentence,
)
from mnemosyne_lab.evaluation.report_json import report
from mnemosyne_lab.evaluation.report_series import DrawnEpoch, list_epochs
from mnemosyne_lab.evaluation.results import DEARER, Evaluation, PolicyResult, SessionResult


def report_html(evaluation: Evaluation) -> str:
    """The page. The same evaluation gives the same text."""
    told = report(evaluation)
    policies = told["policies"]
    shown = _choose(told)
    chosen = "no policy" if shown is None else evaluation.policies[shown].name
    script = _read("report_page.js")
    return Template(_read("report_page.html")).substitute(
        verdict=escape(printable(" ".join([told["verdict"] or "", *told["window"]]).strip())),
        denominator=escape(denominator(told)),
        limits=escape(LIMITS),
        policy_head=_heads(["policy", *(column.title for column in COLUMNS), "dearest session"]),
        policy_rows=_policy_rows(policies),
        wire=escape(wire_sentence(policies)),
        legend=_legend(policies),
        against_head=_heads(["tariff", "against", *(title for title, _, _ in AGAINST)]),
        against_rows=_against_rows(told),
        against_legend=_pairs({title: words for title, words, _ in AGAINST}) + _pairs(told["legend"]),
        frontier=frontier_chart(policies),
        chosen=escape(printable(chosen)),
        sessions=_sessions([] if shown is None else evaluation.policies[shown].sessions),
        session_head=_heads(["session", "turns", *(printable(name) for name in policies)]),
        session_rows=_session_rows(evaluation, shown),
        settings=_pairs({name: str(value) for name, value in told["settings"].items()}),
        skipped=_render_skipped(told["skipped"]),
        styles=read_styles(),
        script=script,
        script_hash="sha256-" + base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
    )  # fmt: skip


def _read(name: str) -> str:
    return files("mnemosyne_lab.evaluation").joinpath(name).read_text(encoding="utf-8")


def _choose(told: Mapping[str, Any]) -> int | None:
    """The index of the policy whose sessions are drawn: the judged one; otherwise the cheapest managing one, preferably
    without silent losses; otherwise the first.
    """
    policies = told["policies"]
    names = list(policies)

    def merit(name: str) -> tuple[bool, bool, float]:
        totals = policies[name]["totals"]
        cost = math.inf if totals["billed_ratio"] is None else totals["billed_ratio"]
        return name != told["judged"], totals["silent"] > 0, cost

    return names.index(min(managing(policies) or names[:1], key=merit)) if names else None


def _sessions(sessions: Sequence[SessionResult]) -> str:
    """The rewrites of each session, longest first and open."""
    order = sorted(range(len(sessions)), key=lambda place: -sessions[place].turns)
    shown = [_session(sessions[place], place, is_open=not index) for index, place in enumerate(order)]
    return "".join(shown) or "<p>No session was evaluated.</p>"


def _session(session: SessionResult, place: int, *, is_open: bool) -> str:
    epochs = list_epochs(session)
    return Template(_read("report_session.html")).substitute(
        id=_anchor(place),
        open=" open" if is_open else "",
        name=escape(printable(session.name)),
        figures=f"{_turns(session.turns)}, billed {float(session.ratio):.3f}, "
        f"{len(epochs)} {'epoch' if len(epochs) == 1 else 'epochs'}",
        epochs=_epoch_rows(epochs),
    )


def _anchor(place: int) -> str:
    return f"session-{place}"


def _turns(count: int | None) -> str:
    return NOTHING if count is None else f"{count} {'turn' if count == 1 else 'turns'}"


def _recovery_text(turns: int | None) -> str:
    return "not in this session" if turns is None else _turns(turns) if turns else "at once"


def _epoch_rows(epochs: Sequence[DrawnEpoch]) -> str:
    return "".join(
        f'<tr><td class="number">{number}</td><td class="number">{epoch.turn}</td>'
        f'<td class="text">{escape(printable(epoch.reason))}</td><td class="number">{count_text(epoch.price)}</td>'
        f'<td class="number">{_turns(epoch.expected)}</td>'
        f'<td class="number">{_recovery_text(epoch.paid)}</td></tr>'
        for number, epoch in enumerate(epochs, 1)
    )


def _heads(titles: Sequence[str]) -> str:
    cells = "".join(f'<th scope="col"><button type="button">{escape(title)}</button></th>' for title in titles)
    return f"<tr>{cells}</tr>"


def _policy_rows(policies: Mapping[str, Any]) -> str:
    winners = {column.title: best(column, policies) for column in COLUMNS}
    rows = []
    for name, policy in policies.items():
        totals = policy["totals"]
        bound = " <small>(bound)</small>" if policy["bound"] else ""
        cells = [f'<th scope="row">{escape(printable(name))}{bound}</th>']
        for column in COLUMNS:
            value, won = column.value(totals), name in winners[column.title]
            mark = BEST if won else ""
            cells.append(
                f'<td data-value="{-1 if value is None else value}"{" class=best" if won else ""}>'
                f"{escape(column.text(totals))}{mark}</td>"
            )
        dearest = totals["dearest_session"]
        cells.append(f'<td class="text name">{escape(printable(dearest["name"])) if dearest else NOTHING}</td>')
        rows.append(f"<tr>{''.join(cells)}</tr>")
    return "".join(rows)


def _against_rows(told: Mapping[str, Any]) -> str:
    rows = []
    for row in rows_of_comparisons(told):
        cells = "".join(f"<td>{escape(text(row))}</td>" for _, _, text in AGAINST)
        against = f'<td class="text">{escape(row["against"])}</td>'
        rows.append(f'<tr><th scope="row">{escape(row["tariff"])}</th>{against}{cells}</tr>')
    return "".join(rows)


def _legend(policies: Mapping[str, Any]) -> str:
    return _pairs({column.title: column.words for column in COLUMNS}) + _pairs(
        {
            name: policy["about"] + (" A limit, not a candidate." if policy["bound"] else "")
            for name, policy in policies.items()
        }
    )


def _pairs(pairs: Mapping[str, str]) -> str:
    return "".join(
        f"<dt>{escape(printable(name))}</dt><dd>{escape(printable(words))}</dd>" for name, words in pairs.items()
    )


def _session_rows(evaluation: Evaluation, shown: int | None) -> str:
    """A row for each session, dearest first under the policy that is ``shown``."""
    rows: dict[tuple[str, int], dict[int, int]] = {}
    for index, policy in enumerate(evaluation.policies):
        seen: dict[str, int] = {}
        for place, session in enumerate(policy.sessions):
            nth = seen[session.name] = seen.get(session.name, 0) + 1
            rows.setdefault((session.name, nth), {})[index] = place

    def dearness(places: Mapping[int, int]) -> float:
        if shown is None or shown not in places:
            return 0
        return float(evaluation.policies[shown].sessions[places[shown]].ratio)

    ordered = sorted(rows.items(), key=lambda row: -dearness(row[1]))
    return "".join(_session_row(evaluation.policies, name, places, shown) for (name, _), places in ordered)


def _session_row(policies: Sequence[PolicyResult], name: str, places: Mapping[int, int], shown: int | None) -> str:
    cells = [f'<th scope="row">{escape(printable(name))}</th>']
    cells.append(f"<td>{max(policies[index].sessions[place].turns for index, place in places.items())}</td>")
    for index, policy in enumerate(policies):
        if index not in places:
            cells.append(f'<td data-value="-1">{NOTHING}</td>')
            continue
        ratio = policy.sessions[places[index]].ratio
        dearer = ratio > DEARER
        text = f"{'▲' if dearer else ''}{float(ratio):.3f}"
        if index == shown:
            text = f'<a href="#{_anchor(places[index])}">{text}</a>'
        cells.append(f'<td data-value="{float(ratio):.6f}"{" class=dearer" if dearer else ""}>{text}</td>')
    return f"<tr>{''.join(cells)}</tr>"


def _render_skipped(sentences: Sequence[str]) -> str:
    if not sentences:
        return "<p>No input was skipped.</p>"
    return f"<p>Skipped:</p><ul>{''.join(f'<li>{escape(printable(text))}</li>' for text in sentences)}</ul>"
