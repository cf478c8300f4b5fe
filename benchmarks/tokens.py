"""Errors of token estimates relative to the provider's counts, on recorded sessions.

A reply's ``usage`` says how large the whole prompt was, so two replies in a row say how many tokens the turn between
them added. A turn counts if nothing was removed from the prompt at the same time: no compaction, the whole previous
prompt read from the cache, and no thinking dropped.

System prompt and tools are not recorded, nor are the client's additions to a message: reminders, the text of a plan,
files that it reads again after a compaction. Therefore the first prompt of a session and the one after a compaction are
not judged.

The weights were fitted on every other session; only the others are judged.
"""

import json
import random
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from statistics import fmean
from typing import Any

import attrs
import click

from benchmarks.harness import Group, Part, Row, Server, single, spread
from benchmarks.history import RECORDED
from mnemosyne.domain.cost.catalogue import model_of
from mnemosyne.domain.cost.prices import tokens_of
from mnemosyne.domain.cost.tokens import Estimator, Features, MeasuredPrompt, features_of_message
from tests.replay.message_streams import blocks_of

GOAL, PROMPT_GOAL = 10, 5
"""The most that nine of ten estimates may miss, in percent: of what is removed, of a prompt."""

SEED = 6
RANGES, QUICK_RANGES = 400, 20
"""How many ranges of turns are drawn from each session."""

SHORTEST, TAIL = 5, 10
"""The fewest turns in a range; the last turns, which a compaction does not change."""

SMALL = 300
"""Tokens below which a turn is not judged by itself: a share of little says little."""

Message = dict[str, Any]


@attrs.frozen
class Turn:
    """A turn's addition to the prompt: exactly ``tokens``. ``total`` is the prompt's size with it."""

    number: int
    tokens: int
    total: int
    features: Features
    characters: int


@attrs.frozen
class Session:
    model: str
    turns: Sequence[Turn]


Estimate = Callable[[Session, int, Turn], float]
"""The size of a turn as it is estimated in a session when so many of its turns are known."""


def sessions(quick: bool) -> list[Session]:
    """The recorded sessions that are judged; none, with a word about it, where there are no recordings."""
    if not RECORDED.is_file():
        click.echo(f"tokens: skipped, no recorded sessions at {RECORDED}", err=True)
        return []
    lines = RECORDED.read_text(encoding="utf-8").splitlines()[1::2]
    return [_session(json.loads(line)) for line in (lines[:4] if quick else lines)]


def _session(recorded: Mapping[str, Any]) -> Session:
    model, messages = recorded["model"], recorded["messages"]
    resets = [reset["before_msg"] for reset in recorded["resets"]]
    sized = [(turn["msg"], _usage(turn), turn["usage"]) for turn in recorded["turns"] if _usage(turn)]
    turns = []
    for number, ((start, before, earlier), (end, total, usage)) in enumerate(pairwise(sized)):
        whole = usage["cache_read"] >= before - earlier["input"] and not any(start < reset <= end for reset in resets)
        said = messages[start:end]
        if total > before and whole and (model_of(model).keeps_thinking or _answers_tools(said[-1])):
            turns.append(_turn(number, total - before, total, said))
    return Session(model, turns)


def _usage(turn: Mapping[str, Any]) -> int:
    """The exact size of a turn's prompt; 0 if it is not on record."""
    names = {"input": "input_tokens", "cache_write": "cache_creation_input_tokens"}
    names["cache_read"] = "cache_read_input_tokens"
    found = tokens_of({names.get(name, name): count for name, count in (turn["usage"] or {}).items()})
    return found.prompt if found is not None else 0


def _answers_tools(message: Message) -> bool:
    return any(block.get("type") == "tool_result" for block in blocks_of(message))


def _turn(number: int, tokens: int, total: int, said: Sequence[Message]) -> Turn:
    features = sum((features_of_message(message) for message in said), Features())
    return Turn(number, tokens, total, features, sum(len(json.dumps(each["content"])) for each in said))


# Estimates


def _taught(session: Session, count: int) -> Estimator:
    """An estimator that so many of the session's turns have taught."""
    estimator = Estimator.of(session.model)
    for turn in session.turns[:count]:
        estimator = estimator.observe(turn.features, turn.tokens)
    return estimator


