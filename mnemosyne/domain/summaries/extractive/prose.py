"""Prose: conclusions, findings and questions, each a whole sentence, under the heading that it stands below."""

import re
from collections.abc import Collection, Sequence
from typing import Any

from mnemosyne.domain.summaries.extractive.facets import Facet, begins_line, each, head_of
from mnemosyne.domain.summaries.extractive.units import TextUnit
from mnemosyne.domain.text import entities

HEADING = re.compile(r"\s{0,3}#{1,6}\s{1,4}\S|\s{0,8}(?:\d{1,2}\.\s)?\*\*[^*]{1,120}\*\*:?\s{0,4}$|\S[^.!?]{8,60}:$")
_TELLING_HEADING = re.compile(
    r".{0,60}?(?i:summary|conclusion|recommend|finding|result|cause|decision|fix|next step|problem|issue|critical|"
    r"verdict|answer|pending|current work|blocker|risk|bug|todo|open question)"
)
_FENCE = re.compile(r"\s{0,8}(?:```|~~~)")
_TABLE = re.compile(r"\s{0,8}\|")
_STRONG = re.compile(
    r".*?\b(?i:in (?:summary|short|conclusion)|to summari[sz]e|conclu(?:de|sion)|therefore|root cause|"
    r"the (?:actual |real |main |key |underlying )?(?:problem|issue|bug|cause|fix|reason|answer|solution|"
    r"decision|result|"
    r"difference|question|conclusion|finding)s? (?:is|was|are|were|here)|caused by|decided|we(?:'ll|"
    r" will) (?:use|keep|go)|"
    r"i(?:'d)? recommend|recommended|recommendation|chose|turns? out|confirmed|verified|"
    r"all (?:\d{1,6} )?tests (?:now )?pass|"
    r"is (?:now )?(?:fixed|complete|implemented|resolved)|has been|i(?:'ve| have) (?:fixed|added|implemented|"
    r"updated|changed|"
    r"removed|created|verified|completed)|does(?:n't| not) (?:work|exist|support|match)|let's (?:go with|do|"
    r"use)|option \w is)\b"
)
_WEAK = re.compile(
    r".*?\b(?i:because|since|instead|must|never|always|should|important|note|warning|means|fails?|failed|failing|error|"
    r"missing|wrong|incorrect|correct|todo|next|found|only|however|but|so|need(?:s|ed)? to|requires?|ensures?|"
    r"prevents?|"
    r"breaks?|allows?|returns?|fix(?:e[sd])?|bug|works?|prefer|want)\b"
)
_FILLER = re.compile(
    r"\W{0,8}(?:THOUGHT: )?(?i:(?:now |first,? |next,? |ok(?:ay)?,? |so,? )?(?:let me|let's|let us|i'll|i will|"
    r"i need to|"
    r"i'm going to|i should|i can)(?: now| also| first| just| start by)? (?:check|look|read|run|see|search|"
    r"examine|verify|"
    r"explore|find|start|view|list|inspect|continue|think)|"
    r"(?:good|great|perfect|excellent|sure|ok|okay|alright|done|thanks?|you're right)\b[^.!?]{0,20}[.!,]?$|"
    r"here(?:'s| is| are)\b.{0,60}:$|reminder: you must|"
    r"you can now continue with the user's answers)"
)
_QUESTION = re.compile(r".*[?\uff1f][\"')\]*_]{0,3}\s{0,8}$")
_SHORTEST = 25
"""Characters of a sentence that says something by itself."""

_ITEM = re.compile(r"\s{0,8}(?:\d{1,3}[.)]|[-*•]) \S")
_POINT = re.compile(r"\s{0,8}(?:#{1,6} )?(?:\*\*)?(?:(?:Step|Phase|Item|Problem|Option|Issue) )?\d{1,2}[.):] \S")
"""A numbered heading or item: of several points each is one."""

_PLACE = re.compile(r".*?[\w/-]\.\w{1,5}:\d")
"""A line of a file is named."""

_LETTER = re.compile(r"[^\W\d_]")
_BROKEN = re.compile(r"[-+|=_*#`~\s{}()\[\];,]{0,400}$")


def prose(units: Sequence[TextUnit], within: range) -> list[Facet]:
    """The facets of prose by one speaker."""
    return list_said(units, within, {}, ())


