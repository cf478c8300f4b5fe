"""Where in a text its speaker uses words of their own: no quotation, no code, no listing, nothing that was pasted.

What is not found to be somebody's own is nobody's decision. So each rule takes too much rather than too little: an
element reaches to the last tag that closes it and a fence to the last fence, for what stands between may have been
written by somebody who knows these rules. Linear in the text's length.
"""

import re
import unicodedata
from collections.abc import Iterator
from functools import cache

import attrs

from mnemosyne.domain.objects.speakers import Speaker

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


def paragraphs(text: str, speaker: Speaker) -> tuple[Paragraph, ...]:
    """The paragraphs of a text that are its speaker's own words, in their order."""
    if len(text) > _MOST_READ or _has_hidden_letters(text):
        return ()
    plain = _fold(text)
    end = _find_hand_over(plain, speaker)
    hidden = _merge([*_elements(plain), *_comments(plain), *_find_fenced(plain), *_long_quotations(plain)])
    return tuple(_paragraphs(plain, end, hidden, speaker))


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
_HANDS_OVER = re.compile(
    r"""
    \n[^\S\n]*+(?:
        (?:[*_#\[(|<]{0,6}[^\S\n]{0,2})(?:user|human|assistant|system|ai|bot|model|tool|observation|role|file|source
            |url|title|path|attachment|content|output|result|stdout|stderr|from|to|cc|subject|sent|date|author)
            [*_#\])|>]{0,6}[^\S\n]{0,2}(?::|$)
      | [*_#\[(]{0,6}(?:called\ the\ \w{1,40}\ tool|result\ of\ calling|reading\ mcp\ resource
            |\w{1,40}\ tool\ failed\ to|contents?\ of\ \S+|execution\ result|tool\ (?:result|output|call)
            |the\ following\ tool\ was|the\ user\ (?:has\ )?(?:opened|selected|sent)|attached\ file|launching\ skill
            |base\ directory\ for\ this\ skill|caveat:\ the\ messages|another\ language\ model|(?:\w{1,40}\ )?hook\ \w
            |note:\ \S{1,200}\ was\ read|web\ page\ content|summary\ of\ the|what\ did\ we\ do\ so\ far
            |this\s{1,4}session\ is\ being\ continued|request\ interrupted|operation\ stopped\ by
            |pre-?existing\ |all\ user\ messages|\d{1,2}\.\ all\ user\ messages|analysis:|summary:
            |begin\ forwarded|im_start)
      | -{3,}[^\S\n]{0,3}\w | ={2,}[^\S\n]{0,3}\w | \+{3}\ | @@\ -? | diff\ --git | index\ [0-9a-f]{7}
      | commit\ [0-9a-f]{7,40}\b | traceback\ \(most | [$%][^\S\n] | [\u276f>]{1,3}[^\S\n]\w+[^\S\n]\S+[^\S\n]*$
      | \\begin\b | =begin\b | begin\ \w+[^\S\n]*$ | \$\$ | \{- | \(\* | \#\| | exit\ code\b | reading\ resource\ \S
      | \([^:()\n]{1,40}:[^()\n]{1,200}\)[^\S\n]*$ | \S{1,200}\.\w{1,5}[^\S\n]*$ | i\ spoke\ to\ you\ previously
      | (?:[^\s:]+[^\S\n]+){0,3}(?:output|stdout|stderr|logs?|console|prints?|printed|wrote|says?|said|was|were|thread)
            [^\S\n]*$
      | http/\d(?:\.\d)?[^\S\n]\d{3}\b | \(from\ [^)\n]{1,80}\)[^\S\n]*$ | \*{3}[^\S\n]\w
      | (?!(?:i|we|you)\b)@?[\w-]{1,40}\ (?:commented|approved\ these|requested\ changes|replied|reviewed)\b
      | [^\s\[][^\[\n]{0,60}\[[^\]\n]{0,30}\d:\d\d(?::\d\d)?\][^\S\n]*$
      | <\|  | \[inst\] | \#{1,6}[^\S\n] | \[[^\]\n]{1,60}\](?:[^\S\n]|$) | (?:=|-){3,}[^\S\n]*$
    )
    """,
    re.MULTILINE | re.VERBOSE,
)
_PROMPTS = re.compile(
    r"""
    \n[^\S\n]*+(?:
        (?:\([\w.-]{1,40}\)[^\S\n])?[\w.-]{1,40}@[\w.-]{1,40}(?::|[^\S\n][~/])\S{0,200}[$\#>]
      | \[[\w.-]{1,40}@[^\]\n]{1,200}\][$\#]
      | (?:ps[^\S\n])?[a-z]:\\[^\n>]{0,200}>
      | [\w.]{1,40}[-=][\d.]{0,8}[$\#>][^\S\n]
      | \w{1,20}\(\w{1,20}\):\d[\d:]{0,20}[>*]
      | ~\S{0,200}[^\S\n]?[$\#%>\u276f][^\S\n]
      | \u279c[^\S\n]
    )
    """,
    re.VERBOSE,
)
"""Of the usual shells and consoles: ``me@host:~$``, ``PS C:\\work>``, ``bash-5.2#``, ``shop=>``, ``~/work $``."""
_SHOWS = re.compile(
    r"\n[^\S\n]*+(?:[*_#\[(|<]{0,6}(?:user|human|system)[*_\])|>]{0,6}:|#{1,6} [^\n]{0,80}\w\.\w{1,5}\b"
    r"|contents? of\b)"
)
_HEADS = re.compile(r"\n[^\S\n]*\*\*[^*\n]{0,60}\w\.\w{1,5}`?\*\*:?[^\S\n]*$", re.MULTILINE)

