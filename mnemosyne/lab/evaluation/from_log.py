"""A session of the log as the report of an evaluation shows one: what was sent, beside the unmanaged session.

What the agent could no longer see is not measured here; what the model asked for again is (faults).
"""

from collections.abc import Mapping, Sequence
from typing import Any

import attrs

from mnemosyne.lab.evaluation.results import Epoch, Evaluation, PolicyResult, SessionResult, TurnPoint
from mnemosyne.services.savings import Balance, balance_of, find_rewrites

LIMITS = (
    "The unmanaged session is a simulation: the same requests through the rules of the provider's cache, at the size"
    " that the provider counted. That its client would have compacted, and to what size, is assumed from recordings."
)

NOT_RECORDED = "the wire history began anew"
"""Why there was an epoch, where the log does not say."""

Row = Mapping[str, Any]


def evaluation_of(
    name: str,
    turns: Sequence[Row],
    windows: Sequence[Row],
    *,
    epochs: Sequence[Row] = (),
    evictions: int,
    distances: Sequence[int],
) -> Evaluation:
    """The evaluation of one session, from the rows of the projection ``savings``.

    ``turns`` are those of the query ``saved_by_turn``, ``windows`` those of ``pressure``, ``epochs`` those of
    ``epochs_of``; ``distances`` has the distance of each fault.
    """
    used = [balance_of(row) for row in turns]
    fixed = {(row["branch"], row["turn"]): row["fixed"] for row in windows}
    sent = _session(name, turns, used, fixed, epochs, evictions=evictions, distances=distances)
    policies = [
        PolicyResult(name="what was sent", about="what went upstream, as the provider billed it", sessions=[sent]),
        PolicyResult(name="unmanaged", about="the same client without us", sessions=[_result_without_us(sent)]),
    ]
    total = sum(used, Balance())
    settings = {
        "turns": total.turns,
        "managed turns": total.managed,
        "turns whose use the provider did not tell": total.assumed,
        "compactions that the client would have made": total.compacted,
    }
    return Evaluation(settings=settings, policies=policies)


def _session(
    name: str,
    turns: Sequence[Row],
    used: Sequence[Balance],
    fixed: Mapping[tuple[str, int], int],
    epochs: Sequence[Row],
    *,
    evictions: int,
    distances: Sequence[int],
) -> SessionResult:
    began = turns[0]["began"] if turns else 0
    total = sum(used, Balance())
    numbers = {(row["branch"], row["turn"]): number for number, row in enumerate(turns, 1)}
    points = []
    for number, (row, use) in enumerate(zip(turns, used, strict=True), 1):
        size = row["counted"] or row["estimated"]
        head = min(size, fixed.get((row["branch"], row["turn"]), 0))
        points.append(
            TurnPoint(
                turn=number,
                at=(row["began"] - began) / 1e6,
                resident=(size - head, 0, 0, 0),
                fixed=head,
                unmanaged_tokens=use.shadow.prompt,
                billed=use.billed,
                shadow=use.unmanaged,
            )
        )
    return SessionResult(
        name=name,
        turns=len(turns),
        tokens_sent=total.actual.prompt,
        tokens_unmanaged=total.shadow.prompt,
        billed=total.billed,
        billed_unmanaged=total.unmanaged,
        nanodollars=total.nanodollars,
        nanodollars_unmanaged=total.nanodollars_unmanaged,
        evictions=evictions,
        exact_faults=len(distances),
        demands=0,
        resident=0,
        declared=0,
        silent=0,
        wire_violations=0,
        epochs=tuple(
            Epoch(
                turn=numbers[each.branch, each.turn],
                reason=each.reason or NOT_RECORDED,
                price=each.price,
                expected_payback=each.expected_payback,
            )
            for each in find_rewrites(turns, epochs)
        ),
        fault_distances=tuple(distances),
        points=tuple(points),
    )


def _result_without_us(sent: SessionResult) -> SessionResult:
    """The same session as its shadow."""
    points = tuple(
        attrs.evolve(point, billed=point.shadow, resident=(max(0, point.unmanaged_tokens - point.fixed), 0, 0, 0))
        for point in sent.points
    )
    return attrs.evolve(
        sent,
        tokens_sent=sent.tokens_unmanaged,
        billed=sent.billed_unmanaged,
        nanodollars=sent.nanodollars_unmanaged,
        evictions=0,
        exact_faults=0,
        epochs=(),
        fault_distances=(),
        points=points,
    )
