"""Realistic handmade evaluations."""

import random
from collections.abc import Sequence
from fractions import Fraction

from mnemosyne_lab.evaluation.results import Epoch, Evaluation, PolicyResult, SessionResult, TurnPoint


def session(name: str = "s", *, turns: int = 40, strength: float = 0.5, silent: int = 0) -> SessionResult:
    """A session whose context grows and is reduced by an epoch every 25 turns, by more for a greater strength."""
    draw = random.Random(repr(name))
    points, epochs = [], []
    full, stub, whole = 2_000, 0, 2_000
    sent = unmanaged = absent = 0
    for turn in range(1, turns + 1):
        added = draw.randrange(200, 3_000)
        full, whole = full + added, whole + added
        price = 0
        if strength and turn % 25 == 0:
            cut = int(full * strength)
            full, stub = full - cut, stub + cut // 20
            price = int(1.15 * (full + stub))
            epochs.append(Epoch(turn=turn, reason="the cache was cold", price=Fraction(price)))
            absent += int(9 * strength**2) + 1
        fixed = 15_000
        read = (fixed + full + stub - added) // 10
        points.append(
            TurnPoint(
                turn=turn,
                at=30.0 * turn,
                resident=(full, full // 9 if strength else 0, 0, stub),
                fixed=fixed,
                unmanaged_tokens=fixed + whole,
                billed=Fraction(read + price) + Fraction(added * 5, 4),
                shadow=Fraction(fixed + whole - added, 10) + Fraction(added * 5, 4),
            )
        )
        sent, unmanaged = sent + fixed + full + stub, unmanaged + fixed + whole
    billed = sum((point.billed for point in points), Fraction(0))
    shadow = sum((point.shadow for point in points), Fraction(0))
    demands = 10 * turns
    absent = min(absent, demands)
    return SessionResult(
        name=name,
        turns=turns,
        tokens_sent=sent,
        tokens_unmanaged=unmanaged,
        billed=billed,
        billed_unmanaged=shadow,
        nanodollars=int(billed * 5_000),
        nanodollars_unmanaged=int(shadow * 5_000),
        evictions=40 * len(epochs),
        exact_faults=len(epochs) // 2,
        demands=demands,
        resident=demands - absent,
        declared=absent - min(silent, absent),
        silent=min(silent, absent),
        wire_violations=0,
        epochs=epochs,
        points=points,
    )


def policy(
    name: str,
    strength: float,
    names: Sequence[str] = ("long", "short"),
    *,
    turns: int = 120,
    silent: int = 0,
    bound: bool = False,
) -> PolicyResult:
    """A policy over sessions of these names, each shorter than the previous one."""
    sessions = [
        session(each, turns=max(1, turns // (1 + index)), strength=strength, silent=silent)
        for index, each in enumerate(names)
    ]
    return PolicyResult(name=name, about=f"Cuts {strength:.0%} away.", sessions=sessions, bound=bound)


def evaluation(*policies: PolicyResult) -> Evaluation:
    """Some policies; by default three typical ones."""
    some = policies or (
        policy("unmanaged", 0),
        policy("half", 0.5),
        policy("most", 0.8, silent=1),
        policy("oracle", 0.9, bound=True),
    )
    return Evaluation(
        settings={"ttl": "5m", "read": 0.1, "min turns": 30},
        policies=some,
        skipped=["sessions.jsonl, line 7: no messages; leave it out."],
    )