_END_OF_LINE = re.compile(r":(?:\d\d(?:\ ?[ap]m)?)?[^\S\n]*$", re.MULTILINE)
_POINTS = re.compile(
    r"\n[^\n]{0,300}?\b(?:(?:the following|see below|read[- ]only files)\b[^\n]{0,60}|as \W?read[- ]only\W{0,4}"
    r"|(?:does|do|is|of|about|at|with|to|from) th(?:is|ese)\b[^\n?]{0,20}\?(?=\s*\n\s*\n))[^\S\n]*$"
    r"|\n[^\n]{0,300}<<[-~]?['\"]?[a-z_]\w*['\"]?[^\S\n]*$"
    r"|\n[^\S\n]*+[\w-]{1,40}:[^\S\n][>|][-+]?[^\S\n]*$",
    re.MULTILINE,
)
"""Lines that speak of what stands below them."""

_OWN_LINE = re.compile(
    r"\b(?:let'?s|lets|we|please|pls|i(?:'d| would| want| need| prefer| think|'ll| will)|you (?:should|must|can|need)|"
    r"should|must|need|want|also|instead|(?:requirement|constraint|rule|change|task|goal|thing|point|step|guideline|"
    r"principle|question|answer|option|idea|suggestion|detail|case)s?|todos?|plan|two|three|few|some|here|now|then|"
    r"yes|no|ok|fixes)\b"
)
"""Of a line that ends with a colon: words with which somebody begins what they have to say themselves."""

_HEADING = re.compile(r"\n[^\S\n]*+(?=\w[^\n]{0,60}[^\s.!?,;:][^\S\n]*\n\s*\S)(?:[^\s\n]+[^\S\n]*){1,6}$", re.MULTILINE)
"""A line of few words that is no sentence, with others below it."""

_SAID_FIRST = 200
"""Characters: who shows something says so before it. A line further down may belong to what is shown already."""

_INTRODUCES = re.compile(
    rf"(?:\b{_SOURCE}\b|^[^\S\n]*(?:look|see|below|here|this|fyi|pasted?)\b)(?:[^:\n]|:/){{0,80}}:[^\S\n]*$",
    re.MULTILINE,
)
_CITES = re.compile(
    r"^[^\S\n]*+(?:[^\n]{0,200}\s)?\d{1,2}:\d\d(?:\ ?[ap]m)?[^\S\n]*$"
    r"|\b(?:wrote|writes|schrieb\b[^\n]{0,60}):[^\S\n]*$",
    re.MULTILINE,
)
_USERS = (_HANDS_OVER, _PROMPTS, _POINTS), (_INTRODUCES, _CITES), _OWN_LINE
_OTHERS = (_SHOWS, _HEADS), (_INTRODUCES,), None
"""What begins lines, what ends some, and what a line has to say that ends with a colon."""


