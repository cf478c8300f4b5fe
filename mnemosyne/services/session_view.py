"""The view of one session: its window, evictions, faults and cost."""

from collections.abc import Mapping, Sequence
from uuid import UUID

import attrs

from mnemosyne.domain.objects.fidelity import Fidelity
from mnemosyne.domain.session.budget import UsedLimit
from mnemosyne.domain.session.directory import last_decisions
from mnemosyne.domain.session.events import BranchKind
from mnemosyne.domain.session.round_events import Mode
from mnemosyne.figures import dollars_text, plural, printable, settings_text
from mnemosyne.services import savings, timeline
from mnemosyne.services.budgets import Budgets
from mnemosyne.services.context_map import ContextMap, read_map
from mnemosyne.services.fault_reasons import ReasonShare, list_shares
from mnemosyne.services.money_curve import MoneyCurve, money_curve
from mnemosyne.services.predicted_bills import PredictedBill, predict_bill
from mnemosyne.services.quota import QuotaUse, ask_limits, shares_of_branches, uses_of
from mnemosyne.services.read_models import Question, ReadModels
from mnemosyne.services.savings import Balance, Rewrite
from mnemosyne.services.session_list import read_settings
from mnemosyne.services.usage import ask_for_help, describe_help


@attrs.frozen(kw_only=True)
class SessionBranch:
    """A branch in the list: its kind, origin and number of turns. ``why`` and ``mode`` are the last decision about it;
    None if managing was never requested. ``quota`` is its use of a subscription's windows by length.
    """

    name: str
    kind: str
    parent: str | None
    forked_at: int
    turns: int
    mode: str | None
    why: str | None
    quota: Mapping[str, float]


@attrs.frozen(kw_only=True)
class SessionTurn:
    """A turn's last attempt. ``tokens`` is the size of its last prompt and ``read`` its part from the cache, both by
    the provider's count; ``missed`` counts the requests for objects that it did not show. ``version`` is its first
    event's; None if not recorded.
    """

    turn: int
    attempt: int
    state: str | None
    began_at: int
    model: str | None
    tokens: int | None
    read: int | None
    output: int | None
    nanodollars: int | None
    rounds: int
    stop: str | None
    zone: str | None
    epoch: bool
    missed: int
    version: int | None


@attrs.frozen
class Miss:
    """An object that was needed but not in the window, and how that showed: ``explicit``, ``micro`` or ``implicit``."""

    turn: int
    object: str
    how: str


@attrs.frozen(kw_only=True)
class SessionView:
    """A session, with one ``branch`` in full. ``turns`` are that branch's own, in order. ``before`` are the windows
    that this one succeeds, each up to the turn that it continues from, in order. ``total`` includes helpers and side
    calls. ``help`` describes the work of helpers, ``settings`` those of its plans, ``quota`` its use of a subscription,
    ``budgets`` the limits on cost that are nearly used.
    """

    stream: UUID
    name: str
    client: str
    model: str | None
    started_at: int
    last_active_at: int
    forgotten: bool
    trashed_at: int | None
    branches: Sequence[SessionBranch]
    branch: str
    before: Sequence[ContextMap]
    map: ContextMap
    turns: Sequence[SessionTurn]
    money: MoneyCurve
    total: Balance
    break_even: int | None
    prediction: PredictedBill
    rewrites: Sequence[Rewrite]
    misses: Sequence[Miss]
    reasons: Sequence[ReasonShare]
    budgets: Sequence[UsedLimit]
    quota: Sequence[QuotaUse]
    unrecorded: int
    help: str | None
    settings: str | None

    @property
    def is_managed(self) -> bool:
        """Whether the shown branch is managed."""
        return any(each.name == self.branch and each.mode == Mode.MANAGE.value for each in self.branches)

    @property
    def cost_so_far(self) -> str | None:
        """What managing costs until a compaction pays off; None if it saved something or no such turn is known."""
        lost = -self.total.nanodollars_saved
        return None if lost <= 0 or self.break_even is None else savings.describe_loss(lost, self.break_even)

    @property
    def verdict(self) -> str:
        """The summary sentences of the session."""
        last = self.map.turns[-1].turn if self.map.turns else 0
        standing = self.map.standing_at(last)
        left = sum(each.fidelity is not Fidelity.FULL for each in standing)
        sentences = [_cost_sentence(self.total, self.cost_so_far)]
        if left:
            missed = {0: "none was needed again", 1: "one was needed again"}
            misses = missed.get(len(self.misses), f"they were needed again {len(self.misses)} times")
            sentences.append(f"{left} of {len(standing)} objects of {self.branch} are shortened or evicted; {misses}.")
        return " ".join(sentences)


def _cost_sentence(total: Balance, cost_so_far: str | None) -> str:
    if not total.turns and not total.replies:
        return "No costs are recorded yet."
    turns, names = plural(total.turns, "turn"), ", ".join(map(printable, sorted(total.unknown)))
    notes = f" The helper model's share of the cost is {dollars_text(total.helpers)}." if total.helpers else ""
    notes += f" The cost lacks {plural(total.unpriced, 'unpriced reply')} ({names})." if total.unpriced else ""
    if not total.managed:
        observed = "only observed: the client's requests were sent unchanged, so nothing was saved or lost."
        return f"{turns}, {observed}{notes}"
    if not total.is_priced:
        return f"{turns} without a known price ({names})."
    cost, without = dollars_text(total.nanodollars), dollars_text(total.nanodollars_unmanaged)
    if cost_so_far is not None:
        return f"{turns} cost {cost}; {cost_so_far}.{notes}"
    return f"{turns} cost {cost}; without Mnemosyne they would have cost {without}.{notes}"


