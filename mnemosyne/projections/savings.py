"""What managing saved or cost: each turn's use beside that of its shadow, the same client's without us.

Tokens are what is on record; money is what ``domain/cost/prices.py`` makes of them when somebody asks. Where the
client's own bytes went upstream nothing was saved and nothing lost, whatever the simulation says of it.
"""

from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from typing import Any, cast

import attrs

from mnemosyne.domain.cost.prices import LONG_PROMPT, Tokens, price_of
from mnemosyne.domain.objects.events import ObjectDegraded, ObjectFaulted, TurnAssessed
from mnemosyne.domain.ports import Recorded
from mnemosyne.domain.session.events import Event
from mnemosyne.domain.session.ledger import equivalents
from mnemosyne.domain.session.ledger_events import TurnAccounted
from mnemosyne.domain.session.round_events import EpochBegan, Mode, RoundBegan
from mnemosyne.projections.projection import Merge, Projection, Query, Table, Type, text

_PARTS = ("input", "output", "read", "write_5m", "write_1h")
_SIDES = ("shadow", "expected", "actual")

TURNS = Table(
    "turns",
    key={"stream": Type.UUID, "branch": Type.TEXT, "turn": Type.INTEGER, "attempt": Type.INTEGER},
    columns={
        "version": Type.INTEGER,
        "began": Type.INTEGER,
        "mode": Type.TEXT,
        "model": Type.TEXT,
        "rounds": Type.INTEGER,
        "epoch": Type.INTEGER,
        "assumed": Type.BOOLEAN,
        "compacted": Type.BOOLEAN,
        "deviates": Type.BOOLEAN,
        "estimated": Type.INTEGER,
        "counted": Type.INTEGER,
        **{f"{side}_{part}": Type.INTEGER for side in _SIDES for part in _PARTS},
    },
)

WINDOWS = Table(
    "windows",
    key={"stream": Type.UUID, "branch": Type.TEXT, "turn": Type.INTEGER},
    columns={"fixed": Type.INTEGER, "zone": Type.TEXT},
)

FAULTS = Table(
    "faults",
    key={"stream": Type.UUID, "version": Type.INTEGER},
    columns={"branch": Type.TEXT, "turn": Type.INTEGER, "kind": Type.TEXT, "distance": Type.INTEGER},
)


EPOCHS = Table(
    "epochs",
    key={"stream": Type.UUID, "branch": Type.TEXT, "epoch": Type.INTEGER},
    columns={"turn": Type.INTEGER, "reason": Type.TEXT, "price": Type.INTEGER, "payback": Type.INTEGER},
)

EVICTIONS = Table(
    "evictions",
    key={"stream": Type.UUID, "version": Type.INTEGER},
    columns={"branch": Type.TEXT, "turn": Type.INTEGER},
)


def changes(recorded: Recorded[object]) -> Sequence[Merge]:
    """The rows that an event changes."""
    stream, event = recorded.stream, cast("Event", recorded.envelope.event)
    match event:
        case TurnAccounted():
            return (Merge("turns", (stream, event.branch, event.turn, event.attempt), _turn(event, recorded.version)),)
        case EpochBegan():
            began: dict[str, Any] = {
                "turn": event.turn,
                "reason": text(event.reason),
                "price": event.price,
                "payback": event.payback,
            }
            return (Merge("epochs", (stream, event.branch, event.epoch), began),)
        case RoundBegan():
            return (Merge("turns", (stream, event.branch, event.turn, event.attempt), {"epoch": event.epoch}),)
        case TurnAssessed():
            window: dict[str, Any] = {
                "fixed": event.fixed,
                "zone": event.zone,
            }
            return (Merge("windows", (stream, event.branch, event.turn), window),)
        case ObjectFaulted():
            fault: dict[str, Any] = {
                "branch": event.branch,
                "turn": event.turn,
                "kind": event.kind.value,
                "distance": event.distance,
            }
            return (Merge("faults", (stream, recorded.version), fault),)
        case ObjectDegraded():
            eviction: dict[str, Any] = {"branch": event.branch, "turn": event.turn}
            return (Merge("evictions", (stream, recorded.version), eviction),)
        case _:
            return ()


