"""``mnemosyne usage`` and ``savings``: tokens and cost. Sentences and JSON for the entries of the ledger."""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from datetime import UTC
from typing import TYPE_CHECKING, Any, TypeAlias, get_args
from uuid import UUID

import click

from mnemosyne.cli.log_access import log_of, prints, time_of, with_read_models
from mnemosyne.cli.printing import print_table, say
from mnemosyne.cli.settings import log_options
from mnemosyne.domain.cost.prices import Tokens
from mnemosyne.domain.session.ledger import equivalents
from mnemosyne.domain.session.ledger_events import TurnAccounted
from mnemosyne.domain.session.round_events import Mode
from mnemosyne.figures import (
    count_text,
    dollars,
    dollars_text,
    iso_time,
    local_time,
    percent_text,
    plural,
    price_sentence,
    printable,
)
from mnemosyne.services.predicted_bills import predict_bill
from mnemosyne.services.quota import QuotaWindow
from mnemosyne.services.read_models import EVERY_SESSION
from mnemosyne.services.savings import Balance, Savings, list_caveats, read_savings
from mnemosyne.services.unstructuring import as_json, members
from mnemosyne.services.usage import AgentType, Consumption, Grouping, Usage, read_usage

if TYPE_CHECKING:
    from mnemosyne.app.read_models import OpenReadModels
    from mnemosyne.services.cache_misses import MissGroup
    from mnemosyne.services.cache_verdicts import Agreement


def print_groups(
    headers: Sequence[str], rows: Sequence[tuple[str, ...]], total: tuple[str, ...], **columns: Any
) -> None:
    """Print a table with a row for the total, unless it is the only row."""
    several = [("total", *total)] if len(rows) > 1 else []
    print_table(headers, [*rows, *several], styles=[""] * len(rows) + ["bold"] * len(several), **columns)


def name_session(stream: Hashable, names: Mapping[Any, str]) -> str:
    """The beginning of a session's id, and the client's id."""
    return f"{str(stream)[:8]} {printable(names.get(stream, ''))}".rstrip()


# Usage

_COUNTS = ("REPLIES", "IN", "READ", "WRITE", "OUT", "COST")


_Shown: TypeAlias = "Usage | Agreement | Sequence[MissGroup]"


def _usage_as_json(found: _Shown) -> Any:
    if isinstance(found, Usage):
        return [_group_as_json(found, group, use) for group, use in found.groups.items()]
    if not isinstance(found, Sequence):
        return as_json(found)
    from mnemosyne.cli.cache_misses import misses_as_json

    return misses_as_json(found)


def _group_as_json(found: Usage, group: Hashable, use: Consumption) -> dict[str, Any]:
    named: dict[str, Any] = {found.by: group}
    if found.by == "session":
        named = {"session": str(group), "external_id": found.names.get(group)}
    if found.by == "agent":
        agent = group if isinstance(group, AgentType) else AgentType(str(group))
        named = {"agent": agent.name, "depth": agent.depth}
    if found.by not in ("day", "model"):
        named["quota"] = {span: shares.get(group, 0.0) for span, shares in found.taken.items()}
    return {
        **named,
        **members(use, "replies", unpriced_replies="unpriced"),
        **members(use.tokens, input_tokens="input", cache_read_tokens="read", output_tokens="output"),
        **members(use.tokens, cache_write_5m_tokens="write_5m", cache_write_1h_tokens="write_1h"),
        **{"dollars": dollars(use.price), "dollars_helpers": dollars(use.helpers)},
        "unpriced_models": sorted(use.unknown),
    }


def _print_usage(found: _Shown) -> None:
    if (isinstance(found, Usage) and not found.groups) or found == []:
        say(f"No reply has reported its usage {'yet' if isinstance(found, Usage) else 'in this time'}.", err=True)
        return
    if not isinstance(found, Usage):
        from mnemosyne.cli.cache_misses import print_agreement, print_misses

        print_misses(found) if isinstance(found, Sequence) else print_agreement(found)
        return
    spans = [span.upper() for span in found.taken]
    rows = [
        (_name(found, group), *_use_cells(use), *_quota_cells(found, [group])) for group, use in found.groups.items()
    ]
    total = (*_use_cells(found.total), *_quota_cells(found, found.groups))
    print_groups((found.by.upper(), *_COUNTS, *spans), rows, total, right=(*_COUNTS, *spans))
    if found.total.unpriced:
        replies = "1 reply is" if found.total.unpriced == 1 else f"{found.total.unpriced} replies are"
        say(price_sentence(found.total.unknown, replies), fg="yellow")
    if found.total.helpers:
        say(f"The cost includes {dollars_text(found.total.helpers)} for the helper model.")
    if found.help is not None:
        say(found.help)
    for line in quota_lines(found.quota, found.names):
        say(line)


def _quota_cells(found: Usage, groups: Iterable[Hashable]) -> list[str]:
    """The use of a subscription's windows by some groups: ``11.0 %`` of five hours, and of seven days."""
    sums = [sum(shares.get(group, 0.0) for group in groups) for shares in found.taken.values()]
    return [percent_text(share, 1) for share in sums]


