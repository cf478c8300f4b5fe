"""An evaluation as one self-contained HTML page: verdict, tables, and the rewrites of each session under the judged
policy. It uses the styles of the server's pages.

The template escapes all text from files; the page's content security policy allows only our script.
"""

import base64
import hashlib
from collections.abc import Mapping, Sequence
from importlib.resources import files

from jinja2 import Environment
from markupsafe import Markup

from mnemosyne.figures import count_text, plural, printable
from mnemosyne.http.inspector.session_report import read_styles
from mnemosyne_lab.evaluation import report_figures
from mnemosyne_lab.evaluation.report_figures import COLUMNS, best
from mnemosyne_lab.evaluation.report_json import report
from mnemosyne_lab.evaluation.results import DEARER, Evaluation, PolicyResult, SessionResult


def report_html(evaluation: Evaluation) -> str:
    """The page. The same evaluation gives the same text. It lists the rewrites under the judged policy, if none is
    judged under the first.
    """
    told = report(evaluation)
    policies, script = told["policies"], _read("report_page.js")
    names = list(policies)
    shown = names.index(told["judged"]) if told["judged"] is not None else 0 if names else None
    drawn = () if shown is None else evaluation.policies[shown].sessions
    environment = Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True)
    environment.filters.update(
        printable=lambda value: printable(str(value)),
        count=lambda price: count_text(round(price)),
        plural=plural,
    )
    return environment.from_string(_read("report_page.html")).render(
        told=told,
        names=report_figures,
        verdict=" ".join([told["verdict"] or "", *told["window"]]).strip(),
        winners={column.title: best(column, policies) for column in COLUMNS},
        rows=report_figures.rows_of_comparisons(told),
        shown=shown,
        chosen="no policy" if shown is None else evaluation.policies[shown].name,
        # Longest first, with its number in the policy.
        drawn=sorted(enumerate(drawn), key=lambda each: -each[1].turns),
        sessions=_list_sessions(evaluation.policies, shown),
        dearer=DEARER,
        styles=Markup(read_styles()),
        script=Markup(script),
        script_hash="sha256-" + base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
    )


def _read(name: str) -> str:
    return files("mnemosyne_lab.evaluation").joinpath(name).read_text(encoding="utf-8")


Row = Mapping[int, tuple[int, SessionResult]]
"""One session under each policy, by the policy's index: the session's index there and its result."""


def _list_sessions(policies: Sequence[PolicyResult], shown: int | None) -> list[Row]:
    """A row for each session, dearest first under the policy that is ``shown``."""
    rows: dict[tuple[str, int], dict[int, tuple[int, SessionResult]]] = {}
    for index, policy in enumerate(policies):
        seen: dict[str, int] = {}
        for place, session in enumerate(policy.sessions):
            nth = seen[session.name] = seen.get(session.name, 0) + 1
            rows.setdefault((session.name, nth), {})[index] = place, session

    def cheapness(row: Row) -> float:
        return -float(row[shown][1].ratio) if shown is not None and shown in row else 0

    return sorted(rows.values(), key=cheapness)
