"""Usage: the provider's token counts and their cost at list prices, by session, day, folder, model, client or agent."""

from collections import Counter
from collections.abc import Callable, Container, Hashable, Iterable, Mapping, Sequence
from datetime import tzinfo
from typing import Any, Literal, TypeVar
from uuid import UUID

import attrs

from mnemosyne.domain.cost.catalogue import cost, find_billed, price_of
from mnemosyne.domain.cost.prices import Terms, Tokens
from mnemosyne.figures import dollars_text, plural, printable
from mnemosyne.services.quota import QuotaWindow, add_up_shares, ask_limits, shares_of, windows_of
from mnemosyne.services.read_models import EVERY_SESSION, Question, ReadModels, Row, names_in
from mnemosyne.times import utc

Group = TypeVar("Group", bound=Hashable)

Grouping = Literal["session", "day", "project", "model", "client", "agent"]

HELPER = "helper model"
"""The group of helpers, by model or by agent."""


def helpers_since(since: int = 0, streams: Sequence[UUID] | None = None) -> Question:
    """The question for the cost of helpers since a time by session and quarter of an hour: of all sessions, or some
    ``streams``.
    """
    return Question("budget", "helpers", {"since": since, "streams": streams})


_RESULTS = {
    "summarize": "summary",
    "compress": "short summary",
    "facts": "fact search",
    "session_summary": "session summary",
    "utility": "score",
}
"""The result of each task of a helper, if it has another name than the task."""


def ask_for_help(stream: UUID | None = None) -> tuple[Question, Question]:
    """The questions for the work of helpers and the use of their predictions, in one session or in all."""
    about = {"stream": stream}
    return Question("budget", "helper_work", {**about, "since": 0}), Question("working_set", "predicted", about)


def describe_help(work: Sequence[Row], predicted: Sequence[Row]) -> str | None:
    """A sentence about the work of helpers, given the answers to ``ask_for_help``; None if there was no work."""
    if not work:
        return None
    times: dict[str, int] = {}
    for row in work:
        times[row["task"]] = times.get(row["task"], 0) + row["times"] * row["accepted"]
    done = ", ".join(plural(count, _RESULTS.get(task, task)) for task, count in times.items() if count)
    rejected = [row for row in work if not row["accepted"]]
    counts = Counter[str]()
    for row in rejected:
        counts.update(dict.fromkeys((row["reason"] or "").split("; "), row["times"]))
    reasons = "; ".join(f"{printable(reason)} ({count})" for reason, count in counts.most_common())
    said = [f"Helper: {done or 'no accepted work'}, {dollars_text(sum(row['nanodollars'] for row in work))}"]
    if rejected:
        said.append(f"{sum(row['times'] for row in rejected)} rejected because {reasons}")
    if placed := sum(row["placed"] for row in predicted):
        said.append(f"{sum(row['used'] for row in predicted)} of {plural(placed, 'predicted object')} used")
    return ", ".join(said) + "."


@attrs.frozen(kw_only=True)
class Consumption:
    """The usage of one group of replies. ``nanodollars`` is the cost of those with known prices and of ``helpers``,
    ``unpriced`` the number of ``replies`` from models without one, named in ``unknown``.
    """

    replies: int = 0
    tokens: Tokens = attrs.field(factory=Tokens)
    nanodollars: int = 0
    unpriced: int = 0
    unknown: frozenset[str] = frozenset()
    helpers: int = 0

    def __add__(self, other: "Consumption") -> "Consumption":
        """The sum of both."""
        names = ("replies", "tokens", "nanodollars", "unpriced", "helpers")
        sums = {name: getattr(self, name) + getattr(other, name) for name in names}
        return Consumption(unknown=self.unknown | other.unknown, **sums)

    @property
    def price(self) -> int | None:
        """The cost in nanodollars; None if there are only replies without a price."""
        return None if self.replies and self.unpriced == self.replies and not self.helpers else self.nanodollars


@attrs.frozen
class AgentType:
    """An agent's type, and its depth: 0 for the main agent, 1 for a sub-agent that it called."""

    name: str
    depth: int = 0

    def __str__(self) -> str:
        return f"{self.name}, depth {self.depth}" if self.depth > 1 else self.name


