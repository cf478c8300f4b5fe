"""A branch under another policy: its simulated windows and cost."""

import json
from collections.abc import Iterator, Sequence

import attrs

from mnemosyne.domain.objects.fidelity import Fidelity
from mnemosyne.services.context_map import ContextMap, MapObject, MapTurn, Span

LAYERS = (Fidelity.FULL, Fidelity.DETAILED, Fidelity.COMPACT, Fidelity.STUB)
"""The fidelities that a window can show."""


@attrs.frozen(kw_only=True)
class SimulatedTurn:
    """``held`` are the history's tokens by fidelity, as in ``LAYERS``; ``fixed`` the tokens of system prompt and tools.
    ``is_rewritten``: its history was rewritten before it was sent.
    """

    turn: int
    fixed: int
    held: tuple[int, ...]
    is_rewritten: bool


@attrs.frozen(kw_only=True)
class SimulatedBranch:
    """One branch under one policy. Both amounts are at list prices, in nanodollars: simulated under the policy, and
    recorded without Mnemosyne. ``verdict`` is the evaluation's sentence.
    """

    policy: str
    about: str
    turns: Sequence[SimulatedTurn]
    nanodollars: int
    nanodollars_unmanaged: int
    verdict: str


def write_branch(found: SimulatedBranch) -> bytes:
    """The result of a simulation as JSON, for another process."""
    return json.dumps(attrs.asdict(found)).encode()


def read_branch(written: bytes) -> SimulatedBranch:
    """The value that ``write_branch`` wrote."""
    value = json.loads(written)
    turns = [SimulatedTurn(**{**each, "held": tuple(each["held"])}) for each in value.pop("turns")]
    return SimulatedBranch(**value, turns=turns)


def draw_branch(found: SimulatedBranch, branch: str) -> ContextMap:
    """Its window as a map: one band for each fidelity, since individual objects are not tracked."""
    turns = [
        MapTurn(
            turn=each.turn,
            estimated=each.fixed + sum(each.held),
            fixed=each.fixed,
            usable=0,
            zone="",
            counted=None,
            epoch=each.is_rewritten,
        )
        for each in found.turns
    ]
    return ContextMap(branch=branch, turns=turns, spans=list(_spans(found.turns)))


def _spans(turns: Sequence[SimulatedTurn]) -> Iterator[Span]:
    for each in turns:
        for place, (fidelity, tokens) in enumerate(zip(LAYERS, each.held, strict=True)):
            if tokens:
                layer = MapObject(id="", kind="all objects", turn=each.turn, tokens=tokens, version=0)
                yield Span(
                    object=layer, first=each.turn, last=each.turn, fidelity=fidelity, tokens=tokens, place=(place, 0)
                )
