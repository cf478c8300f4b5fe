"""A branch as another policy would have sent it: what its window would have held, and what that would have cost."""

import json
from collections.abc import Iterator, Sequence

import attrs

from mnemosyne.domain.objects.fidelity import Fidelity
from mnemosyne.services.context_map import ContextMap, MapObject, MapTurn, Span

LAYERS = (Fidelity.FULL, Fidelity.DETAILED, Fidelity.COMPACT, Fidelity.STUB)
"""The fidelities at which anything stands in a window."""


@attrs.frozen(kw_only=True)
class SimulatedTurn:
    """``held`` are the tokens of the history by fidelity, as in ``LAYERS``; ``fixed`` those of system prompt and tools.
    ``is_rewritten``: its history was rewritten before it was sent.
    """

    turn: int
    fixed: int
    held: tuple[int, ...]
    is_rewritten: bool


@attrs.frozen(kw_only=True)
class SimulatedBranch:
    """One branch under one policy. Both amounts are simulated at list prices, in nanodollars: under the policy, and of
    what the client sent. ``verdict`` is the evaluation's sentence.
    """

    policy: str
    about: str
    turns: Sequence[SimulatedTurn]
    nanodollars: int
    nanodollars_unmanaged: int
    verdict: str


@attrs.frozen(kw_only=True)
class SimulationProgress:
    """How far a simulation is, since so many ``seconds`` ago it was asked for: the work of ``done`` of its ``turns``.
    None are done while it waits for others, that were asked for before.
    """

    seconds: float
    done: int | None
    turns: int


def write_step(done: int, turns: int) -> bytes:
    """How far a simulation is, as a line of JSON for another process."""
    return b'{"done":%d,"turns":%d}\n' % (done, turns)


def write_branch(found: SimulatedBranch) -> bytes:
    """What it came to, in the same way."""
    return json.dumps(attrs.asdict(found)).encode() + b"\n"


def read_step(line: bytes) -> SimulatedBranch | tuple[int, int]:
    """What ``write_branch`` or ``write_step`` wrote."""
    told = json.loads(line)
    if "done" in told:
        return told["done"], told["turns"]
    turns = [SimulatedTurn(**{**each, "held": tuple(each["held"])}) for each in told.pop("turns")]
    return SimulatedBranch(**told, turns=turns)


def draw_branch(found: SimulatedBranch, branch: str) -> ContextMap:
    """Its window as a map: a band for each fidelity, since no object is followed."""
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
