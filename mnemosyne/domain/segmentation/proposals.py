"""What a user agrees to: "yes, do 1" settles what the answer before it offered as its first, "let's do that" what it
proposed last.

Only what can be named in one sentence of that answer is settled so; where it says "want me to fix this?" and nowhere
what it would do, nothing is. Linear in both texts.
"""

import re
from collections.abc import Iterator, Sequence

import attrs

from mnemosyne.domain.objects.speakers import Speaker
from mnemosyne.domain.segmentation.own_words import Paragraph, find_hidden, paragraphs
from mnemosyne.domain.segmentation.prompt_line import is_data, read_line
from mnemosyne.domain.segmentation.settling import ClaimKind, is_open, settles
from mnemosyne.domain.segmentation.statements import Claim, claim_at, plain, sentences
from mnemosyne.domain.text.consent import consents

_LOOKED_AT = 20_000
"""Characters of an answer: its end, which is what a short reply is about."""

_MOST_WORDS = 14
"""Words of a sentence that picks something."""


@attrs.frozen
class Agreement:
    """A sentence of the user's at ``start:end`` of what they said, and what of the ``answer`` before it they agreed to:
    spans of claims count in that answer.
    """

    start: int
    end: int
    claims: tuple[Claim, ...]


def agreements(said: str, own: Sequence[Paragraph], answer: str) -> tuple[Agreement, ...]:
    """What the user's words agree to of an answer: the first sentence that does. ``own`` are the paragraphs of what was
    ``said``.
    """
    for paragraph in own[:3]:
        for start, end in sentences(paragraph):
            found = tuple(_find_agreed(said[start:end], answer))
            if found:
                return (Agreement(start, end, found),)
    return ()


def _find_agreed(sentence: str, answer: str) -> Iterator[Claim]:
    if sentence.rstrip().endswith("?") or len(sentence.split()) > _MOST_WORDS:
        return
    first = max(0, len(answer) - _LOOKED_AT)
    numbers = _find_picks(sentence)
    if numbers:
        offered = _options(answer, first)
        for number in numbers:
            if number in offered:
                yield _decision(answer, *offered[number])
    elif consents(_ALL.sub(" all ", sentence)) and _AGREES.match(sentence):
        for start, end in _every_option(sentence, answer, first):
            yield _decision(answer, start, end)
        proposal = None if _ALL.search(sentence) else _proposal(answer[first:])
        if proposal is not None:
            yield _decision(answer, first + proposal[0], first + proposal[1])


def _decision(answer: str, start: int, end: int) -> Claim:
    return claim_at(ClaimKind.DECISION, answer, start, end)


# Which of several

_ALL = re.compile(r"\b(?:all (\d)|both)\b", re.IGNORECASE)
_NUMBER = re.compile(r"(?<![\w.#/-])#?([1-9])(?![\w%]|[.:/-]\d)")
_PICKS = re.compile(
    r"^(?:\W{0,3}(?:yes|yeah|yep|ok|okay|sure|then|and|please|no|hm+|I think),?\s{1,4}){0,3}\W{0,2}"
    r"(?:(?:let'?s|lets|please|I(?:'d| would)?)\s{1,4}){0,2}(?:just\s|also\s|rather\s)?"
    r"(?:(?:do|try|take|use|pick|choose|fix|go (?:for|with)|start with|implement|like|prefer|want|integrate|is)\b.*"
    r"|(?:the\s)?(?:option|number|approach|nr\.?|#)?\s*#?[1-9]\b.*)",
    re.IGNORECASE,
)


def _find_picks(sentence: str) -> list[int]:
    if _ALL.search(sentence) or not _PICKS.match(sentence):
        return []
    return list(dict.fromkeys(int(number) for number in _NUMBER.findall(sentence)))


_OPTION = re.compile(
    r"^ {0,3}(?:#{1,5}[ \t]+)?(?:[-*][ \t]+)?\*{0,2}(?P<word>(?:option|approach|fix|choice)[ "
    r"\t]+)?(?P<number>[1-9])"
    r"(?:[.):]|(?=\*\*|[ \t]*[\u2013\u2014-]))[.):]?\*{0,2}[:]?[ \t]+(?P<text>\S[^\n]*)$",
    re.IGNORECASE | re.MULTILINE,
)


