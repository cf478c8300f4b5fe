"""Score the cases of recorded sessions in each way of keeping context, session by session, into a file that grows."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

from benchmarks.likelihood.announcements import score_announcements
from benchmarks.likelihood.contexts import CUT, FULL, GROUPS, WAYS, Case, cases_of
from benchmarks.likelihood.model import Engine, Floats, Scored, Tokenizer, score
from benchmarks.likelihood.statistics import least_predictable
from benchmarks.recordings import ALL, list_sessions
from mnemosyne_lab.evaluation.trace import trace_of

KEPT_TOKENS = 0.3
"""The share of an object's tokens that token-level cutting keeps: as much as an L1."""


def score_case(case: Case, engine: Engine, tokenizer: Tokenizer, ways: Sequence[str] = WAYS) -> dict[str, Any]:
    """The losses of a case in these ways, as they are stored: nats a token, of the action and of its needed tokens."""
    action = tokenizer.encode(case.action)
    before, _, after = case.texts[FULL].partition(case.object_text)
    pieces = [tokenizer.encode(each) for each in (before, case.object_text, after)]
    contexts = {way: tokenizer.encode(text) for way, text in case.texts.items() if way in ways}
    if CUT in ways or FULL in ways:
        contexts[FULL] = [token for piece in pieces for token in piece]
    by_way: dict[str, Floats] = {}
    for group in GROUPS:
        there = [way for way in group if way in contexts]
        firsts = {way: len(contexts[way]) for way in there} | ({FULL: len(pieces[0])} if CUT in ways else {})
        asked = [Scored([*contexts[way], *action], firsts[way]) for way in there]
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


def judge(engine: Engine, tokenizer: Tokenizer, checkpoint: Path, say: Callable[[str], None], most: int) -> None:
    """Score sessions until there are ``most`` cases. What the file has is not scored again: an action in some ways is
    scored in the others.
    """
    scored = read_cases(checkpoint)
    announced = {session for session, _ in read_announcements(checkpoint)}
    count = 0
    # In the order of their names' hashes, any first part is a sample.
    for recorded in sorted(list_sessions(ALL), key=lambda each: sha256(each.name.encode()).hexdigest()):
        if count >= most:
            break
        trace = trace_of(recorded)
        with checkpoint.open("a", encoding="utf-8") as file:
            for case in cases_of(trace, recorded.developer or "1", tokenizer):
                known = scored.get((case.session, case.message, case.object), {"losses": ()})["losses"]
                lacking = [way for way in WAYS if way not in known and (way in case.texts or way == CUT)]
                if lacking:
                    file.write(json.dumps(score_case(case, engine, tokenizer, lacking)) + "\n")
                count += 1
            if recorded.name not in announced:
                odds = score_announcements(trace, engine, tokenizer)
                file.write(json.dumps({"session": recorded.name, "announcements": odds}) + "\n")
        say(f"{recorded.name}: {count} actions")


def read_cases(checkpoint: Path) -> Mapping[tuple[str, int, str], Mapping[str, Any]]:
    """The scored cases in a file of results, by session, message and object. Lines of one case are put together."""
    cases: dict[tuple[str, int, str], Any] = {}
    for line in _read_lines(checkpoint):
        if "losses" in line:
            held = cases.setdefault((line["session"], line["message"], line["object"]), line)
            for name in ("losses", "needed_losses", "context_tokens"):
                held[name] |= line[name]
    return cases


def read_announcements(checkpoint: Path) -> Sequence[tuple[str, Sequence[Mapping[str, Any]]]]:
    """Each session in a file of results with its scored announcements."""
    return [(each["session"], each["announcements"]) for each in _read_lines(checkpoint) if "announcements" in each]


def _read_lines(checkpoint: Path) -> Iterator[dict[str, Any]]:
    if checkpoint.exists():
        with checkpoint.open(encoding="utf-8") as lines:
            yield from map(json.loads, lines)
