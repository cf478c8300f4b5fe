"""An evaluation as one HTML page that needs nothing else: tables, charts of all policies, and a script that draws the
charts of the session that the reader chooses.

All that came from a file or a session's name is escaped where it is put; the page's own policy for content lets no
script run but ours.
"""

import base64
import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from html import escape
from importlib.resources import files
from string import Template
from typing import Any

from mnemosyne.lab.evaluation.report_charts import distance_chart, frontier_chart
from mnemosyne.lab.evaluation.report_figures import (
    AGAINST,
    BEST,
    COLUMNS,
    LIMITS,
    NOTHING,
    PROBED,
    best,
    denominator,
    managing,
    printable,
    rereads_sentence,
    rows_of_comparisons,
    rows_of_probes,
    wire_sentence,
)
from mnemosyne.lab.evaluation.report_json import report
from mnemosyne.lab.evaluation.report_series import DRAWN, page_data
from mnemosyne.lab.evaluation.results import DEARER, Evaluation, PolicyResult
from mnemosyne.services.charts import picture

_LAYER_NAMES = {
    "fixed": "fixed part",
    "L0": "L0 full",
    "L1": "L1 detailed",
    "L2": "L2 compact",
    "L3": "L3 stub",
}


def report_html(evaluation: Evaluation) -> str:
    """The page. The same evaluation gives the same text."""
    told = report(evaluation)
    policies = told["policies"]
    first_policy = _first_policy(policies)
    first_session = _first_session(evaluation.policies, first_policy)
    chosen = evaluation.policies[first_policy].name if evaluation.policies else "no policy"
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
        probes=_probes(told),
        frontier=frontier_chart(policies),
        distances=distance_chart(evaluation, policies),
        demands=_demands_text(policies),
        first_policy=first_policy,
        first_session=first_session or 0,
        first_name=escape(printable(chosen)),
        drawn=f"Of a session of more than {DRAWN} turns, {DRAWN} evenly spread ones are drawn.",
        layer_key=_key([(f"area {layer}", name) for layer, name in _LAYER_NAMES.items()], unmanaged="line unmanaged"),
        context=picture("context", "Context by fidelity over turns"),
        money_key=_key([("line billed", "managed"), ("price", "price of an epoch"), ("paid", "until it had paid"),
                        ("unpaid", "not paid within the session")], unmanaged="line shadow"),
        money=picture("money", "Bill so far with and without management"),
        session_head=_heads(["session", "turns", *(printable(name) for name in policies)]),
        session_rows=_session_rows(evaluation, first_policy),
        settings=_pairs({name: str(value) for name, value in told["settings"].items()}),
        skipped=_render_skipped(told["skipped"]),
        data=script_json(page_data(evaluation)),
        script=script,
        script_hash="sha256-" + base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
    )  # fmt: skip


def script_json(value: object) -> str:
    """JSON that can stand inside a script element: nothing in it ends the element or begins a comment."""
    text = json.dumps(value, separators=(",", ":"), allow_nan=False)
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


def _read(name: str) -> str:
    return files("mnemosyne.lab.evaluation").joinpath(name).read_text(encoding="utf-8")


def _first_policy(policies: Mapping[str, Any]) -> int:
    """The cheapest of those that manage, one without silent losses if there is one; where none manages, the first."""
    names = list(policies)

    def merit(name: str) -> tuple[bool, float]:
        totals = policies[name]["totals"]
        return totals["silent"] > 0, math.inf if totals["billed_ratio"] is None else totals["billed_ratio"]

    return names.index(min(managing(policies) or names[:1], key=merit)) if names else 0


def _first_session(policies: Sequence[PolicyResult], policy: int) -> int | None:
    """The session with the most turns: there is the most to see."""
    sessions = policies[policy].sessions if policies else ()
    return max(range(len(sessions)), key=lambda index: sessions[index].turns, default=None)


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


def _probes(told: Mapping[str, Any]) -> str:
    """The section about what can still be told after rewrites; empty where nobody asked."""
    rows = rows_of_probes(told)
    if not rows:
        return ""
    cells = (
        f'<tr><th scope="row">{escape(printable(name))}</th><td class="text">{escape(about)}</td>'
        + "".join(f"<td>{escape(cell)}</td>" for cell in found)
        + "</tr>"
        for name, about, *found in rows
    )
    return Template(_read("report_probes.html")).substitute(
        head=_heads(["policy", "asked about", *(title for title, _ in PROBED)]),
        rows="".join(cells),
        legend=_pairs(dict(PROBED)),
        rereads=escape(rereads_sentence(told)),
    )


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


def _demands_text(policies: Mapping[str, Any]) -> str:
    demands = sorted({policy["totals"]["demands"] for policy in policies.values()})
    if not demands:
        return "no demands at all"
    return " or ".join(f"{count:,}" for count in demands) + " demands under each policy"


def _key(entries: Sequence[tuple[str, str]], *, unmanaged: str) -> str:
    def entry(style: str, name: str) -> str:
        shape = "rect" if style.startswith("area") else "line"
        drawn = f'<{shape} class="{style}" ' + (
            'width="22" height="12"/>' if shape == "rect" else 'x1="0" x2="22" y1="6" y2="6"/>'
        )
        return f'<li><svg viewBox="0 0 22 12" aria-hidden="true">{drawn}</svg>{escape(name)}</li>'

    return "".join(entry(style, name) for style, name in [*entries, (unmanaged, "unmanaged")])


def _session_rows(evaluation: Evaluation, first_policy: int) -> str:
    """A row for each session, the dearest under the first policy first."""
    rows: dict[tuple[str, int], dict[int, int]] = {}
    for index, policy in enumerate(evaluation.policies):
        seen: dict[str, int] = {}
        for place, session in enumerate(policy.sessions):
            nth = seen[session.name] = seen.get(session.name, 0) + 1
            rows.setdefault((session.name, nth), {})[index] = place

    def dearness(places: Mapping[int, int]) -> float:
        if first_policy not in places:
            return 0
        return float(evaluation.policies[first_policy].sessions[places[first_policy]].ratio)

    ordered = sorted(rows.items(), key=lambda row: -dearness(row[1]))
    return "".join(_session_row(evaluation.policies, name, places) for (name, _), places in ordered)


def _session_row(policies: Sequence[PolicyResult], name: str, places: Mapping[int, int]) -> str:
    cells = [f'<th scope="row">{escape(printable(name))}</th>']
    cells.append(f"<td>{max(policies[index].sessions[place].turns for index, place in places.items())}</td>")
    for index, policy in enumerate(policies):
        if index not in places:
            cells.append(f'<td data-value="-1">{NOTHING}</td>')
            continue
        ratio = policy.sessions[places[index]].ratio
        dearer = ratio > DEARER
        cells.append(
            f'<td data-policy="{index}" data-session="{places[index]}" data-value="{float(ratio):.6f}"'
            f"{' class=dearer' if dearer else ''}>{'▲' if dearer else ''}{float(ratio):.3f}</td>"
        )
    return f"<tr>{''.join(cells)}</tr>"


def _render_skipped(sentences: Sequence[str]) -> str:
    if not sentences:
        return "<p>No input was skipped.</p>"
    return f"<p>Skipped:</p><ul>{''.join(f'<li>{escape(printable(text))}</li>' for text in sentences)}</ul>"
