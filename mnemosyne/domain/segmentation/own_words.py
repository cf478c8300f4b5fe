"""Where in a text its speaker uses words of their own: no quotation, no code, no listing, nothing that is shown. The
rule for what a user typed is another, and stricter (``prompt_line``).

What is not found to be somebody's own is nobody's decision. So each rule takes too much rather than too little: an
element reaches to the last tag that closes it and a fence to the last fence, for what stands between may have been
written by somebody who knows these rules. Linear in the text's length.
"""

import re
import unicodedata
from collections.abc import Iterator
from functools import cache

import attrs

MASK = "\u2026"
"""Stands for each character of a quotation within a paragraph."""

_MOST_READ = 200_000
"""Characters: what is longer was not typed, and not answered either."""


@attrs.frozen
class Paragraph:
    """Lines of prose that belong together: ``text[start:end]``, or one item of a list. ``said`` is as long, with each
    character of a quotation masked.
    """

    start: int
    end: int
    said: str
    is_item: bool


def paragraphs(text: str) -> tuple[Paragraph, ...]:
    """The paragraphs of a text that are its speaker's own words, in their order."""
    if len(text) > _MOST_READ or _has_hidden_letters(text):
        return ()
    plain = _fold(text)
    end = _find_hand_over(plain)
    return tuple(_paragraphs(plain, end, _find_hidden(plain)))


def find_hidden(text: str) -> list[tuple[int, int]]:
    """The parts of a text that only show something: elements, comments, fences and long quotations."""
    return _find_hidden(_fold(text))


def _find_hidden(plain: str) -> list[tuple[int, int]]:
    return _merge([*_elements(plain), *_comments(plain), *_find_fenced(plain), *_long_quotations(plain)])


# Letters that are not what they seem

_PLAIN = re.compile(r"[\t-\r\x20-\x7e\x80-\u00ac\u00ae-\u034e\u0350-\u05ff]*\Z")
_ASCII = re.compile(r"[\x0e-\x7f\x00-\x0a]*\Z")
_KEPT = {
    **dict.fromkeys("\u201c\u201d\u201e\u201a\u2018\u00ab\u300c\u300d"),
    **dict.fromkeys("\u2028\u2029\u0085\u000b\u000c", "\n"),
    "\r": " ",
    "\u2019": "'",
    "\u0130": "I",
    "\u0131": "i",
}
"""What does not go by its name: quotation marks that come in pairs of their own (None), and ends of lines."""

_NAMES = tuple(
    (re.compile(pattern), plain)
    for pattern, plain in (
        (r"LESS-THAN SIGN|LEFT.* (?:ANGLE|ARROWHEAD)", "<"),
        (r"GREATER-THAN SIGN|RIGHT.* (?:ANGLE|ARROWHEAD)", ">"),
        (r"LEFT.* BRACKET", "\u300c"),
        (r"RIGHT.* BRACKET", "\u300d"),
        (r"\b(?:GRAVE|ACUTE) ACCENT\Z", "`"),
        (r"\ASINGLE .*QUOTATION MARK|SINGLE .*QUOTATION MARK ORNAMENT", "'"),
        (r"QUOTATION MARK|DITTO MARK|(?:DOUBLE|TRIPLE) PRIME\Z", '"'),
        (r"\AVERTICAL LINE|VERTICAL (?:BAR|ELLIPSIS)\Z|\ABROKEN BAR\Z|\ADIVIDES\Z|DOUBLE VERTICAL LINE\Z", "|"),
        (r"\b(?:DIVISION|FRACTION) SLASH\Z", "/"),
    )
)


def _fold(text: str) -> str:
    """The text, as long as it is, with each mark and letter that looks like one of the keyboard's as that one."""
    if _ASCII.match(text):
        return text
    return text.translate({ord(each): _resemble(each) for each in set(text)})


@cache
def _resemble(character: str) -> str:
    if character in _KEPT:
        return _KEPT[character] or character
    compatible = unicodedata.normalize("NFKC", character)
    if character.isascii() or (len(compatible) == 1 and compatible.isascii()):
        return compatible
    name = unicodedata.name(character, "")
    return next((plain for pattern, plain in _NAMES if pattern.search(name)), character)


_SPACES = "\u200d\t\n\r\x0b\x0c\x85"  # the first stands within one emoji
_IGNORED = re.compile(
    r"[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u3164\ufe00-\ufe0e\uffa0\U000e0100-\U000e01ef]"
    r"|(?:\A|(?<=\s))\ufe0f"
)
"""What is drawn as nothing; \ufe0f is part of an emoji behind what it belongs to."""


