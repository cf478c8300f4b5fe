"""A session's page as a file: the same map, nothing loaded or executed, and no texts if redacted."""

import re
from collections.abc import Mapping
from typing import Any

import attrs
import pytest

from mnemosyne.domain.history.guards import Repetition
from mnemosyne.domain.history.plans import WorkPlan
from mnemosyne.domain.segmentation.plan_items import ItemState, PlanItem
from mnemosyne.domain.session.budget import SpendingLimits
from mnemosyne.domain.session.events import CheckpointNamed
from mnemosyne.http.inspector.session_report import read_shown, session_report
from mnemosyne.services import read_models
from mnemosyne.services.budgets import Budgets
from mnemosyne.services.observing import Observed, Seen, no_observations
from mnemosyne.services.overviews import read_overview
from tests.http.inspector.conftest import ShownLog
from tests.http.inspector.shown import TITLE, Pages
from tests.http.inspector.test_pages import Elements
from tests.profiles import rarely

_READ: dict[str, Mapping[str, Any]] = {}


async def read_everything(pages: Pages, shown: ShownLog) -> Mapping[str, Any]:
    """The data of the session's report, read once: tests change only copies."""
    if shown.session in _READ:
        return _READ[shown.session]
    page_context = pages.page_context
    stream = await read_models.find(page_context.models, shown.session)
    overview = await read_overview(page_context.archive, page_context.models, stream, openings={})
    budgets = Budgets(lambda: SpendingLimits(session=0), page_context.now)
    models = page_context.models
    seen = no_observations()
    _READ[shown.session] = await read_shown(page_context.archive, models, overview, None, seen=seen, budgets=budgets)
    return _READ[shown.session]


async def report(pages: Pages, shown: ShownLog, *, redacted: bool) -> str:
    return session_report(await read_everything(pages, shown), redacted=redacted)


async def test_the_file_has_the_page_s_verdict_and_map_and_no_scripts_resources_or_links(
    pages: Pages, shown: ShownLog
) -> None:
    _, page = await pages.get(f"/-/session/{shown.session}")
    file = await report(pages, shown, redacted=False)
    assert TITLE in file
    bands = [re.findall(r'<rect [^>]*data-object="\w+"[^>]*><title>[^<]+', text) for text in (page, file)]
    assert bands[0] == bands[1] != []
    verdict = page[page.index('class="verdict">') : page.index("</p>", page.index('class="verdict">'))]
    assert verdict in file
    found = Elements(file)
    assert found.running == []
    assert not {"script", "link", "img", "a", "form", "iframe"} & set(found.tags)


@pytest.mark.release
async def test_plan_and_repeated_calls_are_shown_and_redacted(pages: Pages, shown: ShownLog) -> None:
    shown_values = await read_everything(pages, shown)
    items = (PlanItem("1", "Look <closely>", ItemState.DONE), PlanItem("2", "Mend", ItemState.OPEN))
    again = Repetition(tool="Bash", given="make <all>", said="no rule", times=4, turns=(3, 9))
    plan = WorkPlan(title="The parser", items=items, turn=7, left=1)
    planned = {**shown_values, "observed": Observed(plan=plan, repetitions=(again,))}
    page = session_report(planned, redacted=False)
    assert "The parser: 1 of 2 done, last changed in turn 7." in page
    assert "It replaced a plan with 1 open item." in page
    assert "Look &lt;closely&gt; <small>done</small>" in page
    assert "<td>make &lt;all&gt;</td><td>no rule</td>" in page
    assert "is spent: no new prompt is sent until you raise it" in page
    assert not re.findall('id="plan"|make', session_report(planned, redacted=True))
    assert 'id="plan"' not in session_report(shown_values, redacted=False)


@pytest.mark.release
async def test_a_checkpoint_of_another_branch_is_listed_but_marks_no_turn(pages: Pages, shown: ShownLog) -> None:
    page_context, seen = pages.page_context, no_observations()
    stream = await read_models.find(page_context.models, shown.session)
    turns = (await read_everything(pages, shown))["view"].total.turns
    version = len(await page_context.archive.events.read(stream))
    places = (("there", "successor-1", 20), ("here", "main", 20), ("before", "main", 12))
    named = [CheckpointNamed(at=9, name=name, branch=branch, turn=turn) for name, branch, turn in places]
    seen.put((stream, "main"), Seen(turns, version, Observed(checkpoints=named)))
    overview = await read_overview(page_context.archive, page_context.models, stream, openings={})
    values = await read_shown(page_context.archive, page_context.models, overview, None, seen=seen)
    page = session_report(values, redacted=False)
    listed = re.findall(r"<li>(\w+) <small>([^,]+), turn (\d+)", page)
    assert listed == [("before", "main", "12"), ("here", "main", "20"), ("there", "successor-1", "20")]
    assert re.findall("<mark>(.+?)</mark>", page) == ["here", "before"]
    assert "Checkpoints" not in session_report(values, redacted=True)


async def test_a_redacted_file_has_no_texts_and_no_file_names(pages: Pages, shown: ShownLog) -> None:
    whole, redacted = [await report(pages, shown, redacted=each) for each in (False, True)]
    for word in (TITLE, "/src/app", "part1", "the-session"):
        assert word in whole or word == "the-session"
        assert word not in redacted
    assert "<svg" in redacted


@pytest.mark.parametrize(
    ("break_even", "shown_first", "sentence"),
    [
        (19, "not yet", "; managing breaks even around turn 19."),
        *rarely(
            [
                (0, "not yet", "; $0.0032 of it for memory tools (nothing compacted yet)."),
                (None, "\N{MINUS SIGN}$0.0032", "; without Mnemosyne they would have cost $0.75."),
            ]
        ),
    ],
)
async def test_a_compaction_that_has_not_paid_yet_is_no_loss(
    pages: Pages, shown: ShownLog, break_even: int | None, shown_first: str, sentence: str
) -> None:
    values = await read_everything(pages, shown)
    bills = {"nanodollars": 753_200_000, "nanodollars_unmanaged": 750_000_000}
    total = attrs.evolve(values["view"].total, managed=9, replies=9, unpriced=0, **bills)
    view = attrs.evolve(values["view"], total=total, break_even=break_even)
    overview = attrs.evolve(values["overview"], cost=total.nanodollars, saved=total.nanodollars_saved)
    page = session_report({**values, "view": view, "overview": overview}, redacted=True)
    tone, amount = re.findall(r'<div class="card( bad)?"><dt>Saved</dt><dd>([^<]+)', page)[0]
    assert (bool(tone), amount) == (break_even is None, shown_first)
    assert f"turns cost $0.75{sentence}" in page


async def test_a_model_without_a_price_is_named_once_with_the_command_that_sets_one(
    pages: Pages, shown: ShownLog
) -> None:
    values = await read_everything(pages, shown)
    overview = attrs.evolve(values["overview"], cost=1_430_000_000, unknown=frozenset({"model-x"}))
    page = session_report({**values, "overview": overview}, redacted=True)
    assert "<dt>Cost</dt><dd>$1.43+</dd>" in page
    assert page.count("No price is known for model-x: their usage is counted but not priced.") == 1
    assert "mnemosyne config price model-x INPUT OUTPUT CACHE-READ" in page