def _find_hand_over(text: str, speaker: Speaker) -> int:
    """Where the speaker's own words end for good: from there on it is shown, pasted or told what somebody else said."""
    lines = f"\n{text.lower()}"  # as long as the text, without letters that would become several
    begins, ends, owned = _USERS if speaker is Speaker.USER else _OTHERS
    starts = [found.start() for pattern in begins if (found := pattern.search(lines))]
    starts += _find_line_ends(lines, ends, owned)
    heading = _HEADING.match(lines) if owned is not None else None
    if heading is not None and owned is not None and not owned.search(heading[0]):
        starts.append(heading.start())
    return text.rfind("\n", 0, min(starts)) + 1 if starts else len(text)


def _find_line_ends(lines: str, patterns: tuple[re.Pattern[str], ...], owned: re.Pattern[str] | None) -> list[int]:
    """Where in the text behind the first line end the patterns find the first line that ends as they say; none if they
    do not. Few lines end with a colon or a time, and a time may stand below what it belongs to.
    """
    for end in _END_OF_LINE.finditer(lines):
        line = lines.rfind("\n", 0, end.start())
        above = max(0, lines.rfind("\n", 0, line))
        matches = [pattern.search(lines, above + 1, end.end()) for pattern in patterns]
        starts = [found.start() - 1 for found in matches if found is not None]
        early = owned is not None and end.start() <= _SAID_FIRST and lines.startswith(":", end.start())
        if early and owned is not None and not owned.search(lines, line + 1, end.start()):
            starts.append(line)
        if starts:
            return [min(starts)]
    return []


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
_TITLE = re.compile(r"[^\S\n]*+(?:[-*+][^\S\n]+)?(?P<title>[^\s:,]{1,40}(?:[^\S\n]+[^\s:,]{1,40}){0,8}):(?=[^\S\n])")
_NAMES_TEXT = re.compile(rf"\b{_SOURCE}")
_ONESELF = re.compile(r"\b(?:i|me|my|us|our|again)\b")
_LABELS = """
note also question clarification decision decided update edit ps wondering correction again anyway actually instead rule
constraint requirement preference todo idea ok no yes better first second third finally important please unrelated plan
goal summary cause conclusion issue problem
"""
_OWN_LABELS = frozenset(_LABELS.split())
_QUOTED_ITEM = re.compile(r"[^\S\n]*+(?:[-*+\u2022]|\d{1,3}[.)])?+[^\S\n]*+(?:>|\[ ?\])")


def _paragraphs(text: str, end: int, hidden: list[tuple[int, int]], speaker: Speaker) -> Iterator[Paragraph]:
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
        if _is_others_word(text, left, right, speaker):
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


def _is_others_word(text: str, left: int, right: int, speaker: Speaker) -> bool:
    """Whether a line says whose words follow, as in a log of a chat, or what they are."""
    label = _OTHERS_WORD.match(text, left, right)
    if label is not None:
        return label["name"].casefold() not in _OWN_LABELS
    title = _TITLE.match(text, left, right) if speaker is Speaker.USER else None
    if title is None or title["title"].casefold() in _OWN_LABELS:
        return False
    named = title["title"].lower()
    return _NAMES_TEXT.search(named) is not None or not any(own.search(named) for own in (_OWN_LINE, _ONESELF))


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


_LONG = 40
"""Characters of a quotation that names something; a longer one says something."""
_LONG_MASK = re.compile(rf"{MASK}{{{_LONG},}}")


def without_long_quotations(sentence: str) -> str:
    """A sentence with what it quotes at length left out."""
    said = mask(_fold(sentence))
    parts, at = [], 0
    for run in _LONG_MASK.finditer(said):
        parts += [sentence[at : run.start()], MASK]
        at = run.end()
    return "".join([*parts, sentence[at:]])