def _has_hidden_letters(text: str) -> bool:
    """Whether letters are in it that nobody sees and nobody types: such a text was made to be misread."""
    if _PLAIN.match(text):
        return False
    unseen = any(each not in _SPACES and unicodedata.category(each) in ("Cf", "Cc") for each in set(text))
    return unseen or _IGNORED.search(text) is not None


# What hides lines

_TAG = re.compile(
    r"<[ \t]{0,4}(?P<close>/?)[ \t]{0,4}(?P<name>[^\W\d_][\w:.-]{0,60})"
    r"(?:\s(?:[^<>\"']|\"[^\"<]{0,300}\"|'[^'<]{0,300}'){0,300})?(?P<empty>/?)\s{0,4}>"
)
_CLIENTS_TAG = re.compile(
    r"(?:system|local-command|bash|command|task|user-prompt|ide|env|environment|file|tool|function|output|stdout|"
    r"stderr|results?|document|context|content|summary|teammate|persisted|user|assistant|human)(?:[-_:.]\w{1,60})*\Z"
)


def _elements(text: str) -> Iterator[tuple[int, int]]:
    """From each tag to the last one that closes it. One that nothing closes reaches to the end, if a client writes such
    or it stands on a line of its own.
    """
    tags = list(_TAG.finditer(text))
    last = {tag["name"].casefold(): tag.end() for tag in tags if tag["close"]}
    for tag in tags:
        name = tag["name"].casefold()
        end = last.get(name, 0)
        if tag["close"] or tag["empty"]:
            continue
        if end > tag.end():
            yield tag.start(), end
        elif _CLIENTS_TAG.match(name) or _is_alone(text, tag.start(), tag.end()):
            yield tag.start(), len(text)


def _is_alone(text: str, start: int, end: int) -> bool:
    left, right = text.rfind("\n", 0, start) + 1, text.find("\n", end)
    return not text[left:start].strip() and not text[end : right if right >= 0 else len(text)].strip()


_COMMENTS = (("<!--", "-->"), ("<![CDATA[", "]]>"), ("/*", "*/"), ('"""', '"""'), ("'''", "'''"))


def _comments(text: str) -> Iterator[tuple[int, int]]:
    """From the first that opens a comment to the last that closes it; a lone end closes all that is before it."""
    for opens, closes in _COMMENTS:
        start, end = text.find(opens), text.rfind(closes)
        if start >= 0:
            yield start, (end + len(closes) if end > start else len(text))
        elif end >= 0:
            yield 0, end + len(closes)


# Each of these begins with a character out of a few, which is what a search is fast at; so a line begins with the end
# of the one before.
_FENCE = re.compile(
    r"[`~\n](?:(?<=`)``+|(?<=~)~~+|(?<=\n)[ \t]{0,20}(?:(?:\*{3,}|_{3,}|#{3,}|(?:\. ){3,}\.|['\"$])[ \t]*$"
    r"|(?P<same>[^\w\s.!?*#])(?P=same){2,}+))",
    re.MULTILINE,
)


def _find_fenced(text: str) -> Iterator[tuple[int, int]]:
    """From the first fence or ruled line to the last, and from a single one to the end."""
    fences = list(_FENCE.finditer(f"\n{text}"))
    if fences:
        # Both stand one further back there, and a line that is ruled begins behind what is found.
        start = fences[0].start() - (fences[0][0][0] != "\n")
        yield start, fences[-1].end() - 1 if len(fences) > 1 else len(text)


def _merge(spans: list[tuple[int, int]]) -> list[tuple[int, int]]:
    merged: list[tuple[int, int]] = []
    for start, end in sorted(spans):
        if merged and start <= merged[-1][1]:
            merged[-1] = merged[-1][0], max(end, merged[-1][1])
        else:
            merged.append((start, end))
    return merged


# From where on somebody else has the word

_SOURCE = (
    r"(?:feedback|mail|e-?mail|ticket|readme|files?|docs?|page|issue|log|logs|output|comments?|messages?|error|notes?|"
    r"instructions?|wrote|writes|says?|said|states?|reads?|shows?|contains?|contents?|tells?|asks?|asked|got|report|report(?:s|ed)|"
    r"description|review|article|transcript|conversation)\b|\.(?:md|txt|py|go|js|ts|rs|json|ya?ml|toml|html?|log|"
    r"csv|pdf)"
)
_SHOWS = re.compile(
    r"\n[^\S\n]*+(?:[*_#\[(|<]{0,6}(?:user|human|system)[*_\])|>]{0,6}:|#{1,6} [^\n]{0,80}\w\.\w{1,5}\b"
    r"|contents? of\b)"
)
_HEADS = re.compile(r"\n[^\S\n]*\*\*[^*\n]{0,60}\w\.\w{1,5}`?\*\*:?[^\S\n]*$", re.MULTILINE)