def _name(found: Usage, group: Hashable) -> str:
    if found.by == "session":
        return name_session(group, found.names)
    return "(none named)" if group is None else printable(str(group))


def _use_cells(use: Consumption) -> tuple[str, ...]:
    tokens = use.tokens
    counts = (tokens.input, tokens.read, tokens.write_5m + tokens.write_1h, tokens.output)
    return (str(use.replies), *map(count_text, counts), dollars_text(use.price, partial=use.unpriced > 0))


@click.command()
@click.option(
    "--by",
    type=click.Choice(get_args(Grouping)),
    default="day",
    show_default=True,
    help="Grouping.",
)
@click.option("--misses", is_flag=True, help="Show the tokens that were not read from the cache, by cause.")
@click.option("--verdicts", is_flag=True, help="Show whether the provider's verdict on its cache agrees with ours.")
@click.option(
    "--since",
    metavar="WHEN",
    help="With --misses or --verdicts, only requests since then: 2026-11-21, or 12h, 7d, 2w.",
)
@log_options()
@prints(_usage_as_json, _print_usage, empty=[])
def usage(by: Grouping, misses: bool, verdicts: bool, since: str | None, **options: Any) -> _Shown:
    """Show the tokens counted by the provider and their cost at list prices; with a subscription, also the used share
    of its limits, and the share of five hours (5H) and seven days (7D) that each group used.

    \b
      mnemosyne usage --by model
      mnemosyne usage --misses --since 7d
      mnemosyne usage --verdicts

    --by agent adds up sub-agents by type and depth. IN counts uncached input tokens, READ tokens read from the cache,
    WRITE tokens written to it. Days are in your time zone, in JSON in UTC.
    """
    zone = UTC if click.get_current_context().params["as_json"] else None
    start = time_of(since)
    if since is not None and not (misses or verdicts):
        raise click.UsageError("--since needs --misses or --verdicts.")

    async def read_cache(models: "OpenReadModels") -> _Shown:
        (sessions,) = await models.answers(EVERY_SESSION)
        streams = [row["stream"] for row in sessions]
        if verdicts:
            from mnemosyne.services.cache_verdicts import read_agreement

            return await read_agreement(models.archive, streams, start)
        from mnemosyne.services.cache_misses import read_all_misses

        return await read_all_misses(models.archive, streams, start)

    if misses or verdicts:
        return with_read_models(log_of(options), read_cache)

    async def read(models: "OpenReadModels") -> Usage:
        projects = await _find_projects(models) if by == "project" else None
        agents = await _find_agents(models) if by == "agent" else None
        return await read_usage(models, by, zone, projects=projects, agents=agents)

    return with_read_models(log_of(options), read)


async def _find_agents(models: "OpenReadModels") -> Mapping[tuple[UUID, str], AgentType]:
    from mnemosyne.services.agents import read_agents  # imported late: it reads requests

    return await read_agents(models, models.archive)


async def _find_projects(models: "OpenReadModels") -> dict[UUID, str | None]:
    """The folder of each session, as in the list of sessions."""
    from mnemosyne.services.overviews import list_overviews  # imported late: it reads requests

    return {each.stream: each.project for each in await list_overviews(models.archive, models, openings={}, whole=True)}


# Savings

_HEADERS = ("SESSION", "TURNS", "MANAGED", "SENT", "SENT WITHOUT", "COST", "COST WITHOUT", "SAVED")


def _savings_as_json(found: Savings) -> dict[str, Any]:
    rows = [
        {"session": str(stream), "external_id": found.names.get(stream), **balance_as_json(balance)}
        for stream, balance in found.sessions.items()
    ]
    total = {"sessions": rows, "total": balance_as_json(found.total), "quota": quota_as_json(found.quota)}
    return total if found.turns is None else {**total, "prediction": as_json(predict_bill(found.turns))}


def _print_savings(found: Savings) -> None:
    if not found.sessions:
        since = click.get_current_context().params["since"]
        say(f"No costs are recorded {'yet' if since is None else f'since {since}'}.", err=True)
        return
    rows = [(name_session(stream, found.names), *_balance_cells(balance)) for stream, balance in found.sessions.items()]
    numbers = _HEADERS[1:-1]
    print_groups(_HEADERS, rows, _balance_cells(found.total), right=numbers, whole="SAVED", spare="MANAGED")
    predicted = [] if found.turns is None else [predict_bill(found.turns).sentence]
    for sentence in (*predicted, *list_caveats(found.total), *quota_lines(found.quota, found.names)):
        say(sentence)


def _balance_cells(balance: Balance) -> tuple[str, ...]:
    bills = (balance.nanodollars, balance.nanodollars_unmanaged) if balance.is_priced else (None, None)
    return (
        str(balance.turns),
        str(balance.managed),
        count_text(balance.actual.prompt),
        count_text(balance.shadow.prompt),
        *(dollars_text(each, partial=balance.unpriced > 0) for each in bills),
        render_saving(balance),
    )


