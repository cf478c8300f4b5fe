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
from collections.abc import Mapping, Sequence
from itertools import accumulate, islice, pairwise
from statistics import fmean
from typing import Any

import attrs

from benchmarks.harness import Group, Row, Server, percentile, single, spread
from benchmarks.recordings import FIRST, list_raw
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

SMALL, KNOWN = 300, 20
"""A turn is judged alone only if it has this many tokens, as a small one says little, and this many turns before it."""


@attrs.frozen
class Turn:
    """A turn's addition to the prompt: exactly ``tokens``. ``total`` is the prompt's size with it."""

    tokens: int
    total: int
    features: Features
    characters: int


@attrs.frozen
class Session:
    """A session's turns, and the estimators that 0, 1, 2 … of them have taught."""

    turns: Sequence[Turn]
    taught: Sequence[Estimator]


def sessions(quick: bool) -> list[Session]:
    """The recorded sessions that are judged."""
    return [_read(each) for each in islice(list_raw(FIRST), 1, 8 if quick else None, 2)]


def _read(recorded: Mapping[str, Any]) -> Session:
    messages, resets = recorded["messages"], [reset["before_msg"] for reset in recorded["resets"]]
    sized = [(turn["msg"], total, turn["usage"]) for turn in recorded["turns"] if (total := _count_prompt(turn))]
    turns = []
    for (start, before, earlier), (end, total, usage) in pairwise(sized):
        whole = usage["cache_read"] >= before - earlier["input"] and not any(start < reset <= end for reset in resets)
        said = messages[start:end]
        answers_tools = any(block.get("type") == "tool_result" for block in blocks_of(said[-1]))
        if total > before and whole and (model_of(recorded["model"]).keeps_thinking or answers_tools):
            features = sum(map(features_of_message, said), Features())
            turns.append(Turn(total - before, total, features, sum(len(json.dumps(each["content"])) for each in said)))
    first = Estimator.of(recorded["model"])
    return Session(
        turns, [*accumulate(turns, lambda known, turn: known.observe(turn.features, turn.tokens), initial=first)]
    )


def _count_prompt(turn: Mapping[str, Any]) -> int:
    """The exact size of a turn's prompt; 0 if it is not on record."""
    names = {"input": "input_tokens", "cache_write": "cache_creation_input_tokens"}
    names["cache_read"] = "cache_read_input_tokens"
    found = tokens_of({names.get(name, name): count for name, count in (turn["usage"] or {}).items()})
    return found.prompt if found is not None else 0


def _rows(name: str, variant: str, estimates: Sequence[tuple[float, int]], goal: float | None = None) -> list[Row]:
    """The errors of estimates of exact numbers in percent: their spread, mean and 90th percentile."""
    missed = [100 * abs(estimate - exact) / exact for estimate, exact in estimates]
    if not missed:
        return []
    return [
        spread(name, variant, "%", missed),
        single(f"{name}: mean", variant, "%", fmean(missed)),
        single(f"{name}: p90", variant, "%", percentile(missed, 90), goal),
    ]


def _turns(_: Sequence[Server], quick: bool) -> list[Row]:
    """The size of what one turn added, as estimated before it was sent."""
    judged = [
        (session, known, turn)
        for session in sessions(quick)
        for known, turn in enumerate(session.turns)
        if known >= KNOWN and turn.tokens >= SMALL
    ]
    name = f"a turn of ≥ {SMALL} tokens"
    rows = _rows(name, "characters x 0.263", [(0.263 * turn.characters, turn.tokens) for _, _, turn in judged])
    for variant, known in (("features", 0), ("features, after all before", None)):
        estimators = [each.taught[number if known is None else known] for each, number, _ in judged]
        taught = [
            (each.tokens(turn.features), turn.tokens) for each, (_, _, turn) in zip(estimators, judged, strict=True)
        ]
        rows += _rows(name, variant, taught)
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
            removed.append((size, exact))
            left.append((before - size, before - exact))
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
    return before - session.taught[known].prompt(anchor, Features(), gone)


def _since(turns: Sequence[Turn], known: int) -> int:
    """The first turn that the prompt still has. Earlier ones went when the client dropped its history."""
    return max((i for i in range(1, known) if turns[i].total < turns[i - 1].total), default=0)


GROUP = Group("tokens", (), {"turns": _turns, "compactions": _compactions})