_END_OF_LINE = re.compile(r":[^\S\n]*$", re.MULTILINE)

_INTRODUCES = re.compile(
    rf"(?:\b{_SOURCE}\b|^[^\S\n]*(?:look|see|below|here|this|fyi|pasted?)\b)(?:[^:\n]|:/){{0,80}}:[^\S\n]*$",
    re.MULTILINE,
)


def _find_hand_over(text: str) -> int:
    """Where the speaker's own words end for good: from there on it is shown or told what somebody else said."""
    lines = f"\n{text.lower()}"  # as long as the text, without letters that would become several
    starts = [found.start() for pattern in (_SHOWS, _HEADS) if (found := pattern.search(lines))]
    for end in _END_OF_LINE.finditer(lines):  # few lines end with a colon
        if (found := _INTRODUCES.search(lines, lines.rfind("\n", 0, end.start()) + 1, end.end())) is not None:
            starts.append(found.start() - 1)
            break
    return text.rfind("\n", 0, min(starts)) + 1 if starts else len(text)


_ATTACHES = re.compile(
    r"\n[^\S\n]*+\W{0,4}(?:called the \w{1,40} tool\b|result of calling\b|reading mcp resource\b|\w{1,40} tool "
    r"failed to\b|"
    r"contents? of \S+:?[^\S\n]*$|file: \S+\]?[^\S\n]*$)",
    re.MULTILINE,
)


def attaches_from(text: str) -> int | None:
    """Where a text under the user's role has a client's note that it attached something; None if it has none."""
    note = _ATTACHES.search("\n" + _fold(text).translate(_UNSEEN).lower())
    return note.start() if note is not None else None


_UNSEEN = dict.fromkeys([0x00AD, 0xFEFF, *range(0x200B, 0x2010), *range(0x202A, 0x202F), *range(0x2060, 0x206A)])

# Lines of prose, and what in them is quoted

_NO_PROSE = re.compile(
    r"[^\S\n]*+(?:[|>#;%\u2500-\u259f]|[-=*_]{3,}[^\S\n]*$|//|--|\*/|REM\b|\[[^\]\n]{0,200}\]|[+-][^\s\d>-]|"
    r"\d{1,6}[^\S\n]*[\u2192|:\t]|\S{1,200}\.\w{1,5}[:-]\d+|[A-Z]{4,}\b(?=:|[^\S\n]+\S+[.:]\d)|"
    r"(?:TRACE|DEBUG|INFO|WARN|WARNING|ERROR|FATAL)[^\S\n]|E[^\S\n]{2}|(?:\d{1,3}\.){3}\d{1,3}[^\S\n]|"
    r"[A-Z][a-z]{2}[^\S\n]{1,2}\d{1,2}[^\S\n]\d\d:\d\d|\d{1,4}[./-]\d{1,2}[./-]\d{2,4},?[^\S\n]\d|"
    r"(?:\*[^\S\n])?(?=[\da-f]{0,39}[a-f])(?=[a-f]{0,39}\d)[\da-f]{7,40}[^\S\n]|"
    r"\[?\d{4}-\d\d-\d\d|\[?\d{1,2}:\d\d|[\u2713\u2714\u2717\u2718\u26a0\u23bf\u23fa\u2026])|    |\t"
)
_TABLE = re.compile(r"\s\||\|\s")
_ITEM = re.compile(r"[^\S\n]*+(?:[-*+\u2022\u2192]|->|\d{1,3}[.)])[^\S\n]+")
_OTHERS_WORD = re.compile(
    r"[^\S\n]*+(?:[-*+][^\S\n]+)?[@\[<(]{0,2}(?P<name>[\w./-]{1,40})"
    r"(?:[\])>]{0,2}(?:[^\S\n]?\(\d{1,2}[:.]\d\d[^()\n]{0,12}\))?:|>)(?=\s)"
)
_LABELS = """
note also question clarification decision decided update edit ps wondering correction again anyway actually instead rule
constraint requirement preference todo idea ok no yes better first second third finally important please unrelated plan
goal summary cause conclusion issue problem
"""
_OWN_LABELS = frozenset(_LABELS.split())
_QUOTED_ITEM = re.compile(r"[^\S\n]*+(?:[-*+\u2022]|\d{1,3}[.)])?+[^\S\n]*+(?:>|\[ ?\])")


