"""Find requests that were larger than their branch's window, with the recorded reason and the provider's count."""

from collections.abc import Iterator

import attrs

from mnemosyne.domain.cost.prices import tokens_of
from mnemosyne.domain.history.time_travel import Attempt, History
from mnemosyne.domain.session.round_events import BranchModeSet, FallbackSent, Mode
from mnemosyne.domain.window.window_size import choose_window

UNFORESEEN = "it had been estimated to fit"


@attrs.frozen(kw_only=True)
class Excess:
    """A turn of a managed branch with a request of ``sent`` tokens, by the provider's count, that exceeded its
    ``window``; ``why``, and how many tokens were ``new`` and ``fixed`` (system prompt and tools), if known.
    """

    branch: str
    turn: int
    window: int
    sent: int
    why: str
    new: int | None
    fixed: int | None


def excesses(history: History, wanted: int | None) -> Iterator[Excess]:
    """All excesses of a session, by branch. ``wanted`` is the configured window, used if none is recorded."""
    for line in history.lines.values():
        for attempt in line.attempts:
            excess = excess_of(attempt, history.modes.get(line.name), _window(history) or wanted)
            if excess is not None:
                yield excess


def excess_of(attempt: Attempt, decision: BranchModeSet | None, wanted: int | None) -> Excess | None:
    """The excess of a turn whose largest request exceeded the window, else None; ``decision`` is the branch's last."""
    if decision is None or not (decision.mode is Mode.MANAGE or attempt.began.at < decision.at):
        return None
    filled, sent = attempt.filled, _largest(attempt)
    window = filled.window if filled is not None else choose_window(wanted, attempt.began.model)
    if sent <= window:
        return None
    fallback = next((each.began for each in attempt.rounds if isinstance(each.began, FallbackSent)), None)
    why = fallback.why if fallback is not None else UNFORESEEN if filled is None else filled.why
    return Excess(
        branch=attempt.began.branch,
        turn=attempt.began.turn,
        window=window,
        sent=sent,
        why=why,
        new=filled.new if filled is not None else None,
        fixed=filled.fixed if filled is not None else None,
    )


def _largest(attempt: Attempt) -> int:
    """The size of the largest prompt that the proxy sent for a turn; 0 if it sent the client's own bytes."""
    ended = [attempt.ended.usage] if attempt.ended is not None and attempt.rounds else []
    used = [tokens_of(usage) for usage in [*(each.ended.usage for each in attempt.rounds if each.ended), *ended]]
    return max((each.prompt for each in used if each is not None), default=0)


def _window(history: History) -> int | None:
    """The last recorded window of a session, if any."""
    return next((each.filled.window for each in reversed(history.attempts) if each.filled is not None), None)
