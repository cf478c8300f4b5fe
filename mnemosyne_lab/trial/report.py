"""A trial as one self-contained HTML page: its conclusion, the interval against the margin, and every pair.

The template escapes all text; the page's content security policy allows no script.
"""

from collections.abc import Mapping, Sequence
from importlib.resources import files
from typing import Any

from jinja2 import Environment

from mnemosyne.figures import amount_text
from mnemosyne.http.inspector.formatting import FILTERS
from mnemosyne.http.inspector.session_report import read_styles
from mnemosyne.services.charts import WIDTH


def trial_report(sentences: Sequence[str], found: Mapping[str, Any]) -> str:
    """The page of a trial from its sentences and its data for programs."""
    environment = Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True)
    environment.filters.update(FILTERS, amount=amount_text)
    pairs: dict[str, dict[str, Any]] = {}
    for run in found["runs"]:
        pairs.setdefault(run["pair"], {}).setdefault(run["arm"], run)
    judged = (found["judge"] or {}).get("pairs", ())
    reach = min(1.0, 1.2 * max(found["margin"], *map(abs, found["interval"])))
    page = files("mnemosyne_lab.trial").joinpath("report_page.html").read_text(encoding="utf-8")
    return environment.from_string(page).render(
        sentences=sentences,
        found=found,
        pairs=pairs,
        verdicts={each["name"]: each for each in judged},
        x=lambda share: round(WIDTH / 2 + 0.45 * WIDTH * share / reach, 1),
        styles=read_styles(),
    )