async def read_session_view(
    models: ReadModels, stream: UUID, branch: str | None = None, budgets: Budgets | None = None
) -> SessionView:
    """The view of a session, by default of the branch used interactively last. Raises NotFound."""
    whole = await timeline.read_timeline(models, str(stream))
    about = {"stream": stream}
    used, unaccounted, epochs, faults, why, objects, limits, *help_ = await models.answers(
        Question("savings", "saved_by_turn", about),
        Question("savings", "saved_unaccounted", about),
        Question("savings", "epochs_of", about),
        Question("working_set", "faults_of", about),
        Question("working_set", "fault_reasons", about),
        Question("working_set", "branch_of_objects", about),
        ask_limits(stream),
        *ask_for_help(stream),
    )
    branches = _branches(whole, shares_of_branches(limits, stream))
    chosen = _choose(whole, branch)
    found = await read_map(models, stream, chosen)
    owners = {row["object"]: row["branch"] for row in objects}
    misses = [Miss(row["turn"], row["object"], row["how"]) for row in faults if owners.get(row["object"]) == chosen]
    used = savings.join_replies(used)
    balances = savings.balances_of(used, unaccounted, whole.helpers)
    session = whole.session
    return SessionView(
        stream=stream,
        name=session["external_id"] or str(stream),
        client=" ".join(filter(None, (session["client"], session["client_version"]))),
        model=session["model"],
        started_at=session["started_at"],
        last_active_at=session["last_active_at"],
        forgotten=session["forgotten_at"] is not None,
        trashed_at=session["trashed_at"],
        branches=branches,
        branch=chosen,
        before=[(await read_map(models, stream, name)).until(left) for name, left in _windows_before(whole, chosen)],
        map=found,
        turns=_turns(whole, chosen, found),
        money=money_curve(used, balances),
        total=sum(balances, Balance()),
        break_even=savings.find_break_even(epochs, used),
        prediction=predict_bill(used),
        rewrites=savings.find_rewrites(used, epochs),
        misses=misses,
        reasons=list_shares(why),
        budgets=[] if budgets is None else await budgets.list_used(models, stream),
        quota=uses_of(limits, lambda key: key[0] == stream),
        unrecorded=sum(row["turns"] for row in whole.gaps),
        help=describe_help(*help_),
        settings=None if (taken := read_settings(session["settings"])) is None else settings_text(taken),
    )


async def require_session_branch(models: ReadModels, stream: UUID, branch: str) -> None:
    """Raise NotFound if the session has no such branch."""
    (rows,) = await models.answers(Question("timeline", "branches", {"stream": stream}))
    timeline.require_branch(branch, [row["branch"] for row in rows])


def _branches(whole: timeline.Timeline, shares: Mapping[str, Mapping[str, float]]) -> list[SessionBranch]:
    taken: dict[str, set[int]] = {}
    for row in whole.turns:
        taken.setdefault(row["branch"], set()).add(row["turn"])
    decided = last_decisions(timeline.list_decisions(whole.branches, whole.modes))
    return [
        SessionBranch(
            name=row["branch"],
            kind=row["kind"],
            parent=row["parent"],
            forked_at=row["forked_at"],
            turns=len(taken.get(row["branch"], ())),
            mode=decided[row["branch"]].mode.value if row["branch"] in decided else None,
            why=decided[row["branch"]].why if row["branch"] in decided else None,
            quota=shares.get(row["branch"], {}),
        )
        for row in whole.branches
    ]


def _choose(whole: timeline.Timeline, wanted: str | None) -> str:
    kinds = {row["branch"]: BranchKind(row["kind"]) for row in whole.branches}
    if wanted is not None:
        timeline.require_branch(wanted, kinds)
    taken = [row["branch"] for row in reversed(whole.turns)]
    interactive = (name for name in taken if name in kinds and kinds[name].is_interactive)
    return wanted or next(interactive, next(iter(taken), "main"))


def _windows_before(whole: timeline.Timeline, chosen: str) -> list[tuple[str, int]]:
    """The branches whose windows this one succeeds, each with the last turn that it continues from, in order."""
    known = {row["branch"]: row for row in whole.branches}
    found: list[tuple[str, int]] = []
    at = known.get(chosen)
    while at is not None and at["parent"] is not None:
        if at["kind"] == BranchKind.SUCCESSOR.value:
            found.insert(0, (at["parent"], at["forked_at"]))
        elif not at["inherits"]:
            break
        at = known.get(at["parent"])
    return found


def _turns(whole: timeline.Timeline, branch: str, found: ContextMap) -> list[SessionTurn]:
    windows = {each.turn: each for each in found.turns}
    last = {row["turn"]: row for row in whole.turns if row["branch"] == branch}
    return [
        SessionTurn(
            turn=turn,
            attempt=row["attempt"],
            state=row["state"],
            began_at=row["began_at"],
            model=row["model"],
            tokens=row["context_tokens"],
            read=row["context_read"],
            output=row["output_tokens"],
            nanodollars=row["nanodollars"],
            rounds=row["rounds"],
            stop=row["stop_reason"] or row["error_type"] or row["reason"],
            zone=windows[turn].zone if turn in windows else None,
            epoch=windows[turn].epoch if turn in windows else False,
            missed=windows[turn].missed if turn in windows else 0,
            version=row["version"],
        )
        for turn, row in sorted(last.items())
    ]
