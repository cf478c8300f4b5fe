"""The limits of subscriptions: how much of each window is used, by session, branch and turn."""

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Any, TypeVar
from uuid import UUID

import attrs

from mnemosyne.domain.cost.quota import QuotaReport, attribute, is_same_window
from mnemosyne.domain.wire.limits import PARTS
from mnemosyne.services.read_models import Question, Row

Group = TypeVar("Group", bound=Hashable)

AttemptKey = tuple[UUID, str, int, int]
"""A session, a branch, a turn and an attempt."""

Shares = Mapping[str, Mapping[AttemptKey, float]]
"""The increase of all windows of a length (``5h``, ``7d``) with each attempt at a turn."""


def ask_limits(stream: UUID | None = None) -> Question:
    """The question for the reported limits of subscriptions: all, or those that concern one session."""
    return Question("usage", "limits_seen", {"stream": stream})


@attrs.frozen(kw_only=True)
class QuotaWindow:
    """An account's five-hour or seven-day window in its last report, ``at`` µs of UTC: the used share, its reset time,
    and the provider's status word. ``account`` is a digest, None if not recorded. ``taken`` is the increase of all such
    windows with the replies of each session, including use elsewhere in the meantime.
    """

    span: str
    account: str | None
    at: int
    used: float
    reset: int | None
    status: str | None
    taken: Mapping[UUID, float]


@attrs.frozen(kw_only=True)
class QuotaUse:
    """The use of a window by a turn or a session. ``used`` is the share of the window that its last reply reported, and
    ``before`` the share that the account's previous reply reported, None if in another window. ``taken`` is its
    own share of the increase.
    """

    span: str
    used: float
    before: float | None
    taken: float


def windows_of(rows: Iterable[Row]) -> list[QuotaWindow]:
    """The reported windows, the shortest first, from the answer to ``ask_limits``."""
    return [_window_of(of_account) for of_account in _by_account(rows)]


def _window_of(rows: Sequence[Row]) -> QuotaWindow:
    last = rows[-1]
    return QuotaWindow(
        **{name: last[name] for name in ("span", "account", "reset", "status")},
        at=last["ended"],
        used=last["used"] / PARTS,
        taken=add_up_shares(_share(rows), lambda key: key[0]),
    )


def shares_of(rows: Iterable[Row]) -> Shares:
    """The share of each attempt, from the answer to ``ask_limits``."""
    shares: dict[str, dict[AttemptKey, float]] = {}
    for of_account in _by_account(rows):
        shares.setdefault(of_account[0]["span"], {}).update(_share(of_account))
    return shares


def add_up_shares(shares: Mapping[AttemptKey, float], group_of: Callable[[AttemptKey], Group]) -> dict[Group, float]:
    """Shares added up by group, in the order of first appearance."""
    groups: dict[Group, float] = {}
    for key, share in shares.items():
        group = group_of(key)
        groups[group] = round(groups.get(group, 0.0) + share, 9)  # without the errors of binary fractions
    return groups


def shares_of_branches(rows: Iterable[Row], stream: UUID) -> dict[str, dict[str, float]]:
    """The share of each branch of a session in the increase of windows, by their length."""
    found: dict[str, dict[str, float]] = {}
    for span, shares in shares_of(rows).items():
        for branch, share in add_up_shares(shares, lambda key: key[1] if key[0] == stream else "").items():
            found.setdefault(branch, {})[span] = share
    return found


def uses_of(rows: Iterable[Row], is_own: Callable[[AttemptKey], bool]) -> list[QuotaUse]:
    """The use of each window by some turns, from the answer to ``ask_limits``."""
    uses: dict[str, QuotaUse] = {}
    for of_account in _by_account(rows):
        own = [number for number, row in enumerate(of_account) if is_own(_key(row))]
        if own:
            first, last = of_account[own[0]], of_account[own[-1]]
            earlier = of_account[own[0] - 1] if own[0] else None
            known = earlier if earlier is not None and is_same_window(earlier["reset"], first["reset"]) else None
            taken = sum(share for key, share in _share(of_account).items() if is_own(key))
            other = uses.get(last["span"])  # the session's login changed
            uses[last["span"]] = QuotaUse(
                span=last["span"],
                used=last["used"] / PARTS,
                before=None if known is None else known["used"] / PARTS,
                taken=taken if other is None else taken + other.taken,
            )
    return list(uses.values())


def _by_account(rows: Iterable[Row]) -> list[list[Row]]:
    """The rows of each window and account, in the order in which the provider stated them."""
    groups: dict[tuple[str, str], list[Row]] = {}
    for row in sorted(rows, key=lambda row: (row["at"], row["ended"])):
        groups.setdefault((row["span"], row["account"] or ""), []).append(row)
    return sorted(groups.values(), key=lambda of_account: (of_account[0]["span"], of_account[-1]["at"]))


def _share(rows: Sequence[Row]) -> dict[AttemptKey, float]:
    names = ("used", "reset", "began", "at", "ended", "tokens")
    reports = [QuotaReport(turn=_key(row), **{name: row[name] for name in names}) for row in rows]
    return {key: parts / PARTS for key, parts in attribute(reports).items()}


def _key(row: Mapping[str, Any]) -> AttemptKey:
    return row["stream"], row["branch"], row["turn"], row["attempt"]
