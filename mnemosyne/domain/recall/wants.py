"""What a question is after, and which lines have the shape of that: a definition, a value, a failure, a decision …

These are shapes of English questions and of what programs and people write. A question of another kind or language is
after nothing of these, and its words decide alone.
"""

import re
from collections.abc import Sequence

import attrs

from mnemosyne.domain.text.words import query_words, stem

_LOOKED_AT = 400
"""Characters of a line in which a shape is looked for."""

_PARTLY = 0.7
"""What a shape is worth of the very name that is asked for, where it has only a part of it."""


@attrs.frozen
class Fit:
    """How much a line has the shape of an answer, 0 to 1; ``first`` says that of several the first tells most."""

    worth: float = 0.0
    first: bool = False


@attrs.frozen
class Shape:
    """A line that ``shows`` it is ``worth`` so much as an answer, 0 to 1; where it ``names``, only if the pattern's
    first group is asked for. Of several the ``first`` tells most, or else the last.
    """

    shows: re.Pattern[str]
    worth: float = 1.0
    names: bool = False
    first: bool = False

    def fits(self, line: str, own: frozenset[str]) -> float:
        """How much a line is an answer by this shape."""
        found = self.shows.search(line, 0, _LOOKED_AT)
        if found is None or not self.names:
            return self.worth if found is not None else 0.0
        said = found[1]
        if not own.isdisjoint((said.lower(), stem(said.lower()))):
            return self.worth
        named = frozenset(query_words(said))
        if named <= own:
            return self.worth
        return 0.0 if own.isdisjoint(named) else _PARTLY * self.worth


@attrs.frozen
class Want:
    """What questions that this pattern ``asks`` are answered by, the best of these shapes: ``several`` of them, or one.
    ``failed`` says that something did not work, ``last`` that the end of a text is asked for.
    """

    asks: re.Pattern[str]
    shapes: tuple[Shape, ...]
    several: bool = False
    failed: bool = False
    last: bool = False


def _want(asks: str, *shapes: Shape, several: bool = False, failed: bool = False, last: bool = False) -> Want:
    return Want(re.compile(asks, re.IGNORECASE), shapes, several, failed, last)


def _shape(shows: str, worth: float = 1.0, *, names: bool = False, first: bool = False) -> Shape:
    return Shape(re.compile(shows), worth, names, first)


_BEFORE = r"^(?:\S{0,160}[:-]\d{1,7}[:-])??[ \t]{0,8}(?:\d{1,7}(?:→|\t|:|\|)|[+-])?\s{0,40}"
"""What listings, searches and diffs put before a line. All is bounded: a line may be a megabyte of anything."""

_DEFINED = _shape(
    _BEFORE + r"(?:(?:export|default|pub|public|private|protected|static|async|abstract|final)\s{1,8}){0,5}"
    r"(?:func(?:\s{0,4}\([^)]{0,100}\))?|def|class|type|fn|struct|interface|function|enum|trait|const|var|let|val"
    r"|#define|create (?:table|index)|module|package)\s{1,8}([\w.$]{1,100})",
    names=True,
)
_SET = _shape(
    _BEFORE
    + r"(?:(?:export|const|var|let|static|final)\s{1,8}){0,3}[\"'`]?([\w.-]{1,100})[\"'`]?\s{0,40}(?::=|=|:)\s*\S",
    names=True,
)
_REASON = _shape(
    r"^\s*(?:E\s{2,}|panic: |fatal: |[Ee]rror\b|ERROR\b|<tool_use_error>)|\b\w*(?:Error|Exception|DoesNotExist): \S"
    r"|^\s*\S+:\d+(?::\d+)?: .*(?i:error|fail|expected|want|should|unexpected|got\b|not\b|undefined|cannot)"
    r"|(?:ba|z)?sh: .{0,200}(?:not found|No such)|^\s*- [EFW]\d{3} |(?i:no such file|not found\b|permission denied)"
)
_COMPLAINT = _shape(
    r"^\s*\S{1,300}:\d{1,7}:\d{1,5}: .*(?i:error|fail|expected|want|should|unexpected|got\b|not\b|undefined|cannot)",
    first=True,
)
_PLACE = _shape(r"^\s*\S{1,300}:\d{1,7}:\d{1,5}: \S", 0.9, first=True)
_FAILED = _shape(r"^\s*(?:--- FAIL|FAIL\b|FAILED\b|ERROR\b)|\b[1-9]\d* (?:failed|errors?)\b", 0.7)
_SETTLED = _shape(
    r"(?i:\b(?:decided|decision|let's (?:use|go|do|keep)|we(?:'ll| will| should)"
    r"|i(?:'ll| will) (?:use|add|go|keep|make)|instead of|rather than|go with|recommend|prefer|approach|because"
    r"|root cause|this (?:means|confirms)|the (?:issue|problem|bug|cause|fix|answer|key) (?:is|was)|turns out"
    r"|therefore|found that)\b)"
)
_FILE = _shape(r"^\s*[\w./@~+-]*\w\.\w{1,8}(?::\d+)?\s*$", 0.8)