@click.command()
@click.argument("session", metavar="[SESSION]", required=False)
@click.option("--since", metavar="WHEN", help="Only turns since this time: a date such as 2026-11-21, or 12h, 7d, 2w.")
@log_options()
@prints(_savings_as_json, _print_savings, empty={"sessions": [], "total": None, "quota": []})
def savings(session: str | None, since: str | None, **options: Any) -> Savings:
    """Show how much managing saved or cost, compared with the same session without Mnemosyne (WITHOUT), including the
    client's own compactions and cache hits. With SESSION, also how well its bill was predicted before each turn.

    \b
      mnemosyne savings --since 7d

    The session without Mnemosyne is simulated turn by turn. Sessions that are only observed save and lose nothing. Side
    calls, such as title generation, cost the same in both columns.
    """
    start = time_of(since)
    return with_read_models(log_of(options), lambda models: read_savings(models, start, session))


# The ledger


def render_saving(balance: Balance) -> str:
    """``$1.20 (31 %) saved``, ``$0.020 (1 %) lost``, ``nothing``."""
    amount = balance.nanodollars_saved
    if not amount or not (balance.managed or balance.helpers):
        return "nothing"
    share = f" ({percent_text(abs(amount) / balance.nanodollars_unmanaged)})" if balance.nanodollars_unmanaged else ""
    return f"{dollars_text(abs(amount))}{share} {'saved' if amount > 0 else 'lost'}"


def balance_as_json(balance: Balance) -> dict[str, Any]:
    """A balance as JSON. Amounts in tokens of uncached input are rounded."""
    amounts = {"dollars": "nanodollars", "dollars_unmanaged": "nanodollars_unmanaged"}
    amounts |= {"dollars_saved": "nanodollars_saved", "dollars_helpers": "helpers"}
    return {
        **members(balance, "turns deviates", managed_turns="managed", assumed_turns="assumed", far_turns="far"),
        "unpriced_models": sorted(balance.unknown),
        **members(balance, unpriced_replies="unpriced", simulated_compactions="compacted"),
        **members(balance, tokens_sent="actual.prompt", tokens_unmanaged="shadow.prompt"),
        "billed": round(balance.billed),
        "billed_unmanaged": round(balance.unmanaged),
        "billed_expected": round(balance.expected),
        **{key: dollars(getattr(balance, name)) if balance.is_priced else None for key, name in amounts.items()},
    }


def quota_lines(windows: Sequence[QuotaWindow], names: Mapping[Any, str]) -> list[str]:
    """One line for each quota window: its usage and reset time, then the sessions that used most of such windows."""
    lines = []
    accounts = {window.account for window in windows}
    for window in windows:
        whose = f", account {window.account}" if window.account is not None and len(accounts) > 1 else ""
        resets = f", resets {local_time(window.reset)}" if window.reset is not None else ""
        state = f" ({printable(window.status)})" if window.status else ""
        lines.append(f"{_SPANS[window.span]}{whose}: {percent_text(window.used, 1)} used{state}{resets}")
        for stream, share in sorted(window.taken.items(), key=lambda item: -item[1])[:QUOTA_SHOWN]:
            lines.append(f"  {percent_text(share, 1)} by {name_session(stream, names)}")
    return lines


def quota_as_json(windows: Sequence[QuotaWindow]) -> list[dict[str, Any]]:
    """The quota windows as JSON; ``taken`` maps a session id to its share."""
    return [
        {
            **members(window, "account used status taken", window="span"),
            "reset_at": None if window.reset is None else iso_time(window.reset),
            "seen_at": iso_time(window.at),
        }
        for window in windows
    ]


QUOTA_SHOWN = 5
"""Number of sessions in the text output: those that used most."""

_SPANS = {"5h": "Subscription, five hours", "7d": "Subscription, seven days"}


def account_of(event: TurnAccounted) -> Sequence[str]:
    """Sentences about the tokens and the cost of one turn."""
    basis = (
        "estimated from the rules of the provider's cache, because the provider reported no complete usage"
        if event.assumed
        else "as billed"
    )
    rounds = f" in {plural(event.rounds, 'round')}" if event.rounds > 1 else ""
    sentences = [f"It used {_tokens(event.actual)}{rounds}, {basis}."]
    if event.mode is Mode.OBSERVE:
        sentences.append("The client's request was sent unchanged: nothing was saved or lost.")
    else:
        billed, unmanaged = (equivalents(tokens, event.model) for tokens in (event.actual, event.shadow))
        way = "less" if billed <= unmanaged else "more"
        difference = count_text(abs(round(unmanaged - billed)))
        sentences.append(
            f"Without the proxy it would have used {_tokens(event.shadow)}: it cost {difference} tokens {way},"
            " at the price of uncached input."
        )
    if event.compacted:
        sentences.append("Without the proxy the client would have compacted its history here.")
    if event.deviates:
        sentences.append("The provider billed considerably more than the rules of its cache predict.")
    return sentences


def _tokens(tokens: Tokens) -> str:
    parts = {
        "read from the cache": tokens.read,
        "written to the cache": tokens.write_5m + tokens.write_1h,
        "of uncached input": tokens.input,
        "of output": tokens.output,
    }
    texts = [f"{count_text(count)} {name}" for name, count in parts.items() if count]
    return ", ".join(texts) or "nothing"
