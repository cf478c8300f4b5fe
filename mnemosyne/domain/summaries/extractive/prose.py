"""Prose: conclusions, findings and questions, each a whole sentence, under the heading that it stands below."""

import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from mnemosyne.domain.summaries.extractive.facets import Entry, Facet, begins_line, each, ends_line, head_of
from mnemosyne.domain.summaries.extractive.units import TextUnit
from mnemosyne.domain.text import entities
from mnemosyne.domain.text.announcements import is_announcement

_SECTION = r"\s{0,3}#{1,6}\s{1,4}\S|\s{0,8}(?:\d{1,2}\.\s)?\*\*[^*]{1,120}\*\*:?\s{0,4}$"
_LEADS = re.compile(r".*[:\uff1a][*_]{0,3}\s{0,4}$")
"""Words that lead to what stands below them: a list, a quotation, a reason."""

HEADING = re.compile(rf"{_SECTION}|\S[^.!?]{{8,60}}:$")
_HEADS_SECTION = re.compile(r"\s{0,3}#{1,6}\s{1,4}\S|\s{0,8}(?:\d{1,2}\.\s)?\*\*[^*]{1,120}(?<!:)\*\*\s{0,4}$")
"""What is in bold and ends in a colon leads to what follows, and to no section."""

_LONGEST_LEAD = 60
"""Characters up to which words that lead to others say nothing without them."""
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
_GIVES_REASON = re.compile(
    r".*?\b(?i:because|since|therefore|hence|thus|due to|that's why|"
    r"(?:which|this|that|it) (?:means|confirms|shows|explains|suggests)|found that|so (?:the|this|that|it|we|i)|"
    r"instead of|rather than|in favou?r of|(?:we|you|it|i) (?:should|must|can't|cannot)|"
    r"(?:we|i)(?:'ll| will) (?:use|add|make|go|keep|take|change|modify|replace|remove|implement|apply)|"
    r"(?:best|better|right|cleanest|simplest) (?:approach|option|way|fix|place)|the approach|prefer)\b"
)
"""A reason, what follows from it, or what is settled instead of something else."""

_WEAK = re.compile(
    r".*?\b(?i:must|never|always|should|important|note|warning|means|fails?|failed|failing|error|"
    r"missing|wrong|incorrect|correct|todo|next|found|only|however|but|so|need(?:s|ed)? to|requires?|ensures?|"
    r"prevents?|"
    r"breaks?|allows?|returns?|fix(?:e[sd])?|bug|works?|prefer|want)\b"
)
_REFERS = re.compile(r"\W{0,4}(?:(?:So|And|But|Then|Thus) )?(?i:this|that|these|those|it|which|both|neither)\b")
"""A sentence about what stands right before it."""

_QUESTION = re.compile(r".*[?\uff1f][\"')\]*_]{0,3}\s{0,8}$")
_SHORTEST = 25
"""Characters of a sentence that says something by itself."""

_SHORT_QUESTION = 40
"""The same of a question that says what is asked for: "Can you take a look?" says nothing."""

_ITEM = re.compile(r"\s{0,8}(?:\d{1,3}[.)]|[-*•]) \S")
_POINT = re.compile(r"\s{0,8}(?:#{1,6} )?(?:\*\*)?(?:(?:Step|Phase|Item|Problem|Option|Issue) )?\d{1,2}[.):] \S")
"""A numbered heading or item: of several points each is one."""

_PLACE = re.compile(r".*?[\w/-]\.\w{1,5}:\d")
"""A line of a file is named."""

_LETTER = re.compile(r"[^\W\d_]")
_BROKEN = re.compile(r"[-+|=_*#`~\s{}()\[\];,]{0,400}$")


def prose(units: Sequence[TextUnit], within: range) -> list[Facet]:
    """The facets of prose that nobody says to somebody: of a document each section opens with what it is about."""
    scored = _Scored(units, within)
    times = Counter(head_of(units[heading]).strip() for heading in scored.openings)
    opened = Facet(
        noun="section",
        entries=tuple(scored.openings.items()),
        less=tuple((n,) if _says(head_of(units[n]), times) else () for n in scored.openings),
        rank=1,
        share=0.5,
        told=False,
    )
    return [*_list_facets(units, scored, {}, ()), opened]


def _says(heading: str, times: Mapping[str, int]) -> bool:
    """Whether a heading says something alone: one that leads to others, or that stands above several, does not."""
    return times[heading.strip()] == 1 and not _LEADS.match(heading)


def list_prose_facets(
    units: Sequence[TextUnit], within: Sequence[int], labels: dict[int, int], by_user: Collection[int]
) -> list[Facet]:
    """The facets of what was said. ``labels`` gives units the one that names their speaker, ``by_user`` are the units
    that are the user's.
    """
    return _list_facets(units, _Scored(units, within), labels, by_user)


