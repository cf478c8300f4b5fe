"""How far estimates of tokens are from what the provider counted, on recorded sessions.

A reply's ``usage`` says how large the whole prompt was, so two replies in a row say how many tokens the turn between
them added. A turn counts here if nothing was taken out of the prompt at the same time: the client reset nothing, the
provider read from its cache all that was there before, and dropped no thinking.

System prompt and tools are not on record, nor is what the client adds to a message on its way out: reminders, the text
of a plan, files that it reads again after a compaction. No estimate can see it. So the first prompt of a session and
the one after a compaction are not judged; the one after a rewrite is, since it is an exact size less what was removed.

The weights were fitted on every other session; only the others are judged.
"""

import json
import random
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import pairwise
from statistics import fmean
from typing import Any

import attrs
import click

from benchmarks.harness import Group, Part, Row, Server, single, spread
from benchmarks.history import RECORDED
from mnemosyne.domain.cost.catalogue import model_of
from mnemosyne.domain.cost.prices import tokens_of
from mnemosyne.domain.cost.tokens import Estimator, Features, MeasuredPrompt, apportion, features_of_message

SEED = 6
RANGES, QUICK_RANGES = 400, 20
"""How many ranges of turns are drawn from each session."""

SHORTEST, LONGEST = 5, 40
"""Turns in a range."""

TAIL = 10
"""Turns that a rewrite leaves as they are."""

SMALL = 300
"""Tokens below which a turn is not judged by itself: a share of little says little."""

GOAL, PROMPT_GOAL = 10, 5
"""The most that nine of ten estimates may miss, in percent: of what is removed, of a prompt."""

OTHER_FAMILY = "claude-opus-5-5"
"""A model whose tokenizer is not that of any recorded session."""

Message = dict[str, Any]


@attrs.frozen
class Turn:
    """What a turn added to the prompt: exactly ``tokens``, of ``messages``. ``total`` is the prompt's size with it."""

    number: int
    tokens: int
    total: int
    characters: int
    features: Features


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
    return any(block.get("type") == "tool_result" for block in _blocks(message))


def _turn(number: int, tokens: int, total: int, said: Sequence[Message]) -> Turn:
    return Turn(number, tokens, total, sum(_characters(message) for message in said), _features(said))


def _features(said: Sequence[Message]) -> Features:
    return sum((features_of_message(message) for message in said), Features())


def _blocks(message: Message) -> list[Message]:
    content = message["content"]
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def _characters(message: Message) -> int:
    """What an estimate by characters goes by."""
    count = 0
    for block in _blocks(message):
        match block:
            case {"text": str(text)} | {"thinking": str(text)} | {"content": str(text)}:
                count += len(text)
            case {"input": arguments, "name": str(name)}:
                count += len(name) + len(json.dumps(arguments, ensure_ascii=False))
            case {"content": list(parts)}:
                count += sum(len(part.get("text", "")) for part in parts)
    return count


# What is compared


def _by_characters(factor: float) -> Estimate:
    return lambda session, known, turn: turn.characters * factor


def _taught(session: Session, count: int, model: str | None = None) -> Estimator:
    """An estimator that so many of the session's turns have taught."""
    estimator = Estimator.of(model or session.model)
    for turn in session.turns[:count]:
        estimator = estimator.observe(turn.features, turn.tokens)
    return estimator


def _after(count: int | None, model: str | None = None) -> Estimate:
    """Taught by the session's first turns; by all that are known then where ``count`` is None."""
    estimators: dict[tuple[int, int], Estimator] = {}

    def estimate(session: Session, known: int, turn: Turn) -> float:
        key = id(session), known if count is None else min(count, known)
        if key not in estimators:
            estimators[key] = _taught(session, key[1], model)
        return estimators[key].tokens(turn.features)

    return estimate


def _variants() -> dict[str, Estimate]:
    return {
        "characters ÷ 4": _by_characters(0.25),
        "characters x 0.263": _by_characters(0.263),
        "characters x 0.366": _by_characters(0.366),
        "features": _after(0),
        "features, after 1 turn": _after(1),
        "features, after 5 turns": _after(5),
        "features, after 20 turns": _after(20),
        "features, after all before": _after(None),
        "wrong family": _after(0, OTHER_FAMILY),
        "wrong family, after 1 turn": _after(1, OTHER_FAMILY),
        "wrong family, after 5 turns": _after(5, OTHER_FAMILY),
        "wrong family, after 20 turns": _after(20, OTHER_FAMILY),
    }