def list_said(
    units: Sequence[TextUnit], within: Sequence[int], labels: dict[int, int], by_user: Collection[int]
) -> list[Facet]:
    """The facets of what was said. ``labels`` gives units the one that names their speaker, ``by_user`` are the units
    that are the user's.
    """
    scored = _Scored(units, within)
    ordered = sorted(scored.scores, key=lambda number: -scored.scores[number])

    def facet(noun: str, numbers: Sequence[int], **how: Any) -> Facet:
        less = [(*((labels[number],) if number in labels else ()), number) for number in numbers]
        entries = [
            (scored.headings[number], *entry) if number in scored.headings else entry
            for number, entry in zip(numbers, less, strict=True)
        ]
        return Facet(noun=noun, entries=tuple(entries), less=tuple(less), **how)

    own = [number for number in ordered if number not in by_user]
    users = [number for number in ordered if number in by_user]
    asked = sorted(users, key=lambda number: (number not in scored.questions, scored.scores[number] <= 0, number))
    questions = [number for number in own if number in scored.questions]
    concluded = [number for number in own if number in scored.conclusions]
    conclusions = list(dict.fromkeys([*sorted(concluded)[-1:], *concluded]))
    points = sorted((n for n in scored.points if n not in by_user), key=lambda n: n not in scored.titles)
    return [
        facet("sentence of the user", asked[:1], rank=0, share=0.75, told=False),
        facet("conclusion", conclusions, rank=0, share=0.6),
        facet("question", questions, rank=1, share=0.3),
        Facet(noun="numbered point", entries=each(points), rank=1, share=0.4, told=False),
        facet("sentence of the user", asked, rank=1, share=0.5, told=False),
        facet("sentence", [*own, *users], rank=3, told=False),
        Facet(noun="code line", entries=each(scored.code), rank=6, share=0.3),
    ]


class _Scored:
    """What each sentence is worth, read once from the first to the last."""

    def __init__(self, units: Sequence[TextUnit], within: Sequence[int]) -> None:
        self.scores: dict[int, float] = {}
        self.headings: dict[int, int] = {}
        self.conclusions: set[int] = set()
        self.questions: set[int] = set()
        self.code: list[int] = []
        self.points: list[int] = []
        self.titles: set[int] = set()
        self._heading: int | None = None
        self._bonus = 0.0
        fenced = False
        last_line = units[within[-1]].line if within else 0
        first_line = units[within[0]].line if within else 0
        for number in within:
            text = head_of(units[number])
            if not text.strip():
                continue
            if not fenced and _POINT.match(text) and begins_line(units, number):
                self.points.append(number)
            if _FENCE.match(text):
                fenced = not fenced
            elif fenced:
                self.code += [number] if _LETTER.search(text) else []
            elif HEADING.match(text) and begins_line(units, number):
                self.titles.add(number)
                self._heading = number
                self._bonus = 1.5 if _TELLING_HEADING.match(text) else 0.0
            elif not _BROKEN.match(text):
                edge = (units[number].line - first_line < 3) * 0.7 + (last_line - units[number].line < 5) * 1.4
                self._add(number, text, edge)

    def _add(self, number: int, text: str, edge: float) -> None:
        strong = _STRONG.match(text) is not None
        question = len(text) >= _SHORTEST and _QUESTION.match(text) is not None
        score = edge + self._bonus + 2.0 * strong + 1.5 * question + 0.8 * (_WEAK.match(text) is not None)
        score += 0.4 * min(4, len(set(entities.tokens(text)) & _telling(text)))
        score += 1.0 * (_PLACE.match(text) is not None)
        if _FILLER.match(text):
            score -= 3.0
        if _TABLE.match(text):
            score -= 0.7
        if len(text) < _SHORTEST and not _ITEM.match(text):
            score -= 1.0
        self.scores[number] = score / (1 + len(text) / 400)
        if self._heading is not None:
            self.headings[number] = self._heading
        if question:
            self.questions.add(number)
        elif score >= 2.0 and (strong or self._bonus):
            self.conclusions.add(number)


def _telling(text: str) -> set[str]:
    return {token for token in entities.tokens(text) if entities.of_token(token)}
