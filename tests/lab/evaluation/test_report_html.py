"""The page needs no other file, contains the data of the JSON, and escapes every name."""

import re
from fractions import Fraction
from html.parser import HTMLParser
from importlib.resources import files
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mnemosyne_lab.evaluation.report_html import report_html
from mnemosyne_lab.evaluation.report_json import COLUMNS, report
from mnemosyne_lab.evaluation.results import Evaluation
from tests.lab.evaluation.building import evaluation, policy, session
from tests.profiles import examples

HOSTILE = "</script><script>alert(1)</script><!--<img src=x onerror=\"a\" class='b'>&amp;]]>\x00\ud800"
_VOID = {"meta", "link", "img", "br", "input", "hr"}
_LOADING = {"src", "href", "xlink:href", "data", "action", "srcset", "poster", "background"}


class Page(HTMLParser):
    """A page as parsed strictly: its elements, its text, and its unclosed elements."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.scripts: list[str] = []
        self.rows: list[list[str]] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        assert len(dict(attrs)) == len(attrs), f"an attribute twice in {tag}"
        if tag not in _VOID:
            self.open.append(tag)
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th") and self.rows:
            self.rows[-1].append("")
        if tag == "script":
            self.scripts.append("")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] == "script":
            self.scripts[-1] += data
        elif {"td", "th"} & set(self.open):
            self.rows[-1][-1] += data


def hostile() -> Evaluation:
    told = session(HOSTILE, turns=60)
    told = attrs.evolve(told, epochs=[attrs.evolve(each, reason=HOSTILE) for each in told.epochs])
    return Evaluation(
        settings={HOSTILE: HOSTILE},
        policies=[attrs.evolve(policy(HOSTILE, 0.5), about=HOSTILE, sessions=[told])],
        skipped=[HOSTILE],
    )


EDGES = {
    "nothing": Evaluation(settings={}, policies=[]),
    "no sessions": evaluation(attrs.evolve(policy("p", 0.5), sessions=[])),
    "no evictions": evaluation(policy("p", 0)),
    "one turn": evaluation(policy("p", 0.5, ["s"], turns=1)),
    "no points": evaluation(attrs.evolve(policy("p", 0.5), sessions=[attrs.evolve(session(), points=())])),
    "free": evaluation(
        attrs.evolve(
            policy("p", 0.5),
            sessions=[
                attrs.evolve(session(), billed=Fraction(0), billed_unmanaged=Fraction(0), nanodollars=0, points=())
            ],
        )
    ),
    "other sessions in each": evaluation(policy("p", 0.5, ["a", "a", "b"]), policy("q", 0.5, ["b"])),
    "hostile": hostile(),
}


@pytest.mark.parametrize("told", [evaluation(), *EDGES.values()], ids=["ordinary", *EDGES])
def test_page_is_well_formed_and_loads_nothing(told: Evaluation) -> None:
    text = report_html(told)
    page = Page(text)
    assert page.open == []
    ids = [attributes["id"] for _, attributes in page.elements if "id" in attributes]
    assert len(ids) == len(set(ids))
    loading = [(tag, found) for tag, attributes in page.elements for found in _LOADING & set(attributes)]
    assert set(loading) <= {("a", "href")}
    assert all(str(each["href"]).startswith("#") for tag, each in page.elements if tag == "a")
    assert not {"link", "img", "iframe", "object", "embed", "base", "image", "use"} & {tag for tag, _ in page.elements}
    assert not re.search(r"url\(|@import|https?://(?!www\.w3\.org/2000/svg)", text)
    text.encode()


def test_no_name_becomes_markup_script_or_attribute() -> None:
    page = Page(report_html(hostile()))
    (script,) = page.scripts
    assert script == files("mnemosyne_lab.evaluation").joinpath("report_page.js").read_text(encoding="utf-8")
    assert not {"onerror", "b"} & {name for _, attributes in page.elements for name in attributes}
    assert any(row[0].startswith("</script><script>alert(1)") for row in page.rows)


@examples(30)
@given(st.text())
def test_page_keeps_its_structure_with_any_session_name(name: str) -> None:
    def shape(told: Evaluation) -> list[str]:
        return [tag for tag, _ in Page(report_html(told)).elements]

    def named(session_name: str) -> Evaluation:
        return evaluation(attrs.evolve(policy("p", 0.5), sessions=[session(session_name, turns=26)]))

    assert shape(named(name)) == shape(named("plain"))


def test_policy_table_has_the_numbers_of_the_json() -> None:
    rows = {row[0].removesuffix(" (bound)"): row[1:] for row in Page(report_html(evaluation())).rows[1:5]}
    for name, told in report(evaluation())["policies"].items():
        assert rows[name][:-1] == [column.text(told["totals"]) for column in COLUMNS]
        assert rows[name][-1] == told["totals"]["dearest_session"]["name"]


def test_sessions_are_sorted_by_cost_and_marked_above_the_bar() -> None:
    def costing(name: str, billed: int) -> Any:
        return attrs.evolve(session(name), billed=Fraction(billed), billed_unmanaged=Fraction(100))

    told = evaluation(attrs.evolve(policy("p", 0.5), sessions=[costing("a", 90), costing("c", 110), costing("b", 102)]))
    rows = Page(report_html(told)).rows[-3:]
    assert [(row[0], row[2]) for row in rows] == [("c", "▲1.100"), ("b", "1.020"), ("a", "0.900")]


def test_page_begins_with_its_verdict() -> None:
    text = report_html(attrs.evolve(evaluation(), verdict="These sessions would have cost less."))
    assert re.search(r"<h1>[^<]*</h1>\s*<p[^>]*>These sessions would have cost less\.</p>", text)