def _turn(event: TurnAccounted, version: int) -> dict[str, Any]:
    sides = zip(_SIDES, (event.shadow, event.expected, event.actual), strict=True)
    return {
        "version": version,
        "began": event.began,
        "mode": event.mode.value,
        "model": text(event.model),
        "rounds": event.rounds,
        "assumed": event.assumed,
        "compacted": event.compacted,
        "deviates": event.deviates,
        "estimated": event.estimated,
        "counted": event.counted,
        **{f"{side}_{part}": getattr(tokens, part) for side, tokens in sides for part in _PARTS},
    }


def _prompt(side: str) -> str:
    return f"{side}_input + {side}_read + {side}_write_5m + {side}_write_1h"


_COLUMNS = [f"{side}_{part}" for side in _SIDES for part in _PARTS]
_SUMS = ",\n    ".join(f"sum({column})::bigint as {column}" for column in _COLUMNS)

SAVED = Query(
    "saved",
    "What did every session use, and what would it have used without us?",
    f"""select stream, mode, model, greatest(estimated, counted) > {LONG_PROMPT} as long,
    {_prompt("shadow")} > {LONG_PROMPT} as shadow_long, count(*) as turns,
    count(*) filter (where assumed) as assumed, count(*) filter (where compacted) as compacted,
    bool_or(deviates) as deviates,
    {_SUMS}
from mnemosyne.savings_turns
where began >= %(since)s
group by 1, 2, 3, 4, 5
order by min(began), 1, 2, 3, 4, 5""",
)

SAVED_BY_TURN = Query(
    "saved_by_turn",
    "What did each turn of a session use, what would it have used without us, and in which epoch was it?",
    f"""select branch, turn, attempt, began, epoch, rounds, estimated, counted, mode, model,
    greatest(estimated, counted) > {LONG_PROMPT} as long, {_prompt("shadow")} > {LONG_PROMPT} as shadow_long,
    1 as turns, assumed::int as assumed, compacted::int as compacted, deviates,
    {", ".join(_COLUMNS)}
from mnemosyne.savings_turns
where stream = %(stream)s and began is not null
order by version""",
)

PRESSURE = Query(
    "pressure",
    "How full was each window of a session, and how much of it is system prompt and tools?",
    """select branch, turn, fixed, zone from mnemosyne.savings_windows where stream = %(stream)s
order by branch, turn""",
)

FAULTED = Query(
    "faulted",
    "What did the model miss in a session, and how long had it been out of sight?",
    """select branch, turn, kind, distance from mnemosyne.savings_faults where stream = %(stream)s order by version""",
)

EVICTED = Query(
    "evicted",
    "How often was something lowered in a session?",
    """select branch, turn, count(*) as evictions from mnemosyne.savings_evictions where stream = %(stream)s
group by 1, 2 order by 1, 2""",
)

EPOCHS_OF = Query(
    "epochs_of",
    "Why was a session's history rewritten, at which price, and in how many turns was that expected to pay?",
    """select branch, epoch, turn, reason, price, payback from mnemosyne.savings_epochs where stream = %(stream)s
order by branch, epoch""",
)

SAVINGS = Projection(
    name="savings",
    version=2,
    tables=(TURNS, WINDOWS, FAULTS, EPOCHS, EVICTIONS),
    changes=changes,
    queries=(SAVED, SAVED_BY_TURN, PRESSURE, FAULTED, EPOCHS_OF, EVICTED),
)


@attrs.frozen(kw_only=True)
class Saved:
    """What some turns used and would have used. ``managed`` are those for which not the client's own bytes went,
    ``assumed`` those whose use the provider did not tell, ``compacted`` those at which the client would have compacted.
    ``billed``, ``unmanaged`` and ``expected`` (what the cache's rules say of what was sent) are tokens of plain input;
    nanodollars leave out the ``unpriced`` turns.
    """

    turns: int = 0
    managed: int = 0
    assumed: int = 0
    compacted: int = 0
    unpriced: int = 0
    deviates: bool = False
    actual: Tokens = attrs.field(factory=Tokens)
    shadow: Tokens = attrs.field(factory=Tokens)
    billed: Fraction = Fraction(0)
    unmanaged: Fraction = Fraction(0)
    expected: Fraction = Fraction(0)
    nanodollars: int = 0
    nanodollars_unmanaged: int = 0

    def __add__(self, other: "Saved") -> "Saved":
        """Both together."""
        names = [field.name for field in attrs.fields(Saved) if field.name != "deviates"]
        sums = {name: getattr(self, name) + getattr(other, name) for name in names}
        return Saved(deviates=self.deviates or other.deviates, **sums)

    @property
    def nanodollars_saved(self) -> int:
        """Below 0 if managing has cost more than it saved."""
        return self.nanodollars_unmanaged - self.nanodollars