def _paragraphs(text: str, end: int, hidden: list[tuple[int, int]]) -> Iterator[Paragraph]:
    found: list[tuple[int, int]] = []  # lines of one paragraph
    foreign = item = False
    for left, right in [*_lines(text, end, hidden), (end, end)]:
        blank = not text[left:right].strip()
        starts = _ITEM.match(text, left, right)
        if found and (blank or starts or left != found[-1][1] + 1):
            yield _paragraph(text, found, is_item=item)
            found = []
        foreign = (foreign and not blank) or _is_no_prose(
            text, left, right
        )  # what is quoted goes on up to a blank line
        if _is_others_word(text, left, right):
            break
        if blank or foreign:
            continue
        if starts is None:
            item = item and bool(found)
            found.append((left, right))
        elif starts.end() < right:  # an item with nothing in it says nothing
            item = True
            found.append((starts.end(), right))
    if found:
        yield _paragraph(text, found, is_item=item)


def _is_no_prose(text: str, left: int, right: int) -> bool:
    marked = _NO_PROSE.match(text, left, right) or _QUOTED_ITEM.match(text, left, right)
    return marked is not None or (text.find("|", left, right) >= 0 and _TABLE.search(text, left, right) is not None)


def _is_others_word(text: str, left: int, right: int) -> bool:
    """Whether a line says whose words follow, as in a log of a chat."""
    label = _OTHERS_WORD.match(text, left, right)
    return label is not None and label["name"].casefold() not in _OWN_LABELS


def _lines(text: str, end: int, hidden: list[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """The lines before an end without any part that is hidden."""
    spans = iter([*hidden, (len(text) + 1, len(text) + 1)])
    start, stop = next(spans)
    left = 0
    for line in text[:end].split("\n"):
        right = left + len(line)
        while stop <= left:
            start, stop = next(spans)
        if right <= start:
            yield left, right
        left = right + 1


def _paragraph(text: str, lines: list[tuple[int, int]], *, is_item: bool) -> Paragraph:
    start, end = lines[0][0], lines[-1][1]
    return Paragraph(start, end, mask(text[start:end]), is_item)


_PAIRS = {
    "\u201c": "\u201d",
    "\u201e": "\u201c",
    "\u201a": "\u2018",
    "\u00ab": ">",
    "\u300c": "\u300d",
    "<": ">",
    '"': '"',
    "[": "](",
}
_OPENING = re.compile(
    r"[\u201c\u201e\u201a\u00ab\u300c\u2018\"`'\[<]"
    r"(?:(?<=[\u201c\u201e\u201a\u00ab\u300c\u2018\"])|(?<=<)(?=\w[^<>]{0,2000}>)|(?<=`)`*|(?<=')(?:'|(?<!\w')(?=\S))|(?<=\[)(?=[^\]]{0,500}\]\())"
)
_SINGLE = ("'", "\u2018")


def mask(said: str) -> str:
    """A paragraph with what it quotes masked; a quotation that does not end takes the rest."""
    parts: list[str] = []
    at, last = 0, said.rfind("'")
    while (mark := _OPENING.search(said, at)) is not None:
        end = _end_of(said, mark, last)
        parts += [said[at : mark.start()], MASK * (end - mark.start())]
        at = end
    return "".join([*parts, said[at:]])


def _long_quotations(text: str) -> Iterator[tuple[int, int]]:
    """The quotations that go on behind the line in which they begin."""
    at, never = 0, set(_SINGLE)
    while (mark := _OPENING.search(text, at)) is not None:
        at = mark.end()
        closes = _PAIRS.get(mark[0], mark[0])
        if closes in never:
            continue
        end = text.find(closes, at)
        if end < 0:
            never.add(closes)
            continue
        if text.find("\n", at, end) >= 0:
            yield mark.start(), end + len(closes)
        at = end + len(closes)


def _end_of(said: str, mark: re.Match[str], last: int) -> int:
    if mark[0] in _SINGLE:  # the last one ends it, for the others may be apostrophes
        return last + 1 if last >= mark.end() and not said[last + 1 : last + 2].isalnum() else mark.end()
    closes = _PAIRS.get(mark[0], mark[0])
    end = said.find(closes, mark.end())
    return end + len(closes) if end >= 0 else len(said)


_LONG, _MANY = 40, 4
"""Characters and words of a quotation that says something; a shorter one names something."""
_MASKED = re.compile(f"{MASK}+")


def without_long_quotations(sentence: str) -> str:
    """A sentence with what it quotes at length left out."""
    said = mask(_fold(sentence))
    parts, at = [], 0
    for run in _MASKED.finditer(said):
        if len(run[0]) >= _LONG or len(sentence[slice(*run.span())].split()) >= _MANY:
            parts += [sentence[at : run.start()], MASK]
            at = run.end()
    return "".join([*parts, sentence[at:]])