def _list_facets(
    units: Sequence[TextUnit], scored: "_Scored", labels: dict[int, int], by_user: Collection[int]
) -> list[Facet]:
    telling = [number for number, score in scored.scores.items() if score >= 0 or number in by_user]
    ordered = sorted(telling or scored.scores, key=lambda number: -scored.scores[number])

    def facet(noun: str, numbers: Sequence[int], **how: Any) -> Facet:
        bare = [(*_of(number, labels, scored.before), number) for number in numbers]
        entries = [(*_of(number, scored.headings), *entry) for number, entry in zip(numbers, bare, strict=True)]
        less = [() if number in scored.short else entry for number, entry in zip(numbers, bare, strict=True)]
        return Facet(noun=noun, entries=tuple(entries), less=tuple(less), **how)

    own = [number for number in ordered if number not in by_user]
    users = [number for number in ordered if number in by_user]
    asked = sorted(
        users,
        key=lambda number: (
            number not in scored.questions or len(units[number].text or "") < _SHORT_QUESTION,
            scored.scores[number] <= 0,
            number,
        ),
    )
    questions = [number for number in own if number in scored.questions]
    concluded = [number for number in own if number in scored.conclusions]
    conclusions = list(dict.fromkeys([*sorted(concluded)[-1:], *concluded]))
    points = sorted((n for n in scored.points if n not in by_user), key=lambda n: n not in scored.titles)
    return [
        facet("sentence of the user", asked[:1], rank=0, share=0.8, told=False),
        facet("conclusion", conclusions, rank=0, share=0.6),
        facet("question", questions, rank=1, share=0.3),
        Facet(noun="numbered point", entries=_list_points(units, scored, points), rank=1, share=0.4, told=False),
        facet("sentence of the user", asked, rank=1, share=0.5, told=False),
        facet("sentence", [*own, *users], rank=3, told=False),
        Facet(noun="code line", entries=each(scored.code), rank=6, share=0.3),
    ]


def _list_points(units: Sequence[TextUnit], scored: "_Scored", points: Sequence[int]) -> tuple[Entry, ...]:
    """Points below the few words that lead to them; what has a title of its own needs none."""
    leads = {n: above for n, above in scored.headings.items() if len(units[above].text or "") <= _LONGEST_LEAD}
    return tuple((n,) if n in scored.titles else (*_of(n, leads), n) for n in points)


def _of(number: int, *told: Mapping[int, int]) -> list[int]:
    """What belongs to a unit in each of these."""
    return [each[number] for each in told if number in each]


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
        self.short: set[int] = set()
        self.before: dict[int, int] = {}
        self.openings: dict[int, int] = {}
        self._last: int | None = None
        self._section: int | None = None
        self._lead: int | None = None
        self._bonus = 0.0
        fenced = led = blank = False
        last_line = units[within[-1]].line if within else 0
        first_line = units[within[0]].line if within else 0
        for number in within:
            text = head_of(units[number])
            if not text.strip():
                blank = True
                continue
            if blank and led and not (_ITEM.match(text) or _TABLE.match(text) or text[0].isspace()):
                self._lead, led = None, False
            blank = False
            begins, ends = begins_line(units, number), ends_line(units, number)
            if not fenced and _POINT.match(text) and begins:
                self.points.append(number)
            if _FENCE.match(text):
                led = led or fenced
                fenced = not fenced
            elif fenced:
                self.code += [number] if _LETTER.search(text) else []
            elif begins and _HEADS_SECTION.match(text):
                self.titles.add(number)
                self._section, self._lead, self._last = number, None, None
                self._bonus = 1.5 if _TELLING_HEADING.match(text) else 0.0
            elif ends and _LEADS.match(text):
                if begins:
                    self.titles.add(number)
                if len(text) > _LONGEST_LEAD:
                    self._add(number, text, _edge(units[number].line, first_line, last_line))
                elif begins and HEADING.match(text):
                    self._bonus = 1.5 if _TELLING_HEADING.match(text) else 0.0
                self._lead, self._last, led = number, number, False
            elif not _BROKEN.match(text):
                self._add(number, text, _edge(units[number].line, first_line, last_line))
                self._last, led = number, True

    def _add(self, number: int, text: str, edge: float) -> None:
        strong = _STRONG.match(text) is not None
        reason = _GIVES_REASON.match(text) is not None
        question = len(text) >= _SHORTEST and _QUESTION.match(text) is not None
        score = (
            edge
            + self._bonus
            + max(2.0 * strong, 1.6 * reason)
            + 1.5 * question
            + 0.8 * (_WEAK.match(text) is not None)
        )
        score += 0.4 * min(4, len(_telling(text)))
        score += 1.0 * (_PLACE.match(text) is not None)
        if is_announcement(text):
            score -= 3.0
        if _TABLE.match(text):
            score -= 0.7
        if len(text) < _SHORTEST and not _ITEM.match(text):
            score -= 1.0
        self.scores[number] = score / (1 + len(text) / 400)
        if self._section is not None:
            self.openings.setdefault(self._section, number)
        if _REFERS.match(text) and self._last is not None:
            self.before[number] = self._last
        heading = self._section if self._lead is None else self._lead
        if heading is not None:
            self.headings[number] = heading
            self.short |= {number} if len(text) < _SHORTEST else set()
        if question:
            self.questions.add(number)
        elif (score >= 2.0 and (strong or self._bonus)) or (score >= 1.6 and reason):
            self.conclusions.add(number)


def _edge(line: int, first: int, last: int) -> float:
    """What a sentence is worth by its place: it opens a text, or ends it."""
    return (line - first < 3) * 0.7 + (last - line < 5) * 1.4


def _telling(text: str) -> set[str]:
    return {token for token in entities.tokens(text) if entities.of_token(token)}
