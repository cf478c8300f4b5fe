"""``mnemosyne report``: one session, its context and its money, in the terminal or as a page."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from mnemosyne.app.read_models import OpenReadModels
from mnemosyne.app.settings import session_budget
from mnemosyne.cli.accounts import balance_as_json, render_saving
from mnemosyne.cli.printing import print_json, say
from mnemosyne.cli.private_files import write_private
from mnemosyne.cli.reading import json_option, log_of, session_argument, with_read_models
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


@click.command()
@session_argument
@click.option(
    "--html", "page", type=click.Path(path_type=Path, dir_okay=False), metavar="OUT", help="Write its page, too."
)
@click.option("--redact", is_flag=True, help="Leave what was said, and the names of files, out of the page.")
@log_options()
@json_option
def report(session: str, page: Path | None, redact: bool, as_json: bool, **options: object) -> None:
    """Show one session: how its context grew, how full its window was, what the model missed, when its history was
    rewritten and whether that paid, what it all cost beside the unmanaged session, and what paging of its client's
    tools takes out of each request.

    The page (--html) is the session's own page as one file, to be sent to somebody: what filled the window, what left
    it, what was missed and what it cost. It needs nothing but a browser.
    """
    if redact and page is None:
        raise click.UsageError("--redact is about the page: give --html OUT, too.")

    async def read(models: OpenReadModels) -> tuple[SessionReport, str | None]:
        budget = session_budget(models.config)
        found = await read_report(models.archive, models, session, budget)
        return found, None if page is None else await _make_page(models, found, budget, redact=redact)

    found, text = with_read_models(log_of(options), read)
    if page is not None and text is not None:
        _write(text, page)
    if as_json:
        print_json(_as_json(found))
    elif not found.turns:
        say("No turn of this session is in the ledger yet.", err=True)
        for line in _render_refused(found.refused):
            say(line)
    else:
        _print(found)


async def _make_page(models: OpenReadModels, found: SessionReport, budget: int | None, *, redact: bool) -> str:
    overview = await read_overview(models.archive, models, found.stream, openings={})
    shown = await read_shown(models.archive, models, overview, None, seen=no_observations(), budget=budget)
    return session_report(shown, redacted=redact)


def _write(text: str, page: Path) -> None:
    try:
        write_private(page, text)
    except OSError as error:
        raise click.ClickException(f"{page} cannot be written: {error.strerror or error}.") from None


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
    say(printable(found.name), bold=True, nl=False)
    say(f"  {plural(total.turns, 'turn')}, {total.managed} managed")
    told = (
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
    for paragraph in filter(None, told):
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
    told = ", ".join(f"{zone} at {plural(count, 'turn')}" for zone, count in zones.items())
    return [f"The window was in zone {told}." if told else "No window was measured."]


def _render_refused(refused: Sequence[RefusedAttempt]) -> list[str]:
    if not refused:
        return []
    whys = Counter(" ".join(filter(None, (str(each.status), each.error))) for each in refused)
    told = ", ".join(f"{printable(why)} {plural(count, 'time')}" for why, count in whys.most_common())
    last = refused[-1]
    return [
        f"The provider refused {plural(len(refused), 'attempt')}: {told}; the last one was turn {last.turn} of"
        f" {last.branch}, attempt {last.attempt}."
    ]


def _render_misses(found: SessionReport) -> list[str]:
    lowered = f"Objects were lowered {plural(found.evictions, 'time')}"
    if not found.faults:
        return [f"{lowered}; nothing was missed."]
    farthest = max(row["distance"] for row in found.faults)
    kinds = Counter(row["kind"] for row in found.faults)
    told = ", ".join(f"{describe_miss(kind)} {plural(count, 'time')}" for kind, count in kinds.most_common())
    return [
        f"{lowered}; what it did not see was missed {plural(len(found.faults), 'time')}, at most"
        f" {plural(farthest, 'turn')} after it had been seen: {told}.",
        *_render_answers(found.questions),
        *_render_thrash(found.thrash),
    ]


def _render_answers(questions: Questions) -> list[str]:
    if not questions.answered:
        return []
    return [
        f"Memory answered {plural(questions.answered, 'question')}; {questions.enough} needed no more: nothing that was"
        " quoted was restored or fetched again soon after, and the user corrected nothing."
    ]


def _render_effective(effective: EffectiveTokens) -> list[str]:
    if effective.share is None:
        return []
    return [
        f"Of the {count_text(effective.sent)} tokens of objects that its requests held, {effective.share:.0%} were of"
        " use later: referred to, restored, asked about or fetched again."
    ]


def _render_thrash(thrash: ThrashIndex | None) -> list[str]:
    if thrash is None:
        return []
    return [
        f"The thrash index was at most {thrash.worst:.1f} (in {thrash.branch}, turn {thrash.turn}), and"
        f" {thrash.last:.1f} at the end: how often in each of the last five turns the same was fetched once more. From"
        " 0.5 on the window is too small."
    ]


def _render_repetitions(found: SessionReport) -> list[str]:
    """What its agent called over and over, or once more without a look at the answer."""
    return [
        f"{each.tool} was called {plural(each.times, 'time')} with the same answer ({_turns(each.turns)}): "
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
        f"It cost more than session_budget_dollars allows: {dollars_text(passed.budget)} were passed in turn"
        f" {passed.turn} of {passed.branch}."
    ]


def _epochs(found: SessionReport) -> list[str]:
    epochs = found.rewrites
    if not epochs:
        return ["Its history was never rewritten."]
    lines = [f"Its history was rewritten {plural(len(epochs), 'time')}:"]
    for each in epochs:
        paid = "has not paid yet" if each.paid_back is None else f"had paid after {plural(each.paid_back, 'turn')}"
        why = f" ({printable(each.reason)})" if each.reason else ""
        hoped = f", expected after {plural(each.expected_payback, 'turn')}" if each.expected_payback else ""
        price = count_text(round(each.price))
        lines.append(f"  {each.branch} {each.turn}{why}: {price} tokens of input at once, {paid}{hoped}")
    return lines


def _money(total: Balance) -> list[str]:
    cost, unmanaged = (
        dollars_text(amount if total.is_priced else None) for amount in (total.nanodollars, total.nanodollars_unmanaged)
    )
    tokens = f"{count_text(total.actual.prompt)} tokens sent, unmanaged {count_text(total.shadow.prompt)}"
    saved = render_saving(total)
    lines = [f"{tokens}; {cost}, unmanaged {unmanaged}: {'nothing saved' if saved == 'nothing' else saved}."]
    if total.expected:
        lines.append(f"The provider billed {float(total.billed / total.expected):.2f} times what we expected.")
    return [*lines, *list_caveats(total)]


def paging_lines(paging: PagingForecast | None) -> list[str]:
    """What paging of its client's tools does."""
    if paging is None or not (paging.saved or paging.is_the_clients):
        return []
    if paging.is_the_clients:
        return ["Its client loads tools itself when it needs them, so their definitions are left to it."]
    called = f", and this session called {len(paging.called)} of them ({', '.join(map(printable, paging.called))})"
    return [
        f"Paging of tool definitions (manage_tool_budget = 0) takes about {count_text(paging.saved)} tokens out of each"
        f" request: {len(paging.paged)} of its client's {plural(paging.tools, 'tool')} keep one line. The model must"
        f" ask before it calls one of these{called if paging.called else ', and this session called none of them'}."
    ]