@attrs.frozen
class Usage:
    """Usage by group: a session's id, a day (ISO 8601), a folder, a model, a client or an agent. ``names`` are the
    clients' for sessions, ``quota`` a subscription's windows. ``taken`` is the use of such windows by length and group,
    empty by day and by model. ``help`` describes the work of helpers for all sessions.
    """

    by: Grouping
    groups: Mapping[Hashable, Consumption]
    names: Mapping[Hashable, str]
    quota: Sequence[QuotaWindow] = ()
    taken: Mapping[str, Mapping[Hashable, float]] = attrs.field(factory=dict)
    help: str | None = None

    @property
    def total(self) -> Consumption:
        """The sum over all groups."""
        return sum(self.groups.values(), Consumption())


async def read_usage(
    models: ReadModels,
    by: Grouping,
    zone: tzinfo | None,
    *,
    projects: Mapping[UUID, str | None] | None = None,
    agents: Mapping[tuple[UUID, str], Hashable] | None = None,
    only: Container[UUID] | None = None,
) -> Usage:
    """The usage, in the order in which groups first appear. Days are in ``zone``, None for this machine's. ``projects``
    are the folders of sessions and ``agents`` those of branches (``services.agents``), to group by them; ``only`` these
    sessions count.
    """
    rows, helpers, sessions, seen, *help_ = await models.answers(
        Question("usage", "used"), helpers_since(), EVERY_SESSION, ask_limits(), *ask_for_help()
    )
    counted = [row for row in (*rows, *helpers) if only is None or row["stream"] in only]
    names: Mapping[Any, str] = names_in(sessions)
    clients = {row["stream"]: row.get("client") for row in sessions}

    def day(row: Mapping[str, Any]) -> str:
        return utc(row["quarter"]).astimezone(zone).date().isoformat()

    groupings: dict[Grouping, Callable[[Mapping[str, Any]], Hashable]] = {
        "session": lambda row: row["stream"],
        "day": day,
        "project": lambda row: (projects or {}).get(row["stream"]),
        "model": lambda row: HELPER if "helpers" in row else row["replied"] or row["model"],
        "client": lambda row: clients.get(row["stream"]),
        "agent": lambda row: (agents or {}).get((row["stream"], row["branch"])) if "branch" in row else HELPER,
    }
    if by == "day":
        counted.sort(key=day)
    group_of = groupings[by]
    taken = {
        span: add_up_shares(shares, lambda key: group_of({"stream": key[0], "branch": key[1]}))
        for span, shares in ({} if by in ("day", "model") else shares_of(seen)).items()
    }
    return Usage(by, add_up(counted, group_of), names, windows_of(seen), taken, describe_help(*help_))


def consumption_of(row: Mapping[str, Any]) -> Consumption:
    """The usage and cost of one row of ``used``, ``used_by_turn`` or ``helpers``."""
    if "helpers" in row:
        return Consumption(nanodollars=row["helpers"], helpers=row["helpers"])
    tokens = Tokens(*(row[name] for name in ("input", "output", "read", "write_5m", "write_1h")))
    return price_replies(tokens, row["model"], terms_in(row), size=row["size"], replies=row["replies"])


def price_replies(tokens: Tokens, model: str | None, terms: Terms, *, size: int, replies: int = 1) -> Consumption:
    """The usage and cost of replies to requests for a ``model``, alike in ``terms`` and size class. Every total of
    billed money is a sum of these.
    """
    amount = cost(tokens, model, prompt=size, terms=terms)
    if amount is not None or not replies:
        return Consumption(replies=replies, tokens=tokens, nanodollars=amount or 0)
    unknown = frozenset({_name_missing_price(model, terms)})
    return Consumption(replies=replies, tokens=tokens, unpriced=replies, unknown=unknown)


def _name_missing_price(model: str | None, terms: Terms) -> str:
    """A model without a known price, with its terms if it has a price on others."""
    if price_of(find_billed(model, terms)) is None:
        return terms.model or model or "(none named)"
    return f"{find_billed(model, terms)} ({', '.join(filter(None, (terms.speed, terms.tier, terms.geo)))})"


def terms_in(row: Mapping[str, Any]) -> Terms:
    """The terms in a row of a read model."""
    tier, geo, speed = row["service_tier"], row["inference_geo"], row["speed"]
    return Terms(model=row["replied"], tier=tier, geo=geo, speed=speed, searches=row["web_searches"])


def add_up(
    rows: Iterable[Mapping[str, Any]], group_of: Callable[[Mapping[str, Any]], Group]
) -> dict[Group, Consumption]:
    """Rows of such a query added up by group, in the order of first appearance."""
    groups: dict[Group, Consumption] = {}
    for row in rows:
        group = group_of(row)
        groups[group] = groups.get(group, Consumption()) + consumption_of(row)
    return groups
