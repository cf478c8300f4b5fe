"""Claims: the sentences of user and assistant that settle something, found by rules.

A claim is cheap to keep when what it was said in has left the window. The rules prefer to miss one: a wrong claim is
shown again and again. They read their speaker's own words alone: the model's prose (``own_words``), the line that
the user typed (``prompt_line``). A sentence settles one thing. Linear in the text's length.
"""

import re
from collections.abc import Iterator, Sequence

import attrs

from mnemosyne.domain.objects.speakers import Speaker
from mnemosyne.domain.segmentation.own_words import MASK, Paragraph, paragraphs, without_long_quotations
from mnemosyne.domain.segmentation.prompt_line import is_data, is_own_voice, is_spoken, leads_to_others, read_line
from mnemosyne.domain.segmentation.settling import ClaimKind, find_settling, is_open, is_pasted, tells_of_a_text

LONGEST = 200
_LONGEST_READ = 600  # a longer sentence is no sentence
_SHORTEST_CONCLUSION = 40  # "This confirms the issue." tells nothing away from its place


@attrs.frozen
class Claim:
    """``sentence`` is what stands at ``text[start:end]``, without ``**``, its white space made single, and what it
    quotes at length left out: that is not said.

    It has at most ``LONGEST`` characters: a longer one is cut after a word.
    """

    kind: ClaimKind
    sentence: str
    start: int
    end: int


def read_own(text: str, speaker: Speaker) -> tuple[Paragraph, ...]:
    """What of a text can be its speaker's own words: of the user's only a line that they typed."""
    if speaker is not Speaker.USER:
        return paragraphs(text)
    line = read_line(text)
    return (line,) if line is not None else ()


def claims(text: str, own: Sequence[Paragraph], speaker: Speaker) -> tuple[Claim, ...]:
    """The claims in what somebody said, whose own words are in these paragraphs of it: in their order, each sentence
    once.
    """
    found: dict[str, Claim] = {}
    for claim in _find_claims(text, own, speaker):
        found.setdefault(claim.sentence.casefold(), claim)
    return tuple(found.values())


def _find_claims(text: str, own: Sequence[Paragraph], speaker: Speaker) -> Iterator[Claim]:
    if speaker is Speaker.ASSISTANT:
        yield from _find_in_answer(text, own)
    elif speaker is Speaker.USER:
        for line in own:
            yield from _find_in_line(text, line)


def _find_in_line(text: str, line: Paragraph) -> Iterator[Claim]:
    """The claims of a line, all of whose sentences have to be of the user's own voice."""
    spans = [*sentences(line)]
    said = [plain(line.said[start - line.start : end - line.start]) for start, end in spans]
    if is_data(line) or is_pasted(line.said) or not is_spoken(line) or not all(map(is_own_voice, said)):
        return
    for number, (start, end) in enumerate(spans):
        kind = _kind(said[number], Speaker.USER, " ".join(said[:number]))
        if kind is not None:
            yield claim_at(kind, text, start, end)


def _find_in_answer(text: str, own: Sequence[Paragraph]) -> Iterator[Claim]:
    """The claims of an answer, up to where it tells of a text, or shows one."""
    shown = False
    for paragraph in own:
        shown = shown or paragraph.is_item
        for start, end in sentences(paragraph):
            said = plain(paragraph.said[start - paragraph.start : end - paragraph.start])
            if tells_of_a_text(said):  # and goes on to, where it likes
                return
            shown = shown or said.endswith(":")
            kind = _kind(said, Speaker.ASSISTANT)
            if kind is ClaimKind.CONCLUSION and (len(said) < _SHORTEST_CONCLUSION or (shown and paragraph.is_item)):
                continue
            if kind is ClaimKind.CONCLUSION or (kind is not None and not shown):
                yield claim_at(kind, text, start, end)


def claim_at(kind: ClaimKind, text: str, start: int, end: int) -> Claim:
    """The claim that a sentence of a text makes."""
    end = start + len(clip(text[start:end]))
    return Claim(kind, plain(without_long_quotations(text[start:end])), start, end)


def _kind(said: str, speaker: Speaker, before: str = "") -> ClaimKind | None:
    """What a sentence settles, behind what was said ``before``."""
    if len(said) > _LONGEST_READ or said.endswith(":"):
        return None
    told = _FILE.sub(MASK, _MASKED.sub(MASK, said))
    if told.endswith("?"):  # "let's use trio, can you change it?" settles something and asks for something
        told = _ASKS_THEN.split(told, maxsplit=1)[0] if _ASKS_THEN.search(told) else ""
    if is_open(told, speaker):
        return None
    found = [*find_settling(told, speaker)]
    if speaker is Speaker.USER:
        first = min((start for _, start in found), default=0)
        if leads_to_others(before, told[:first], told[first:]):
            return None
        return next((kind for kind, start in found if not leads_to_others(before, told[:start], told[start:])), None)
    return next((kind for kind, start in found if kind is ClaimKind.CONCLUSION or start == 0), None)


_MASKED = re.compile(rf"{MASK}+")
_FILE = re.compile(
    r"(?<!\S)(?:file:/|~|\.{0,2})/\S.{0,300}?\.(?:md|txt|py|go|js|ts|rs|json|ya?ml|toml|html?|log|csv|pdf|png|jpe?g)\b"
)
"""A file by its whole name, which whoever made it chose, blanks and all."""

_ASKS_THEN = re.compile(
    r"(?:,|;| -|\.\.\.)\s+(?:and |so |but )?(?:can|could|would|what|how|where|any|do|does) ", re.IGNORECASE
)


def plain(sentence: str) -> str:
    """A sentence as it is told: on one line, without marks of emphasis."""
    return " ".join(sentence.replace("**", "").split())


def clip(sentence: str) -> str:
    """As many words of a sentence as have a claim's length."""
    if len(sentence) <= LONGEST:
        return sentence
    return sentence[: LONGEST + 1].rsplit(None, 1)[0][:LONGEST]


# Where sentences end

_LEAD = re.compile(r"[\s*_>-]+")
_STOP = re.compile(rf"[.!?\n](?:(?<=[^\s,]\n)(?=\s*[A-Z{MASK}])|(?<=[.!?])(?<![.!?][.!?])[.!?]*+[*_)\"']*+(?=\s|$))")


def sentences(paragraph: Paragraph) -> Iterator[tuple[int, int]]:
    """Where in the text each sentence of a paragraph stands. A line that begins another thing ends one, too."""
    said, first = paragraph.said, paragraph.start
    left = _skip_space(said, 0)
    for stop in _STOP.finditer(said):
        end = stop.start() if stop[0] == "\n" else stop.end()
        if end > left and _ends(said, stop):
            yield first + left, first + end
            left = _skip_space(said, end)
    rest = said[left:].rstrip()
    if rest:
        yield first + left, first + left + len(rest)


_ABBREVIATION = re.compile(r"(?:\b(?:e\.g|i\.e|etc|vs|cf|approx|resp|incl)|\d)\.\Z")


def _ends(said: str, stop: re.Match[str]) -> bool:
    """Whether a sentence ends at a line end or full stop, which ``e.g.`` and a number of a list do not."""
    if stop[0] == "\n" or _skip_space(said, stop.end()) == len(said):
        return True
    return _ABBREVIATION.search(said, max(0, stop.start() - 8), stop.start() + 1) is None


def _skip_space(text: str, at: int) -> int:
    lead = _LEAD.match(text, at)
    return lead.end() if lead else at
