"""``mnemosyne report``: the context and the cost of one session, in the terminal or as a page."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from mnemosyne.app.read_models import OpenReadModels
from mnemosyne.app.settings import session_budget
from mnemosyne.cli.accounts import balance_as_json, render_saving
from mnemosyne.cli.log_access import log_of, prints, session_argument, with_read_models
from mnemosyne.cli.printing import say
from mnemosyne.cli.private_files import write_private
from mnemosyne.cli.settings import log_options
from mnemosyne.domain.history.effective import EffectiveTokens
from mnemosyne.domain.tools.tool_paging import PagingForecast
from mnemosyne.figures import count_text, dollars_text, plural, printable
from mnemosyne.http.inspector.formatting import describe_miss
from mnemosyne.http.inspector.session_report import read_shown, session_report
from mnemosyne.services.observing import no_observations
from mnemosyne.services.overviews import read_overview
from mnemosyne.services.reports import Questions, RefusedAttempt, SessionReport, ThrashIndex, read_report
from mnemosyne.services.savings import Balance, PassedBudget, balance_of, list_caveats
from mnemosyne.services.unstructuring import members


async def _make_page(models: OpenReadModels, found: SessionReport, budget: int | None, *, redact: bool) -> str:
    overview = await read_overview(models.archive, models, found.stream, openings={})
    shown = await read_shown(models.archive, models, overview, None, seen=no_observations(), budget=budget)
    return session_report(shown, redacted=redact)


def _as_json(found: SessionReport) -> dict[str, Any]:
    zones = {(row["branch"], row["turn"]): row for row in found.windows}
    turns = []
    for row in found.turns:
        window = zones.get((row["branch"], row["turn"]), {})
        place = {name: row[name] for name in ("branch", "turn", "attempt", "mode", "rounds", "epoch")}
        turns.append({**place, "zone": window.get("zone"), **balance_as_json(balance_of(row))})
    rewrites = "branch turn reason expected_payback paid_back"
    return {
        **members(found, "evictions thrash questions refused repetitions paging", session="stream"),
        **members(found, external_id="name", passed_budget="passed"),
        "turns": turns,
        "epochs": [{**members(each, rewrites), "price": round(each.price)} for each in found.rewrites],
        "faults": found.faults,
        "effective": members(found.effective, "sent", used_later="used"),
        "total": balance_as_json(found.total),
    }


# For people


def _print(found: SessionReport) -> None:
    total = found.total
    if not found.turns:
        say("The ledger has no turn of this session yet.", err=True)
        for line in _render_refused(found.refused):
            say(line)
        return
    say(printable(found.name), bold=True, nl=False)
    say(f"  {plural(total.turns, 'turn')}, {total.managed} managed")
    paragraphs = (
        _context(found),
        _pressure(found),
        _render_refused(found.refused),
        _render_misses(found),
        _render_effective(found.effective),
        _epochs(found),
        _render_repetitions(found),
        [*_money(total), *_render_passed(found.passed)],
        paging_lines(found.paging),
    )
    for paragraph in filter(None, paragraphs):
        say()
        for line in paragraph:
            say(line)


def _context(found: SessionReport) -> list[str]:
    tokens, branch = max((row["counted"] or row["estimated"], row["branch"]) for row in found.turns)
    return [f"The largest prompt had {count_text(tokens)} tokens (in {branch})."]


def _pressure(found: SessionReport) -> list[str]:
    zones: dict[str, int] = {}
    for row in found.windows:
        zones[row["zone"]] = zones.get(row["zone"], 0) + 1
    listed = ", ".join(f"{zone} at {plural(count, 'turn')}" for zone, count in zones.items())
    return [f"The context was in zone {listed}." if listed else "The context was not measured."]


def _render_refused(refused: Sequence[RefusedAttempt]) -> list[str]:
    if not refused:
        return []
    whys = Counter(" ".join(filter(None, (str(each.status), each.error))) for each in refused)
    listed = ", ".join(f"{printable(why)} {plural(count, 'time')}" for why, count in whys.most_common())
    last = refused[-1]
    return [
        f"The provider refused {plural(len(refused), 'attempt')}: {listed}; the last one was turn {last.turn} of"
        f" {last.branch}, attempt {last.attempt}."
    ]


def _render_misses(found: SessionReport) -> list[str]:
    evictions = plural(found.evictions, "eviction")
    if not found.faults:
        return [f"{evictions}; nothing was needed again."]
    farthest = max(row["distance"] for row in found.faults)
    kinds = Counter(row["kind"] for row in found.faults)
    listed = ", ".join(f"{describe_miss(kind)} {plural(count, 'time')}" for kind, count in kinds.most_common())
    return [
        f"{evictions}; evicted items were needed again {plural(len(found.faults), 'time')}, at most"
        f" {plural(farthest, 'turn')} after their last use: {listed}.",
        *_render_answers(found.questions),
        *_render_thrash(found.thrash),
    ]


def _render_answers(questions: Questions) -> list[str]:
    if not questions.answered:
        return []
    return [
        f"Memory answered {plural(questions.answered, 'question')}; {questions.enough} were sufficient: no quoted"
        " object was restored or fetched again soon after, and the user corrected nothing."
    ]


def _render_effective(effective: EffectiveTokens) -> list[str]:
    if effective.share is None:
        return []
    return [
        f"Of the {count_text(effective.sent)} tokens of objects in its requests, {effective.share:.0%} were used later:"
        " referred to, restored, asked about or fetched again."
    ]


def _render_thrash(thrash: ThrashIndex | None) -> list[str]:
    if thrash is None:
        return []
    return [
        f"The thrash index was at most {thrash.worst:.1f} (in {thrash.branch}, turn {thrash.turn}), and"
        f" {thrash.last:.1f} at the end: repeated fetches of the same content per turn, over five turns. At 0.5 or"
        " more, the window is too small."
    ]


def _render_repetitions(found: SessionReport) -> list[str]:
    """Repeated tool calls with the same result."""
    return [
        f"{each.tool} was called {plural(each.times, 'time')} with the same result ({_turns(each.turns)}): "
        f"{printable(each.given)}"
        for each in found.repetitions
    ]


def _turns(turns: tuple[int, int]) -> str:
    first, last = turns
    return f"turn {first}" if first == last else f"turns {first} to {last}"


def _render_passed(passed: PassedBudget | None) -> list[str]:
    if passed is None:
        return []
    return [
        f"Its cost exceeded session_budget_dollars ({dollars_text(passed.budget)}) in turn {passed.turn} of"
        f" {passed.branch}."
    ]


def _epochs(found: SessionReport) -> list[str]:
    epochs = found.rewrites
    if not epochs:
        return ["Its context was never compacted."]
    lines = [f"Its context was compacted {plural(len(epochs), 'time')}:"]
    for each in epochs:
        paid = "not paid off yet" if each.paid_back is None else f"paid off after {plural(each.paid_back, 'turn')}"
        why = f" ({printable(each.reason)})" if each.reason else ""
        expected = f", expected after {plural(each.expected_payback, 'turn')}" if each.expected_payback else ""
        price = count_text(round(each.price))
        lines.append(f"  {each.branch} {each.turn}{why}: cost {price} input tokens, {paid}{expected}")
    return lines


def _money(total: Balance) -> list[str]:
    cost, unmanaged = (
        dollars_text(amount if total.is_priced else None) for amount in (total.nanodollars, total.nanodollars_unmanaged)
    )
    tokens = f"{count_text(total.actual.prompt)} tokens sent, unmanaged {count_text(total.shadow.prompt)}"
    saved = render_saving(total)
    lines = [f"{tokens}; {cost}, unmanaged {unmanaged}: {'nothing saved' if saved == 'nothing' else saved}."]
    if total.expected:
        lines.append(f"The provider billed {float(total.billed / total.expected):.2f} times the expected amount.")
    return [*lines, *list_caveats(total)]


def paging_lines(paging: PagingForecast | None) -> list[str]:
    """Sentences about the paging of the client's tool definitions."""
    if paging is None or not (paging.saved or paging.is_the_clients):
        return []
    if paging.is_the_clients:
        return ["The client loads its tools on demand, so Mnemosyne does not page their definitions."]
    called = f", and this session called {len(paging.called)} of them ({', '.join(map(printable, paging.called))})"
    return [
        f"Paging of tool definitions (manage_tool_budget = 0) removes about {count_text(paging.saved)} tokens from each"
        f" request: {len(paging.paged)} of the client's {plural(paging.tools, 'tool')} keep one line. The model must"
        f" load one of these before it calls it{called if paging.called else ', and this session called none of them'}."
    ]


@click.command()
@session_argument
@click.option(
    "--html",
    "page",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="OUT",
    help="Also write the session's page.",
)
@click.option("--redact", is_flag=True, help="Omit texts and file names from the page.")
@log_options()
@prints(_as_json, _print)
def report(session: str, page: Path | None, redact: bool, **options: Any) -> SessionReport:
    """Show one session: how full its context was, which evicted items were needed again, when it was compacted and
    whether that paid off, and its cost compared with the unmanaged session.

    \b
      mnemosyne report 319a
      mnemosyne report 319a --html report.html

    --html writes the session's page as one file that you can send to others.
    """
    if redact and page is None:
        raise click.UsageError("--redact needs --html OUT.")

    async def read(models: OpenReadModels) -> tuple[SessionReport, str]:
        budget = session_budget(models.config)
        found = await read_report(models.archive, models, session, budget)
        return found, "" if page is None else await _make_page(models, found, budget, redact=redact)

    found, text = with_read_models(log_of(options), read)
    if page is not None:
        try:
            write_private(page, text)
        except OSError as error:
            raise click.ClickException(f"{page} cannot be written: {error.strerror or error}.") from None
    return found
