"""The savings or cost of managing: the turns' usage next to the simulated usage without Mnemosyne, in tokens and money,
and the payback of each rewrite.

If the client's own bytes were sent upstream, or the provider's counts are missing or not credible, nothing was saved or
lost, whatever the simulation says: both sides have the billed replies. The same applies to unaccounted replies: those
to side calls, to requests for a summary, and to attempts that the client repeated.
"""

from bisect import bisect
from collections.abc import Callable, Iterable, Mapping, Sequence
from fractions import Fraction
from itertools import accumulate
from operator import add, sub
from typing import Any
from uuid import UUID

import attrs

from mnemosyne.domain.cost.catalogue import cost, find_billed
from mnemosyne.domain.cost.prices import Terms, Tokens, size_class
from mnemosyne.domain.session.ledger import equivalents, is_compared, is_far
from mnemosyne.domain.session.ledger_events import TurnAccounted
from mnemosyne.domain.session.round_events import Mode
from mnemosyne.figures import dollars_text, plural, printable
from mnemosyne.services.billed_replies import BilledReplies, BilledReply
from mnemosyne.services.quota import QuotaWindow, ask_limits, windows_of
from mnemosyne.services.read_models import EVERY_SESSION, Question, ReadModels, Row, find, names_in
from mnemosyne.services.usage import helpers_since, price_replies, terms_in

_PARTS = ("input", "output", "read", "write_5m", "write_1h")
_SIDES = ("shadow", "expected", "actual")
_COUNTED = ("turns", "assumed", "far", "compacted")


@attrs.frozen(kw_only=True)
class Balance:
    """The actual and simulated usage of some turns, and the cost of ``helpers`` for them, which ``nanodollars``
    includes. ``managed`` counts turns in which other bytes than the client's own
    were sent, ``assumed`` those whose usage the provider did not report, ``far`` those whose counts are not credible
    (far from the estimate), ``compacted`` those at which the client would have compacted. ``billed``, ``unmanaged`` and
    ``expected`` (by the cache's rules) are tokens of plain input; the nanodollars omit the ``unpriced`` of the
    ``replies``, whose models (and terms) are ``unknown``.
    """

    turns: int = 0
    managed: int = 0
    assumed: int = 0
    far: int = 0
    compacted: int = 0
    replies: int = 0
    unpriced: int = 0
    unknown: frozenset[str] = frozenset()
    deviates: bool = False
    actual: Tokens = attrs.field(factory=Tokens)
    shadow: Tokens = attrs.field(factory=Tokens)
    billed: Fraction = Fraction(0)
    unmanaged: Fraction = Fraction(0)
    expected: Fraction = Fraction(0)
    nanodollars: int = 0
    nanodollars_unmanaged: int = 0
    nanodollars_expected: int = 0
    helpers: int = 0

    def __add__(self, other: "Balance") -> "Balance":
        """The sum of both."""
        return self._combine(other, add)

    def __sub__(self, other: "Balance") -> "Balance":
        """This balance minus a part of it. ``unknown`` still names the models of both."""
        return self._combine(other, sub)

    def _combine(self, other: "Balance", operate: Callable[[Any, Any], Any]) -> "Balance":
        sums = {name: operate(getattr(self, name), getattr(other, name)) for name in _SUMMED}
        unknown = self.unknown | other.unknown
        return Balance(deviates=self.deviates or other.deviates, unknown=unknown, **sums)

    @property
    def is_priced(self) -> bool:
        """Whether any reply or helper has a known price."""
        return self.unpriced < self.replies or self.helpers > 0

    @property
    def nanodollars_saved(self) -> int:
        """Negative if managing cost more than it saved."""
        return self.nanodollars_unmanaged - self.nanodollars


_SUMMED = tuple(field.name for field in attrs.fields(Balance) if field.name not in ("deviates", "unknown"))


@attrs.frozen
class Savings:
    """The balance of each session, in the order of their beginnings; ``names`` are the clients'. ``quota`` are a
    subscription's windows. ``turns`` are the rows of ``saved_by_turn`` if one session was asked for.
    """

    sessions: Mapping[UUID, Balance]
    names: Mapping[UUID, str]
    quota: Sequence[QuotaWindow] = ()
    turns: Sequence[Row] | None = None

    @property
    def total(self) -> Balance:
        """The sum over all sessions."""
        return sum(self.sessions.values(), Balance())


async def read_savings(models: ReadModels, since: int = 0, session: str | None = None) -> Savings:
    """The savings or cost of managing in the turns that began since ``since`` (µs of UTC), or only of one session.
    Raises NotFound.
    """
    saved = Question("savings", "saved", {"since": since, "streams": None})
    rows, helpers, sessions, seen = await models.answers(saved, helpers_since(since), EVERY_SESSION, ask_limits())
    balances, turns = add_up(rows, helpers), None
    if session is not None:
        stream = await find(models, session)
        balances = {stream: balances.get(stream, Balance())}
        (used,) = await models.answers(Question("savings", "saved_by_turn", {"stream": stream}))
        turns = [row for row in join_replies(used) if row["began"] >= since]
    return Savings(balances, names_in(sessions), windows_of(seen), turns)