def _options(answer: str, first: int) -> dict[int, tuple[int, int]]:
    """Where each thing that was offered stands, by its number: of the same number the last, if some are called options
    of these. What the answer shows of some text is no offer, nor is what would be somebody's decision as it stands.
    """
    shown = find_hidden(answer)
    found = [
        each
        for each in _OPTION.finditer(answer, first)
        if not _is_in(shown, each.start("text"))
        and (each["word"] or _is_offered(answer, each.start()))
        and not _is_settled(plain(each["text"]))
    ]
    named = [each for each in found if each["word"]]
    return {int(each["number"]): (each.start("text"), each.end("text")) for each in named or found}


def _is_in(spans: Sequence[tuple[int, int]], at: int) -> bool:
    return any(start <= at < end for start, end in spans)


def _is_settled(option: str) -> bool:
    return settles(option, Speaker.USER) is not None or _MODAL.search(option) is not None


_MODAL = re.compile(
    r"\b(?:we|i|you|it|this|they) (?:should|will|agreed|decided)\b|\b(?:must|never|always|remember|rather than)\b",
    re.IGNORECASE,
)


def _is_offered(answer: str, at: int) -> bool:
    """Whether the last line before an option that is none itself, nor below one, leads to something that is offered."""
    above = [line for line in answer[max(0, at - _LOOKED_AT) : at].split("\n") if line[:1].strip()]
    led = next((line for line in reversed(above) if not _IN_LIST.match(line)), "")
    return _OFFERS.search(led) is not None and _SHOWS.search(led) is None


_IN_LIST = re.compile(r"(?:#{1,5} )?[*_]{0,2}(?:\d{1,2}[.):*]|[-*+|] )")
_OFFERS = re.compile(
    r"\b(?:options?|approach(?:es)?|choices?|alternatives?|ways?|ideas?|plan|steps?|fix(?:es)?|changes?|recommend\w*|"
    r"suggest\w*|propos\w*|could|would|should|shall|want|can|prefer|choose|pick|either|we|i'd|i'll|issues?|improvements?)\b",
    re.IGNORECASE,
)
_SHOWS = re.compile(
    r"\b(?:outputs?|contents?|instructions?|readme|files?|pages?|mails?|tickets?|notes|lists?|contains|says?|reads|states|diffs?|their|his|her|its)\b"
    r"|\.(?:md|txt|html?|pdf)\b",
    re.IGNORECASE,
)


def _every_option(sentence: str, answer: str, first: int) -> list[tuple[int, int]]:
    """Where the things stand that were offered, if a sentence names them all by how many they are."""
    named = _ALL.search(sentence)
    offered = _options(answer, first) if named else {}
    many = int(named[1] or 2) if named else 0
    return [offered[number] for number in range(1, many + 1)] if sorted(offered) == [*range(1, many + 1)] else []


# What was asked by number

_ASKED = re.compile(r"^ {0,3}(?:#{1,5}[ \t]+)?\*{0,2}([1-9])[.)]\*{0,2}[ \t]+(?=[^\n]{0,2000}\?)", re.MULTILINE)
_REPLY = re.compile(r"[ \t]{0,4}([1-9])[.)][ \t]{1,4}(\S[^\n]*)")
_FEWEST_ASKED, _FEWEST_WORDS = 2, 5


def replies(said: str, answer: str) -> Iterator[Claim]:
    """What the user settles in reply to numbered questions of the answer before: the first sentence of each line with
    the number of one, if it says more than yes and leaves nothing open. Each line of what they ``said`` has to be one.
    """
    first = max(0, len(answer) - _LOOKED_AT)
    asked = set()
    if _REPLY.match(said):
        shown = find_hidden(answer)
        asked = {match[1] for match in _ASKED.finditer(answer, first) if not _is_in(shown, match.start(1))}
    if len(asked) < _FEWEST_ASKED:
        return
    lines = [*_LINE.finditer(said)]
    found = [(reply, read_line(reply[2])) for each in lines if (reply := _REPLY.fullmatch(said, *each.span()))]
    if len(found) < len(lines) or not all(reply[1] in asked for reply, _ in found):
        return
    typed = [(reply, line) for reply, line in found if line is not None and not is_data(line) and ": " not in line.said]
    for reply, line in typed if len(typed) == len(found) else ():
        start, end = next(sentences(line))
        start, end = reply.start(2) + start, reply.start(2) + end
        if len(said[start:end].split()) >= _FEWEST_WORDS and not _leaves_open(said[start:end]):
            yield claim_at(ClaimKind.DECISION, said, start, end)


