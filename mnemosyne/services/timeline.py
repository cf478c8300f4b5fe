"""The events of a session turn by turn, with each turn's usage."""

from collections.abc import Collection, Mapping, Sequence
from operator import itemgetter
from typing import Any

import attrs

from mnemosyne.domain.session.directory import display_steps
from mnemosyne.domain.session.round_events import Mode
from mnemosyne.errors import NotFound
from mnemosyne.services import read_models, usage
from mnemosyne.services.read_models import Question, ReadModels, Row
from mnemosyne.services.usage import Consumption

PROMPT = ("input_tokens", "cache_read_tokens", "cache_write_5m_tokens", "cache_write_1h_tokens")
TOKENS = ("input_tokens", "output_tokens", *PROMPT[1:])
"""The usage columns of a reply; a prompt has all but the output."""


@attrs.frozen
class Timeline:
    """A session from its rows; ``modes`` are the decisions about managing its branches.

    The tokens of a turn are the sum over its rounds. Every turn also has its ``nanodollars``, None without a known
    price, ``context_tokens``, the size of its last prompt, and ``context_read``, the part of that from the provider's
    cache. ``helpers`` are the rows of ``helpers_of``.
    """

    session: Row
    branches: Sequence[Row]
    turns: Sequence[Row]
    gaps: Sequence[Row]
    modes: Sequence[Row]
    helpers: Sequence[Row] = ()

    @property
    def nanodollars(self) -> int | None:
        """The cost of helpers and of all turns with a known price; None if tokens were used and no turn has one."""
        amounts = [*(row["nanodollars"] for row in self.turns), *(row["helpers"] for row in self.helpers)]
        known = [amount for amount in amounts if amount is not None]
        return sum(known) if known or not any(row["context_tokens"] for row in self.turns) else None


async def read_timeline(models: ReadModels, session: str, branch: str | None = None) -> Timeline:
    """The timeline of a session, or of one branch. Raises NotFound."""
    about = {"stream": await read_models.find(models, session)}
    queries = ("session", "branches", "turns", "gaps", "modes")
    *rows, used, helpers = await models.answers(
        *(Question("timeline", query, about) for query in queries),
        Question("usage", "used_by_turn", about),
        Question("budget", "helpers_of", about),
    )
    (found,), branches, turns, gaps, modes = rows
    uses = usage.add_up(used, itemgetter("branch", "turn", "attempt"))
    for row in turns:
        row |= _costs(row, uses.get((row["branch"], row["turn"], row["attempt"])))
    decided = (step for _, step in list_decisions(branches, modes) if isinstance(step, Decided))
    whole = Timeline(found, branches, turns, gaps, [{**each.row, "mode": each.mode.value} for each in decided], helpers)
    return whole if branch is None else _only(whole, branch)


@attrs.frozen
class Decided:
    """A decision about a branch: its ``mode`` as people see it, and its row."""

    mode: Mode
    row: Row

    @property
    def why(self) -> str:
        """Its reason."""
        return str(self.row["why"])


def list_decisions(branches: Sequence[Row], modes: Sequence[Row]) -> list[tuple[str, str | Decided]]:
    """The decisions to display (``display_steps``), each with its branch, in order; a parent's name stands for the
    decision that a branch inherits.
    """
    steps: list[tuple[int, str, str | Decided]] = [
        *((row["version"], row["branch"], row["parent"]) for row in branches if row["inherits"] and row["parent"]),
        *((row["version"], row["branch"], Decided(Mode(row["mode"]), row)) for row in modes),
    ]
    return list(display_steps((branch, step) for _, branch, step in sorted(steps, key=itemgetter(0))))


def _costs(row: Row, used: Consumption | None) -> dict[str, Any]:
    context = {"context_tokens": total(row, PROMPT), "context_read": row["cache_read_tokens"], "nanodollars": None}
    if used is None:
        return context
    tokens = dict(zip(TOKENS, attrs.astuple(used.tokens), strict=True))
    return {**context, "nanodollars": None if used.unpriced else used.nanodollars, **tokens}


def total(row: Mapping[str, Any], names: Sequence[str]) -> int | None:
    """The sum of the known columns; None if all are unknown."""
    known = [row[name] for name in names if row[name] is not None]
    return sum(known) if known else None


def require_branch(branch: str, names: Collection[str]) -> None:
    """Raise NotFound if a session with these branches has none of this name."""
    if branch not in names:
        raise NotFound(f"The session has no branch {branch!r}; its branches: {', '.join(names)}.")


def _only(whole: Timeline, branch: str) -> Timeline:
    require_branch(branch, [row["branch"] for row in whole.branches])
    branches, turns, modes = (
        [row for row in rows if row["branch"] == branch] for rows in (whole.branches, whole.turns, whole.modes)
    )
    return attrs.evolve(whole, branches=branches, turns=turns, modes=modes, helpers=())