async def read_break_even(models: ReadModels, found: Savings) -> int | None:
    """The break-even turn of the only session, as ``find_break_even``; None if there are several sessions."""
    if len(found.sessions) != 1:
        return None
    about = {"stream": next(iter(found.sessions))}
    questions = (Question("savings", name, about) for name in ("epochs_of", "saved_by_turn"))
    return find_break_even(*await models.answers(*questions))


def find_break_even(epochs: Sequence[Mapping[str, Any]], turns: Sequence[Mapping[str, Any]]) -> int | None:
    """The later turn around which the last compaction of a session pays for itself, as the planner expected; 0 before
    the first compaction, None if no such turn is known. From the rows of ``epochs_of`` and ``saved_by_turn``.
    """
    expected = max((row["turn"] + (row["payback"] or 0) for row in epochs), default=0)
    return expected if not epochs or expected > max((row["turn"] for row in turns), default=0) else None


def describe_loss(lost: int, break_even: int | None) -> str:
    """What managing has cost so far, in nanodollars, as a phrase; ``break_even`` as in ``find_break_even``."""
    if break_even:
        return f"managing breaks even around turn {break_even}"
    if break_even == 0:
        return f"{dollars_text(lost)} of it for memory tools (nothing compacted yet)"
    return f"{dollars_text(lost)} more than without Mnemosyne so far"


def balance_of(row: Mapping[str, Any]) -> Balance:
    """The balance of one row of ``saved``, ``saved_by_turn`` or ``helpers``."""
    if "helpers" in row:
        return Balance(nanodollars=row["helpers"], helpers=row["helpers"])
    if row.get("parts"):
        return sum(map(balance_of, row["parts"]), Balance())
    sides = (Tokens(*(row[f"{side}_{part}"] for part in _PARTS)) for side in _SIDES)
    return _weigh(row, *sides, sizes=(row["size"], row["shadow_size"]), terms=terms_in(row))


def join_replies(rows: Iterable[Row]) -> list[Row]:
    """The rows of ``saved_by_turn``, one for each turn: its ``parts`` are those of replies that differ in price."""
    turns: list[Row] = []
    parts: list[Row] = []
    for row in rows:
        parts.append(row)
        if row["turns"]:
            turns.append(row if len(parts) == 1 else {**row, "parts": parts})
            parts = []
    return turns


def balances_of(turns: Sequence[Row], unaccounted: Iterable[Row], helpers: Iterable[Row]) -> list[Balance]:
    """The balance of each row of ``saved_by_turn``. It includes the unaccounted replies (``saved_unaccounted``) and the
    helper cost (``helpers_of``) before the next row. Without turns, one balance has the sum of these, if any.
    """
    balances, versions = [balance_of(row) for row in turns], [row["version"] for row in turns]
    begins = [*accumulate((row["began"] for row in turns), max)]
    places = [(row, bisect(begins, row["asked_at"])) for row in unaccounted]
    places += [(row, bisect(versions, row["version"])) for row in helpers]
    for row, place in places:
        balances = balances or [Balance()]
        balances[max(0, place - 1)] += balance_of(row)
    return balances


def balance_of_replies(attempt: BilledReplies) -> Balance:
    """The balance of an attempt that is not accounted, or not yet."""
    row = {
        "mode": None,
        "model": attempt.asked,
        "compared": False,
        "deviates": False,
        "replies": 1,
        **dict.fromkeys(_COUNTED, 0),
    }
    balance = Balance()
    for used, terms in attempt.replies:
        sizes = size_class(used.prompt), 0
        balance += _weigh(row, Tokens(), Tokens(), used, sizes=sizes, terms=terms)
    return balance


def balance_of_turn(event: TurnAccounted, replies: Sequence[BilledReply]) -> Balance:
    """The balance of an accounted turn with its billed replies, in order."""
    about = {"mode": event.mode.value, "model": event.model, "compared": is_compared(event), "deviates": event.deviates}
    turn = dict(zip(_COUNTED, (1, int(event.assumed), int(is_far(event)), int(event.compacted)), strict=True))
    balances: list[Balance] = []
    for left, (used, terms) in enumerate(replies or [(Tokens(), Terms())], 1 - len(replies)):
        row = {**about, **(dict.fromkeys(turn, 0) if left < 0 else turn), "replies": min(1, len(replies))}
        simulated = (Tokens(), Tokens()) if left < 0 else (event.shadow, event.expected)
        sizes = size_class(used.prompt), size_class(event.shadow.prompt)
        balances.append(_weigh(row, *simulated, used, sizes=sizes, terms=terms))
    return sum(balances[1:], balances[0])