WANTS: Sequence[Want] = (
    _want(
        r"\bhow many\b|\bnumber of\b",
        _shape(r"^=+ .*\b\d+ (?:passed|failed)|^Ran \d+|^(?:Tests:|test result:)|^Found \d+|^ \d+ files? changed"),
        _shape(r"\b\d+ \w+", 0.5),
    ),
    _want(
        r"\bsections?\b|\bchapters?\b|\bheadings?\b",
        _shape(r"^\s{0,8}(?:\d{1,7}(?:→|\t))?(?:#{1,6}\s{1,4}|\*\*)(\S.{0,200})", names=True),
    ),
    _want(
        r"\bpass(?:ed|es)?\b|\bsucceed",
        _shape(r"^\s*(?:ok\s|FAIL\b|--- (?:PASS|FAIL|SKIP)|PASS\b|FAILED\b|ERROR\b)|\b(?:ok|PASSED|FAILED|ERROR)$"),
    ),
    _want(r"\bwhich commit|\bcommit (?:id|hash)", _shape(r"^(?:commit )?[0-9a-f]{7,40}\b|^\[\S+ [0-9a-f]{7,}\]")),
    _want(
        r"\b(?:which|what) (?:steps?|todos?|tasks?)\b|\bopen\?|\bstill (?:open|to do)|\bpending|\bremain",
        _shape(r"\b(?:pending|in_progress)\b|^\s*+(?:[-*]\s*+)?\[ \]"),
        several=True,
    ),
    _want(
        r"\b(?:which|what) (?:tests?|packages?|checks?)\b",
        _shape(r"^\s*(?:--- FAIL|FAIL(?:ED)?|ERROR)[:\t ]+\S"),
        _FAILED,
        several=True,
    ),
    _want(
        r"\b(?:which|what) files?\b|\bwhat changed\b|\bmodified\b|\btouched\b",
        _shape(
            r"^(?:\+\+\+ |\*\*\* (?:Update|Add|Delete) File|\s*(?:modified|new file|deleted):"
            r"|[ MADRU?]{2} \S| \S.* \| +\d+ [+-]+|rename )"
        ),
        _shape(r"^diff --git ", 0.9),  # it names the file twice
        _FILE,
        several=True,
    ),
    _want(
        r"\badd(?:s|ed)?\b",
        _shape(r"^\s*\+\s*(?:export |pub |async )?(?:func|def|class|type|fn|struct|interface|function)\b", first=True),
        _shape(r"^\s*(?:\d+\s*)?\+(?!\+\+)\s*\S", 0.9, first=True),
        _SETTLED,
    ),
    _want(r"\bremoved?s?\b|\bdelete", _shape(r"^\s*(?:\d+\s*)?-(?!-)\s*\S"), _SETTLED),
    _want(
        r"\bwhy\b|\bfail|\berrors?\b|\bwrong\b|\bcrash|\bexception|\brefus|\bbroke",
        _COMPLAINT,
        _PLACE,
        _REASON,
        _FAILED,
        _SETTLED,
        failed=True,
    ),
    _want(
        r"\bdecid|\bdecision|\bagreed?\b|\bsettle|\bchoose|\bchose|\bconclu|\brecommend|\bpropos|\bapproach", _SETTLED
    ),
    _want(r"\blast\b|\bat the end\b|\bin the end\b|\bfinally\b|\boutcome\b", last=True),
    _want(r"\bdefin|\bdeclar|\bsignature|\btakes?\b|\bparameters?\b", _DEFINED),
    _want(r"\bvalue|\bset to\b|\bdefault|\blimit|\bhow (?:large|long|big|often)", _SET),
    _want(r"\bwhere\b|\bwhat (?:is|are|was)\b|\bwhich\b", _DEFINED, _SET),
)
"""Whatever asks first is what a question is after: the special before the general."""

