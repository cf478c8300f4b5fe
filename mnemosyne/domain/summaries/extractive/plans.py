"""Plans and lists of steps: what is still to be done before what is done."""

import json
import re
from collections.abc import Mapping, Sequence

from mnemosyne.domain.summaries.extractive.facets import Facet, head_of, whole_lines
from mnemosyne.domain.summaries.extractive.prose import HEADING, prose
from mnemosyne.domain.summaries.extractive.units import SourceLine, TextUnit

_TODOS = re.compile(r"(?:new)?[Tt]odos: (?=\[)")
_DONE = re.compile(r"\s{0,12}(?:completed|done|cancelled): |\s{0,12}[-*] \[[xX]\] |status: completed|.{0,40}[✅☑]")
_NOW = re.compile(r"\s{0,12}in_progress: |status: in_progress")
_ANSWERED = re.compile(r"User has answered your questions: ")
_NEXT_ANSWER = re.compile(r"(?<=\"), (?=\")")
_STEP = re.compile(
    r"\s{0,12}(?:pending|in_progress|completed|cancelled|open|todo|done): \S|\s{0,12}[-*] \[[ xX]\] \S|"
    r"\s{0,3}\d{1,2}[.)] \S|#{1,4} (?:(?:Step|Phase|Part|Task) )?\d{1,2}\b|subject: \S|status: \S|"
    r"Updated task #|Task #|#\d{1,4}[. ]"
)


def by_step(lines: Sequence[SourceLine]) -> list[SourceLine]:
    """The lines with a list of steps that stands in JSON on one of them as a line for each step."""
    found: list[SourceLine] = []
    for line in lines:
        match = _TODOS.match(line.text or "")
        steps = _steps((line.text or "")[match.end() :]) if match else []
        if not steps:
            found.append(line)
        for number, step in enumerate(steps, 1):
            found.append(SourceLine(step, line.lines if number == len(steps) else 0, ""))
    return found


def by_answer(lines: Sequence[SourceLine]) -> list[SourceLine]:
    """What a user answered to several questions, each answer on a line with its question."""
    found: list[SourceLine] = []
    for line in lines:
        answers = _NEXT_ANSWER.split(line.text) if line.text and _ANSWERED.match(line.text) else [line.text]
        for number, answer in enumerate(answers, 1):
            found.append(line._replace(text=answer, lines=line.lines if number == len(answers) else 0))
    return found


def _steps(listed: str) -> list[str]:
    try:
        steps = json.loads(listed)
    except (ValueError, RecursionError):
        return []
    return [
        f"{step.get('status', 'pending')}: {step.get('content', '')}" for step in steps if isinstance(step, Mapping)
    ]


def plans(units: Sequence[TextUnit], within: range) -> list[Facet]:
    """The facets of a plan."""
    heads = {number: head_of(units[number]) for number in within if units[number].text}
    steps = [n for n, text in heads.items() if _STEP.match(text)]
    finished = [n for n in steps if _DONE.match(heads[n])]
    now = [n for n in steps if _NOW.match(heads[n])]
    still = sorted((n for n in steps if n not in set(finished)), key=lambda n: not heads[n].startswith("#"))
    title = next((n for n, text in heads.items() if HEADING.match(text)), None)
    return [
        Facet(noun="title", entries=() if title is None else ((title,),), rank=0, told=False, share=0.2),
        Facet(noun="open step", entries=whole_lines(units, dict.fromkeys([*now, *still]), within), rank=0),
        Facet(noun="finished step", entries=whole_lines(units, finished, within), rank=4),
        *prose(units, within),
    ]