def _rows(name: str, variant: str, missed: Sequence[float], goal: float | None = None) -> list[Row]:
    """What is missed, as shares, in percent: how it is spread, its mean, and what nine of ten stay below."""
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


@attrs.frozen
class Rewrite:
    """A prompt out of which a range of turns is taken, when ``known`` turns of the session are known."""

    session: Session
    known: int
    removed: Sequence[Turn]

    @property
    def exact(self) -> int:
        return sum(turn.tokens for turn in self.removed)

    @property
    def before(self) -> int:
        return self.session.turns[self.known - 1].total


def rewrites(judged: Sequence[Session], quick: bool, longest: int | None) -> list[Rewrite]:
    """Ranges of turns that a rewrite may remove, drawn at random: of up to ``longest`` turns, or, where it is None, all
    that the prompt has before its last ones.
    """
    dice = random.Random(SEED)
    found = []
    for session in judged:
        for _ in range((QUICK_RANGES if quick else RANGES) if len(session.turns) > TAIL else 0):
            known = dice.randint(TAIL, len(session.turns))
            first, end = _since(session.turns, known), known - TAIL
            if end - first < SHORTEST:
                continue
            length = end - first if longest is None else dice.randint(SHORTEST, min(longest, end - first))
            start = dice.randint(first, end - length)
            found.append(Rewrite(session, known, session.turns[start : start + length]))
    return found


def _sum_of_turns(estimate: Estimate, rewrite: Rewrite) -> float:
    return sum(estimate(rewrite.session, rewrite.known, turn) for turn in rewrite.removed)


def _by_anchor(rewrite: Rewrite) -> int:
    """The size of what is removed as a share of the exact prompt. What is not on record is taken to be known."""
    turns = rewrite.session.turns
    held = turns[_since(turns, rewrite.known) : rewrite.known]
    unseen = Features(fixed=rewrite.before - sum(turn.tokens for turn in held))
    anchor = MeasuredPrompt(rewrite.before, sum((turn.features for turn in held), unseen))
    removed = sum((turn.features for turn in rewrite.removed), Features())
    estimator = _taught(rewrite.session, rewrite.known)
    return rewrite.before - estimator.prompt(anchor, Features(), removed)


def _since(turns: Sequence[Turn], known: int) -> int:
    """The first turn that is in the prompt still: before it, the client dropped its history and the prompt shrank."""
    return max((i for i in range(1, known) if turns[i].total < turns[i - 1].total), default=0)


def _rewrites(_: Sequence[Server], quick: bool) -> list[Row]:
    """The size of what a rewrite removes, and of the prompt that it leaves."""
    judged = sessions(quick)
    rows = []
    for what, longest in ((f"{SHORTEST} to {LONGEST} turns", LONGEST), (f"all but {TAIL} turns", None)):
        drawn = rewrites(judged, quick, longest)
        variants: dict[str, Callable[[Rewrite], float]] = {
            **{variant: partial(_sum_of_turns, estimate) for variant, estimate in _variants().items()},
            "features, after all before, by the anchor": _by_anchor,
        }
        for variant, size_of in variants.items():
            sizes = [size_of(each) for each in drawn]
            pairs = list(zip(drawn, sizes, strict=True))
            removed = [_missed(size, each.exact) for each, size in pairs]
            left = [_missed(each.before - size, each.before - each.exact) for each, size in pairs]
            rows += _rows(f"{what} removed", variant, removed, GOAL)
            rows += _rows(f"prompt without {what}", variant, left, PROMPT_GOAL)
    return rows


def _apportioned(_: Sequence[Server], quick: bool) -> list[Row]:
    """A block's size from the exact size of the turn that it came with: two turns, as if only their sum was known."""
    alone, divided = [], []
    for session in sessions(quick):
        estimator = Estimator.of(session.model)
        for pair in pairwise(session.turns):
            estimates = [estimator.tokens(turn.features) for turn in pair]
            parts = apportion(sum(turn.tokens for turn in pair), estimates)
            for turn, estimate, part in zip(pair, estimates, parts, strict=True):
                if turn.tokens >= SMALL:
                    alone.append(_missed(estimate, turn.tokens))
                    divided.append(_missed(part, turn.tokens))
    name = f"a part of ≥ {SMALL} tokens"
    return [*_rows(name, "features", alone), *_rows(name, "features, exact sum divided", divided)]


def _prompts(_: Sequence[Server], quick: bool) -> list[Row]:
    """The size of a whole prompt: the exact one before, and what the next turn adds to it."""
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
        Part("rewrites", _rewrites),
        Part("parts", _apportioned),
        Part("prompts", _prompts),
    ),
)
