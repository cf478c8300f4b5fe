"""Score the cases of recorded sessions in each way of keeping context, session by session, into a file that grows."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

from benchmarks.likelihood.announcements import score_announcements
from benchmarks.likelihood.contexts import (
    ANSWERED,
    CUT,
    EVICTED,
    FULL,
    GRADED,
    INFORMED,
    MASKED,
    NATIVE,
    STUB,
    SUMMARY,
    WAYS,
    Case,
    cases_of,
)
from benchmarks.likelihood.model import Engine, Floats, Scored, Tokenizer, score
from benchmarks.likelihood.statistics import least_predictable
from mnemosyne_lab.evaluation.reading import RecordedSession, read, trace_of
from tests.domain.recorded import DATA

SESSIONS = DATA / "sessions"

KEPT_TOKENS = 0.3
"""The share of an object's tokens that token-level cutting keeps: as much as an L1."""


SHARING = ((FULL, GRADED, STUB, MASKED, NATIVE), (EVICTED, ANSWERED, INFORMED), (SUMMARY,))
"""The ways whose contexts begin alike."""


def list_recordings() -> list[RecordedSession]:
    """The recorded sessions in the order of their names' hashes, so that any first part is a sample."""
    found = [
        each for each in read(sorted(SESSIONS.glob("**/*.jsonl")), lambda _: iter(())) if not isinstance(each, str)
    ]
    return sorted(found, key=lambda each: sha256(each.name.encode()).hexdigest())


def score_case(case: Case, engine: Engine, tokenizer: Tokenizer, ways: Sequence[str] = WAYS) -> dict[str, Any]:
    """The losses of a case, as it is stored: nats a token by way, of the action and of its needed tokens."""
    action = tokenizer.encode(case.action)
    before, _, after = case.texts[FULL].partition(case.object_text)
    pieces = [tokenizer.encode(each) for each in (before, case.object_text, after)]
    contexts = {way: tokenizer.encode(text) for way, text in case.texts.items() if way in ways}
    contexts[FULL] = [token for piece in pieces for token in piece]
    first = len(pieces[0]) if CUT in ways else len(contexts[FULL])
    by_way: dict[str, Floats] = {}
    for group in SHARING:
        there = [way for way in group if way in contexts]
        asked = [Scored([*contexts[way], *action], first if way == FULL else len(contexts[way])) for way in there]
        by_way.update(zip(there, score(engine, asked), strict=True))
    if CUT in ways:
        kept = least_predictable(by_way[FULL][: len(pieces[1])].tolist(), KEPT_TOKENS)
        contexts[CUT] = [*pieces[0], *(pieces[1][number] for number in kept), *pieces[2]]
        (by_way[CUT],) = score(engine, [Scored([*contexts[CUT], *action], len(contexts[CUT]))])
    by_way[FULL] = by_way[FULL][-len(action) :]
    needed = [number for number in case.needed if number < len(action)]
    return {
        "session": case.session,
        "developer": case.developer,
        "message": case.message,
        "object": case.object,
        "distance": case.distance,
        "scored": len(action),
        "needed": len(needed),
        "losses": {way: round(float(found.mean()), 4) for way, found in by_way.items()},
        "needed_losses": {way: round(float(found[needed].mean()), 4) for way, found in by_way.items() if needed},
        "context_tokens": {way: len(tokens) for way, tokens in contexts.items()},
    }


def judge(
    recordings: Sequence[RecordedSession],
    engine: Engine,
    tokenizer: Tokenizer,
    checkpoint: Path,
    say: Callable[[str], None],
    most: int,
) -> None:
    """Score sessions until there are ``most`` cases. Sessions in the file are not scored again."""
    checkpoint.parent.mkdir(parents=True, exist_ok=True)
    done = {each["session"]: len(each["cases"]) for each in read_scores(checkpoint)}
    count = sum(done.values())
    for recorded in recordings:
        if count >= most:
            break
        if recorded.name in done:
            continue
        trace = trace_of(recorded)
        developer = recorded.developer or "1"
        cases = [score_case(case, engine, tokenizer) for case in cases_of(trace, developer, tokenizer)]
        told = score_announcements(trace, engine, tokenizer)
        with checkpoint.open("a", encoding="utf-8") as file:
            file.write(json.dumps({"session": recorded.name, "cases": cases, "announcements": told}) + "\n")
        count += len(cases)
        say(f"{recorded.name}: {count} actions")


def read_scores(checkpoint: Path) -> Iterator[Mapping[str, Any]]:
    """The sessions in a file of results."""
    if checkpoint.exists():
        with checkpoint.open(encoding="utf-8") as lines:
            yield from map(json.loads, lines)