def _weigh(
    row: Mapping[str, Any], shadow: Tokens, expected: Tokens, actual: Tokens, *, sizes: tuple[int, int], terms: Terms
) -> Balance:
    """The balance of replies alike in price, and of turns that they end. ``sizes``: actual and unmanaged prompts."""
    model, mode, compared = row["model"], row["mode"], row["compared"]
    size, size_unmanaged = sizes if compared else (sizes[0], sizes[0])
    unmanaged = shadow if compared else actual
    expected = actual if mode is None else expected
    billed = find_billed(model, terms)
    used = price_replies(actual, model, terms, size=size, replies=row["replies"])
    amount_unmanaged = cost(unmanaged, model, prompt=size_unmanaged, terms=terms)
    amount_expected = cost(expected, model, prompt=size, terms=terms)
    return Balance(
        turns=row["turns"],
        managed=0 if mode == Mode.OBSERVE.value else row["turns"],
        assumed=row["assumed"],
        far=row["far"],
        compacted=row["compacted"],
        replies=used.replies,
        unpriced=used.unpriced,
        unknown=used.unknown,
        deviates=row["deviates"],
        actual=actual,
        shadow=unmanaged,
        billed=equivalents(actual, billed, prompt=size),
        unmanaged=equivalents(unmanaged, billed, prompt=size_unmanaged),
        expected=equivalents(expected, billed, prompt=size),
        nanodollars=used.nanodollars,
        nanodollars_unmanaged=amount_unmanaged or 0,
        nanodollars_expected=amount_expected or 0,
    )


def add_up(rows: Iterable[Mapping[str, Any]], helpers: Iterable[Mapping[str, Any]] = ()) -> dict[UUID, Balance]:
    """The balance of each session with costs, from the rows of ``saved`` and the answer to ``helpers_since``, in the
    order of first appearance.
    """
    found: dict[UUID, Balance] = {}
    for row in (*rows, *helpers):
        found[row["stream"]] = found.get(row["stream"], Balance()) + balance_of(row)
    return found


@attrs.frozen(kw_only=True)
class Rewrite:
    """A rewrite of a branch's history: its turn, and that turn's extra cost over its shadow (input-token equivalents).

    ``reason`` and ``expected_payback`` (in turns) are the recorded decision; None if the log has none. ``paid_back`` is
    the number of turns after which the branch's ledger regained its earlier balance; None if it has not yet.
    """

    branch: str
    turn: int
    price: Fraction
    paid_back: int | None
    reason: str | None = None
    expected_payback: int | None = None


def find_rewrites(rows: Sequence[Mapping[str, Any]], decided: Sequence[Mapping[str, Any]] = ()) -> list[Rewrite]:
    """The epochs of a session that rewrote the history, from the rows of ``saved_by_turn`` and ``epochs_of``: without
    the epoch of a branch's first turn, unless the log says that it began there.
    """
    found = []
    why = {(row["branch"], row["epoch"]): row for row in decided}
    for branch in dict.fromkeys(row["branch"] for row in rows):
        own = [row for row in rows if row["branch"] == branch]
        epoch = own[0]["epoch"] or 0
        if (branch, epoch) in why:
            epoch -= 1
        if max(row["epoch"] or 0 for row in own) <= epoch:
            continue
        balance = [Fraction(0)]
        for row in own:
            use = balance_of(row)
            balance.append(balance[-1] + use.unmanaged - use.billed)
        for place, row in enumerate(own):
            if (row["epoch"] or 0) > epoch:
                epoch = row["epoch"]
                later = zip(own[place:], balance[place + 1 :], strict=True)
                paid = next((each["turn"] - row["turn"] for each, now in later if now >= balance[place]), None)
                price = max(Fraction(0), balance[place] - balance[place + 1])
                decision = why.get((branch, epoch), {})
                found.append(
                    Rewrite(
                        branch=branch,
                        turn=row["turn"],
                        price=price,
                        paid_back=paid,
                        reason=decision.get("reason"),
                        expected_payback=decision.get("payback"),
                    )
                )
    return found


_OBSERVED = "These turns were only observed: the client's requests were sent unchanged, so nothing was saved or lost."

_SIMULATED = (
    "The bill without Mnemosyne is simulated: the client's own requests by the rules of the provider's cache, at the"
    " sizes that the provider counted."
)

_BASELINE = (
    "The client is assumed to compact at 967,000 tokens, or at 155,000 if its window is smaller than a million, unless"
    " it was seen to compact in the session."
)


def list_caveats(balance: Balance) -> list[str]:
    """The assumptions behind these numbers, one sentence each."""
    caveats = [_SIMULATED, _BASELINE] if balance.managed else [_OBSERVED]
    if balance.helpers:
        caveats.append(f"The cost includes {dollars_text(balance.helpers)} for the helper model.")
    if balance.compacted:
        times = plural(balance.compacted, "time")
        caveats.append(f"It would have compacted {times}; the size afterwards is assumed, from recorded sessions.")
    if balance.assumed:
        turns = plural(balance.assumed, "turn")
        caveats.append(f"For {turns} the provider reported no complete usage; both sides count only what it reported.")
    if balance.far:
        turns = plural(balance.far, "turn")
        caveats.append(f"The provider's counts of {turns} are not credible; both sides of the comparison include them.")
    if balance.unpriced:
        replies, names = plural(balance.unpriced, "reply"), ", ".join(map(printable, sorted(balance.unknown)))
        caveats.append(f"{replies} without a known price ({names}): counted but not priced.")
    if balance.deviates:
        caveats.append("At times the provider billed considerably more than the rules of its cache predict.")
    return caveats
