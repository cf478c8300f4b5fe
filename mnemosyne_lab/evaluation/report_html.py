"""An evaluation as one self-contained HTML page, made of its JSON: the verdict and tables, in the styles of the
server's pages.

The template escapes all text from files; the page's content security policy allows only our script.
"""

import base64
import hashlib
from importlib.resources import files

from jinja2 import Environment
from markupsafe import Markup

from mnemosyne.figures import printable
from mnemosyne.http.inspector.session_report import read_styles
from mnemosyne_lab.evaluation import report_json
from mnemosyne_lab.evaluation.report_json import report
from mnemosyne_lab.evaluation.results import DEARER, Evaluation


def report_html(evaluation: Evaluation) -> str:
    """The page. The same evaluation gives the same text. Its sessions are those of the judged policy, or the first."""
    told = report(evaluation)
    policies, script = told["policies"], _read("report_page.js")
    chosen = told["judged"] or next(iter(policies), None)
    sessions = policies[chosen]["sessions"] if chosen is not None else ()
    ratios = [(each["billed"] / each["billed_unmanaged"] if each["billed_unmanaged"] else 1, each) for each in sessions]
    environment = Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True)
    environment.filters.update(printable=lambda value: printable(str(value)))
    return environment.from_string(_read("report_page.html")).render(
        told=told,
        names=report_json,
        verdict=" ".join([told["verdict"] or "", *told["window"]]).strip(),
        rows=report_json.rows_of_comparisons(told),
        chosen=chosen or "no policy",
        sessions=sorted(ratios, key=lambda each: -each[0]),
        dearer=float(DEARER),
        styles=Markup(read_styles()),
        script=Markup(script),
        script_hash="sha256-" + base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
    )


def _read(name: str) -> str:
    return files("mnemosyne_lab.evaluation").joinpath(name).read_text(encoding="utf-8")
