"""What learned lines on tools would have saved in recorded sessions of one project: each is judged by what all others
of them had seen.

A *line of avoidance* says that a call of some shape failed before, and how; a *cure*, which other call came right
behind such a failure and did not fail. Both are met where a session fails so for the first time; after that the model
has seen it itself. What is met is a bound from above: nobody knows whether a model heeds such a line. Without the
recordings there are no rows.
"""

import json
import re
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterator, Mapping, Sequence
from enum import Enum
from typing import Any

from benchmarks.harness import Group, Part, Row, Server, single
from mnemosyne.domain.history.calls import AnsweredCall, read_calls
from mnemosyne.domain.segmentation.segment import SeenMessage
from tests.domain.recorded import DATA

FILES = ("claude_code.jsonl", "claude_code_more.jsonl")
"""Recorded sessions of one project."""

SEEN_IN = 3
"""Other sessions that must have failed so, until it is a rule."""

NEAR = 2
"""A cure comes among so many calls behind the failure."""

_PROGRAM = re.compile(r"(?:cd \S+|export \S+|[A-Z_]+=\S*)(?: *&& *| +|;)*")
_VARYING = re.compile(r"<[^<>]*>|/\S+|[0-9]+|\"[^\"]*\"|'[^']*'|`[^`]*`")


class Told(Enum):
    """Who tells a model of a failure's rule, if we do not."""

    WORK = "the command did its work: it found what is to be mended"
    DESCRIPTION = "the tool's own description tells the rule in every request"
    NOBODY = "nobody"


def sessions(quick: bool) -> list[list[AnsweredCall]]:
    """The calls of each recorded session."""
    lines = [line for name in FILES if (file := DATA / "sessions" / name).is_file() for line in file.open("rb")]
    return [list(read_calls(_read(json.loads(line)))) for line in (lines[:10] if quick else lines)]


def _read(session: Mapping[str, Any]) -> Iterator[SeenMessage]:
    for index, message in enumerate(session["messages"]):
        content = message["content"]
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        yield SeenMessage(index=index, role=message["role"], content=blocks, turn=index // 2 + 1)


def shape_of(call: AnsweredCall) -> str:
    """The tool, and of a command its program with what that is to do: ``Bash go test``."""
    command = call.given.get("command")
    if not isinstance(command, str):
        return call.tool
    words = [word for word in _PROGRAM.sub("", command).split()[:2] if word[0] not in "-/.\"'"]
    return " ".join([call.tool, *words])


def cause_of(call: AnsweredCall) -> str:
    """The first line of what a failed call said, without what differs from one to the next."""
    lines = (line for line in call.said.splitlines() if line.strip() and not line.startswith("Exit code"))
    return _VARYING.sub("…", next(lines, ""))[:60]


def told_by(call: AnsweredCall) -> Told:
    """Who tells of the rule that a failed call broke."""
    if "command" not in call.given:
        return Told.DESCRIPTION
    return Told.NOBODY if re.search(r"no such file|not found|unknown", cause_of(call), re.IGNORECASE) else Told.WORK


def failures(calls: Sequence[AnsweredCall]) -> dict[Hashable, AnsweredCall]:
    """The first failure of each kind in a session, by shape and cause; what the user refused is none."""
    found: dict[Hashable, AnsweredCall] = {}
    for call in calls:
        if call.failed and not call.refused:
            found.setdefault((shape_of(call), cause_of(call)), call)
    return found


def cures(calls: Sequence[AnsweredCall]) -> dict[Hashable, AnsweredCall]:
    """The first failure of each kind that was followed by a call of another shape that did not fail, by both."""
    found: dict[Hashable, AnsweredCall] = {}
    for number, call in enumerate(calls):
        if call.failed and not call.refused:
            for after in calls[number + 1 : number + 1 + NEAR]:
                if not after.failed and shape_of(after) != shape_of(call):
                    found.setdefault((shape_of(call), cause_of(call), shape_of(after)), call)
    return found


def met(by_session: Sequence[Mapping[Hashable, AnsweredCall]]) -> Iterator[AnsweredCall]:
    """Those that a rule of the other sessions would have met."""
    held: dict[Hashable, set[int]] = defaultdict(set)
    for number, found in enumerate(by_session):
        for kind in found:
            held[kind].add(number)
    for number, found in enumerate(by_session):
        yield from (call for kind, call in found.items() if len(held[kind] - {number}) >= SEEN_IN)


def _rules(_: Sequence[Server], quick: bool) -> list[Row]:
    """Calls, failures, and those that learned lines would have met, by who else tells of the rule."""
    recorded = sessions(quick)
    if not recorded:
        return []
    calls = [call for each in recorded for call in each]
    failed = sum(call.failed and not call.refused for call in calls)
    avoided = list(met([failures(each) for each in recorded]))
    cured = len({id(call) for call in met([cures(each) for each in recorded])})
    by_teller = Counter(told_by(call) for call in avoided)
    unread = sum(call.failed and "has not been read" in call.said for call in calls)
    edits = sum(call.tool in ("Edit", "Write", "MultiEdit") for call in calls)
    return [
        single("calls", "all sessions", "", len(calls)),
        single("failed", "all sessions", "%", 100 * failed / len(calls)),
        single("met by a line of avoidance", "all of them", "% of calls", 100 * len(avoided) / len(calls)),
        *(
            single("met by a line of avoidance", f"told else by: {teller.value}", "% of calls", 100 * n / len(calls))
            for teller, n in ((each, by_teller[each]) for each in Told)
        ),
        single("met by a cure", "all of them", "% of calls", 100 * cured / len(calls)),
        single("edits before a read", "all sessions", "% of edits", 100 * unread / max(1, edits)),
    ]


GROUP = Group("procedures", (), (Part("rules", _rules),), by_default=False)