def _after(count: int | None) -> Estimate:
    """An estimate taught by the session's first turns; by all earlier turns if ``count`` is None."""
    estimators: dict[tuple[int, int], Estimator] = {}

    def estimate(session: Session, known: int, turn: Turn) -> float:
        key = id(session), known if count is None else min(count, known)
        if key not in estimators:
            estimators[key] = _taught(session, key[1])
        return estimators[key].tokens(turn.features)

    return estimate


def _variants() -> dict[str, Estimate]:
    return {
        "characters x 0.263": lambda _session, _known, turn: 0.263 * turn.characters,
        "features": _after(0),
        "features, after 1 turn": _after(1),
        "features, after 5 turns": _after(5),
        "features, after 20 turns": _after(20),
        "features, after all before": _after(None),
    }


def _rows(name: str, variant: str, missed: Sequence[float], goal: float | None = None) -> list[Row]:
    """The errors in percent: their spread, mean and 90th percentile."""
    if not missed:
        return []
    percent = sorted(100 * each for each in missed)
    ninth = percent[-(-9 * len(percent) // 10) - 1]
    return [
        spread(name, variant, "%", percent),
        single(f"{name}: mean", variant, "%", fmean(percent)),
        single(f"{name}: p90", variant, "%", ninth, goal),
    ]


def _missed(estimate: float, exact: int) -> float:
    return abs(estimate - exact) / exact


def _turns(_: Sequence[Server], quick: bool) -> list[Row]:
    """The size of what one turn added, as estimated before it was sent."""
    judged = sessions(quick)
    rows = []
    for variant, estimate in _variants().items():
        missed = [
            _missed(estimate(session, known, turn), turn.tokens)
            for session in judged
            for known, turn in enumerate(session.turns)
            if known >= 20 and turn.tokens >= SMALL
        ]
        rows += _rows(f"a turn of ≥ {SMALL} tokens", variant, missed)
    return rows


def _compactions(_: Sequence[Server], quick: bool) -> list[Row]:
    """The size of a range of turns that a compaction removes, as a share of the exact prompt, and of the prompt that
    is left. Ranges are drawn at random.
    """
    dice = random.Random(SEED)
    removed, left = [], []
    for session in sessions(quick):
        for _draw in range((QUICK_RANGES if quick else RANGES) if len(session.turns) > TAIL else 0):
            known = dice.randint(TAIL, len(session.turns))
            first, end = _since(session.turns, known), known - TAIL
            if end - first < SHORTEST:
                continue
            length = dice.randint(SHORTEST, end - first)
            start = dice.randint(first, end - length)
            turns, before = session.turns[start : start + length], session.turns[known - 1].total
            exact, size = sum(turn.tokens for turn in turns), _by_anchor(session, known, turns)
            removed.append(_missed(size, exact))
            left.append(_missed(before - size, before - exact))
    return [
        *_rows("what a compaction removes", "features, by the anchor", removed, GOAL),
        *_rows("the prompt after a compaction", "features, by the anchor", left, PROMPT_GOAL),
    ]


def _by_anchor(session: Session, known: int, removed: Sequence[Turn]) -> int:
    """The estimated size of turns of a prompt whose exact size is known. What is not on record counts as known."""
    before, held = session.turns[known - 1].total, session.turns[_since(session.turns, known) : known]
    unseen = Features(fixed=before - sum(turn.tokens for turn in held))
    anchor = MeasuredPrompt(before, sum((turn.features for turn in held), unseen))
    gone = sum((turn.features for turn in removed), Features())
    return before - _taught(session, known).prompt(anchor, Features(), gone)


def _since(turns: Sequence[Turn], known: int) -> int:
    """The first turn that the prompt still has. Earlier ones went when the client dropped its history."""
    return max((i for i in range(1, known) if turns[i].total < turns[i - 1].total), default=0)


def _prompts(_: Sequence[Server], quick: bool) -> list[Row]:
    """Estimates of a whole prompt from the exact previous one and the next turn."""
    missed = []
    for session in sessions(quick):
        estimator = Estimator.of(session.model)
        for turn in session.turns:
            before = turn.total - turn.tokens
            estimate = estimator.prompt(MeasuredPrompt(before, Features(fixed=before)), turn.features)
            missed.append(_missed(estimate, turn.total))
            estimator = estimator.observe(turn.features, turn.tokens)
    return _rows("the next prompt", "features, after all before", missed, PROMPT_GOAL)


GROUP = Group(
    "tokens",
    (),
    (
        Part("turns", _turns),
        Part("compactions", _compactions),
        Part("prompts", _prompts),
    ),
)