def saved(row: Mapping[str, Any]) -> Saved:
    """What one row of ``saved`` or ``saved_by_turn`` says, and costs."""
    shadow, expected, actual = (Tokens(*(row[f"{side}_{part}"] or 0 for part in _PARTS)) for side in _SIDES)
    managed = row["mode"] != Mode.OBSERVE.value
    unmanaged = shadow if managed else actual
    model, price = row["model"], price_of(row["model"])
    long, shadow_long = (LONG_PROMPT + 1 if each else 0 for each in (row["long"], row["shadow_long"]))
    return Saved(
        turns=row["turns"],
        managed=row["turns"] if managed else 0,
        assumed=row["assumed"],
        compacted=row["compacted"],
        unpriced=0 if price else row["turns"],
        deviates=row["deviates"],
        actual=actual,
        shadow=unmanaged,
        billed=equivalents(actual, model, prompt=long),
        unmanaged=equivalents(unmanaged, model, prompt=shadow_long if managed else long),
        expected=equivalents(expected, model, prompt=long),
        nanodollars=price.nanodollars(actual, prompt=long) if price else 0,
        nanodollars_unmanaged=price.nanodollars(unmanaged, prompt=shadow_long if managed else long) if price else 0,
    )


def by_session(rows: Iterable[Mapping[str, Any]]) -> dict[Any, Saved]:
    """The rows of the query ``saved`` added up by session, in the order in which sessions first appear."""
    found: dict[Any, Saved] = {}
    for row in rows:
        found[row["stream"]] = found.get(row["stream"], Saved()) + saved(row)
    return found


@attrs.frozen(kw_only=True)
class Rewrite:
    """A rewrite of a branch's history: at which turn, and what that turn cost more than its shadow (input-token
    equivalents).

    ``reason``, and in how many turns it was expected to pay, are what was decided; None where the log does not say.
    ``paid_back`` is after how many turns the branch's ledger stood where it had stood before; None if it has not yet.
    """

    branch: str
    turn: int
    price: Fraction
    paid_back: int | None
    reason: str | None = None
    expected_payback: int | None = None


def rewrites(rows: Sequence[Mapping[str, Any]], decided: Sequence[Mapping[str, Any]] = ()) -> list[Rewrite]:
    """The epochs of a session that rewrote something, from the rows of ``saved_by_turn`` and of ``epochs_of``: not the
    one that a branch's first turn was sent in, unless the log says that it began there.
    """
    found = []
    why = {(row["branch"], row["epoch"]): row for row in decided}
    for branch in dict.fromkeys(row["branch"] for row in rows):
        own = [row for row in rows if row["branch"] == branch]
        balance = [Fraction(0)]
        for row in own:
            use = saved(row)
            balance.append(balance[-1] + use.unmanaged - use.billed)
        epoch = own[0]["epoch"] or 0
        if (branch, epoch) in why:
            epoch -= 1
        for place, row in enumerate(own):
            if (row["epoch"] or 0) > epoch:
                epoch = row["epoch"]
                later = zip(own[place:], balance[place + 1 :], strict=True)
                paid = next((each["turn"] - row["turn"] for each, now in later if now >= balance[place]), None)
                price = max(Fraction(0), balance[place] - balance[place + 1])
                told = why.get((branch, epoch), {})
                found.append(
                    Rewrite(
                        branch=branch,
                        turn=row["turn"],
                        price=price,
                        paid_back=paid,
                        reason=told.get("reason"),
                        expected_payback=told.get("payback"),
                    )
                )
    return found