_LINE = re.compile(r"\S[^\n]*")


def _leaves_open(sentence: str) -> bool:
    return sentence.rstrip().endswith(("?", ":")) or is_open(sentence, Speaker.USER)


# What was proposed

_AGREES = re.compile(
    r"\W{0,3}(?:yes|yeah|yea|yep|yup|sure|agreed|sounds good|(?:ok(?:ay)?,? |please |great,? )?(?:please do|do "
    r"(?:it|that|this)|"
    r"go ahead|let'?s (?:do|go|implement|try|use|apply|fix)))\b",
    re.IGNORECASE,
)
_OFFER = re.compile(
    r"\b(?:want me to|would you like me to|like me to|do you want(?: me to)?|should I|shall I|shall we|should we|"
    r"want to go with)\b(?P<what>.{3,300})\?",
    re.IGNORECASE | re.DOTALL,
)
_RECOMMENDS = re.compile(
    r"\b(?:I'd (?:suggest|recommend|go with|say|lean|just)|I (?:suggest|recommend|propose)|recommendation\b|my take\b|"
    r"the (?:\w+ )?(?:fix|solution|approach|way|option)\b.{0,40}\b(?:would|should|is to)|we could|we can|we just "
    r"need to|"
    r"a (?:cleaner|simpler|better) (?:approach|way|fix|option)|better: |option \d is|would work|it would (?!be)\w+|"
    r"would be added)\b",
    re.IGNORECASE,
)
_SAYS_NOTHING = """
this that these those it them they the a an any all of my your our and or to for with in on as so now then here fix
fixes implement implementing implementation proceed go ahead do make apply approach approaches change changes solution
update add start started continue would like issue issues one ones work some well
"""
_EMPTY = frozenset(_SAYS_NOTHING.split())
_ALTERNATIVE = re.compile(r",? or (?!leave|not\b|keep it|should I leave|skip)", re.IGNORECASE)
_FEWEST_NAMES = 2
_LETTERS = re.compile(r"[A-Za-z_][\w.]+")


def _proposal(answer: str) -> tuple[int, int] | None:
    """Where the answer says what it would do: first of all in the list behind an offer that leads to one, else in what
    it offers last, or beside that, or in what it recommends.
    """
    last = list(_last_paragraphs(answer, _after_fences(answer)))
    listed = _find_listed(last)
    if listed is not None:
        return listed
    own = paragraphs(answer)
    offered = [each for each in last if _OFFER.search(each.said)]
    for paragraph in (*offered[-1:], *reversed(own[-4:])):
        for start, end in reversed(list(sentences(paragraph))):
            said = paragraph.said[start - paragraph.start : end - paragraph.start]
            offer = _OFFER.search(said)
            if offer is not None and _ALTERNATIVE.search(offer["what"]):
                return None
            at = start + offer.start("what") if offer is not None else start
            tells = offer is not None or _RECOMMENDS.search(said) is not None
            if tells and _names_something(answer[at:end]) and not said.endswith(":"):
                return start, end
    return None


def _find_listed(last: Sequence[Paragraph]) -> tuple[int, int] | None:
    """The first item behind an offer that names nothing itself: "Want me to fix this? It would:"."""
    offers = [
        n for n, each in enumerate(last) if (match := _OFFER.search(each.said)) and not _is_telling(match["what"])
    ]
    items = last[offers[-1] + 1 :] if offers and last[offers[-1]].said.rstrip().endswith(":") else []
    return next(sentences(items[0]), None) if items and items[0].is_item else None


def _after_fences(answer: str) -> int:
    return max(answer.rfind("```") + 3, answer.rfind("~~~") + 3) if "```" in answer or "~~~" in answer else 0


def _last_paragraphs(answer: str, tail: int) -> Iterator[Paragraph]:
    """The paragraphs behind the last fence; what they say to the user is said to them, whatever was shown before."""
    for each in paragraphs(answer[tail:].rpartition("\n\n")[2]):
        moved = len(answer) - len(answer[tail:].rpartition("\n\n")[2])
        yield attrs.evolve(each, start=each.start + moved, end=each.end + moved)


def _names_something(said: str) -> bool:
    return _is_telling(said) and plain(said) != ""


def _is_telling(said: str) -> bool:
    """Whether words say what is meant."""
    return len({word.lower() for word in _LETTERS.findall(said)} - _EMPTY) >= _FEWEST_NAMES