_ITEM_ASKED = re.compile(r"\b(?:number|step|item|point|phase|finding)\s+#?(\d{1,3})\b", re.IGNORECASE)
_ITEM = re.compile(r"^\s*(?:#{1,4}\s+)?(?:\*\*)?(?:(?:Step|Phase|Item|Point)\s+)?(\d{1,3})[.:)]\s*\S", re.IGNORECASE)


@attrs.frozen
class AnswerShape:
    """What a question is after: a numbered ``item``, or what one of ``shapes`` shows; ``several`` of these, or one. It
    may be about something that ``failed``, about what was ``last``, or about what was said ``by_user``. ``form`` are
    the words that only say so.
    """

    shapes: tuple[Shape, ...] = ()
    item: str | None = None
    several: bool = False
    failed: bool = False
    last: bool = False
    by_user: bool = False
    form: frozenset[str] = frozenset()

    def fits(self, line: str, own: frozenset[str]) -> Fit:
        """How much a line has the shape of what is wanted. ``own`` are the words of the question, as they are compared,
        that do not only name where the line stands.
        """
        if self.item is not None:
            found = _ITEM.match(line)
            return Fit(float(found is not None and found[1] == self.item))
        fits = (Fit(each.fits(line, own), each.first) for each in self.shapes)
        return max(fits, key=lambda fit: fit.worth, default=Fit())


_USER_ASKED = re.compile(
    r"\b(?:did|do|does) (?:i|we|the user|they) (?:ask|want|say|request|type|mean)"
    r"|\b(?:i|the user) (?:asked|wanted|said|typed)",
    re.IGNORECASE,
)

_NAME = re.compile(r"[“\"`][^”\"`]{0,300}[”\"`]|(?<!\S)(?=\S*[/\\|_(){}\[\]=<>$*])\S+|(?<!\S)(?=\S*[a-z][A-Z])\S+")
"""What is quoted, and names as programs have them: they say what is asked about, not what is asked."""


_FORM = re.compile(r"\b(?:say|says|said|tells?|told|means?|first|last|asked|about)\b", re.IGNORECASE)


def shape_of(question: str) -> AnswerShape:
    """What a question is after."""
    question = _NAME.sub(" ", question)
    item = _ITEM_ASKED.search(question)
    if item is not None:
        return AnswerShape(item=item[1])
    user = _USER_ASKED.search(question)
    asks = ((each, found) for each in WANTS if (found := each.asks.search(question)))
    want, found = next(asks, (None, None))
    said = " ".join((*_FORM.findall(question), user[0] if user else "", found[0] if found else ""))
    form = frozenset(query_words(said)) if said.strip() else frozenset[str]()
    if want is None:
        return AnswerShape(by_user=user is not None, form=form)
    return AnswerShape(
        want.shapes,
        several=want.several,
        failed=want.failed,
        last=want.last,
        by_user=user is not None,
        form=form,
    )
